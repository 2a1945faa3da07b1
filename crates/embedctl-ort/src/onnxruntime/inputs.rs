//! The tensors that a batch is fed as, over buffers that are kept from batch to batch.

use std::sync::Arc;
use std::{fmt, mem};

use half::f16;
use ort::session::SessionInputValue;
use ort::value::{PrimitiveTensorElementType, Tensor, TensorRef};

use super::pooled;
use crate::feeds::{Feeds, InputFeed, PastDim, PastElement, TokenWidth, Tokens};
use crate::padded::PaddedBatch;
use embedctl_rows::batch::Batch;
use embedctl_rows::pool::PoolingRule;

/// The output that is read from a session.
#[derive(Clone)]
pub(super) struct SessionReading {
    /// Inputs, and the output that the model's files name.
    pub feeds: Arc<Feeds>,
    /// Which tokens are pooled in the graph, where [`super::pooled`] made it.
    pub pooling: Option<Arc<PoolingRule>>,
}

impl SessionReading {
    /// The output's name in the graph.
    pub(super) fn output(&self) -> &str {
        match self.pooling {
            Some(_) => pooled::POOLED,
            None => self.feeds.output.name(),
        }
    }
}

/// An input of the graph with its tensor.
pub(super) struct InputValue<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its elements, on the processor.
    pub value: SessionInputValue<'a>,
    /// Whether it is the same for every batch of the same shape.
    pub fixed: bool,
}

/// Makes a session's inputs.
pub(super) struct Inputs {
    feeds: Arc<Feeds>,
    pooling: Option<Arc<PoolingRule>>,
    buffers: Vec<Buffer>,
    /// The weights of the batch's tokens, where the graph pools.
    weights: Vec<f32>,
}

/// Memory for an input.
enum Buffer {
    I64(Vec<i64>),
    I32(Vec<i32>),
    None,
}

impl Inputs {
    pub(super) fn new(reading: &SessionReading) -> Self {
        let buffers = reading.feeds.inputs.iter().map(|input| match input.feed {
            InputFeed::Tokens(_, TokenWidth::I64) => Buffer::I64(Vec::new()),
            InputFeed::Tokens(_, TokenWidth::I32) => Buffer::I32(Vec::new()),
            InputFeed::Past(..) | InputFeed::NoCache => Buffer::None,
        });
        Self {
            buffers: buffers.collect(),
            feeds: Arc::clone(&reading.feeds),
            pooling: reading.pooling.clone(),
            weights: Vec::new(),
        }
    }

    /// Settles which tokens of `batch` the graph pools, where it does; rows are padded to `length`.
    pub(super) fn weigh(&mut self, batch: &Batch, length: usize) {
        if let Some(rule) = &self.pooling {
            pooled::fill_weights(rule, batch, length, &mut self.weights);
        }
    }

    /// The inputs for `batch`, which was [weighed](Self::weigh), in the graph's order. Tensors that are to be bound must own their elements:
    /// a binding keeps them beyond the batch.
    pub(super) fn values(
        &mut self,
        batch: &PaddedBatch,
        owned: bool,
    ) -> Result<Vec<InputValue<'_>>, ort::Error> {
        let shape = [batch.rows, batch.length];
        let mut inputs = Vec::with_capacity(self.buffers.len() + 1);
        for (input, buffer) in self.feeds.inputs.iter().zip(&mut self.buffers) {
            let value = match (&input.feed, buffer) {
                (InputFeed::Tokens(tokens, _), Buffer::I64(buffer)) => {
                    tokens.fill(batch, buffer);
                    tensor(shape, buffer, owned)?
                }
                (InputFeed::Tokens(tokens, _), Buffer::I32(buffer)) => {
                    tokens.fill(batch, buffer);
                    tensor(shape, buffer, owned)?
                }
                (InputFeed::Past(dims, element), _) => empty(dims, *element, batch.rows)?,
                (InputFeed::NoCache, _) => Tensor::from_array(([1_usize], vec![false]))?.into(),
                (InputFeed::Tokens(..), Buffer::None) => unreachable!("tokens have a buffer"),
            };
            inputs.push(InputValue {
                name: &input.name,
                value,
                fixed: match input.feed {
                    // Where the tokens' end is, differs from row to row.
                    InputFeed::Tokens(Tokens::Types, _) => batch.token_types.is_empty(),
                    InputFeed::Tokens(..) => false,
                    InputFeed::Past(..) | InputFeed::NoCache => true,
                },
            });
        }
        if let Some(rule) = &self.pooling {
            let shape = [batch.rows, rule.modes().len(), batch.length];
            inputs.push(InputValue {
                name: pooled::WEIGHTS,
                value: tensor(shape, &mut self.weights, owned)?,
                fixed: false,
            });
        }
        Ok(inputs)
    }
}

/// A tensor over a buffer, or one that takes the buffer's elements with it.
fn tensor<T: PrimitiveTensorElementType + Clone + fmt::Debug + 'static, const N: usize>(
    shape: [usize; N],
    buffer: &mut Vec<T>,
    owned: bool,
) -> Result<SessionInputValue<'_>, ort::Error> {
    Ok(if owned {
        Tensor::from_array((shape, mem::take(buffer)))?.into()
    } else {
        TensorRef::from_array_view((shape, buffer.as_slice()))?.into()
    })
}

fn empty(
    dims: &[PastDim],
    element: PastElement,
    rows: usize,
) -> Result<SessionInputValue<'static>, ort::Error> {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size(rows)).collect();
    Ok(match element {
        PastElement::F32 => Tensor::<f32>::from_array((shape, Vec::new()))?.into(),
        PastElement::F16 => Tensor::<f16>::from_array((shape, Vec::new()))?.into(),
    })
}
