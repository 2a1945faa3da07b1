//! The models that late chunking is for.

use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{LATE, POOLING};
use embedctl_rows::{ModelConfig, OutputChoice, PoolingMode};

/// Refuses late chunking for a model that it is not defined for.
///
/// # Errors
/// If the model gives no dense vectors or no states of tokens, or pools them in a way that depends on more than the
/// tokens of a chunk.
pub(crate) fn check_late(config: &ModelConfig) -> Result<()> {
    if !config.late {
        return Ok(());
    }
    let usage = |reason: String| Error::usage(format!("{LATE}: {reason}"));
    let others = [
        (!config.beside.is_empty(), "vectors of several kinds"),
        (config.scores.is_some(), "scores"),
        (config.sparse.is_some(), "sparse vectors"),
        (config.multi.is_some(), "a vector for each token"),
    ];
    if let Some((_, rows)) = others.into_iter().find(|(given, _)| *given) {
        let reason = format!(
            "the model gives {rows}, but late chunking pools each chunk to one dense vector"
        );
        return Err(usage(reason).with_remedy("leave it out"));
    }
    if let OutputChoice::Sentence(_) = config.output {
        return Err(usage(
            "the model gives finished vectors, but no states of tokens that could be pooled by chunk".to_owned(),
        )
        .with_remedy("leave it out"));
    }
    let is_of_chunk = |mode: &&PoolingMode| {
        matches!(
            mode,
            PoolingMode::Mean | PoolingMode::MeanSqrtLen | PoolingMode::Max
        )
    };
    match config.pooling.iter().find(|mode| !is_of_chunk(mode)) {
        Some(mode) => Err(usage(format!(
            "the model's pooling is {}, but the tokens of a chunk can be pooled only by mean, mean_sqrt_len_tokens or max",
            mode.name()
        ))
        .with_remedy(format!(
            "use {POOLING} mean if the model works with mean pooling; otherwise omit {LATE}"
        ))),
        None => Ok(()),
    }
}
