//! The rows of a product's weight, read from the checkpoint while they are packed. Unpacked, a product of a large model
//! has half a gigabyte, and each thread packs one. An adapter's changes are applied as rows are read.

use embedctl_checkpoint::adapter::WeightChange;
use embedctl_checkpoint::safetensors::Tensor;
use embedctl_common::error::{Error, Result};
use embedctl_vectors::elements::Element;

/// Floats that are read at a time.
const BLOCK: usize = 1 << 16;

/// The rows of a product's weight, `[outputs, inputs]`, which one tensor or several hold one after another.
pub(super) struct StoredRows<'a> {
    inputs: usize,
    parts: Vec<RowsPart<'a>>,
    /// Changes by an adapter, each with the first row that it changes.
    changes: Vec<(usize, WeightChange<'a>)>,
    /// Two blocks, since the rows of a gated product's halves are read alternately.
    blocks: [RowBlock; 2],
    /// The block that was used last.
    last: usize,
    /// Factor of all values.
    scale: f32,
    /// Why a row could not be read.
    failed: Option<Error>,
}

/// Some rows of a tensor.
struct RowsPart<'a> {
    tensor: Tensor<'a>,
    /// The tensor's row that comes first.
    first: usize,
    /// How many there are.
    count: usize,
    /// Whether they are columns of the tensor's `inputs` rows from `first` on.
    is_columns: bool,
}

/// Rows that have been read: `count` from `first` on.
#[derive(Default)]
struct RowBlock {
    first: usize,
    count: usize,
    floats: Vec<f32>,
}

impl<'a> StoredRows<'a> {
    /// No rows yet, of `inputs` elements each.
    pub(super) fn new(inputs: usize) -> Self {
        Self {
            inputs,
            parts: Vec::new(),
            changes: Vec::new(),
            blocks: Default::default(),
            last: 0,
            scale: 1.0,
            failed: None,
        }
    }

    /// Appends `count` rows of a tensor of `[rows, inputs]`, from its row `first` on.
    pub(super) fn append(&mut self, tensor: Tensor<'a>, first: usize, count: usize) {
        self.parts.push(RowsPart {
            tensor,
            first,
            count,
            is_columns: false,
        });
    }

    /// Appends the `count` columns of a tensor's rows from `first` on, as many rows as there are inputs.
    pub(super) fn append_columns(&mut self, tensor: Tensor<'a>, first: usize, count: usize) {
        self.parts.push(RowsPart {
            tensor,
            first,
            count,
            is_columns: true,
        });
    }

    /// Lets `change` change the rows from `first` on.
    pub(super) fn change(&mut self, first: usize, change: WeightChange<'a>) {
        self.changes.push((first, change));
    }

    /// Multiplies all values by `scale`.
    pub(super) fn scale(&mut self, scale: f32) {
        self.scale = scale;
    }

    /// The type of all elements, where it is narrower than single precision and they are read as they are stored.
    pub(super) fn narrow_element(&self) -> Option<Element> {
        let first = self.parts.first()?.tensor.element()?;
        let is_narrow = matches!(first, Element::F16 | Element::Bf16);
        let mut parts = self.parts.iter();
        let is_one = parts.all(|part| part.tensor.element() == Some(first));
        let is_changed = !self.changes.is_empty() || self.scale.to_bits() != 1.0_f32.to_bits();
        (is_narrow && is_one && !is_changed).then_some(first)
    }

    /// Writes row `row` to `out`; zeros where it cannot be read, which [`StoredRows::check`] tells.
    pub(super) fn row(&mut self, row: usize, out: &mut [f32]) {
        if self.failed.is_none() {
            match self.read(row, out) {
                Ok(()) => return,
                Err(error) => self.failed = Some(error),
            }
        }
        out.fill(0.0);
    }

    /// Whether every row could be read.
    ///
    /// # Errors
    /// The first failed row's error.
    pub(super) fn check(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn read(&mut self, row: usize, out: &mut [f32]) -> Result<()> {
        let holds = |block: &RowBlock| (block.first..block.first + block.count).contains(&row);
        if !holds(&self.blocks[self.last]) {
            self.last = 1 - self.last;
        }
        if !holds(&self.blocks[self.last]) {
            self.fill(row)?;
        }
        let block = &self.blocks[self.last];
        let start = (row - block.first) * self.inputs;
        out.copy_from_slice(&block.floats[start..start + self.inputs]);
        Ok(())
    }

    /// Reads rows from `row` on into the block that is in use.
    fn fill(&mut self, row: usize) -> Result<()> {
        let mut within = row;
        let part = self.parts.iter().find(|part| {
            let is_here = within < part.count;
            within -= if is_here { 0 } else { part.count };
            is_here
        });
        let part = part.ok_or_else(|| Error::internal(format!("no weight has row {row}")))?;
        let count = (BLOCK / self.inputs).clamp(1, part.count - within);
        let block = &mut self.blocks[self.last];
        block.count = 0;
        block.floats.resize(count * self.inputs, 0.0);
        if part.is_columns {
            let mut values = vec![0.0; count];
            for input in 0..self.inputs {
                let start = (part.first + input) * part.count + within;
                part.tensor.read(start, &mut values)?;
                let column = block.floats.iter_mut().skip(input).step_by(self.inputs);
                column.zip(&values).for_each(|(to, value)| *to = *value);
            }
        } else {
            let start = (part.first + within) * self.inputs;
            part.tensor.read(start, &mut block.floats)?;
        }
        for (first, change) in &self.changes {
            // The rows that are both in the block and among those of the change.
            let from = row.max(*first);
            let to = (row + count).min(first + change.rows());
            if from < to {
                let floats = (from - row) * self.inputs..(to - row) * self.inputs;
                change.apply(from - first, &mut block.floats[floats])?;
            }
        }
        if self.scale.to_bits() != 1.0_f32.to_bits() {
            block
                .floats
                .iter_mut()
                .for_each(|value| *value *= self.scale);
        }
        (block.first, block.count) = (row, count);
        Ok(())
    }
}
