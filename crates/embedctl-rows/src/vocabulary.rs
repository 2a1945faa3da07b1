//! Work on a whole vocabulary, once for a model: it has hundreds of thousands of entries.

use std::sync::Arc;

use tokenizers::Tokenizer;
use tokenizers::models::unigram::Unigram;

/// The place of the entry `text` with score 0, from `start` on.
#[must_use]
pub fn with_score_zero(model: &Unigram, text: &str, start: usize) -> Option<usize> {
    let mut entries = model.iter().skip(start);
    let found = entries.position(|(entry, score)| entry == text && *score == 0.0);
    found.map(|place| place + start)
}

/// The same entries, of which the one at `unknown` stands for all that no entry is a part of.
///
/// # Errors
/// If there is no such entry.
pub fn with_unknown(model: &Unigram, unknown: usize) -> Result<Unigram, String> {
    let entries = model.iter().cloned().collect();
    Unigram::from(entries, Some(unknown), false).map_err(|error| error.to_string())
}

/// The tokens by their ids, `count` of them: an id without a token is written as `[id]`.
#[must_use]
pub fn terms(tokenizer: &Tokenizer, count: usize) -> Arc<[String]> {
    let term = |id: u32| tokenizer.id_to_token(id);
    let ids = (0_u32..).take(count);
    ids.map(|id| term(id).unwrap_or_else(|| format!("[{id}]")))
        .collect()
}

/// The median of the tokens' lengths, in characters.
#[must_use]
pub fn median_length(tokenizer: &Tokenizer) -> usize {
    let vocabulary = tokenizer.get_vocab(true);
    let lengths = vocabulary.keys().map(|token| token.chars().count());
    let mut lengths: Vec<usize> = lengths.collect();
    lengths.sort_unstable();
    let middle = lengths.len() / 2;
    match lengths.as_slice() {
        [] => 0,
        lengths if lengths.len().is_multiple_of(2) => {
            usize::midpoint(lengths[middle - 1], lengths[middle])
        }
        lengths => lengths[middle],
    }
}

/// Frees a tokenizer: a Unigram vocabulary is a tree of as many maps as it has beginnings of entries.
#[inline(never)]
pub fn free(tokenizer: Tokenizer) {
    drop(tokenizer);
}
