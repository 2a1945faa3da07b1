//! Rows of two texts: a query and a document, each tokenized by itself, cut together and put into the template of pairs.

use std::collections::HashMap;

use super::TextTokenizer;
use crate::batch::TokenRows;
use crate::{ModelConfig, PairFrame, Side};
use embedctl_common::error::Cause;
use embedctl_common::pair::TextPair;
use embedctl_common::stage::Clock;

/// How two texts become a row.
#[derive(Debug)]
pub(super) struct PairTemplate {
    frame: PairFrame,
    /// Whether rows differ in their token types.
    typed: bool,
    /// Tokens of both texts at most.
    most: usize,
}

impl PairTemplate {
    /// The template and the limit of a model that takes pairs.
    pub fn of(config: &ModelConfig) -> Option<Self> {
        let frame = config.frame.pair.clone()?;
        Some(Self {
            typed: frame.is_typed(),
            most: config.max_length.saturating_sub(frame.len()),
            frame,
        })
    }

    /// Appends the row of two texts of these tokens; `unread`: tokens of both that are not among them.
    fn push(&self, [first, second]: [&[u32]; 2], unread: usize, side: Side, rows: &mut TokenRows) {
        let (kept_first, kept_second) = longest_first(first.len(), second.len(), self.most);
        let lost = first.len() - kept_first + second.len() - kept_second + unread;
        let kept = |ids: &'_ [u32], kept: usize| match side {
            Side::Right => 0..kept,
            Side::Left => ids.len() - kept..ids.len(),
        };
        let first = &first[kept(first, kept_first)];
        let second = &second[kept(second, kept_second)];
        let row = self.frame.row(first, second);
        match self.typed {
            true => rows.push_typed(row, lost),
            false => rows.push(row.map(|(id, _)| id), lost),
        }
    }
}

/// How many tokens of two texts are kept where `most` may be: tokens are taken from the longer one, until both are of
/// one length. As the tokenizers crate does it, the second text has the odd token of an odd number, or the longer one has.
fn longest_first(first: usize, second: usize, most: usize) -> (usize, usize) {
    if first + second <= most {
        return (first, second);
    }
    let short = first.min(second);
    let mut kept = match short > most {
        true => (short, short),
        false => (short, short.max(most - short)),
    };
    if kept.0 + kept.1 > most {
        kept = (most / 2, most / 2 + most % 2);
    }
    match first > second {
        true => (kept.1, kept.0),
        false => kept,
    }
}

impl TextTokenizer {
    /// The rows of pairs that a program holds, in their order. A pair that the tokenizer fails on is a refused row, as are
    /// all pairs where the model was opened for single texts.
    #[must_use]
    pub fn tokenize_pairs(&self, pairs: &[TextPair<'_>]) -> TokenRows {
        let clock = Clock::default();
        if let Some(template) = &self.pairs {
            return self.rows_of_pairs(template, pairs.len(), |index| pairs[index], &clock);
        }
        self.in_chunks(pairs.len(), &clock, |index, scratch, rows| {
            match &self.chat {
                Some(chat) => chat.push(self, &pairs[index].joined(), scratch, rows),
                None => Err(Cause::of("the model takes single texts")),
            }
        })
    }

    /// The rows of `count` pairs, by their index. The tokens of a first text that several pairs share are made once.
    pub(super) fn rows_of_pairs<'a>(
        &self,
        pairs: &PairTemplate,
        count: usize,
        pair: impl Fn(usize) -> TextPair<'a> + Sync,
        clock: &Clock,
    ) -> TokenRows {
        let mut numbers: HashMap<&str, usize, ahash::RandomState> = HashMap::default();
        let mut firsts: Vec<&str> = Vec::new();
        let of_row: Vec<usize> = (0..count)
            .map(|index| {
                let first = pair(index).first;
                *numbers.entry(first).or_insert_with(|| {
                    firsts.push(first);
                    firsts.len() - 1
                })
            })
            .collect();
        // More than the limit is enough to know where both texts are cut.
        let most = self.needed(pairs.most);
        let tokens = self.in_chunks(firsts.len(), clock, |index, scratch, rows| {
            let first = self.encode(&self.prompted(firsts[index]), most, scratch)?;
            rows.push(first.ids.iter().copied(), first.unread());
            Ok(())
        });
        self.in_chunks(count, clock, |index, scratch, rows| {
            let first = of_row[index];
            if let Some(cause) = tokens.refusal(first) {
                return Err(cause.clone());
            }
            let second = self.encode(pair(index).second, most, scratch)?;
            let unread = tokens.lost(first) + second.unread();
            pairs.push([tokens.get(first), second.ids], unread, self.side, rows);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::{Encoding, Token, TruncationParams, TruncationStrategy, truncate_encodings};

    #[test]
    fn both_texts_are_cut_as_the_tokenizers_crate_cuts_them() {
        let text = |tokens: usize| {
            let tokens = (0..tokens).map(|_| Token::new(0, "a".into(), (0, 1)));
            Encoding::from_tokens(tokens.collect(), 0)
        };
        for most in 0..9 {
            for (first, second) in (0..81).map(|both| (both / 9, both % 9)) {
                let cut = TruncationParams {
                    max_length: most,
                    strategy: TruncationStrategy::LongestFirst,
                    ..TruncationParams::default()
                };
                let (a, b) = truncate_encodings(text(first), Some(text(second)), &cut).unwrap();
                let expected = (a.get_ids().len(), b.unwrap().get_ids().len());
                let found = longest_first(first, second, most);
                assert_eq!(found, expected, "{first} and {second} to {most}");
            }
        }
    }
}
