//! Texts that are longer than the limit reaches, for the tokenizers crate.
//!
//! The crate needs some sixty bytes of memory for each byte of text, and more than twice that where no
//! pre-tokenizer cuts it into words. So a long text is tokenized only as far as the limit needs, and the
//! bytes that all threads are at are bounded. A text is cut where no token can lie across the cut
//! ([`Joints`]), so that the tokens of a part are those that the whole text has there; one without such a
//! place is tokenized whole. What else could differ near a cut is ruled out when the tokenizer is opened.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    Encoding, Model as _, NormalizedString, Normalizer as _, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer as _, Tokenizer,
};

use crate::error::{Error, Result};
use crate::model::Side;
use crate::threads::panic_message;

/// Texts up to this many bytes are tokenized whole.
const WHOLE_BYTES: usize = 16 * 1024;

/// The tokenizers crate, given no more of a text than the limit needs.
#[derive(Debug)]
pub(super) struct LongTexts {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Its file, for messages.
    file: PathBuf,
    /// Tokens of a text at most, special ones not counted.
    tokens: usize,
    side: Side,
    joints: Joints,
    /// `WordPiece` behind BERT's normalizer and pre-tokenizer: a word beyond this many characters is one
    /// unknown token, however long it is.
    longest_word: Option<usize>,
    /// How much more memory a byte of text takes than it does with a pre-tokenizer.
    needs: usize,
    room: Room,
}

/// Bytes of long texts that are at the crate at a time, over all threads: memory must not grow with the
/// number of cores.
const ROOM: usize = 4 << 20;

/// Who tokenizes long texts, in bytes.
#[derive(Debug, Default)]
struct Room {
    taken: Mutex<usize>,
    left: Condvar,
}

impl Room {
    /// Waits until there is room for `bytes`, or nobody else.
    fn enter(&self, bytes: usize) -> Inside<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut usize| *taken > 0 && *taken + bytes > ROOM;
        let taken = self.left.wait_while(taken, full);
        *taken.unwrap_or_else(PoisonError::into_inner) += bytes;
        Inside { room: self, bytes }
    }
}

/// Leaves when dropped.
struct Inside<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *(self.room.taken.lock()).unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.left.notify_all();
    }
}

impl LongTexts {
    /// For `tokenizer`, where `tokens` of a text are kept on its `side`.
    pub(super) fn new(tokenizer: Arc<Tokenizer>, file: PathBuf, tokens: usize, side: Side) -> Self {
        Self {
            file,
            tokens,
            side,
            joints: Joints::of(&tokenizer, side),
            longest_word: longest_word(&tokenizer),
            needs: if tokenizer.get_pre_tokenizer().is_some() {
                1
            } else {
                3
            },
            room: Room::default(),
            tokenizer,
        }
    }

    /// Tokens of `text` without special tokens: all of them, or enough to fill the limit and to show that
    /// there are more.
    pub(super) fn encode(&self, text: &str) -> Result<Encoding> {
        let mut squeezed = None;
        if text.len() > WHOLE_BYTES
            && let Some(limit) = self.longest_word
        {
            squeezed = Some(squeeze(text, limit + 1));
        }
        let text = squeezed.as_deref().unwrap_or(text);
        let mut bytes = WHOLE_BYTES.max(self.tokens.saturating_mul(8));
        loop {
            let part = &text[self.part(text, bytes)];
            let _inside =
                (part.len() > WHOLE_BYTES).then(|| self.room.enter(part.len() * self.needs));
            let encoding = self.guarded(part, || self.tokenizer.encode_fast(part, false))?;
            if part.len() == text.len() || encoding.get_ids().len() > self.tokens {
                return Ok(encoding);
            }
            bytes = bytes.saturating_mul(2);
        }
    }

    /// Where the tokens of `text` end, in bytes. Near where a text beyond [`WHOLE_BYTES`] is cut for that they
    /// may be others than those of the whole.
    pub(super) fn ends(&self, text: &str) -> Result<Vec<usize>> {
        let mut ends = Vec::new();
        let mut from = 0;
        while from < text.len() {
            let most = text.floor_char_boundary(from + WHOLE_BYTES);
            let rest = &text[from..most];
            let space = rest.rfind(char::is_whitespace).filter(|&at| at > 0);
            let part = match space {
                Some(at) if most < text.len() => &rest[..at],
                _ => rest,
            };
            let encoding = self.guarded(part, || self.tokenizer.encode(part, false))?;
            ends.extend(encoding.get_offsets().iter().map(|(_, end)| from + end));
            from += part.len();
        }
        Ok(ends)
    }

    fn guarded(
        &self,
        part: &str,
        encode: impl FnOnce() -> tokenizers::Result<Encoding>,
    ) -> Result<Encoding> {
        catch_unwind(AssertUnwindSafe(encode))
            .unwrap_or_else(|panic| Err(panic_message(&*panic).into()))
            .map_err(|error| {
                let reason = format!("fails on a text of {} bytes: {error}", part.len());
                Error::model(self.file.display(), reason)
            })
    }

    /// About `bytes` of `text` from the side that is kept, cut at a joint; all of it where there is none.
    fn part(&self, text: &str, bytes: usize) -> Range<usize> {
        if text.len() <= bytes || !(self.joints.space || self.joints.newline) {
            return 0..text.len();
        }
        match self.side {
            Side::Right => {
                let from = text.ceil_char_boundary(bytes);
                let mut places = text[from..].match_indices([' ', '\n']);
                let joint = places.find(|(at, _)| self.joints.is(text, from + at));
                0..joint.map_or(text.len(), |(at, _)| from + at)
            }
            Side::Left => {
                let until = text.floor_char_boundary(text.len() - bytes);
                let mut places = text[..until].rmatch_indices([' ', '\n']);
                let joint = places.find(|(at, _)| self.joints.is(text, *at));
                joint.map_or(0, |(at, _)| at)..text.len()
            }
        }
    }
}

/// Where no token of a tokenizer can lie across: before white space between two letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Joints {
    space: bool,
    newline: bool,
    /// Whether only letters of ASCII are known to end there.
    ascii: bool,
}

impl Joints {
    fn of(tokenizer: &Tokenizer, side: Side) -> Self {
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
    fn is(self, text: &str, at: usize) -> bool {
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

fn longest_word(tokenizer: &Tokenizer) -> Option<usize> {
    let bert_splits = matches!(
        tokenizer.get_pre_tokenizer(),
        Some(PreTokenizerWrapper::BertPreTokenizer(_))
    ) && matches!(
        tokenizer.get_normalizer(),
        None | Some(NormalizerWrapper::BertNormalizer(_))
    );
    // An added token inside a long word would be found there, so there must be none that could be.
    let found_inside = || {
        tokenizer.get_added_tokens_decoder().values().any(|token| {
            token
                .content
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) if bert_splits && !found_inside() => {
            Some(model.max_input_chars_per_word)
        }
        _ => None,
    }
}

/// Shortens every run of ASCII letters and digits to `limit` of them.
fn squeeze(text: &str, limit: usize) -> String {
    let mut short = String::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let run = part.bytes().take_while(u8::is_ascii_alphanumeric).count();
        short.push_str(&part[..run.min(limit)]);
        short.push_str(&part[run..]);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_go_in_as_far_as_there_is_room() {
        let room = Room::default();
        let half = room.enter(ROOM / 2);
        drop(room.enter(ROOM / 2));
        std::thread::scope(|scope| {
            let (sender, entered) = std::sync::mpsc::channel();
            let room = &room;
            scope.spawn(move || {
                // More than there is room for: alone.
                let _inside = room.enter(2 * ROOM);
                sender.send(*room.taken.lock().unwrap()).unwrap();
            });
            assert_eq!(*room.taken.lock().unwrap(), ROOM / 2);
            drop(half);
            assert_eq!(entered.recv(), Ok(2 * ROOM));
        });
    }

    #[test]
    fn squeezing_touches_nothing_but_long_runs() {
        assert_eq!(
            squeeze("aaaaaa bb\u{e9}cccc-ddddd", 4),
            "aaaa bb\u{e9}cccc-dddd"
        );
        assert_eq!(squeeze("", 4), "");
        assert_eq!(squeeze("abc", 4), "abc");
    }

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
