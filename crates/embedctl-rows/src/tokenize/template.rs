//! Rows that are more than a text behind a prompt.

use super::TextTokenizer;
use super::chat::ChatRows;
use super::pairs::PairTemplate;
use crate::batch::TokenRows;
use embedctl_common::error::Cause;
use embedctl_common::pair::TextPair;
use embedctl_common::stage::Clock;

/// What a row is made of.
#[derive(Debug)]
pub(super) enum RowTemplate {
    /// Two texts.
    Pair(PairTemplate),
    /// A chat that a text, or a pair of texts, is put into.
    Chat(ChatRows),
}

impl RowTemplate {
    /// The rows of `count` texts, by their index.
    pub(super) fn rows<'a>(
        &self,
        tokenizer: &TextTokenizer,
        count: usize,
        text: &(dyn Fn(usize) -> &'a str + Sync),
        clock: &Clock,
    ) -> TokenRows {
        match self {
            Self::Pair(pairs) => {
                let pair = |index: usize| TextPair::of_record(text(index));
                tokenizer.rows_of_pairs(pairs, count, &pair, clock)
            }
            Self::Chat(chat) => tokenizer.in_chunks(count, clock, &|index, scratch, rows| {
                chat.push(tokenizer, text(index), scratch, rows)
            }),
        }
    }
}

impl TextTokenizer {
    /// The rows of pairs that a program holds, in their order. A pair that the tokenizer fails on is a refused row, as are
    /// all pairs where the model was opened for single texts.
    #[must_use]
    pub fn tokenize_pairs(&self, pairs: &[TextPair<'_>]) -> TokenRows {
        let clock = Clock::default();
        match &self.template {
            Some(RowTemplate::Pair(template)) => {
                self.rows_of_pairs(template, pairs.len(), &|index| pairs[index], &clock)
            }
            Some(RowTemplate::Chat(chat)) => {
                self.in_chunks(pairs.len(), &clock, &|index, scratch, rows| {
                    chat.push(self, &pairs[index].joined(), scratch, rows)
                })
            }
            None => self.in_chunks(pairs.len(), &clock, &|_, _, _| {
                Err(Cause::of("the model takes single texts"))
            }),
        }
    }
}
