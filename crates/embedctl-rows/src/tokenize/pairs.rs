//! Rows of two texts: a query and a document, each tokenized by itself, cut together and put into the template of pairs.

use std::collections::HashMap;

use super::TextTokenizer;
use super::bert::BertScratch;
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

    /// Whether the number of tokens left of two texts depends on which is longer, and what was read does not tell.
    fn asks_on(&self, texts: [TextLength; 2]) -> bool {
        // Of a text that is not whole, more than the limit was read.
        let beyond = texts.iter().all(|text| text.read > self.most);
        beyond && !self.most.is_multiple_of(2) && !order_is_known(texts)
    }

    /// Appends the row of two texts of these tokens, the longer of which has the larger length in `lengths`; `unread`:
    /// tokens of both that are not among them.
    fn push(
        &self,
        [first, second]: [&[u32]; 2],
        lengths: [TextLength; 2],
        unread: usize,
        side: Side,
        rows: &mut TokenRows,
    ) {
        let [first_length, second_length] = lengths.map(|text| text.read);
        let (kept_first, kept_second) = longest_first(first_length, second_length, self.most);
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

/// How many tokens of a text were read.
#[derive(Debug, Clone, Copy)]
struct TextLength {
    read: usize,
    /// Whether these are all.
    is_whole: bool,
}

impl TextLength {
    fn of(read: usize, unread: usize) -> Self {
        Self {
            read,
            is_whole: unread == 0,
        }
    }
}

/// Whether the numbers of tokens that were read of two texts compare as those of all their tokens.
fn order_is_known([first, second]: [TextLength; 2]) -> bool {
    match first.read > second.read {
        true => second.is_whole,
        false => first.is_whole,
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
    /// The rows of `count` pairs, by their index. The tokens of a first text that several pairs share are made once.
    pub(super) fn rows_of_pairs<'a>(
        &self,
        pairs: &PairTemplate,
        count: usize,
        pair: &(dyn Fn(usize) -> TextPair<'a> + Sync),
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
        // More than the limit tells where both texts are cut, but for an odd token.
        let most = self.needed(pairs.most);
        let tokens = self.in_chunks(firsts.len(), clock, &|index, scratch, rows| {
            let first =
                self.encoder
                    .encode(&self.prompted(firsts[index]), most, pairs.most, scratch)?;
            rows.push(first.ids.iter().copied(), first.unread());
            Ok(())
        });
        self.in_chunks(count, clock, &|index, scratch, rows| {
            let first = of_row[index];
            if let Some(cause) = tokens.refusal(first) {
                return Err(cause.clone());
            }
            let (first_ids, first_unread) = (tokens.get(first), tokens.lost(first));
            let second = self
                .encoder
                .encode(pair(index).second, most, pairs.most, scratch)?;
            let unread = first_unread + second.unread();
            let mut lengths = [
                TextLength::of(first_ids.len(), first_unread),
                TextLength::of(second.ids.len(), second.unread()),
            ];
            if pairs.asks_on(lengths) {
                lengths = self.compared(pair(index), lengths)?;
            }
            let ids = [first_ids, second.ids];
            pairs.push(ids, lengths, unread, self.side, rows);
            Ok(())
        })
    }

    /// Lengths that compare as those of the two texts do: they are read on until the shorter one ends.
    fn compared(
        &self,
        pair: TextPair<'_>,
        mut lengths: [TextLength; 2],
    ) -> Result<[TextLength; 2], Cause> {
        let texts = [self.prompted(pair.first), pair.second.into()];
        // Apart from that of the rows, which keeps the ids of the second text.
        let mut scratch = BertScratch::default();
        while !order_is_known(lengths) {
            let most = lengths[0].read.max(lengths[1].read).saturating_mul(2);
            for (length, text) in lengths.iter_mut().zip(&texts) {
                if !length.is_whole {
                    let ids = self.encoder.encode(text, most, most, &mut scratch)?;
                    *length = TextLength::of(ids.ids.len(), ids.unread());
                }
            }
        }
        Ok(lengths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::{Encoding, Token, TruncationParams, TruncationStrategy, truncate_encodings};

    use crate::tokenize::fixture_tests::TokenizerFixture;
    use crate::tokenize::template::RowTemplate;
    use embedctl_testing::stride;

    fn template(tokenizer: &TextTokenizer) -> &PairTemplate {
        match &tokenizer.template {
            Some(RowTemplate::Pair(template)) => template,
            other => panic!("no pairs: {other:?}"),
        }
    }

    /// The rows that the tokenizers crate makes of whole pairs are ours, at every limit, however little of the texts is read.
    #[test]
    fn pairs_of_texts_of_any_length_are_cut_as_the_tokenizers_crate_cuts_them() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        // WordPiece on its own path and not, and byte-level BPE.
        for (case, own_path) in [("bert", true), ("bert", false), ("roberta", true)] {
            for max_length in [5, 6, 9, 12, 18] {
                let model = TokenizerFixture::read(format!("../../fixtures/scores/{case}/model"))
                    .of_pairs(max_length);
                let mut ours = model.prepared(1);
                if !own_path {
                    ours.encoder.bert = None;
                }
                let most = template(&ours).most;
                let mut text = || {
                    // Some are longer than what the crate is given at first.
                    let words = match random(8) {
                        0 => 6000 + random(2),
                        1 => 20 + random(80),
                        _ => random(20),
                    };
                    let word = ["the", "Ab,", "1"][random(3)];
                    vec![word; words].join(" ")
                };
                let texts: Vec<[String; 2]> =
                    (0..40 / stride(2)).map(|_| [text(), text()]).collect();
                let pairs = texts
                    .iter()
                    .map(|[first, second]| TextPair { first, second });
                let rows = ours.tokenize_pairs(&pairs.collect::<Vec<_>>());
                for (index, texts) in texts.iter().enumerate() {
                    let [first, second] = (texts.each_ref())
                        .map(|text| model.tokenizer.encode(text.as_str(), false).unwrap());
                    let lengths = [first.len(), second.len()];
                    let cut = TruncationParams {
                        max_length: most,
                        ..TruncationParams::default()
                    };
                    let (first, second) = truncate_encodings(first, Some(second), &cut).unwrap();
                    let second = second.unwrap();
                    let frame = &template(&ours).frame;
                    let expected = frame.row(first.get_ids(), second.get_ids());
                    let expected: Vec<u32> = expected.map(|(id, _)| id).collect();
                    assert_eq!(rows.get(index), expected, "{case}: {lengths:?} to {most}");
                }
            }
        }
    }

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
