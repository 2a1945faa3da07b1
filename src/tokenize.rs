//! From text to token ids: the model's own tokenizer, limit and prompt, in parallel.
//!
//! Special tokens are added and long texts are cut here and not by the tokenizers crate, which would
//! build every overflowing part of a long text only to drop it. Long texts are tokenized only as far as
//! the limit reaches: the tokenizer needs some sixty bytes of memory for each byte of text.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{Encoding, Tokenizer};

use crate::batch::TokenRows;
use crate::error::{Error, Result};
use crate::model::{Model, Side};
use crate::record::Texts;
use crate::stage::Clock;

/// Rows a thread takes at a time.
const CHUNK: usize = 256;

/// Texts up to this many bytes are tokenized whole.
const WHOLE_BYTES: usize = 16 * 1024;

/// Tokens beyond the limit that a part of a text must give before its first tokens are taken for the
/// whole text's: a cut changes tokens near it, not this far away.
const MARGIN: usize = 64;

/// A model's tokenizer, ready for its limit and prompt.
#[derive(Debug)]
pub struct TextTokenizer {
    tokenizer: Arc<Tokenizer>,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    text_tokens: usize,
    side: Side,
    prompt: String,
    prompt_tokens: usize,
    long_words: LongWords,
    can_cut: bool,
    pool: rayon::ThreadPool,
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

impl TextTokenizer {
    /// Prepares the tokenizer of `model`; `threads` bounds the parallelism.
    ///
    /// # Errors
    /// If the tokenizer's post-processor does something else than adding tokens at the ends.
    pub fn new(model: &Model, threads: usize) -> Result<Self> {
        let tokenizer = Arc::clone(&model.tokenizer);
        let (prefix, suffix) = special_tokens(&tokenizer).map_err(|reason| {
            Error::model(model.transformer.join("tokenizer.json").display(), reason)
        })?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("tokenize-{index}"))
            .build()
            .map_err(|error| Error::Internal(format!("starting tokenizer threads: {error}")))?;
        let mut prepared = Self {
            text_tokens: model
                .config
                .max_length
                .saturating_sub(prefix.len() + suffix.len()),
            side: model.config.truncation_side,
            prompt: String::new(),
            prompt_tokens: 0,
            long_words: long_words(&tokenizer),
            can_cut: tokenizer.get_pre_tokenizer().is_some(),
            tokenizer,
            prefix,
            suffix,
            pool,
        };
        if !model.config.prompt.is_empty() {
            let mut rows = TokenRows::default();
            prepared.push(&model.config.prompt, &mut rows)?;
            let ids = rows.get(0);
            let ends_special = ids
                .last()
                .is_some_and(|id| model.config.special_ids.contains(id));
            prepared.prompt_tokens = ids.len() - usize::from(ends_special);
            prepared.prompt.clone_from(&model.config.prompt);
        }
        Ok(prepared)
    }

    /// How many leading tokens of every row belong to the prompt (leading special tokens counted).
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Tokenizes all texts in order.
    ///
    /// # Errors
    /// If the tokenizer fails on a text.
    pub fn tokenize(&self, texts: &Texts) -> Result<TokenRows> {
        self.tokenize_timed(texts, &Clock::default())
    }

    /// As [`TextTokenizer::tokenize`]; adds the processor time of its threads to `clock`.
    pub(crate) fn tokenize_timed(&self, texts: &Texts, clock: &Clock) -> Result<TokenRows> {
        let parts: Vec<TokenRows> = self.pool.install(|| {
            (0..texts.len().div_ceil(CHUNK))
                .into_par_iter()
                .map(|chunk| {
                    let rows = chunk * CHUNK..((chunk + 1) * CHUNK).min(texts.len());
                    clock.time_part(|| self.chunk(texts, rows))
                })
                .collect::<Result<_>>()
        })?;
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.append(&part));
        Ok(all)
    }

    fn chunk(&self, texts: &Texts, indices: Range<usize>) -> Result<TokenRows> {
        let mut rows = TokenRows::default();
        for index in indices {
            self.push(texts.get(index), &mut rows)?;
        }
        Ok(rows)
    }

    fn push(&self, text: &str, rows: &mut TokenRows) -> Result<()> {
        let with_prompt;
        let text = if self.prompt.is_empty() {
            text
        } else {
            with_prompt = format!("{}{text}", self.prompt);
            &with_prompt
        };
        let encoding = self.encode(text)?;
        let ids = encoding.get_ids();
        let kept = ids.len().min(self.text_tokens);
        let cut = match self.side {
            Side::Right => &ids[..kept],
            Side::Left => &ids[ids.len() - kept..],
        };
        let row = self.prefix.iter().chain(cut).chain(&self.suffix).copied();
        rows.push(row, ids.len() > self.text_tokens);
        Ok(())
    }

    /// Tokens of `text` without special tokens: all of them, or enough to fill the limit and to show that
    /// there are more.
    fn encode(&self, text: &str) -> Result<Encoding> {
        let mut squeezed = None;
        if text.len() > WHOLE_BYTES
            && let LongWords::Unknown { limit, .. } = self.long_words
        {
            squeezed = Some(squeeze(text, limit + 1));
        }
        let text = squeezed.as_deref().unwrap_or(text);
        let enough = self.text_tokens.saturating_add(MARGIN);
        let mut bytes = WHOLE_BYTES.max(self.text_tokens.saturating_mul(8));
        loop {
            let part = if self.can_cut {
                self.part(text, bytes)
            } else {
                text
            };
            let encoding = self
                .tokenizer
                .encode_fast(part, false)
                .map_err(|error| Error::Internal(format!("the tokenizer failed: {error}")))?;
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
                    None if self.long_words == LongWords::Local => &text[..end],
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
                    None if self.long_words == LongWords::Local => &text[start..],
                    None => text[..start]
                        .rfind(|c| self.ends_word(c))
                        .map_or(text, |at| &text[at..]),
                }
            }
        }
    }

    /// Whether a text can be cut before this character without cutting a word.
    fn ends_word(&self, c: char) -> bool {
        let bert = match self.long_words {
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

/// The ids that the post-processor puts before and after a single text.
fn special_tokens(tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>), String> {
    let failed = |error| format!("the tokenizer fails on the text 'a': {error}");
    let bare = tokenizer.encode_fast("a", false).map_err(failed)?;
    let whole = tokenizer
        .post_process(bare.clone(), None, true)
        .map_err(failed)?;
    let (bare, whole, mask) = (
        bare.get_ids(),
        whole.get_ids(),
        whole.get_special_tokens_mask(),
    );
    let added = whole.len().saturating_sub(bare.len());
    let before = mask
        .iter()
        .take(added)
        .take_while(|&&special| special == 1)
        .count();
    if whole.get(before..before + bare.len()) == Some(bare) {
        Ok((
            whole[..before].to_vec(),
            whole[before + bare.len()..].to_vec(),
        ))
    } else {
        Err("has a post-processor that does more than adding tokens at the ends of a text, which embedctl does not do".into())
    }
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
    use crate::model::ModelOptions;

    #[test]
    fn squeezing_touches_nothing_but_long_runs() {
        assert_eq!(
            squeeze("aaaaaa bb\u{e9}cccc-ddddd", 4),
            "aaaa bb\u{e9}cccc-dddd"
        );
        assert_eq!(squeeze("", 4), "");
        assert_eq!(squeeze("abc", 4), "abc");
    }

    fn prepared(case: &str) -> TextTokenizer {
        let options = ModelOptions {
            model: format!("fixtures/parity/{case}/model"),
            ..ModelOptions::default()
        };
        TextTokenizer::new(&Model::open(&options).unwrap(), 1).unwrap()
    }

    /// Long texts of every awkward kind: with and without spaces, one huge word, many scripts.
    fn long_texts() -> Vec<String> {
        let words = "The quick brown fox; jumps over 12 lazy dogs. Éléphant naïve \u{1f642} 東京 ";
        vec![
            words.repeat(1000),
            words.replace(' ', "\n").repeat(1000),
            words.replace(' ', "").repeat(1000),
            "x".repeat(100_000),
            format!(
                "start {} middle {} end",
                "y".repeat(70_000),
                "z1".repeat(40_000)
            ),
            "- ".repeat(60_000),
            format!("{}tail of the text", " ".repeat(90_000)),
            "東京タワー".repeat(8_000),
            "東京".repeat(30_000),
            "a,b.".repeat(20_000),
        ]
    }

    #[test]
    fn long_texts_give_the_ids_that_tokenizing_them_whole_gives() {
        // WordPiece, byte-level BPE, Unigram, and a tokenizer that cuts on the left.
        for case in [
            "bert-cls",
            "roberta-mean",
            "e5-prompts",
            "qwen3-lasttoken",
            "tok-truncation-left",
        ] {
            let tokenizer = prepared(case);
            for (index, text) in long_texts().iter().enumerate() {
                let mut rows = TokenRows::default();
                tokenizer.push(text, &mut rows).unwrap();
                let whole = tokenizer
                    .tokenizer
                    .encode_fast(format!("{}{text}", tokenizer.prompt), false)
                    .unwrap();
                let ids = whole.get_ids();
                let kept = ids.len().min(tokenizer.text_tokens);
                let cut = match tokenizer.side {
                    Side::Right => &ids[..kept],
                    Side::Left => &ids[ids.len() - kept..],
                };
                let expected: Vec<u32> = tokenizer
                    .prefix
                    .iter()
                    .chain(cut)
                    .chain(&tokenizer.suffix)
                    .copied()
                    .collect();
                assert_eq!(rows.get(0), expected, "{case}, text {index}");
                assert_eq!(
                    rows.truncated() == 1,
                    ids.len() > tokenizer.text_tokens,
                    "{case}, text {index}"
                );
            }
        }
    }

    #[test]
    fn special_tokens_are_those_of_the_template() {
        let bert = prepared("bert-cls");
        assert_eq!((bert.prefix.len(), bert.suffix.len()), (1, 1));
        let qwen = prepared("qwen3-lasttoken");
        assert_eq!(qwen.prefix.len(), 0);
        let bare = prepared("tok-no-special-tokens");
        assert_eq!((bare.prefix.len(), bare.suffix.len()), (0, 0));
    }

    #[test]
    fn tokenizing_keeps_order_across_chunks() {
        let tokenizer = prepared("bert-cls");
        let texts: Texts = (0..2 * CHUNK + 3)
            .map(|index| "a ".repeat(index % 50))
            .collect();
        let rows = tokenizer.tokenize(&texts).unwrap();
        assert_eq!(rows.len(), texts.len());
        for index in 0..rows.len() {
            assert_eq!(rows.get(index).len(), 2 + index % 50);
        }
    }
}
