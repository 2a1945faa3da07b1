//! Checkpoints in safetensors format: headers are checked first, tensors are read as f32.
//!
//! A file is eight bytes of length, a JSON header and raw little-endian tensors. The header is not trusted: every
//! offset is compared with the file's real size. A damaged or hostile file is an error that names file and tensor, and
//! no allocation is for more elements than the file holds. The crate `safetensors` checks a header only beside the
//! whole file in memory or in a map, and its errors name no tensor's shape or size.
//!
//! Nothing is mapped: writing to a mapped file would change tensors after they were checked, and cutting it would kill
//! the process by a signal. Tensors are read into memory on demand, and [`Checkpoint::check_unchanged`] says whether
//! all of them came from the same content.

mod tensor;
#[cfg(test)]
#[path = "safetensors_tests.rs"]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::file_state::{self, FileState};
use embedctl_common::hash;
use embedctl_common::small_file;
use embedctl_vectors::elements::Element;

pub use tensor::Tensor;

/// The longest header that is read: the safetensors library's own limit.
const MOST_HEADER: u64 = 100_000_000;

/// Where a tensor lies.
#[derive(Debug)]
struct Extent {
    file: usize,
    /// The element type, or the name of an unsupported one.
    element: std::result::Result<Element, String>,
    shape: Vec<usize>,
    bytes: std::ops::Range<usize>,
}

/// A tensor's entry in the header.
#[derive(Deserialize)]
struct TensorEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Bytes of an index at most: millions of tensors.
const LARGEST_INDEX: u64 = 256 << 20;

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

/// A checkpoint: one file, or several that an index ties together.
#[derive(Debug)]
pub struct Checkpoint {
    files: Vec<CheckpointFile>,
    extents: HashMap<String, Extent>,
}

/// A file of a checkpoint, open.
#[derive(Debug)]
struct CheckpointFile {
    path: PathBuf,
    file: File,
    /// As it was when it was opened.
    state: FileState,
}

impl CheckpointFile {
    fn open(path: &Path) -> Result<Self> {
        let read = |error| Error::io("read", path, error);
        let file = small_file::open(path).map_err(read)?;
        Ok(Self {
            path: path.to_path_buf(),
            state: FileState::of(&file).map_err(read)?,
            file,
        })
    }

    /// Bytes that it had when it was opened.
    fn length(&self) -> usize {
        usize::try_from(self.state.length).unwrap_or(usize::MAX)
    }

    /// Fills `out` with the bytes from `start` on, which is inside [`CheckpointFile::length`].
    fn read(&self, start: usize, out: &mut [u8]) -> Result<()> {
        small_file::read_at(&self.file, out, start as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => file_state::changed(&self.path),
            _ => Error::io("read", &self.path, error),
        })
    }
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
    let map: ShardIndex = serde_json::from_slice(&text).map_err(|error| {
        Error::model(
            index.display(),
            format!("is not an index of shards: {error}"),
        )
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
    let odd = names.iter().find(|name| !name.ends_with(".safetensors"));
    if names.is_empty() || odd.is_some() {
        let reason = match odd {
            Some(odd) => format!("names the shard '{odd}', which is not a safetensors file"),
            None => "names no shards".to_owned(),
        };
        return Err(
            Error::model(index.display(), reason).with_remedy("fetch the model's files again")
        );
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
            extents: HashMap::new(),
        };
        for path in paths {
            let source = CheckpointFile::open(path)?;
            let index = checkpoint.files.len();
            for (name, extent) in header(&source, index)? {
                if checkpoint.extents.insert(name.clone(), extent).is_some() {
                    return Err(Error::model(
                        path.display(),
                        format!("holds the tensor '{name}', which another shard holds too"),
                    ));
                }
            }
            checkpoint.files.push(source);
        }
        Ok(checkpoint)
    }

    /// Calls each tensor by the name that `of` gives for its own.
    pub fn rename(&mut self, of: fn(&str) -> String) {
        let extents = std::mem::take(&mut self.extents);
        let renamed = extents.into_iter();
        self.extents = renamed.map(|(name, extent)| (of(&name), extent)).collect();
    }

    /// The names of all tensors, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.extents.keys().map(String::as_str)
    }

    /// The first file, for messages about the checkpoint as a whole.
    #[must_use]
    pub fn path(&self) -> &Path {
        let first = self.files.first();
        first.map_or(Path::new(""), |source| &source.path)
    }

    /// Checks that everything read so far came from the files as they were when they were opened. To be called after
    /// the last read.
    ///
    /// # Errors
    /// If one of them was written to or cut since then.
    pub fn check_unchanged(&self) -> Result<()> {
        for CheckpointFile { path, file, state } in &self.files {
            let now = FileState::of(file).map_err(|error| Error::io("read", path, error))?;
            if !state.has_content_of(&now) {
                return Err(file_state::changed(path));
            }
        }
        Ok(())
    }

    /// The SHA-256 of each file, in hexadecimal.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn hashes(&self) -> Result<Vec<String>> {
        let files = self.files.iter();
        files
            .map(|CheckpointFile { path, file, .. }| {
                hash::of_file(path, file).map_err(|error| Error::io("read", path, error))
            })
            .collect()
    }

    /// A tensor by its full name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Tensor<'_>> {
        let (name, extent) = self.extents.get_key_value(name)?;
        Some(Tensor {
            source: &self.files[extent.file],
            name,
            extent,
        })
    }
}

/// Reads and checks a file's header.
fn header(source: &CheckpointFile, file: usize) -> Result<Vec<(String, Extent)>> {
    let refuse = |reason: String| Error::model(source.path.display(), reason);
    let cut = |what: &str| refuse(format!("is cut short or not a safetensors file: {what}"));
    let mut length = [0; 8];
    if source.length() < length.len() {
        return Err(cut("it has no header"));
    }
    source.read(0, &mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MOST_HEADER {
        let mut start = [0; 64];
        let start = &mut start[..source.length().min(64)];
        source.read(0, start)?;
        if let Some(pointer) = small_file::lfs_pointer(start) {
            return Err(Error::model(source.path.display(), pointer));
        }
        return Err(refuse(format!(
            "is not a safetensors file: its header would have {length} bytes"
        )));
    }
    let start = 8 + usize::try_from(length).unwrap_or(usize::MAX);
    if start > source.length() {
        return Err(cut("its header ends after the file"));
    }
    let mut text = vec![0; start - 8];
    source.read(8, &mut text)?;
    let entries: HashMap<String, serde_json::Value> = serde_json::from_slice(&text)
        .map_err(|error| refuse(format!("has a header that is not a JSON object: {error}")))?;
    let size = source.length() - start;
    let mut extents = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if name == "__metadata__" {
            continue;
        }
        let wrong = |reason: String| refuse(format!("the tensor '{name}' {reason}"));
        let entry: TensorEntry = serde_json::from_value(entry)
            .map_err(|error| wrong(format!("has an invalid description: {error}")))?;
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
        extents.push((
            name,
            Extent {
                file,
                element,
                shape: shape.unwrap_or_default(),
                bytes: start + offsets.0..start + offsets.1,
            },
        ));
    }
    extents.sort_by_key(|(_, extent)| (extent.bytes.start, extent.bytes.end));
    if let Some([(first, _), (second, _)]) = extents
        .array_windows()
        .find(|[(_, one), (_, next)]| one.bytes.end > next.bytes.start)
        .map(|[first, second]| [first, second])
    {
        return Err(refuse(format!(
            "the tensors '{first}' and '{second}' overlap"
        )));
    }
    Ok(extents)
}

/// The error for a tensor that is not there.
#[must_use]
pub fn missing(checkpoint: &Checkpoint, name: &str) -> Error {
    Error::model(
        checkpoint.path().display(),
        format!("has no tensor '{name}'"),
    )
}

/// A tensor's entry in the header. `__metadata__`, which is not a tensor, has neither member.
#[derive(Deserialize)]
pub struct Outline {
    /// Its element type, as the format spells it.
    #[serde(default)]
    pub dtype: String,
    /// Its shape.
    #[serde(default)]
    pub shape: Vec<u64>,
}

/// The tensors of the file at `path`, by name, with element types and shapes; their offsets are not checked.
///
/// # Errors
/// If the file cannot be read, or has no valid header.
pub fn outlines(path: &Path) -> Result<BTreeMap<String, Outline>> {
    let read = |error| Error::io("read", path, error);
    let mut file = small_file::open(path).map_err(read)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(read)?;
    let mut header = Vec::new();
    let length = u64::from_le_bytes(length);
    file.take(length.min(MOST_HEADER))
        .read_to_end(&mut header)
        .map_err(read)?;
    let mut tensors: BTreeMap<String, Outline> =
        serde_json::from_slice(&header).map_err(|error| {
            let invalid = || {
                let reason = format!("has no valid safetensors header ({error})");
                Cause::of(reason).with("fetch it again")
            };
            // A pointer's text begins where the length is expected.
            let start = [&length.to_le_bytes(), &header[..header.len().min(64)]].concat();
            let cause = small_file::lfs_pointer(&start).unwrap_or_else(invalid);
            Error::model(path.display(), cause)
        })?;
    tensors.retain(|_, tensor| !tensor.dtype.is_empty());
    Ok(tensors)
}
