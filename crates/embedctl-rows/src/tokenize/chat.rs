//! Rows of texts that are put into a chat.

use std::sync::Arc;

use super::TextTokenizer;
use super::bert::BertScratch;
use crate::batch::TokenRows;
use crate::score::ChatFormat;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::pair::TextPair;

/// How a text becomes a row by a chat template.
#[derive(Debug)]
pub(super) struct ChatRows {
    template: Arc<dyn ChatFormat>,
    /// The system's message.
    prompt: String,
    pairs: bool,
    /// The tokens that end every chat: what asks for the answer stands there, so a row that was cut gets them again.
    ending: Vec<u32>,
}

impl ChatRows {
    /// Finds the tokens that end every chat, by two chats of different texts.
    ///
    /// # Errors
    /// If the template or the tokenizer fails on these.
    pub fn new(
        template: Arc<dyn ChatFormat>,
        prompt: &str,
        pairs: bool,
        tokenizer: &TextTokenizer,
    ) -> Result<Self> {
        let failed = |cause| Error::model(template.file().display(), cause);
        let ids = |text: &str| -> Result<Vec<u32>> {
            let text = match pairs {
                true => TextPair {
                    first: text,
                    second: text,
                }
                .joined(),
                false => text.to_owned(),
            };
            let chat = template.of_text(prompt, &text, pairs).map_err(failed)?;
            let mut scratch = BertScratch::default();
            let ids = tokenizer.encode(&chat, usize::MAX, &mut scratch);
            ids.map(|chat| chat.ids.to_vec()).map_err(failed)
        };
        let (one, other) = (ids("0")?, ids("1 2 3 4")?);
        let ends = one.iter().rev().zip(other.iter().rev());
        let equal = ends.take_while(|(one, other)| one == other).count();
        let ending = match equal < one.len().min(other.len()) {
            true => one[one.len() - equal..].to_vec(),
            // The texts are in neither.
            false => Vec::new(),
        };
        Ok(Self {
            template,
            prompt: prompt.to_owned(),
            pairs,
            ending,
        })
    }

    /// Appends the row of `text`.
    ///
    /// # Errors
    /// If the template or the tokenizer fails on it.
    pub fn push(
        &self,
        tokenizer: &TextTokenizer,
        text: &str,
        scratch: &mut BertScratch,
        rows: &mut TokenRows,
    ) -> Result<(), Cause> {
        let chat = self.template.of_text(&self.prompt, text, self.pairs)?;
        let most = tokenizer.text_tokens;
        let ids = tokenizer.encode(&chat, tokenizer.needed(most), scratch)?;
        let (ids, lost) = ids.cut(most, tokenizer.side);
        let ending = match lost {
            0 => &[],
            _ => &self.ending[self.ending.len() - self.ending.len().min(ids.len())..],
        };
        let text = &ids[..ids.len() - ending.len()];
        rows.push(text.iter().chain(ending).copied(), lost);
        Ok(())
    }
}
