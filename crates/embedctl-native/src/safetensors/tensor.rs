//! A tensor in a file, and its elements as numbers.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Checkpoint, CheckpointFile, Extent, missing};
use embedctl_common::error::{Error, Result};

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

/// Bytes that are read and converted at a time: few enough to stay in a core's cache in between.
const CHUNK: usize = 1 << 18;

/// A tensor in a file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    pub(super) source: &'a CheckpointFile,
    pub(super) name: &'a str,
    pub(super) extent: &'a Extent,
}

impl<'a> Tensor<'a> {
    /// Lengths of its axes, as PyTorch has them.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        &self.extent.shape
    }

    /// Bytes that it has in the file.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.extent.bytes.len()
    }

    /// The element type, if it is supported.
    #[must_use]
    pub fn element(&self) -> Option<Element> {
        self.extent.element.as_ref().ok().copied()
    }

    /// An error that names file and tensor.
    #[must_use]
    pub fn wrong(&self, reason: impl std::fmt::Display) -> Error {
        Error::model(
            self.source.path.display(),
            format!("the tensor '{}' {reason}", self.name),
        )
    }

    /// Refuses another shape than this.
    ///
    /// # Errors
    /// If the shape differs.
    pub fn expect_shape(&self, shape: &[usize]) -> Result<()> {
        if self.shape() == shape {
            return Ok(());
        }
        Err(self.wrong(format!(
            "has the shape {:?} where config.json asks for {shape:?}",
            self.shape()
        )))
    }

    /// All elements as f32.
    ///
    /// # Errors
    /// If its elements are not floating-point numbers, or one is NaN or infinite.
    pub fn floats(&self) -> Result<Vec<f32>> {
        // Only a shape of elements that are read was compared with the bytes.
        let size = self.floating()?.size();
        let mut values = vec![0.0; self.stored_bytes() / size];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Reads `out.len()` elements from element `start` on as f32.
    ///
    /// # Errors
    /// As [`Tensor::floats`]; if the file cannot be read, or has become shorter.
    pub fn read(&self, start: usize, out: &mut [f32]) -> Result<()> {
        let element = self.floating()?;
        let size = element.size();
        let mut bytes = vec![0; CHUNK.min(out.len() * size)];
        let mut place = start * size;
        for out in out.chunks_mut(CHUNK / size) {
            let bytes = &mut bytes[..out.len() * size];
            self.bytes(place, bytes)?;
            place += bytes.len();
            widen(element, bytes, out);
            if !out.iter().all(|value| value.is_finite()) {
                return Err(self.not_finite());
            }
        }
        Ok(())
    }

    /// Fills `out` with its bytes from `start` on.
    fn bytes(&self, start: usize, out: &mut [u8]) -> Result<()> {
        let own = &self.extent.bytes;
        assert!(
            start + out.len() <= own.len(),
            "a place inside '{}'",
            self.name
        );
        self.source.read(own.start + start, out)
    }

    /// All elements as integers.
    ///
    /// # Errors
    /// If its elements are not integers, or the file cannot be read.
    pub fn integers(&self) -> Result<Vec<i64>> {
        let Some(element @ (Element::I64 | Element::I32)) = self.element() else {
            return Err(self.unsupported_element());
        };
        let mut data = vec![0; self.stored_bytes()];
        self.bytes(0, &mut data)?;
        Ok(match element {
            Element::I64 => words(&data, i64::from_le_bytes).collect(),
            _ => words(&data, |word| i64::from(i32::from_le_bytes(word))).collect(),
        })
    }

    fn floating(&self) -> Result<Element> {
        self.element()
            .filter(|element| !matches!(element, Element::I64 | Element::I32 | Element::I8))
            .ok_or_else(|| self.unsupported_element())
    }

    fn unsupported_element(&self) -> Error {
        let element = match &self.extent.element {
            Ok(element) => format!("{element:?}"),
            Err(name) => name.clone(),
        };
        self.wrong(format!(
            "is stored as {element}, which embedctl does not read here"
        ))
    }

    fn not_finite(&self) -> Error {
        self.wrong("holds NaN or infinity")
            .with_remedy("no engine makes vectors of it: fetch the file again, or take another revision of the model")
    }
}

/// A row-major table of `[rows, width]` in memory, in the checkpoint's own element type; its elements are converted when
/// they are looked up.
pub struct ElementTable {
    data: Vec<u8>,
    element: Element,
    rows: usize,
    width: usize,
}

impl ElementTable {
    /// The tensor `name` of `checkpoint` as a table of any number of rows (`rows: None`) or of these.
    ///
    /// # Errors
    /// If there is no such tensor, or its shape, element type or content is wrong.
    pub fn open(
        checkpoint: &Checkpoint,
        name: &str,
        rows: Option<usize>,
        width: Option<usize>,
    ) -> Result<Self> {
        let tensor = checkpoint
            .get(name)
            .ok_or_else(|| missing(checkpoint, name))?;
        let &[own_rows, own_width] = tensor.shape() else {
            return Err(tensor.wrong(format!(
                "has the shape {:?}, which is not a table",
                tensor.shape()
            )));
        };
        tensor.expect_shape(&[rows.unwrap_or(own_rows), width.unwrap_or(own_width)])?;
        let element = tensor
            .element()
            .filter(|element| !matches!(element, Element::I64 | Element::I32 | Element::F64))
            .ok_or_else(|| tensor.unsupported_element())?;
        let mut data = vec![0; tensor.stored_bytes()];
        let mut place = 0;
        for chunk in data.chunks_mut(CHUNK) {
            tensor.bytes(place, chunk)?;
            place += chunk.len();
            if !all_finite(element, chunk) {
                return Err(tensor.not_finite());
            }
        }
        Ok(Self {
            data,
            element,
            rows: own_rows,
            width: own_width,
        })
    }

    /// The same in single precision, each row changed by `change`.
    pub(crate) fn changed(&self, change: impl Fn(usize, &mut [f32])) -> Self {
        let mut values = vec![0.0; self.width];
        let mut data = Vec::with_capacity(self.rows * self.width * Element::F32.size());
        for row in 0..self.rows {
            self.row(row, &mut values);
            change(row, &mut values);
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Self {
            data,
            element: Element::F32,
            ..*self
        }
    }

    /// Its rows as they are stored.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The type of its elements.
    #[must_use]
    pub fn element(&self) -> Element {
        self.element
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.len()
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

    /// Writes row `row` to `out`, which has [`ElementTable::width`] elements.
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
        let start = row * stride;
        widen(self.element, &self.data[start..start + stride], out);
    }
}

impl std::fmt::Debug for ElementTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, width, .. } = self;
        write!(f, "[{rows}, {width}] of {:?}", self.element)
    }
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
        Element::F16 => widen_halves(data, out),
        Element::Bf16 => fill(data, out, |word| {
            f32::from_bits(u32::from(u16::from_le_bytes(word)) << 16)
        }),
        #[allow(clippy::cast_possible_truncation)]
        Element::F64 => fill(data, out, |word| f64::from_le_bytes(word) as f32),
        Element::I8 => fill(data, out, |[byte]| f32::from(byte.cast_signed())),
        Element::I64 | Element::I32 => unreachable!("integers are refused before"),
    }
}

/// Half precision to single, some at a time: there are instructions for slices, which lie anywhere here.
pub(super) fn widen_halves(data: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; 64];
    for (data, out) in data
        .chunks(2 * halves.len())
        .zip(out.chunks_mut(halves.len()))
    {
        for (half, word) in halves.iter_mut().zip(data.as_chunks().0) {
            *half = f16::from_le_bytes(*word);
        }
        halves[..out.len()].convert_to_f32_slice(out);
    }
}

/// Whether no element is NaN or infinite: those whose exponent has all bits set.
pub(super) fn all_finite(element: Element, data: &[u8]) -> bool {
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
