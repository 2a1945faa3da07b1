//! Texts that are longer than the limit reaches, for the tokenizers crate.
//!
//! The crate needs some sixty bytes of memory for each byte of text, and more than twice that where no pre-tokenizer
//! cuts it into words. So a long text is tokenized only as far as the limit needs, and the bytes in work over all
//! threads are bounded. A text is cut at a joint ([`CutPoints`]), so that a part has the same tokens as that range of the
//! whole text; a text without a joint is tokenized whole.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Encoding, OffsetType, Tokenizer};

use super::joints::CutPoints;
use super::share;
use crate::Side;
use crate::bounded::BoundedSteps;
use crate::budget::TextBudget;
use embedctl_common::error::Cause;
use embedctl_common::threads::locked;

/// Texts up to this many bytes are tokenized whole.
const WHOLE_BYTES: usize = 16 * 1024;

/// The tokenizers crate, given no more of a text than the limit needs.
#[derive(Debug)]
pub(super) struct LongTexts {
    pub(super) tokenizer: Arc<Tokenizer>,
    steps: Arc<BoundedSteps>,
    /// Its file, for messages.
    pub(super) file: PathBuf,
    /// Tokens of a text at most, special ones not counted.
    tokens: usize,
    side: Side,
    /// Found for the first text that asks.
    joints: OnceLock<CutPoints>,
    /// `WordPiece` behind BERT's normalizer and pre-tokenizer: a word beyond this many characters is one
    /// unknown token, however long it is.
    longest_word: Option<usize>,
    /// How much more memory a byte of text takes than it does with a pre-tokenizer.
    needs: usize,
    room: LongTextRoom,
}

/// Bytes of long texts that are at the crate at a time, over all threads: memory must not grow with the
/// number of cores.
const ROOM: usize = 4 << 20;

/// Bytes of long texts in work.
#[derive(Debug, Default)]
struct LongTextRoom {
    taken: Mutex<usize>,
    left: Condvar,
}

impl LongTextRoom {
    /// Waits until there is room for `bytes`, or no other text is in work.
    fn enter(&self, bytes: usize) -> RoomGuard<'_> {
        let taken = locked(&self.taken);
        let full = |taken: &mut usize| *taken > 0 && *taken + bytes > ROOM;
        let taken = self.left.wait_while(taken, full);
        *taken.unwrap_or_else(PoisonError::into_inner) += bytes;
        RoomGuard { room: self, bytes }
    }
}

/// Leaves when dropped.
struct RoomGuard<'a> {
    room: &'a LongTextRoom,
    bytes: usize,
}

impl Drop for RoomGuard<'_> {
    fn drop(&mut self) {
        *locked(&self.room.taken) -= self.bytes;
        self.room.left.notify_all();
    }
}

impl LongTexts {
    /// For `tokenizer`, where `tokens` of a text are kept on its `side`.
    pub(super) fn new(
        tokenizer: Arc<Tokenizer>,
        steps: Arc<BoundedSteps>,
        file: PathBuf,
        tokens: usize,
        side: Side,
    ) -> Self {
        Self {
            steps,
            file,
            tokens,
            side,
            joints: OnceLock::new(),
            longest_word: longest_word(&tokenizer),
            needs: if tokenizer.get_pre_tokenizer().is_some() {
                1
            } else {
                3
            },
            room: LongTextRoom::default(),
            tokenizer,
        }
    }

    /// Reads texts to their end from now on.
    pub(super) fn read_all(&mut self) {
        self.tokens = usize::MAX;
    }

    /// Tokens of `text` without special tokens: all of them, or enough to fill the limit and to show that
    /// there are more, and more than `beyond`. With the share of its bytes that they come from.
    ///
    /// # Errors
    /// If the crate fails on the text, or panics.
    pub(super) fn encode(&self, text: &str, beyond: usize) -> Result<(Encoding, f64), Cause> {
        let tokens = self.tokens.max(beyond);
        let mut squeezed = None;
        if text.len() > WHOLE_BYTES
            && let Some(limit) = self.longest_word
        {
            squeezed = Some(squeeze(text, limit + 1));
        }
        let text = squeezed.as_deref().unwrap_or(text);
        let mut bytes = WHOLE_BYTES.max(tokens.saturating_mul(8));
        loop {
            let part = &text[self.part(text, bytes)];
            let _inside =
                (part.len() > WHOLE_BYTES).then(|| self.room.enter(part.len() * self.needs));
            let encoding = self.guarded(part, OffsetType::None)?;
            if part.len() == text.len() || encoding.get_ids().len() > tokens {
                return Ok((encoding, share(part.len(), text.len())));
            }
            bytes = bytes.saturating_mul(2);
        }
    }

    /// All tokens of `text` without special tokens, with their places in it, in code points.
    ///
    /// # Errors
    /// As [`LongTexts::encode`].
    pub(super) fn with_places(&self, text: &str) -> Result<Encoding, Cause> {
        let is_long = text.len() > WHOLE_BYTES;
        let _inside = is_long.then(|| self.room.enter(text.len() * self.needs));
        self.guarded(text, OffsetType::Char)
    }

    /// Where the tokens of `text` end, in bytes. A text longer than [`WHOLE_BYTES`] is cut for that; near the cuts the
    /// ends may differ from those of the whole text.
    ///
    /// # Errors
    /// As [`LongTexts::encode`].
    pub(super) fn ends(&self, text: &str) -> Result<Vec<usize>, Cause> {
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
            let encoding = self.guarded(part, OffsetType::Byte)?;
            ends.extend(encoding.get_offsets().iter().map(|(_, end)| from + end));
            from += part.len();
        }
        Ok(ends)
    }

    fn guarded(&self, text: &str, places: OffsetType) -> Result<Encoding, Cause> {
        let budget = TextBudget::of(text.len());
        let encoded = (self.steps).encode(&self.tokenizer, text, places, &budget);
        encoded.map_err(|error| {
            Cause::of(format!(
                "the tokenizer ({}) fails on this text: {error}",
                self.file.display()
            ))
            .with("change the text, or leave it out")
        })
    }

    /// About `bytes` of `text` from the side that is kept, cut at a joint; all of it where there is none.
    fn part(&self, text: &str, bytes: usize) -> Range<usize> {
        if text.len() <= bytes {
            return 0..text.len();
        }
        let joints = self
            .joints
            .get_or_init(|| CutPoints::of(&self.tokenizer, &self.steps, self.side));
        if !(joints.space || joints.newline) {
            return 0..text.len();
        }
        match self.side {
            Side::Right => {
                let from = text.ceil_char_boundary(bytes);
                let joint = joints.first(&self.steps, text, from);
                0..joint.unwrap_or(text.len())
            }
            Side::Left => {
                let until = text.floor_char_boundary(text.len() - bytes);
                let joint = joints.last(&self.steps, text, until);
                joint.unwrap_or(0)..text.len()
            }
        }
    }
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
        let room = LongTextRoom::default();
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
