//! The native engine behind the engines' traits: an opened model, and workers that run batches of it.

mod check;
mod statics;
mod token_weights;

pub use check::{absent_kernels, check};
pub use embedctl_checkpoint::knows;

use embedctl_native::{BATCH_TOKENS, Encoder, EncoderWorker, PreparedCache, Rows, StaticTable};

use crate::batch::{Batch, TokenRows};
use crate::engine::{
    Arithmetic, BatchLimits, Cosine, Engine, EngineInfo, FinishRow, Output, Provider,
    ResolvedEngine, SkippedCandidate, Worker,
};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::model::Model;
use crate::rows::OutputChoice;
use crate::threads::usable_cores;
use statics::StaticEngine;
use token_weights::TokenWeightsEngine;

/// Tokens of a batch: enough to make use of each fetched weight, few enough for activations to stay in a core's cache.
const LIMITS: BatchLimits = BatchLimits {
    tokens: BATCH_TOKENS,
    rows: 256,
    equal_lengths: false,
};

/// An opened model.
struct NativeEngine {
    info: EngineInfo,
    encoder: Encoder,
}

/// Refuses a model that expands queries to tokens that attention does not see, where the network has no such
/// attention: `takes_unseen` says for a length whether it has.
///
/// # Errors
/// If it is so.
pub(super) fn refuse_unseen(model: &Model, takes_unseen: impl Fn(usize) -> bool) -> Result<()> {
    match model.config.frame.expansion {
        Some(expansion) if !expansion.attends && !takes_unseen(expansion.length) => {
            let reason = format!(
                "expands queries to {} tokens that attention does not see, which this architecture's attention does not allow",
                expansion.length
            );
            Err(Error::model(model.network().display(), reason).with_remedy(
                "if the model was trained with tokens that attention sees, set `attend` to true in its query_expansion",
            ))
        }
        _ => Ok(()),
    }
}

/// Opens the model in `model`'s Transformer folder.
///
/// # Errors
/// If config.json has a setting that the engine does not support, or the checkpoint does not fit it; the message names
/// the file and the setting or tensor.
pub fn open(
    model: &Model,
    options: &ResolvedEngine,
    passed_over: &[SkippedCandidate],
    provider: Provider,
) -> Result<Box<dyn Engine>> {
    let info = |precision: Arithmetic, version: String| EngineInfo {
        passed_over: passed_over.to_vec(),
        ..EngineInfo::native(precision, version, provider)
    };
    let version = env!("CARGO_PKG_VERSION");
    if let (OutputChoice::Sentence(_), Ok(checkpoint)) = (&model.config.output, &model.checkpoint) {
        if model.config.sparse.is_some() {
            let info = info(Arithmetic::Fp32, version.into());
            return Ok(Box::new(TokenWeightsEngine::open(info, &checkpoint.files)?));
        }
        let table = StaticTable::open(&checkpoint.files)?;
        let info = info(Arithmetic::Fp32, version.into());
        return Ok(Box::new(StaticEngine::new(info, table)));
    }
    let cache = options.weights_cache.clone().map(PreparedCache::new);
    let encoder = Encoder::open(
        model.network(),
        model.adapter(),
        options.arithmetic,
        match options.workers {
            0 => usable_cores(),
            workers => workers,
        },
        cache.as_ref(),
    )?;
    refuse_unseen(model, |length| encoder.takes_unseen(length))?;
    let terms = model.config.sparse.as_ref().and_then(|sparse| sparse.terms);
    let encoder = match terms {
        None => encoder,
        Some(pooling) => {
            let encoder = encoder.with_terms(model.network(), pooling)?;
            let (found, stated) = (encoder.terms(), model.config.width);
            if found != Some(stated) {
                return Err(Error::model(
                    model.network().display(),
                    format!(
                        "config.json names {stated} terms (vocab_size), but the checkpoint's masked-LM head has {}",
                        found.unwrap_or(0)
                    ),
                )
                .with_remedy("fetch them again, from one revision"));
            }
            encoder
        }
    };
    Ok(Box::new(NativeEngine {
        info: EngineInfo {
            ignored: encoder.ignored().to_vec(),
            ..info(
                encoder.arithmetic(),
                format!("{version} ({})", encoder.isa()),
            )
        },
        encoder,
    }))
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
            .then(|| measured_name(rows, finish));
        let note = known.as_ref().and_then(|name| self.encoder.note(name));
        if let Some(cosine) = note.and_then(|note| cosine_of_note(&note)) {
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
            self.encoder.keep_note(&name, &note_of_cosine(cosine));
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

/// The name of the cosine that is measured by these rows and this way to a vector.
fn measured_name(rows: &TokenRows, finish: FinishRow<'_>) -> String {
    let mut name = Hash::default();
    name.add(format!("cosine\n{}\n", finish.digest));
    for row in (0..rows.len()).map(|row| rows.get(row)) {
        name.add(row.len().to_le_bytes());
        row.iter().for_each(|id| name.add(id.to_le_bytes()));
    }
    name.hex()
}

/// A cosine in a note: its numbers bit by bit, since decimal digits may be read back as a neighbouring number.
fn note_of_cosine(cosine: Cosine) -> String {
    let Cosine {
        least,
        mean,
        texts,
        tokens,
    } = cosine;
    serde_json::json!([least.to_bits(), mean.to_bits(), texts, tokens]).to_string()
}

/// The cosine in a note.
fn cosine_of_note(note: &str) -> Option<Cosine> {
    let (least, mean, texts, tokens) = serde_json::from_str(note).ok()?;
    Some(Cosine {
        least: f64::from_bits(least),
        mean: f64::from_bits(mean),
        texts,
        tokens,
    })
}

/// A thread's memory beside the shared weights.
struct NativeWorker {
    worker: EncoderWorker,
    width: usize,
    /// Terms of the vocabulary, where the encoder has a head that gives them.
    terms: Option<usize>,
}

impl Worker for NativeWorker {
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>> {
        let rows = Rows {
            ids: &batch.ids,
            types: &batch.types,
            ends: &batch.ends,
            seen: &batch.seen,
        };
        let width = self.width;
        if let Some(width) = self.terms {
            let rows = self.worker.run_terms(rows)?;
            let rows = rows.ok_or_else(|| Error::internal("a worker without a head"))?;
            return Ok(Output::Entries { rows, width });
        }
        let states = self.worker.run(rows)?;
        Ok(Output::Tokens { states, width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Lengths;

    #[test]
    fn a_cosine_is_read_from_a_note_as_it_was() {
        let lengths = Lengths { least: 4, most: 48 };
        let mut least = 1.0_f64;
        for step in 0..1000_u32 {
            least = least.next_down();
            let cosine = Cosine {
                least,
                mean: least - f64::from(step) * 1e-7 / 3.0,
                texts: 68,
                tokens: (step % 2 == 0).then_some(lengths),
            };
            assert_eq!(cosine_of_note(&note_of_cosine(cosine)), Some(cosine));
        }
        assert_eq!(cosine_of_note("{\"least\": 1.0}"), None);
    }
}
