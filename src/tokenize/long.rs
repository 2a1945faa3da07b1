//! Texts that are longer than the limit reaches, for the tokenizers crate.
//!
//! The crate needs some sixty bytes of memory for each byte of text, and more than twice that where no
//! pre-tokenizer cuts it into words. So a long text is tokenized only as far as the limit needs, a very
//! long word is shortened where its tokens don't depend on its end, and the bytes that all threads are at
//! are bounded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Encoding, Tokenizer};

use crate::error::{Error, Result};
use crate::model::Side;
use crate::threads::panic_message;

/// Texts up to this many bytes are tokenized whole.
const WHOLE_BYTES: usize = 16 * 1024;

/// Tokens beyond the limit that a part of a text must give before its first tokens are taken for the
/// whole text's: a cut changes tokens near it, not this far away.
const MARGIN: usize = 64;

/// The tokenizers crate, given no more of a text than the limit needs.
#[derive(Debug)]
pub(super) struct LongTexts {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Its file, for messages.
    file: PathBuf,
    /// Tokens of a text at most, special ones not counted.
    tokens: usize,
    side: Side,
    words: LongWords,
    can_cut: bool,
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

/// What a tokenizer makes of a very long word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongWords {
    /// Nothing is known: only whitespace is a safe place to cut.
    Whole,
    /// `WordPiece` behind BERT's normalizer and pre-tokenizer: a word beyond `limit` characters is one
    /// unknown token, however long it is; words end at whitespace, at punctuation and, where
    /// `ideographs` are words of their own, beside those.
    Unknown { limit: usize, ideographs: bool },
    /// Subwords decided locally: any place will do.
    Local,
}

impl LongTexts {
    /// For `tokenizer`, where `tokens` of a text are kept on its `side`.
    pub(super) fn new(tokenizer: Arc<Tokenizer>, file: PathBuf, tokens: usize, side: Side) -> Self {
        Self {
            file,
            tokens,
            side,
            words: long_words(&tokenizer),
            // Without a pre-tokenizer a text is one word, and these decide locally in that.
            can_cut: tokenizer.get_pre_tokenizer().is_some()
                || matches!(
                    tokenizer.get_model(),
                    ModelWrapper::BPE(_) | ModelWrapper::Unigram(_)
                ),
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
            && let LongWords::Unknown { limit, .. } = self.words
        {
            squeezed = Some(squeeze(text, limit + 1));
        }
        let text = squeezed.as_deref().unwrap_or(text);
        let enough = self.tokens.saturating_add(MARGIN);
        let mut bytes = WHOLE_BYTES.max(self.tokens.saturating_mul(8));
        loop {
            let part = if self.can_cut {
                self.part(text, bytes)
            } else {
                text
            };
            let _inside =
                (part.len() > WHOLE_BYTES).then(|| self.room.enter(part.len() * self.needs));
            let encoding =
                catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast(part, false)))
                    .unwrap_or_else(|panic| Err(panic_message(&*panic).into()))
                    .map_err(|error| {
                        Error::model(
                            self.file.display(),
                            format!("fails on a text of {} bytes: {error}", part.len()),
                        )
                    })?;
            if part.len() == text.len() || encoding.get_ids().len() >= enough {
                return Ok(encoding);
            }
            bytes = bytes.saturating_mul(2);
        }
    }

    /// About `bytes` of `text` from the side that is kept, cut where it changes few tokens; all of it
    /// where there is no such place.
    fn part<'a>(&self, text: &'a str, bytes: usize) -> &'a str {
        if text.len() <= bytes {
            return text;
        }
        // A part ends before whitespace, or starts with it: tokenizers attach it to the word behind.
        match self.side {
            Side::Right => {
                let end = text.floor_char_boundary(bytes);
                let near = text[..end]
                    .char_indices()
                    .rev()
                    .take_while(|(at, _)| *at > bytes / 2);
                match near.into_iter().find(|(_, c)| self.ends_word(*c)) {
                    Some((at, _)) => &text[..at],
                    None if self.words == LongWords::Local => &text[..end],
                    None => text[end..]
                        .find(|c| self.ends_word(c))
                        .map_or(text, |at| &text[..end + at]),
                }
            }
            Side::Left => {
                let start = text.ceil_char_boundary(text.len() - bytes);
                let near = text[start..]
                    .char_indices()
                    .take_while(|(at, _)| *at < bytes / 2);
                match near.into_iter().find(|(_, c)| self.ends_word(*c)) {
                    Some((at, _)) => &text[start + at..],
                    None if self.words == LongWords::Local => &text[start..],
                    None => text[..start]
                        .rfind(|c| self.ends_word(c))
                        .map_or(text, |at| &text[at..]),
                }
            }
        }
    }

    /// Whether a text can be cut before this character without cutting a word.
    fn ends_word(&self, c: char) -> bool {
        let bert = match self.words {
            LongWords::Unknown { ideographs, .. } => {
                c.is_ascii_punctuation() || (ideographs && is_ideograph(c))
            }
            LongWords::Whole | LongWords::Local => false,
        };
        bert || matches!(c, ' ' | '\n' | '\t' | '\r')
    }
}

/// Ideographs of the blocks that BERT's normalizer surrounds with spaces, the common ones.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2a6df}')
}

fn long_words(tokenizer: &Tokenizer) -> LongWords {
    let bert_splits = matches!(
        tokenizer.get_pre_tokenizer(),
        Some(PreTokenizerWrapper::BertPreTokenizer(_))
    ) && matches!(
        tokenizer.get_normalizer(),
        None | Some(NormalizerWrapper::BertNormalizer(_))
    );
    match tokenizer.get_model() {
        // An added token inside a long word would be found there, so there must be none that could be.
        ModelWrapper::WordPiece(model)
            if bert_splits
                && !tokenizer.get_added_tokens_decoder().values().any(|token| {
                    token
                        .content
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric())
                }) =>
        {
            LongWords::Unknown {
                limit: model.max_input_chars_per_word,
                ideographs: match tokenizer.get_normalizer() {
                    Some(NormalizerWrapper::BertNormalizer(bert)) => bert.handle_chinese_chars,
                    _ => false,
                },
            }
        }
        ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => LongWords::Local,
        _ => LongWords::Whole,
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
}
