//! Checkpoints in safetensors: mapped into memory, checked before anything is believed, read as f32.
//!
//! A file is eight bytes of length, a JSON header and raw little-endian tensors. The header comes from
//! somebody else: every offset is compared with the file's real size, so that a damaged or hostile file is
//! an error that names file and tensor, and so that no allocation can be larger than what the file holds.
//! The file stays mapped; embedding tables are read from it row by row, in their own element type.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::small_file;

/// The largest header that is read: the safetensors library's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// How a tensor's elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `F32`.
    Bf16,
    /// A signed 64-bit integer (token maps only).
    I64,
    /// A signed 32-bit integer (token maps only).
    I32,
    /// IEEE double precision (token weights only).
    F64,
    /// A signed byte (quantized static embeddings only).
    I8,
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

/// Where a tensor lies.
#[derive(Debug)]
struct Place {
    file: usize,
    /// The element type, or the name of one that is not read.
    element: std::result::Result<Element, String>,
    shape: Vec<usize>,
    bytes: std::ops::Range<usize>,
}

/// A tensor's entry in the header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Bytes of an index at most: millions of tensors.
const LARGEST_INDEX: u64 = 256 << 20;

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

/// A checkpoint: one file, or several that an index ties together.
#[derive(Debug)]
pub struct Checkpoint {
    files: Vec<(PathBuf, Mmap)>,
    places: HashMap<String, Place>,
}

/// The files of a folder's checkpoint: `model.safetensors`, or the shards that its index names. Empty
/// where the folder has neither; the index itself comes first.
///
/// # Errors
/// If there is an index that cannot be read.
pub fn checkpoint_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let single = folder.join("model.safetensors");
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = folder.join("model.safetensors.index.json");
    if !index.is_file() {
        return Ok(Vec::new());
    }
    let text = small_file::read(&index, LARGEST_INDEX)
        .map_err(|error| Error::io("read", &index, error))?;
    let map: Index = serde_json::from_slice(&text).map_err(|error| {
        Error::model(index.display(), format!("is no index of shards: {error}"))
    })?;
    let mut names: Vec<String> = map.weight_map.into_values().collect();
    names.sort();
    names.dedup();
    if let Some(outside) = names.iter().find(|name| {
        Path::new(name).components().count() != 1 || name.contains("..") || name.contains('\\')
    }) {
        return Err(Error::model(
            index.display(),
            format!("names the shard '{outside}' outside its folder"),
        ));
    }
    Ok(std::iter::once(index.clone())
        .chain(names.iter().map(|name| folder.join(name)))
        .collect())
}

impl Checkpoint {
    /// Opens the checkpoint of `folder`; `None` where it has none.
    ///
    /// # Errors
    /// If a file cannot be read, is cut short, or has a header that contradicts itself; the message names
    /// file and tensor.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        let mut paths = checkpoint_files(folder)?;
        if paths.is_empty() {
            return Ok(None);
        }
        paths.retain(|path| path.extension().is_some_and(|ending| ending != "json"));
        Self::open_files(&paths).map(Some)
    }

    /// Opens these safetensors files as one checkpoint.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn open_files(paths: &[PathBuf]) -> Result<Self> {
        let mut checkpoint = Self {
            files: Vec::new(),
            places: HashMap::new(),
        };
        for path in paths {
            let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
            // SAFETY: the map is read-only and private to this struct. As every reader of mapped weights we
            // rely on nobody cutting the file while it is in use; published files are replaced by renaming.
            let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", path, error))?;
            let index = checkpoint.files.len();
            for (name, place) in header(path, &map, index)? {
                if checkpoint.places.insert(name.clone(), place).is_some() {
                    return Err(Error::model(
                        path.display(),
                        format!("holds the tensor '{name}', which another shard holds too"),
                    ));
                }
            }
            checkpoint.files.push((path.clone(), map));
        }
        Ok(checkpoint)
    }

    /// The names of all tensors, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// The first file, for messages about the checkpoint as a whole.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |(path, _)| path)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.iter().map(|(_, map)| map.len()).sum()
    }

    /// A tensor by its full name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (name, place) = self.places.get_key_value(name)?;
        let (path, map) = &self.files[place.file];
        Some(Tensor {
            path,
            name,
            element: place.element.as_ref().map_err(String::as_str).copied(),
            shape: &place.shape,
            data: &map[place.bytes.clone()],
        })
    }
}

/// Reads and checks a file's header.
fn header(path: &Path, map: &Mmap, file: usize) -> Result<Vec<(String, Place)>> {
    let refuse = |reason: String| Error::model(path.display(), reason);
    let cut = |what: &str| refuse(format!("is cut short or no safetensors file: {what}"));
    let length = map
        .first_chunk::<8>()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| cut("it has no header"))?;
    if length > MAX_HEADER {
        return Err(refuse(format!(
            "is no safetensors file: its header would have {length} bytes"
        )));
    }
    let start = 8 + usize::try_from(length).unwrap_or(usize::MAX);
    let text = map
        .get(8..start)
        .ok_or_else(|| cut("its header ends behind the file"))?;
    let entries: HashMap<String, serde_json::Value> = serde_json::from_slice(text)
        .map_err(|error| refuse(format!("has a header that is no JSON object: {error}")))?;
    let size = map.len() - start;
    let mut places = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if name == "__metadata__" {
            continue;
        }
        let wrong = |reason: String| refuse(format!("the tensor '{name}' {reason}"));
        let entry: Entry = serde_json::from_value(entry)
            .map_err(|error| wrong(format!("is described wrongly: {error}")))?;
        let element = match entry.dtype.as_str() {
            "F32" => Ok(Element::F32),
            "F16" => Ok(Element::F16),
            "BF16" => Ok(Element::Bf16),
            "I64" => Ok(Element::I64),
            "I32" => Ok(Element::I32),
            "F64" => Ok(Element::F64),
            "I8" => Ok(Element::I8),
            other => Err(other.to_string()),
        };
        let offsets = usize::try_from(entry.data_offsets.0)
            .ok()
            .zip(usize::try_from(entry.data_offsets.1).ok())
            .filter(|(begin, end)| begin <= end)
            .ok_or_else(|| wrong(format!("has the offsets {:?}", entry.data_offsets)))?;
        if offsets.1 > size {
            return Err(wrong(format!(
                "ends at byte {} of the data, which has {size}: the file is cut short",
                offsets.1
            )));
        }
        let shape: Option<Vec<usize>> = entry
            .shape
            .iter()
            .map(|&side| usize::try_from(side).ok())
            .collect();
        let elements = shape.as_deref().and_then(|shape| {
            shape
                .iter()
                .try_fold(1_usize, |all, &side| all.checked_mul(side))
        });
        let bytes = offsets.1 - offsets.0;
        if let Ok(element) = element
            && elements.and_then(|elements| elements.checked_mul(element.size())) != Some(bytes)
        {
            return Err(wrong(format!(
                "has the shape {:?} of {} but {bytes} bytes",
                entry.shape, entry.dtype
            )));
        }
        places.push((
            name,
            Place {
                file,
                element,
                shape: shape.unwrap_or_default(),
                bytes: start + offsets.0..start + offsets.1,
            },
        ));
    }
    places.sort_by_key(|(_, place)| (place.bytes.start, place.bytes.end));
    if let Some([(first, _), (second, _)]) = places
        .array_windows()
        .find(|[(_, one), (_, next)]| one.bytes.end > next.bytes.start)
        .map(|[first, second]| [first, second])
    {
        return Err(refuse(format!(
            "the tensors '{first}' and '{second}' overlap"
        )));
    }
    Ok(places)
}

/// A tensor in a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    path: &'a Path,
    name: &'a str,
    element: std::result::Result<Element, &'a str>,
    shape: &'a [usize],
    data: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Lengths of its axes, as PyTorch has them.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The element type, where it is one that is read.
    #[must_use]
    pub fn element(&self) -> Option<Element> {
        self.element.ok()
    }

    /// An error that names file and tensor.
    #[must_use]
    pub fn wrong(&self, reason: impl std::fmt::Display) -> Error {
        Error::model(
            self.path.display(),
            format!("the tensor '{}' {reason}", self.name),
        )
    }

    /// Refuses another shape than this.
    ///
    /// # Errors
    /// If the shape differs.
    pub fn expect_shape(&self, shape: &[usize]) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        Err(self.wrong(format!(
            "has the shape {:?} where config.json asks for {shape:?}",
            self.shape
        )))
    }

    /// All elements as f32.
    ///
    /// # Errors
    /// If the tensor is no floating-point one, or holds NaN or infinity.
    pub fn floats(&self) -> Result<Vec<f32>> {
        let count: usize = self.shape.iter().product();
        let mut values = vec![0.0; count];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Reads `out.len()` elements from element `start` on as f32.
    ///
    /// # Errors
    /// As [`Tensor::floats`].
    pub fn read(&self, start: usize, out: &mut [f32]) -> Result<()> {
        let element = self
            .element
            .ok()
            .filter(|element| !matches!(element, Element::I64 | Element::I32))
            .ok_or_else(|| self.unread())?;
        let size = element.size();
        widen(
            element,
            &self.data[start * size..(start + out.len()) * size],
            out,
        );
        if out.iter().all(|value| value.is_finite()) {
            Ok(())
        } else {
            Err(self.not_finite())
        }
    }

    /// All elements as integers.
    ///
    /// # Errors
    /// If the tensor is no integer one.
    pub fn integers(&self) -> Result<Vec<i64>> {
        match self.element {
            Ok(Element::I64) => Ok(words(self.data, i64::from_le_bytes).collect()),
            Ok(Element::I32) => {
                Ok(words(self.data, |word| i64::from(i32::from_le_bytes(word))).collect())
            }
            _ => Err(self.unread()),
        }
    }

    fn unread(&self) -> Error {
        let element = match self.element {
            Ok(element) => format!("{element:?}"),
            Err(name) => name.to_string(),
        };
        self.wrong(format!(
            "is stored as {element}, which the engine inside does not read here"
        ))
    }

    fn not_finite(&self) -> Error {
        self.wrong("holds NaN or infinity")
    }
}

/// The elements of a row-major table of `[rows, width]`, converted when they are looked up.
#[derive(Debug, Clone)]
pub struct Table {
    checkpoint: Arc<Checkpoint>,
    file: usize,
    bytes: std::ops::Range<usize>,
    element: Element,
    rows: usize,
    width: usize,
}

impl Table {
    /// The tensor `name` of `checkpoint` as a table of any number of rows (`rows: None`) or of these.
    ///
    /// # Errors
    /// If there is no such tensor, or its shape, element type or content is wrong.
    pub fn open(
        checkpoint: &Arc<Checkpoint>,
        name: &str,
        rows: Option<usize>,
        width: Option<usize>,
    ) -> Result<Self> {
        let tensor = checkpoint
            .get(name)
            .ok_or_else(|| missing(checkpoint, name))?;
        let &[own_rows, own_width] = tensor.shape() else {
            return Err(tensor.wrong(format!(
                "has the shape {:?}, which is no table",
                tensor.shape()
            )));
        };
        tensor.expect_shape(&[rows.unwrap_or(own_rows), width.unwrap_or(own_width)])?;
        let element = tensor
            .element()
            .filter(|element| !matches!(element, Element::I64 | Element::I32 | Element::F64))
            .ok_or_else(|| tensor.unread())?;
        if !all_finite(element, tensor.data) {
            return Err(tensor.not_finite());
        }
        let place = &checkpoint.places[name];
        Ok(Self {
            checkpoint: Arc::clone(checkpoint),
            file: place.file,
            bytes: place.bytes.clone(),
            element,
            rows: own_rows,
            width: own_width,
        })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes row `row` to `out`, which has [`Table::width`] elements.
    ///
    /// # Panics
    /// If there is no such row, or `out` has another length.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(
            row < self.rows && out.len() == self.width,
            "row {row} of {}",
            self.rows
        );
        let stride = self.width * self.element.size();
        let start = self.bytes.start + row * stride;
        widen(
            self.element,
            &self.checkpoint.files[self.file].1[start..start + stride],
            out,
        );
    }
}

/// The error for a tensor that is not there.
#[must_use]
pub fn missing(checkpoint: &Checkpoint, name: &str) -> Error {
    Error::model(
        checkpoint.path().display(),
        format!("has no tensor '{name}'"),
    )
}

fn words<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    data.as_chunks::<N>().0.iter().map(move |word| read(*word))
}

/// Converts raw elements, as many as `out` has.
fn widen(element: Element, data: &[u8], out: &mut [f32]) {
    fn fill<const N: usize>(data: &[u8], out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
        for (slot, word) in out.iter_mut().zip(data.as_chunks::<N>().0) {
            *slot = read(*word);
        }
    }
    match element {
        Element::F32 => fill(data, out, f32::from_le_bytes),
        Element::F16 => fill(data, out, |word| half_to_float(u16::from_le_bytes(word))),
        Element::Bf16 => fill(data, out, |word| {
            f32::from_bits(u32::from(u16::from_le_bytes(word)) << 16)
        }),
        #[allow(clippy::cast_possible_truncation)]
        Element::F64 => fill(data, out, |word| f64::from_le_bytes(word) as f32),
        Element::I8 => fill(data, out, |[byte]| f32::from(byte.cast_signed())),
        Element::I64 | Element::I32 => unreachable!("integers are refused before"),
    }
}

/// Half precision to single, by arithmetic that vectorizes: the exponent is moved by a product, which is
/// exact for normal and denormal numbers, and infinity and NaN are put right.
#[inline]
fn half_to_float(bits: u16) -> f32 {
    const MOVE: f32 = f32::from_bits(0x7780_0000); // 2^112
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let moved = (f32::from_bits(magnitude) * MOVE).to_bits();
    let special = if bits & 0x7c00 == 0x7c00 {
        magnitude | 0x7f80_0000
    } else {
        moved
    };
    f32::from_bits(special | sign)
}

/// Whether no element is NaN or infinite: those whose exponent has all bits set.
fn all_finite(element: Element, data: &[u8]) -> bool {
    match element {
        Element::F32 => !data.as_chunks().0.iter().fold(false, |bad, word| {
            bad | (u32::from_le_bytes(*word) & 0x7f80_0000 == 0x7f80_0000)
        }),
        Element::F16 | Element::Bf16 => {
            let exponent: u16 = if element == Element::F16 {
                0x7c00
            } else {
                0x7f80
            };
            !data.as_chunks().0.iter().fold(false, |bad, word| {
                bad | (u16::from_le_bytes(*word) & exponent == exponent)
            })
        }
        Element::F64 => words(data, f64::from_le_bytes).all(f64::is_finite),
        Element::I8 | Element::I64 | Element::I32 => true,
    }
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
