//! Weights on their way to a card: read in single precision, rounded to the engine's element, copied.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use rayon::prelude::*;

use embedctl_common::error::{Error, Result};
use embedctl_common::threads::locked;
use embedctl_native::{PlainNetwork, PlainProduct};
use embedctl_vectors::elements::{Element, ElementTable};

use crate::CardElement;
use crate::card::Card;
use crate::library::DevicePointer;
use crate::memory::{CardStream, DeviceMemory};

/// Rows of a matrix that a thread converts at a time.
const ROWS: usize = 512;

/// Puts weights into a card's memory, and keeps them there.
pub(crate) struct Uploader<'a> {
    card: &'a Arc<Card>,
    stream: CardStream,
    element: CardElement,
    owned: Vec<DeviceMemory>,
}

impl<'a> Uploader<'a> {
    pub(crate) fn new(card: &'a Arc<Card>, element: CardElement) -> Result<Self> {
        Ok(Self {
            card,
            stream: CardStream::new(card)?,
            element,
            owned: Vec::new(),
        })
    }

    /// The memory of all weights.
    pub(crate) fn finish(self) -> Vec<DeviceMemory> {
        self.owned
    }

    fn keep(&mut self, memory: DeviceMemory) -> DevicePointer {
        let pointer = memory.pointer;
        self.owned.push(memory);
        pointer
    }

    /// Values in single precision; 0 where there are none.
    pub(crate) fn floats(&mut self, values: &[f32]) -> Result<DevicePointer> {
        if values.is_empty() {
            return Ok(0);
        }
        let memory = DeviceMemory::of(self.card, values, &self.stream)?;
        Ok(self.keep(memory))
    }

    /// Whole numbers.
    pub(crate) fn integers(&mut self, values: &[i32]) -> Result<DevicePointer> {
        let memory = DeviceMemory::of(self.card, values, &self.stream)?;
        Ok(self.keep(memory))
    }

    /// Values as elements; 0 where there are none.
    pub(crate) fn elements(&mut self, values: &[f32]) -> Result<DevicePointer> {
        if values.is_empty() {
            return Ok(0);
        }
        let width = values.len();
        self.rows(1, width, |_, take| {
            take(0, values);
            Ok(())
        })
    }

    /// A table in the engine's element.
    pub(crate) fn table(&mut self, table: &ElementTable) -> Result<DevicePointer> {
        let same = matches!(
            (table.element(), self.element),
            (Element::F32, CardElement::F32)
                | (Element::F16, CardElement::F16)
                | (Element::Bf16, CardElement::Bf16)
        );
        if same {
            let memory = DeviceMemory::of(self.card, table.data(), &self.stream)?;
            return Ok(self.keep(memory));
        }
        let width = table.width();
        self.rows(table.rows(), width, |rows, take| {
            let mut values = vec![0.0; width];
            for (number, row) in rows.enumerate() {
                table.row(row, &mut values);
                take(number, &values);
            }
            Ok(())
        })
    }

    /// A product's matrix, `[outputs, inputs]`.
    pub(crate) fn product(
        &mut self,
        network: &PlainNetwork,
        product: PlainProduct,
        [inputs, outputs]: [usize; 2],
    ) -> Result<DevicePointer> {
        self.rows(outputs, inputs, |rows, take| {
            network.rows(product, rows, |number, values| take(number, values))
        })
    }

    /// `count` rows of `width` values, which `read` gives for any range of them.
    fn rows(
        &mut self,
        count: usize,
        width: usize,
        read: impl Fn(Range<usize>, &mut dyn FnMut(usize, &[f32])) -> Result<()> + Sync,
    ) -> Result<DevicePointer> {
        let bytes = self.element.bytes();
        let row_bytes = width
            .checked_mul(bytes)
            .filter(|row| *row > 0)
            .ok_or_else(|| Error::internal("a matrix without columns"))?;
        let mut buffer = vec![0_u8; count * row_bytes];
        let failure = Mutex::new(None);
        let element = self.element;
        let parts = buffer.par_chunks_mut(ROWS * row_bytes).enumerate();
        parts.for_each(|(part, out)| {
            let first = part * ROWS;
            let rows = first..first + out.len() / row_bytes;
            let done = read(rows, &mut |number, values: &[f32]| {
                if let Some(row) = out.get_mut(number * row_bytes..(number + 1) * row_bytes)
                    && values.len() == width
                {
                    narrow(element, values, row);
                }
            });
            if let Err(error) = done {
                locked(&failure).get_or_insert(error);
            }
        });
        if let Some(error) = locked(&failure).take() {
            return Err(error);
        }
        let memory = DeviceMemory::of(self.card, &buffer, &self.stream)?;
        Ok(self.keep(memory))
    }
}

/// Writes values as elements.
fn narrow(element: CardElement, values: &[f32], out: &mut [u8]) {
    match element {
        CardElement::F32 => {
            let words = out.as_chunks_mut().0.iter_mut();
            words
                .zip(values)
                .for_each(|(word, value)| *word = value.to_le_bytes());
        }
        CardElement::F16 => {
            let words = out.as_chunks_mut().0.iter_mut();
            words
                .zip(values)
                .for_each(|(word, value)| *word = f16::from_f32(*value).to_le_bytes());
        }
        CardElement::Bf16 => {
            let words = out.as_chunks_mut().0.iter_mut();
            words
                .zip(values)
                .for_each(|(word, value)| *word = bf16::from_f32(*value).to_le_bytes());
        }
    }
}
