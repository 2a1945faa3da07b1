//! `WordPiece` behind BERT's normalizer and pre-tokenizer, in one pass over the text.
//!
//! The tokenizers crate keeps the origin of every byte, which is not needed here. Without that, and without a string
//! per word, the same ids cost less than a tenth of the time. Both give the same result: the treatment of each
//! character is learnt from the crate (`characters`), and a text that needs more is left to the crate.

mod characters;
#[cfg(test)]
#[path = "bert_tests.rs"]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use tokenizers::models::ModelWrapper;
use tokenizers::{Model as _, Tokenizer};

use self::characters::{Ascii, CharacterClass, Characters};

/// A tokenizer of BERT's kind.
pub(super) struct Bert {
    characters: Characters,
    whole: Pieces,
    continuing: Pieces,
    unknown: u32,
    /// A word of more characters is unknown.
    most_chars: usize,
}

/// Working memory, kept from text to text.
#[derive(Default)]
pub(super) struct BertScratch {
    word: Vec<u8>,
    /// Characters of the word, those beyond the limit counted though not kept.
    chars: usize,
    /// The text's ids.
    pub(super) ids: Vec<u32>,
}

/// Entries of the vocabulary: all of them (for a word's start), or only the ones that continue a word.
#[derive(Default)]
struct Pieces {
    ids: HashMap<Box<[u8]>, u32, ahash::RandomState>,
    longest: usize,
}

impl Pieces {
    fn insert(&mut self, piece: &str, id: u32) {
        self.longest = self.longest.max(piece.len());
        self.ids.insert(piece.as_bytes().into(), id);
    }

    /// The longest entry that `text` starts with: its length and id.
    #[inline(always)] // the inner loop of all
    fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        // A length that ends within a character finds nothing: entries are whole characters.
        let mut length = self.longest.min(text.len());
        while length > 0 {
            if let Some(&id) = self.ids.get(&text[..length]) {
                return Some((length, id));
            }
            length -= 1;
        }
        None
    }
}

impl std::fmt::Debug for Bert {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Bert")
            .field("vocabulary", &self.whole.ids.len())
            .finish_non_exhaustive()
    }
}

impl Bert {
    /// The fast way for `tokenizer`, if it is of that kind.
    pub(super) fn new(tokenizer: &Arc<Tokenizer>) -> Option<Self> {
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else {
            return None;
        };
        let mut bert = Self {
            characters: Characters::new(tokenizer)?,
            unknown: model.token_to_id(&model.unk_token)?,
            most_chars: model.max_input_chars_per_word,
            whole: Pieces::default(),
            continuing: Pieces::default(),
        };
        bert.whole.ids.reserve(model.get_vocab_size());
        for (entry, id) in model.get_vocab() {
            bert.whole.insert(&entry, id);
            if let Some(continuing) = entry.strip_prefix(&model.continuing_subword_prefix) {
                bert.continuing.insert(continuing, id);
            }
        }
        Some(bert)
    }

    /// Puts the ids of `text` into `scratch.ids`, special tokens not added: all of them, or the first
    /// `most` and at least one more. The bytes of the text that they come from; `None` where this text is beyond the
    /// fast way.
    pub(super) fn encode(
        &self,
        text: &str,
        most: usize,
        scratch: &mut BertScratch,
    ) -> Option<usize> {
        scratch.ids.clear();
        scratch.word.clear();
        scratch.chars = 0;
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.characters.ascii(byte) {
                Ascii::Letter(letter) => {
                    self.letter(&[letter], scratch);
                    at += 1;
                    continue;
                }
                Ascii::Nothing => {
                    at += 1;
                    continue;
                }
                Ascii::Break => {
                    self.end_word(scratch);
                    at += 1;
                }
                Ascii::Alone(letter) => {
                    self.end_word(scratch);
                    self.letter(&[letter], scratch);
                    self.end_word(scratch);
                    at += 1;
                }
                Ascii::Other => {
                    let (pieces, length) = self.characters.first(&text[at..])?;
                    at += length;
                    for piece in pieces {
                        if piece.class != CharacterClass::Letter {
                            self.end_word(scratch);
                        }
                        if piece.class != CharacterClass::Break {
                            self.letter(piece.bytes(), scratch);
                        }
                        if piece.class == CharacterClass::Alone {
                            self.end_word(scratch);
                        }
                    }
                }
            }
            if scratch.ids.len() > most {
                return Some(at);
            }
        }
        self.end_word(scratch);
        Some(at)
    }

    fn letter(&self, bytes: &[u8], scratch: &mut BertScratch) {
        if scratch.chars < self.most_chars {
            scratch.word.extend_from_slice(bytes);
        }
        scratch.chars += 1;
    }

    fn end_word(&self, scratch: &mut BertScratch) {
        if scratch.chars == 0 {
            return;
        }
        if scratch.chars > self.most_chars {
            scratch.ids.push(self.unknown);
        } else {
            self.word(&scratch.word, &mut scratch.ids);
        }
        scratch.word.clear();
        scratch.chars = 0;
    }

    /// The longest entry first, then the longest that continues, and so on; unknown as a whole where
    /// that leads nowhere.
    fn word(&self, word: &[u8], ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut pieces = &self.whole;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((length, id)) = pieces.longest(rest) else {
                ids.truncate(before);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[length..];
            pieces = &self.continuing;
        }
    }
}
