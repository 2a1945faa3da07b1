//! The network in bf16 beside that in fp16: it computes the rows that overflow in fp16.

use std::sync::{Arc, Mutex};

use embedctl_cuda::{Card, CardElement, Encoder, EncoderOptions};
use embedctl_native::PlainNetwork;

use super::NAME;
use super::worker::{CardPooling, CudaWorker};
use crate::batch::Batch;
use crate::engine::{Output, Worker};
use crate::error::{Cause, Error, ErrorKind, Result};
use crate::setting::PRECISION;
use crate::threads::locked;

/// Tokens on which the algorithms of products are measured at most: batches in fp16 have most of the card's memory.
const MEASURED: usize = 8_192;

/// The network in bf16, which is read again from the model's files for the first row that needs it on a card.
pub(super) struct Bf16Encoders {
    network: PlainNetwork,
    cards: Vec<Arc<Card>>,
    options: EncoderOptions,
    /// By card. One is opened at a time: the others take the algorithms that the first one keeps, so that a row has the same
    /// bits on each.
    encoders: Mutex<Vec<Option<Encoder>>>,
}

impl Bf16Encoders {
    /// None yet; `options` are those of fp16.
    pub(super) fn new(
        network: PlainNetwork,
        cards: Vec<Arc<Card>>,
        options: EncoderOptions,
    ) -> Self {
        Self {
            encoders: Mutex::new(vec![None; cards.len()]),
            options: EncoderOptions {
                element: CardElement::Bf16,
                measured_tokens: options.measured_tokens.min(MEASURED),
                ..options
            },
            network,
            cards,
        }
    }

    /// A worker on this card.
    ///
    /// # Errors
    /// If the card has too little memory beside fp16, or the model's files have changed.
    pub(super) fn worker(&self, card: usize, pooling: Option<CardPooling>) -> Result<Bf16Worker> {
        let encoder = self.encoder(card).map_err(without_memory)?;
        Ok(Bf16Worker(CudaWorker::new(&encoder, pooling)?))
    }

    fn encoder(&self, card: usize) -> Result<Encoder> {
        let mut encoders = locked(&self.encoders);
        let (Some(place), Some(card)) = (encoders.get_mut(card), self.cards.get(card)) else {
            return Err(Error::internal("a worker without a card"));
        };
        if let Some(encoder) = place {
            return Ok(encoder.clone());
        }
        let encoder = Encoder::open(&self.network, card, &self.options)?;
        self.network.check_unchanged()?;
        Ok(place.insert(encoder).clone())
    }
}

/// A worker for rows that overflow in fp16.
pub(super) struct Bf16Worker(CudaWorker);

impl Worker for Bf16Worker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        self.0.run(batch).map_err(without_memory)
    }
}

/// The error, where memory is exhausted with the reason why it was needed.
fn without_memory(error: Error) -> Error {
    if error.kind() != ErrorKind::OutOfMemory {
        return error;
    }
    let reason = format!(
        "a row overflows in fp16, and the card has no memory to compute it in bf16 beside fp16: {}",
        error.reason()
    );
    let remedy = format!("{PRECISION} bf16 computes all rows in it");
    Error::new(ErrorKind::OutOfMemory, NAME, Cause::of(reason).with(remedy))
}
