//! A declared weight's elements, read from the checkpoint.

use embedctl_native::{PlainNetwork, PlainProduct, PlainTable};
use embedctl_vectors::elements::Element;

use super::FloatType;
use super::elements::TensorElement as _;
use super::writer::{DeclaredWeight, WeightSource};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::PRECISION;

/// Rows of a product that are turned into columns at a time: so that a piece of a cache line is written at once.
const TOGETHER: usize = 32;

impl DeclaredWeight {
    /// Fills `out` ([`DeclaredWeight::bytes`] of them) with its elements, little-endian.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content, or a value that half precision does not hold.
    pub fn read(&self, network: &PlainNetwork, out: &mut [u8]) -> Result<()> {
        match self.source {
            WeightSource::Table(table) => self.table(network, table, out),
            WeightSource::Product(product, first) => self.product(network, product, first, out),
            WeightSource::ExpertsUp(set) => {
                self.experts(network, out, |expert| PlainProduct::ExpertUp(set, expert))
            }
            WeightSource::ExpertsDown(set) => {
                self.experts(network, out, |expert| PlainProduct::ExpertDown(set, expert))
            }
        }
    }

    fn table(&self, network: &PlainNetwork, table: PlainTable, out: &mut [u8]) -> Result<()> {
        let stored = network.table(table)?;
        if stored_as(stored.element()) == Some(self.element) {
            out.copy_from_slice(stored.data());
            return Ok(());
        }
        let mut values = vec![0.0; stored.width()];
        let bytes = stored.width() * self.element.size();
        for (row, out) in out.chunks_exact_mut(bytes.max(1)).enumerate() {
            stored.row(row, &mut values);
            self.checked(&values)?;
            self.element.encode(&values, out);
        }
        Ok(())
    }

    fn experts(
        &self,
        network: &PlainNetwork,
        out: &mut [u8],
        product: impl Fn(usize) -> PlainProduct,
    ) -> Result<()> {
        let count = self.dims[0];
        let bytes = out.len() / count.max(1);
        for (expert, out) in out.chunks_exact_mut(bytes.max(1)).enumerate() {
            self.product(network, product(expert), 0, out)?;
        }
        Ok(())
    }

    /// Rows become columns, some at a time.
    fn product(
        &self,
        network: &PlainNetwork,
        product: PlainProduct,
        first: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let &[.., inputs, outputs] = &self.dims[..] else {
            return Err(Error::internal(format!("{} is not a matrix", self.name)));
        };
        let size = self.element.size();
        let mut together = vec![0.0; TOGETHER * inputs];
        let mut column = [0.0; TOGETHER];
        let mut failed = None;
        network.rows(product, first..first + outputs, |row, values| {
            let place = row % TOGETHER;
            together[place * inputs..(place + 1) * inputs].copy_from_slice(values);
            let count = place + 1;
            if count < TOGETHER && row + 1 < outputs {
                return;
            }
            if let Err(error) = self.checked(&together[..count * inputs]) {
                failed.get_or_insert(error);
            }
            for input in 0..inputs {
                for (row, value) in column[..count].iter_mut().enumerate() {
                    *value = together[row * inputs + input];
                }
                let start = (input * outputs + row + 1 - count) * size;
                let out = &mut out[start..start + count * size];
                self.element.encode(&column[..count], out);
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Refuses values that half precision does not hold.
    fn checked(&self, values: &[f32]) -> Result<()> {
        const LARGEST: f32 = 65_504.0;
        let beyond = |value: &&f32| value.abs() > LARGEST;
        match values.iter().find(beyond) {
            Some(value) if self.element == FloatType::F16 => Err(Error::model(
                &self.name,
                format!("has the value {value}, but the greatest number of fp16 is {LARGEST}"),
            )
            .with_remedy(format!("take {PRECISION} bf16 or fp32"))),
            _ => Ok(()),
        }
    }
}

/// The type of elements that a checkpoint and a graph both have.
pub(super) fn stored_as(element: Element) -> Option<FloatType> {
    match element {
        Element::F32 => Some(FloatType::F32),
        Element::F16 => Some(FloatType::F16),
        Element::Bf16 => Some(FloatType::Bf16),
        _ => None,
    }
}
