//! A tensor in a file, and its elements as numbers.

use super::{Checkpoint, CheckpointFile, Extent, missing};
use embedctl_common::error::{Error, Result};
use embedctl_vectors::elements::{self, Element, ElementTable};
use embedctl_vectors::is_finite;

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
            elements::widen(element, bytes, out);
            if !is_finite(out) {
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
        let element = self
            .element()
            .filter(|element| matches!(element, Element::I64 | Element::I32))
            .ok_or_else(|| self.unsupported_element())?;
        let mut data = vec![0; self.stored_bytes()];
        self.bytes(0, &mut data)?;
        elements::integers(element, &data).ok_or_else(|| self.unsupported_element())
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

impl Checkpoint {
    /// The tensor `name` as a table of any number of rows (`rows: None`) or of these.
    ///
    /// # Errors
    /// If there is no such tensor, or its shape, element type or content is wrong.
    pub fn table(
        &self,
        name: &str,
        rows: Option<usize>,
        width: Option<usize>,
    ) -> Result<ElementTable> {
        let tensor = self.get(name).ok_or_else(|| missing(self, name))?;
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
            if !elements::all_finite(element, chunk) {
                return Err(tensor.not_finite());
            }
        }
        Ok(ElementTable::new(data, element, [own_rows, own_width]))
    }
}
