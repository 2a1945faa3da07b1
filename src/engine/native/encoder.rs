//! A network that is open.

use embedctl_native::{BATCH_TOKENS, Encoder};

use super::cosine_notes;
use super::worker::NativeWorker;
use crate::batch::TokenRows;
use crate::engine::{Arithmetic, BatchLimits, Cosine, Engine, EngineInfo, FinishRow, Worker};
use crate::error::Result;

/// Tokens of a batch: enough to make use of each fetched weight, few enough for activations to stay in a core's cache.
const LIMITS: BatchLimits = BatchLimits {
    tokens: BATCH_TOKENS,
    rows: 256,
    equal_lengths: false,
};

/// An opened model.
pub(super) struct NativeEngine {
    pub(super) info: EngineInfo,
    pub(super) encoder: Encoder,
}

impl Engine for NativeEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn limits(&self) -> BatchLimits {
        LIMITS
    }

    fn is_ragged(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        Some(self.encoder.memory())
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(NativeWorker {
            width: self.encoder.width(),
            terms: self.encoder.terms(),
            worker: self.encoder.worker(),
        }))
    }

    fn measure(&self, rows: &TokenRows, finish: FinishRow<'_>) -> Result<Option<Cosine>> {
        if self.encoder.arithmetic() == Arithmetic::Fp32 {
            return Ok(None);
        }
        let known = self
            .encoder
            .keeps_notes()
            .then(|| cosine_notes::name(rows, finish));
        let note = known.as_ref().and_then(|name| self.encoder.note(name));
        if let Some(cosine) = note.and_then(|note| cosine_notes::read(&note)) {
            return Ok(Some(cosine));
        }
        let present = (0..rows.len())
            .map(|row| rows.get(row))
            .filter(|row| !row.is_empty());
        let width = self.encoder.width();
        let finish = finish.finish;
        let cosines = match self.encoder.terms() {
            // Of the weights of terms, the head's own rounding counted.
            Some(_) => self
                .encoder
                .compare_terms_with_exact(present, |ours, exact| {
                    let (ours, exact): (Vec<f32>, Vec<f32>) = ours.union(exact).unzip();
                    Cosine::between(&ours, &exact)
                })?,
            None => self.encoder.compare_with_exact(present, |ours, exact| {
                Cosine::between(&finish(ours, width), &finish(exact, width))
            })?,
        };
        let lengths = (0..rows.len()).map(|row| rows.get(row).len());
        let lengths = lengths.filter(|&length| length > 0);
        let cosine = Cosine::of(cosines).map(|cosine| cosine.with_lengths(lengths));
        if let (Some(name), Some(cosine)) = (known, cosine) {
            self.encoder.keep_note(&name, &cosine_notes::write(cosine));
        }
        Ok(cosine)
    }

    fn token_rows(&self) -> Option<usize> {
        Some(self.encoder.token_rows())
    }

    fn operations(&self, tokens: usize) -> u64 {
        self.encoder.operations(tokens)
    }
}
