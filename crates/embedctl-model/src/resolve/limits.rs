//! The longest row, by the model's files, its positions and the user's limit.

use std::cmp::Ordering;

use crate::options::ModelOptions;
use crate::positions::PositionRange;
use crate::sentence_config::SentenceConfig;
use crate::tokenizer::{TokenizerFiles, real_limit};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;
use embedctl_rows::{ModelConfig, PairFrame};

/// The longest row.
pub(super) struct LengthLimits {
    pub max_length: usize,
    /// The greatest limit that may be asked for.
    pub greatest_length: usize,
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

/// What decides the longest row.
pub(super) struct LimitSources<'a> {
    pub range: PositionRange,
    pub sentence: &'a SentenceConfig,
    pub tokenizer: &'a TokenizerFiles,
    pub of_role: Option<RoleLength>,
    pub options: &'a ModelOptions,
}

impl LimitSources<'_> {
    /// The longest row.
    ///
    /// # Errors
    /// If the user or the files leave no room for text, or the user asks for more than the model can run.
    pub fn limits(&self, notes: &mut Vec<String>) -> Result<LengthLimits> {
        if let Some(RoleLength::Always(length)) = self.of_role {
            return self.fixed(length, notes);
        }
        if let Some(asked) = self.options.max_length {
            return self.asked(asked);
        }
        if self.sentence.texts.no_truncation {
            return Ok(self.unlimited(notes, "processing_kwargs turn truncation off"));
        }
        match self.stated() {
            Some(None) => Ok(self.unlimited(notes, "the model's files state no length limit")),
            Some(Some(limit)) => {
                let limits = self.of_files(limit, notes)?;
                if let Some(usable) = limits.positions_limit {
                    let longer = match limit < self.special() {
                        true => format!("texts of more than {usable} tokens are"),
                        false => format!(
                            "the model's files ask for {limit} tokens but it has {usable} usable positions: longer texts are"
                        ),
                    };
                    notes.push(format!(
                        "{longer} rejected, as the reference fails on them ({MAX_LENGTH} {usable} cuts them)"
                    ));
                }
                Ok(limits)
            }
            None => self.usual(notes),
        }
    }

    /// Special tokens of a row.
    fn special(&self) -> usize {
        let frame = &self.tokenizer.frame;
        frame.pair.as_ref().map_or(frame.len(), PairFrame::len)
    }

    /// Positions that a row may have; `None`: any number.
    fn greatest(&self) -> Option<usize> {
        self.range.usable.or(self.range.stated)
    }

    fn within(&self, max_length: usize) -> LengthLimits {
        let greatest = match self.of_role {
            Some(RoleLength::Always(length)) => Some(length),
            _ => self.greatest(),
        };
        LengthLimits {
            max_length,
            greatest_length: greatest.unwrap_or(ModelConfig::UNLIMITED),
            positions_limit: self.range.usable.filter(|&usable| usable < max_length),
        }
    }

    fn unlimited(&self, notes: &mut Vec<String>, why: &str) -> LengthLimits {
        notes.push(format!(
            "{why}; no text is cut (set a limit with {MAX_LENGTH})"
        ));
        self.within(ModelConfig::UNLIMITED)
    }

    /// Rows that always have this length.
    fn fixed(&self, length: usize, notes: &mut Vec<String>) -> Result<LengthLimits> {
        match self.options.max_length.filter(|asked| *asked != length) {
            Some(asked) => Err(Error::usage(format!(
                "{MAX_LENGTH} {asked}: this model's queries always have {length} tokens"
            ))
            .with_remedy("leave it out")),
            None => self.of_files(length, notes),
        }
    }

    /// The user's limit.
    fn asked(&self, asked: usize) -> Result<LengthLimits> {
        let special = self.special();
        let most = self.greatest();
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
        Ok(self.within(asked))
    }

    /// A limit of the model's files. The reference takes the special tokens from it, and cuts nothing where there are more
    /// of them.
    fn of_files(&self, limit: usize, notes: &mut Vec<String>) -> Result<LengthLimits> {
        let special = self.special();
        match limit.cmp(&special) {
            _ if limit == 0 && special == 0 => Err(Error::usage(
                "the model's files ask for 0 tokens, which leaves no room for text",
            )
            .with_remedy(format!("give a limit with {MAX_LENGTH}"))),
            Ordering::Less => {
                let why = format!(
                    "the model's files set a limit of {limit} below its {special} special tokens, and the reference then \
                     takes none"
                );
                Ok(self.unlimited(notes, &why))
            }
            Ordering::Equal => {
                notes.push(format!(
                    "the model's files ask for {limit} tokens, which are its special tokens alone: all texts have the same \
                     vector ({MAX_LENGTH} sets another limit)"
                ));
                Ok(self.within(limit))
            }
            Ordering::Greater => Ok(self.within(limit)),
        }
    }

    /// A limit stated for the role, the call or the model, which is not reduced to the model's positions; `Some(None)`:
    /// they state that there is none.
    fn stated(&self) -> Option<Option<usize>> {
        if let Some(limit) = self.sentence.texts.max_length {
            return Some(real_limit(limit));
        }
        if let Some(RoleLength::Usual(length) | RoleLength::Always(length)) = self.of_role {
            return Some(Some(length));
        }
        let is_stated = self.sentence.arguments.contains_key("model_max_length");
        is_stated.then_some(self.tokenizer.max_length)
    }

    /// The least of the tokenizer's limit and the positions.
    fn usual(&self, notes: &mut Vec<String>) -> Result<LengthLimits> {
        let limits = [self.tokenizer.max_length, self.range.stated];
        match (limits.into_iter().flatten().min(), self.range.usable) {
            (Some(limit), Some(usable)) if limit > usable => {
                notes.push(format!(
                    "the model's files ask for {limit} tokens but it has {usable} usable positions; longer texts are cut at \
                     {usable}"
                ));
                Ok(self.within(usable))
            }
            (Some(limit), _) => self.of_files(limit, notes),
            (None, _) => Ok(self.unlimited(notes, "the model's files state no length limit")),
        }
    }
}
