//! From a text to its token ids, by the way that suits the tokenizer.

use tokenizers::Encoding;

use super::TextTokenizer;
use super::bert::{Bert, BertScratch};
use super::ids::{TextIds, share};
use super::long::LongTexts;
use embedctl_common::error::Cause;

/// A model's tokenizer without its prompt and special tokens.
#[derive(Debug)]
pub(super) struct TextEncoder {
    /// The fast path, where the tokenizer is of BERT's kind.
    pub(super) bert: Option<Bert>,
    pub(super) any: LongTexts,
}

impl TextEncoder {
    /// The token ids of `text`: all of them, or more than `most` where the tokenizer has the fast path, and else more
    /// than the limit and `beyond`.
    ///
    /// # Errors
    /// If the tokenizer fails on the text.
    #[inline] // for each text, from another file
    pub(super) fn encode<'s>(
        &self,
        text: &str,
        most: usize,
        beyond: usize,
        scratch: &'s mut BertScratch,
    ) -> Result<TextIds<'s>, Cause> {
        let bert = self.bert.as_ref();
        let share = match bert.and_then(|bert| bert.encode(text, most, scratch)) {
            Some(read) => share(read, text.len()),
            None => {
                let (encoding, share) = self.any.encode(text, beyond)?;
                scratch.ids.clear();
                scratch.ids.extend_from_slice(encoding.get_ids());
                share
            }
        };
        let ids = &scratch.ids;
        Ok(TextIds { ids, share })
    }
}

impl TextTokenizer {
    /// All tokens of `text` without special tokens, with their places in it, in code points.
    ///
    /// # Errors
    /// If the tokenizer fails on the text.
    pub fn with_places(&self, text: &str) -> Result<Encoding, Cause> {
        self.encoder.any.with_places(text)
    }
}
