//! A tensor in a mapped file, and its elements as numbers.

use std::path::Path;
use std::sync::Arc;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Checkpoint, missing};
use crate::error::{Error, Result};

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

/// A tensor in a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    pub(super) path: &'a Path,
    pub(super) name: &'a str,
    pub(super) element: std::result::Result<Element, &'a str>,
    pub(super) shape: &'a [usize],
    pub(super) data: &'a [u8],
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
        // Only a shape of elements that are read was compared with the bytes.
        let size = self.floating()?.size();
        let mut values = vec![0.0; self.data.len() / size];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Reads `out.len()` elements from element `start` on as f32.
    ///
    /// # Errors
    /// As [`Tensor::floats`].
    pub fn read(&self, start: usize, out: &mut [f32]) -> Result<()> {
        let element = self.floating()?;
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

    fn floating(&self) -> Result<Element> {
        self.element
            .ok()
            .filter(|element| !matches!(element, Element::I64 | Element::I32 | Element::I8))
            .ok_or_else(|| self.unread())
    }

    fn unread(&self) -> Error {
        let element = match self.element {
            Ok(element) => format!("{element:?}"),
            Err(name) => name.to_string(),
        };
        self.wrong(format!(
            "is stored as {element}, which embedctl does not read here"
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
        let extent = &checkpoint.extents[name];
        Ok(Self {
            checkpoint: Arc::clone(checkpoint),
            file: extent.file,
            bytes: extent.bytes.clone(),
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
