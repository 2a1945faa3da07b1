//! Where a text may be cut before it is tokenized: places that no token can lie across, so that a part has the same
//! tokens as that range of the whole text.
//!
//! Other differences near a cut (a normalizer or a regular expression that looks further, added tokens with blanks in
//! them) are ruled out once for the tokenizer as a whole; a tokenizer without that proof has no joints. The
//! pre-tokenizer itself is asked whether it splits at a place.

use std::collections::BTreeSet;

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{Model as _, NormalizedString, OffsetReferential, OffsetType, Tokenizer};

use super::locality::{LocalCut, is_local, is_local_without_letters};
use crate::Side;
use crate::bounded::BoundedSteps;

/// Bytes that a pre-tokenizer is asked with at most, for one place.
const NEIGHBOURS: usize = 4096;

/// Where no token of a tokenizer can lie across: before white space between two letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CutPoints {
    pub(super) space: bool,
    pub(super) newline: bool,
    /// Whether it is the pre-tokenizer that splits there, and not the vocabulary that ends.
    splits: bool,
    /// Whether only letters of ASCII are known to end there.
    ascii: bool,
}

impl CutPoints {
    pub(super) fn of(tokenizer: &Tokenizer, steps: &BoundedSteps, side: Side) -> Self {
        if !added_tokens_end(tokenizer) || !keeps_places(tokenizer.get_normalizer(), side) {
            return Self::default();
        }
        let pre_tokenizer = tokenizer.get_pre_tokenizer();
        let letters = normalized_letters(steps);
        let is_local = |mark| {
            normalized_mark(steps, mark).is_some_and(|mark| {
                let cut = LocalCut {
                    mark,
                    letters: &letters,
                };
                pre_tokenizer.is_none_or(|one| splits_locally(one, cut, side))
            })
        };
        let splits = |mark| splits_before(steps, mark) && is_local(mark);
        if splits(' ') {
            return Self {
                space: true,
                newline: splits('\n'),
                splits: true,
                ascii: false,
            };
        }
        if !is_local(' ') {
            return Self::default();
        }
        Self {
            // Sums of a whole text's scores depend on its beginning, and ties with them.
            space: match tokenizer.get_model() {
                ModelWrapper::BPE(_) => vocabulary_ends(tokenizer, steps),
                ModelWrapper::Unigram(_) => {
                    side == Side::Right && vocabulary_ends(tokenizer, steps)
                }
                _ => false,
            },
            newline: false,
            splits: false,
            ascii: true,
        }
    }

    /// The first such place from `from` on.
    pub(super) fn first(self, steps: &BoundedSteps, text: &str, from: usize) -> Option<usize> {
        let mut places = text[from..].match_indices([' ', '\n']);
        places.find_map(|(at, _)| Some(from + at).filter(|&at| self.is(steps, text, at)))
    }

    /// The last such place before `until`.
    pub(super) fn last(self, steps: &BoundedSteps, text: &str, until: usize) -> Option<usize> {
        let mut places = text[..until].rmatch_indices([' ', '\n']);
        places.find_map(|(at, _)| Some(at).filter(|&at| self.is(steps, text, at)))
    }

    /// Whether the white space at `at` is such a place.
    fn is(self, steps: &BoundedSteps, text: &str, at: usize) -> bool {
        self.may_be(text, at) && (!self.splits || self.is_split(steps, text, at))
    }

    /// Whether the pre-tokenizer splits at `at`, asked with the text between its neighbours of that kind: the
    /// pre-tokenizer splits that part of a text as it splits it in the whole.
    fn is_split(self, steps: &BoundedSteps, text: &str, at: usize) -> bool {
        let marks = [' ', '\n'];
        let near = text.floor_char_boundary(at.saturating_sub(NEIGHBOURS));
        let far = text.floor_char_boundary(at + NEIGHBOURS);
        let before = text[near..at].rmatch_indices(marks);
        let mut before = before.map(|(place, _)| near + place);
        let mut after = text[at + 1..far].match_indices(marks);
        let from = match before.find(|&place| self.may_be(text, place)) {
            Some(place) => place,
            None if near == 0 => 0,
            None => return false,
        };
        let until = match after.find(|(place, _)| self.may_be(text, at + 1 + place)) {
            Some((place, _)) => at + 1 + place,
            None if far == text.len() => far,
            None => return false,
        };
        are_split(steps, &text[from..until], &[at - from])
    }

    /// Whether the white space at `at` has letters on both sides.
    fn may_be(self, text: &str, at: usize) -> bool {
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

/// Letters that never combine with their neighbours, of the scripts of most texts.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{ff}' | '\u{410}'..='\u{44f}'
            | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// All of these.
fn letters() -> impl Iterator<Item = char> {
    ('\0'..='\u{ffff}').filter(|&c| is_letter(c))
}

/// Whether an added token's content can never lie across white space between letters.
fn added_tokens_end(tokenizer: &Tokenizer) -> bool {
    let mark = |c: char| c.is_whitespace() || matches!(c, '▁' | 'Ġ');
    tokenizer
        .get_added_tokens_decoder()
        .values()
        .all(|token| token.content.chars().all(mark) || !token.content.contains(mark))
}

/// Whether a normalizer looks no farther than letters and their marks, and at a text's beginning only if that is kept.
fn keeps_places(normalizer: Option<&NormalizerWrapper>, side: Side) -> bool {
    match normalizer {
        None => true,
        Some(NormalizerWrapper::Sequence(all)) => {
            all.as_ref().iter().all(|one| keeps_places(Some(one), side))
        }
        Some(NormalizerWrapper::Prepend(_)) => side == Side::Right,
        Some(NormalizerWrapper::StripNormalizer(strip)) => !strip.strip_left || side == Side::Right,
        Some(NormalizerWrapper::Replace(replace)) => is_short(replace),
        Some(NormalizerWrapper::ByteLevel(_)) => false,
        Some(_) => true,
    }
}

/// Whether matches don't reach a letter.
fn is_short(replace: &Replace) -> bool {
    // The crate shows the pattern only in its serialized form.
    let written = serde_json::to_value(replace).unwrap_or_default();
    let pattern = &written["pattern"];
    match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), _) => !text.contains(is_letter),
        // A mark for white space may stand there already.
        (_, Some(regex)) => {
            // A step before this one may have taken letters apart.
            let decomposed = [
                '\u{300}'..='\u{36f}',
                '\u{1100}'..='\u{11ff}',
                '\u{3099}'..='\u{309a}',
            ];
            let letters: String = letters().chain(decomposed.into_iter().flatten()).collect();
            let is_local = |mark| {
                let letters = &letters;
                is_local_without_letters(regex, LocalCut { mark, letters })
            };
            [' ', '\n', '▁'].into_iter().all(is_local)
        }
        _ => false,
    }
}

/// The letters, normalized.
fn normalized_letters(steps: &BoundedSteps) -> String {
    let apart: String = letters().flat_map(|letter| [letter, ' ']).collect();
    let mut normalized = NormalizedString::from(apart);
    // One that fails leaves them as they are, and fails on every text.
    let _ = steps.normalize(&mut normalized);
    let is_mark = |c: &char| c.is_whitespace() || *c == '▁';
    let characters = normalized.get().chars().filter(|c| !is_mark(c));
    characters.collect::<BTreeSet<char>>().into_iter().collect()
}

/// The normalized form of `mark` between letters, if it is again one such mark.
fn normalized_mark(steps: &BoundedSteps, mark: char) -> Option<char> {
    let mut normalized = NormalizedString::from(format!("a{mark}b"));
    steps.normalize(&mut normalized).ok()?;
    let (_, behind) = normalized.get().split_once('a')?;
    let mut marks = behind.strip_suffix('b')?.chars();
    let is_mark = |c: &char| c.is_whitespace() || *c == '▁';
    marks
        .next()
        .filter(is_mark)
        .filter(|_| marks.next().is_none())
}

/// Whether a pre-tokenizer splits a part of a text as it splits it in the whole, where the part, which is that on
/// `side`, begins or ends at a cut.
fn splits_locally(pre_tokenizer: &PreTokenizerWrapper, cut: LocalCut<'_>, side: Side) -> bool {
    let mark = cut.mark;
    let mut renames = false;
    for step in steps(pre_tokenizer) {
        match step {
            // These split there: no later step sees more than a part.
            PreTokenizerWrapper::BertPreTokenizer(_)
            | PreTokenizerWrapper::Whitespace(_)
            | PreTokenizerWrapper::WhitespaceSplit(_)
                if mark.is_whitespace() && !renames =>
            {
                return true;
            }
            // A blank is put before a text without one.
            PreTokenizerWrapper::ByteLevel(bytes)
                if bytes.add_prefix_space && side == Side::Left && mark != ' ' =>
            {
                return false;
            }
            PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex && !renames => return true,
            PreTokenizerWrapper::Metaspace(space)
                if space.split && !renames && [' ', space.get_replacement()].contains(&mark) =>
            {
                return true;
            }
            PreTokenizerWrapper::ByteLevel(_) | PreTokenizerWrapper::Metaspace(_) => renames = true,
            PreTokenizerWrapper::Split(split) if !renames && is_local_split(split, cut) => {}
            // One character after another.
            PreTokenizerWrapper::Punctuation(_)
            | PreTokenizerWrapper::Digits(_)
            | PreTokenizerWrapper::Delimiter(_) => {}
            PreTokenizerWrapper::BertPreTokenizer(_)
            | PreTokenizerWrapper::Whitespace(_)
            | PreTokenizerWrapper::WhitespaceSplit(_)
            | PreTokenizerWrapper::Split(_)
            | PreTokenizerWrapper::UnicodeScripts(_)
            | PreTokenizerWrapper::FixedLength(_)
            | PreTokenizerWrapper::Sequence(_) => return false,
        }
    }
    true
}

/// The steps of a pre-tokenizer, one after another.
fn steps(pre_tokenizer: &PreTokenizerWrapper) -> Vec<&PreTokenizerWrapper> {
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(all) => all.as_ref().iter().flat_map(steps).collect(),
        one => vec![one],
    }
}

fn is_local_split(split: &Split, cut: LocalCut<'_>) -> bool {
    match &split.pattern {
        SplitPattern::String(text) => !text.contains(is_letter),
        SplitPattern::Regex(regex) => is_local(regex, cut),
    }
}

/// Whether the pre-tokenizer splits before `mark` between letters: asked of it with letters of each kind.
fn splits_before(steps: &BoundedSteps, mark: char) -> bool {
    let words = ["ab", "Zz", "é", "Жы", "東京", "アの", "한국"];
    words.iter().all(|first| {
        words.iter().all(|second| {
            let text = format!("{first}{mark}{second}{mark}{first}");
            let joints = [first.len(), first.len() + 1 + second.len()];
            are_split(steps, &text, &joints)
        })
    })
}

/// Whether the pre-tokenizer leaves nothing in one part of `text` that lies across one of the `joints`.
fn are_split(steps: &BoundedSteps, text: &str, joints: &[usize]) -> bool {
    let mut normalized = NormalizedString::from(text);
    if !steps.has_splits() || steps.normalize(&mut normalized).is_err() {
        return false;
    }
    let Ok(split) = steps.pre_tokenize(normalized) else {
        return false;
    };
    let parts = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
    joints.iter().all(|joint| {
        !parts
            .iter()
            .any(|(_, (start, end), _)| start < joint && joint < end)
    })
}

/// Whether no entry of the vocabulary has a letter before a mark for white space, and the mark is one.
fn vocabulary_ends(tokenizer: &Tokenizer, steps: &BoundedSteps) -> bool {
    let mut normalized = NormalizedString::from("a b");
    if steps.normalize(&mut normalized).is_err() {
        return false;
    }
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        match pre_tokenizer {
            // These only replace white space.
            PreTokenizerWrapper::Metaspace(_) | PreTokenizerWrapper::ByteLevel(_) => {}
            PreTokenizerWrapper::Split(_) => {}
            _ => return false,
        }
    }
    let Ok(split) = steps.pre_tokenize(normalized) else {
        return false;
    };
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
        let joints = CutPoints {
            space: true,
            newline: false,
            splits: true,
            ascii: false,
        };
        let at = |text: &str| {
            let place = text.find([' ', '\n']).unwrap();
            joints.may_be(text, place)
        };
        assert!(at("ab cd") && at("東京 大阪") && at("é Ж"));
        assert!(!at("ab  cd") && !at("ab\ncd") && !at("a1 2b") && !at("ab \u{301}c") && !at(" ab"));
    }
}
