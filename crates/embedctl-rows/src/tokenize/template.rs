//! Rows that are more than a text behind a prompt.

use super::TextTokenizer;
use super::chat::ChatRows;
use super::pairs::PairTemplate;
use crate::batch::TokenRows;
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
