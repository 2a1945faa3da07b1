//! The longest row, by the model's files, its positions and the user's limit.

use std::cmp::Ordering;

use crate::config::ModelConfig;
use crate::frame::PairFrame;
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

/// Tokens of a role's rows at most, by the model's files.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RoleLength {
    /// Unless the user or the tokenizer's call says another.
    Usual(usize),
    /// Whatever else is said.
    Always(usize),
}

pub(super) fn limits(
    range: PositionRange,
    sentence: &SentenceConfig,
    tokenizer: &TokenizerFiles,
    of_role: Option<RoleLength>,
    options: &ModelOptions,
    notes: &mut Vec<String>,
) -> Result<LengthLimits> {
    let pair = tokenizer.frame.pair.as_ref();
    let special = pair.map_or(tokenizer.frame.len(), PairFrame::len);
    let within = |max_length| LengthLimits {
        max_length,
        positions_limit: range.usable.filter(|&usable| usable < max_length),
    };
    let unlimited = |notes: &mut Vec<String>, why: &str| {
        notes.push(format!(
            "{why}; no text is cut (set a limit with {MAX_LENGTH})"
        ));
        Ok(within(ModelConfig::UNLIMITED))
    };
    // The reference takes the special tokens from the limit, and cuts nothing where there are more of them.
    let kept = |limit: usize, notes: &mut Vec<String>| match limit.cmp(&special) {
        _ if limit == 0 && special == 0 => Err(Error::usage(
            "the model's files ask for 0 tokens, which leaves no room for text",
        )
        .with_remedy(format!("give a limit with {MAX_LENGTH}"))),
        Ordering::Less => {
            let why = format!(
                "the model's files ask for {limit} tokens, fewer than its {special} special tokens, and the reference then \
                 takes no limit"
            );
            unlimited(notes, &why)
        }
        Ordering::Equal => {
            notes.push(format!(
                "the model's files ask for {limit} tokens, which are its special tokens alone: all texts have the same \
                 vector ({MAX_LENGTH} sets another limit)"
            ));
            Ok(within(limit))
        }
        Ordering::Greater => Ok(within(limit)),
    };
    if let Some(RoleLength::Always(length)) = of_role {
        return match options.max_length.filter(|asked| *asked != length) {
            Some(asked) => Err(Error::usage(format!(
                "{MAX_LENGTH} {asked}: this model's queries always have {length} tokens"
            ))
            .with_remedy("leave it out")),
            None => kept(length, notes),
        };
    }
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
    if sentence.texts.no_truncation {
        return unlimited(notes, "processing_kwargs turn truncation off");
    }
    // A limit stated for the model or the call is not reduced to its positions.
    let of_role = match of_role {
        Some(RoleLength::Usual(length) | RoleLength::Always(length)) => Some(length),
        None => None,
    };
    let stated = match sentence.texts.max_length {
        Some(limit) => Some(real_limit(limit)),
        None if of_role.is_some() => Some(of_role),
        None if sentence.arguments.contains_key("model_max_length") => Some(tokenizer.max_length),
        None => None,
    };
    match stated {
        Some(None) => unlimited(notes, "the model's files state no length limit"),
        Some(Some(limit)) => {
            let limits = kept(limit, notes)?;
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
                (Some(limit), _) => kept(limit, notes),
                (None, _) => unlimited(notes, "the model's files state no length limit"),
            }
        }
    }
}
