//! The native engine behind the engines' traits: which of its kinds runs a model.

mod check;
mod cosine_notes;
mod encoder;
mod statics;
mod token_weights;
mod worker;

pub use check::{absent_kernels, check};
pub use embedctl_checkpoint::knows;

use embedctl_native::{Encoder, PreparedCache, StaticTable};

use crate::engine::{Arithmetic, Engine, EngineInfo, Provider, ResolvedEngine, SkippedCandidate};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::rows::OutputChoice;
use crate::threads::usable_cores;
use encoder::NativeEngine;
use statics::StaticEngine;
use token_weights::TokenWeightsEngine;

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
