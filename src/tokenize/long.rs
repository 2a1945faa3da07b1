//! Texts that are longer than the limit reaches, for the tokenizers crate.
//!
//! The crate needs some sixty bytes of memory for each byte of text, so a long text is tokenized only as
//! far as the limit needs, and a very long word is shortened where its tokens don't depend on its end.

use std::sync::Arc;

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Encoding, Tokenizer};

use crate::error::{Error, Result};
use crate::model::Side;

/// Texts up to this many bytes are tokenized whole.
const WHOLE_BYTES: usize = 16 * 1024;

/// Tokens beyond the limit that a part of a text must give before its first tokens are taken for the
/// whole text's: a cut changes tokens near it, not this far away.
const MARGIN: usize = 64;

/// The tokenizers crate, given no more of a text than the limit needs.
#[derive(Debug)]
pub(super) struct LongTexts {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Tokens of a text at most, special ones not counted.
    tokens: usize,
    side: Side,
    words: LongWords,
    can_cut: bool,
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
    pub(super) fn new(tokenizer: Arc<Tokenizer>, tokens: usize, side: Side) -> Self {
        Self {
            tokens,
            side,
            words: long_words(&tokenizer),
            can_cut: tokenizer.get_pre_tokenizer().is_some(),
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
            let encoding = self
                .tokenizer
                .encode_fast(part, false)
                .map_err(|error| Error::internal(format!("the tokenizer failed: {error}")))?;
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
    fn squeezing_touches_nothing_but_long_runs() {
        assert_eq!(
            squeeze("aaaaaa bb\u{e9}cccc-ddddd", 4),
            "aaaa bb\u{e9}cccc-dddd"
        );
        assert_eq!(squeeze("", 4), "");
        assert_eq!(squeeze("abc", 4), "abc");
    }
}
