//! The longest row, by the model's files, its positions and the user's limit.

use crate::config::ModelConfig;
use crate::options::ModelOptions;
use crate::positions::PositionRange;
use crate::sentence_config::SentenceConfig;
use crate::tokenizer::{TokenizerFiles, real_limit};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;

/// The longest row.
pub(super) struct LengthLimits {
    pub max_length: usize,
    /// Positions of the network, if rows could be longer.
    pub positions_limit: Option<usize>,
}

pub(super) fn limits(
    range: PositionRange,
    sentence: &SentenceConfig,
    tokenizer: &TokenizerFiles,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<LengthLimits> {
    let special = tokenizer.frame.len();
    let within = |max_length| LengthLimits {
        max_length,
        positions_limit: range.usable.filter(|&usable| usable < max_length),
    };
    if let Some(asked) = options.max_length {
        let most = range.usable.or(range.stated);
        if asked <= special {
            return Err(Error::usage(format!(
                "{MAX_LENGTH} {asked} leaves no room for text: this model adds {special} special tokens, so the least \
                 is {}{}",
                special + 1,
                most.map(|max| format!(" and the most {max}"))
                    .unwrap_or_default()
            )));
        }
        if let Some(max) = most.filter(|&max| asked > max) {
            let remedy = format!("choose a value from {} to {max}", special + 1);
            return Err(Error::usage(format!(
                "{MAX_LENGTH} {asked} is beyond this model's {max} positions"
            ))
            .with_remedy(remedy));
        }
        return Ok(within(asked));
    }
    let unlimited = |notes: &mut Vec<String>, why: &str| {
        notes.push(format!(
            "{why}; no text is cut (set a limit with {MAX_LENGTH})"
        ));
        Ok(within(ModelConfig::UNLIMITED))
    };
    if sentence.texts.no_truncation {
        return unlimited(notes, "processing_kwargs turn truncation off");
    }
    // A limit stated for the model or the call is not reduced to its positions.
    let stated = match sentence.texts.max_length {
        Some(limit) => Some(real_limit(limit)),
        None if sentence.arguments.contains_key("model_max_length") => Some(tokenizer.max_length),
        None => None,
    };
    match stated {
        Some(None) => unlimited(notes, "the model's files state no length limit"),
        Some(Some(limit)) => {
            let limits = within(limit.max(special + 1));
            if let Some(usable) = limits.positions_limit {
                notes.push(format!(
                    "the model's files ask for {limit} tokens but it has {usable} usable positions: longer texts are \
                     rejected, as the reference fails on them ({MAX_LENGTH} {usable} cuts them)"
                ));
            }
            Ok(limits)
        }
        None => {
            let least = [tokenizer.max_length, range.stated]
                .into_iter()
                .flatten()
                .min();
            match (least, range.usable) {
                (Some(limit), Some(usable)) if limit > usable => {
                    notes.push(format!(
                        "the model's files ask for {limit} tokens but it has {usable} usable positions; longer texts are \
                         cut at {usable}"
                    ));
                    Ok(within(usable))
                }
                (Some(limit), _) => Ok(within(limit.max(special + 1))),
                (None, _) => unlimited(notes, "the model's files state no length limit"),
            }
        }
    }
}
