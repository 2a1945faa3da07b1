//! The masked-LM head as plain matrices.

use std::ops::Range;

use super::{PlainNetwork, PlainProduct, PlainTable};
use crate::masked_head::StoredHead;
use crate::rows::StoredRows;
use embedctl_common::Activation;
use embedctl_common::error::Result;
use embedctl_kernels::Norm;
use embedctl_vectors::elements::Element;

/// A masked-LM head without its products ([`PlainProduct::TermTransform`], [`PlainProduct::Terms`]).
#[derive(Debug)]
pub struct PlainHead {
    /// The activation and the norm of each transformed state; `None`: states are not transformed.
    pub transform: Option<(Activation, Norm)>,
    /// Components of a transformed state.
    pub width: usize,
    /// Terms of the vocabulary.
    pub terms: usize,
}

impl PlainNetwork {
    /// The checkpoint's masked-LM head.
    ///
    /// # Errors
    /// If the architecture has none that is known, or one of its tensors is missing.
    pub fn masked_head(&self) -> Result<PlainHead> {
        let head = self.stored_head()?;
        Ok(PlainHead {
            transform: head.transform.map(|one| (one.activation, one.norm)),
            width: head.width,
            terms: head.terms,
        })
    }

    fn stored_head(&self) -> Result<StoredHead<'_>> {
        let (rows, width, _) = self.table_shape(PlainTable::Tokens)?;
        let checkpoint = &self.weights.checkpoint;
        let hidden = self.architecture.hidden;
        StoredHead::read(&self.config_file, checkpoint, hidden, (rows, width))
    }

    /// The bias of one of its products; empty where it has none.
    pub(super) fn head_bias(&self, product: PlainProduct) -> Result<Vec<f32>> {
        let head = self.stored_head()?;
        Ok(match product {
            PlainProduct::Terms { first, count } if !head.bias.is_empty() => {
                head.bias[first..first + count].to_vec()
            }
            PlainProduct::TermTransform => head.transform.map_or_else(Vec::new, |one| one.bias),
            _ => Vec::new(),
        })
    }

    /// As [`PlainNetwork::rows`], of one of its products.
    pub(super) fn head_rows(
        &self,
        product: PlainProduct,
        outputs: Range<usize>,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let head = self.stored_head()?;
        let terms = head.terms;
        let Some((mut rows, inputs, first)) = self.head_product(head, product)? else {
            return Ok(());
        };
        let change = match self.is_table(product)? {
            true => self.loader()?.word_change(terms)?,
            false => None,
        };
        let mut values = vec![0.0; inputs];
        for (number, row) in outputs.enumerate() {
            rows.row(row, &mut values);
            if let Some(change) = &change {
                change.apply(first + row, inputs, &mut values);
            }
            take(number, &values);
        }
        rows.check()
    }

    /// The type in which one of its products is stored, as [`PlainNetwork::narrow_element`] has it.
    pub(super) fn narrow_head_element(&self, product: PlainProduct) -> Result<Option<Element>> {
        let head = self.stored_head()?;
        let is_changed = self.weights.task.is_some() && self.is_table(product)?;
        let rows = self.head_product(head, product)?;
        let rows = rows.filter(|_| !is_changed);
        Ok(rows.and_then(|(rows, ..)| rows.narrow_element()))
    }

    /// Whether a product is a part of the table of tokens.
    fn is_table(&self, product: PlainProduct) -> Result<bool> {
        let is_terms = matches!(product, PlainProduct::Terms { .. });
        Ok(is_terms && self.stored_head()?.decoder.is_none())
    }

    /// The rows of one of its products, their inputs, and the number of the first in its tensor.
    fn head_product<'a>(
        &'a self,
        head: StoredHead<'a>,
        product: PlainProduct,
    ) -> Result<Option<(StoredRows<'a>, usize, usize)>> {
        let (tensor, inputs, first, count) = match (product, head.transform) {
            (PlainProduct::Terms { first, count }, _) => {
                let own = head.decoder;
                let decoder = own.map_or_else(|| self.table_tensor(PlainTable::Tokens), Ok)?;
                (decoder, head.width, first, count)
            }
            (_, Some(one)) => (one.weight, self.architecture.hidden, 0, one.width),
            (_, None) => return Ok(None),
        };
        let mut rows = StoredRows::new(inputs);
        rows.append(tensor, first, count);
        Ok(Some((rows, inputs, first)))
    }
}
