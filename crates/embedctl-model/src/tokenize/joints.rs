//! Where a text may be cut before it is tokenized: places that no token can lie across, so that the tokens of a part are
//! those that the whole text has there.
//!
//! What else could differ near a cut (a normalizer that looks further, added tokens with blanks in them) is ruled out
//! when the tokenizer is opened; a tokenizer of which that is not known has no joints.

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    Model as _, NormalizedString, Normalizer as _, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer as _, Tokenizer,
};

use crate::model::Side;

/// Where no token of a tokenizer can lie across: before white space between two letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Joints {
    pub(super) space: bool,
    pub(super) newline: bool,
    /// Whether only letters of ASCII are known to end there.
    ascii: bool,
}

impl Joints {
    pub(super) fn of(tokenizer: &Tokenizer, side: Side) -> Self {
        if !added_tokens_end(tokenizer) || !is_local(tokenizer.get_normalizer(), side) {
            return Self::default();
        }
        let splits = |mark| splits_before(tokenizer, mark);
        if splits(' ') {
            return Self {
                space: true,
                newline: splits('\n'),
                ascii: false,
            };
        }
        Self {
            // Sums of a whole text's scores depend on its beginning, and ties with them.
            space: match tokenizer.get_model() {
                ModelWrapper::BPE(_) => vocabulary_ends(tokenizer),
                ModelWrapper::Unigram(_) => side == Side::Right && vocabulary_ends(tokenizer),
                _ => false,
            },
            newline: false,
            ascii: true,
        }
    }

    /// Whether the white space at `at` is such a place.
    pub(super) fn is(self, text: &str, at: usize) -> bool {
        let mark = text.as_bytes()[at];
        let letter = |c: char| {
            if self.ascii {
                c.is_ascii_alphabetic()
            } else {
                is_letter(c)
            }
        };
        (if mark == b' ' {
            self.space
        } else {
            self.newline
        }) && text[..at].chars().next_back().is_some_and(letter)
            && text[at + 1..].chars().next().is_some_and(letter)
    }
}

/// Letters that never combine with what is beside them, of the scripts that most texts are in.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{ff}' | '\u{410}'..='\u{44f}'
            | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Whether an added token's content can never lie across white space between letters.
fn added_tokens_end(tokenizer: &Tokenizer) -> bool {
    let mark = |c: char| c.is_whitespace() || matches!(c, '▁' | 'Ġ');
    tokenizer
        .get_added_tokens_decoder()
        .values()
        .all(|token| token.content.chars().all(mark) || !token.content.contains(mark))
}

/// Whether a normalizer looks at nothing beyond letters and their marks, and at a text's beginning only
/// where it is kept.
fn is_local(normalizer: Option<&NormalizerWrapper>, side: Side) -> bool {
    match normalizer {
        None => true,
        Some(NormalizerWrapper::Sequence(all)) => {
            all.as_ref().iter().all(|one| is_local(Some(one), side))
        }
        Some(NormalizerWrapper::Prepend(_)) => side == Side::Right,
        Some(NormalizerWrapper::StripNormalizer(strip)) => !strip.strip_left || side == Side::Right,
        Some(NormalizerWrapper::Replace(replace)) => is_short(replace),
        Some(NormalizerWrapper::ByteLevel(_)) => false,
        Some(_) => true,
    }
}

/// Patterns whose matches don't reach across a letter.
fn is_short(replace: &Replace) -> bool {
    const KNOWN: [&str; 5] = [" {2,}", r"\s{2,}|[\n\r\t]", r"\n", r"\s+", r"[\n\r\t]"];
    // The crate shows the pattern only in what it writes.
    let written = serde_json::to_value(replace).unwrap_or_default();
    let pattern = &written["pattern"];
    match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), _) => text.chars().count() == 1 || !text.contains(' '),
        (_, Some(regex)) => KNOWN.contains(&regex),
        _ => false,
    }
}

/// Whether the pre-tokenizer splits before `mark` between letters: asked of it with letters of each kind.
fn splits_before(tokenizer: &Tokenizer, mark: char) -> bool {
    let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() else {
        return false;
    };
    let words = ["ab", "Zz", "é", "Жы", "東京", "アの", "한국"];
    words.iter().all(|first| {
        words.iter().all(|second| {
            let text = format!("{first}{mark}{second}{mark}{first}");
            let mut normalized = NormalizedString::from(text.as_str());
            if let Some(normalizer) = tokenizer.get_normalizer()
                && normalizer.normalize(&mut normalized).is_err()
            {
                return false;
            }
            let mut split = PreTokenizedString::from(normalized);
            if pre_tokenizer.pre_tokenize(&mut split).is_err() {
                return false;
            }
            let joints = [first.len(), first.len() + 1 + second.len()];
            let parts = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
            joints.iter().all(|joint| {
                !parts
                    .iter()
                    .any(|(_, (start, end), _)| start < joint && joint < end)
            })
        })
    })
}

/// Whether no entry of the vocabulary has a letter before a mark for white space, and the mark is one.
fn vocabulary_ends(tokenizer: &Tokenizer) -> bool {
    let mut normalized = NormalizedString::from("a b");
    if let Some(normalizer) = tokenizer.get_normalizer()
        && normalizer.normalize(&mut normalized).is_err()
    {
        return false;
    }
    let mut split = PreTokenizedString::from(normalized);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        match pre_tokenizer {
            // What these do to white space is known: nothing but to replace it.
            PreTokenizerWrapper::Metaspace(_) | PreTokenizerWrapper::ByteLevel(_) => {}
            PreTokenizerWrapper::Split(_) => {}
            _ => return false,
        }
        if pre_tokenizer.pre_tokenize(&mut split).is_err() {
            return false;
        }
    }
    let parts = split.get_splits(OffsetReferential::Normalized, OffsetType::None);
    let text: String = parts.iter().map(|(part, ..)| *part).collect();
    let Some(mark) = text
        .split_once('a')
        .and_then(|(_, rest)| rest.strip_suffix('b'))
        .filter(|mark| mark.chars().count() == 1)
    else {
        return false;
    };
    let vocabulary = tokenizer.get_model().get_vocab();
    vocabulary.contains_key(mark)
        && !vocabulary.keys().any(|entry| {
            entry
                .match_indices(mark)
                .any(|(at, _)| entry[..at].ends_with(|c: char| c.is_ascii_alphabetic()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joints_are_white_space_between_letters() {
        let joints = Joints {
            space: true,
            newline: false,
            ascii: false,
        };
        let at = |text: &str| {
            let place = text.find([' ', '\n']).unwrap();
            joints.is(text, place)
        };
        assert!(at("ab cd") && at("東京 大阪") && at("é Ж"));
        assert!(!at("ab  cd") && !at("ab\ncd") && !at("a1 2b") && !at("ab \u{301}c") && !at(" ab"));
    }
}
