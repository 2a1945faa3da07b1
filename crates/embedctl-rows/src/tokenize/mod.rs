//! From text to token ids: the model's own tokenizer, limit and prompt, in parallel.
//!
//! Special tokens are added and long texts are cut here and not by the tokenizers crate, which would build every
//! overflowing part of a long text only to drop it. Tokenizers of BERT's kind have a path of their own (`bert`), ten
//! times as fast. All others, and the few texts that this path cannot handle, go to the crate (`long`).

mod bert;
mod chat;
pub mod chunks;
mod encoder;
#[cfg(test)]
mod expression_tests;
#[cfg(test)]
mod fixture_tests;
mod ids;
mod joints;
mod locality;
mod long;
mod pairs;
mod prepared;
mod template;

use std::borrow::Cow;
use std::ops::Range;

use self::bert::BertScratch;
use self::encoder::TextEncoder;
use self::ids::{TextIds, share};
use self::template::RowTemplate;
use crate::Side;
use crate::batch::TokenRows;
use embedctl_common::Texts;
use embedctl_common::error::Cause;
use embedctl_common::stage::Clock;
use rayon::prelude::*;

/// Rows a thread takes at a time, at most and at least.
const CHUNK: usize = 256;
const LEAST_CHUNK: usize = 16;

/// Chunks for each thread at least, where there are rows enough: rows differ in length.
const CHUNKS_PER_THREAD: usize = 4;

/// Bytes of texts for which the way to another thread takes longer than their tokens.
const FEW_BYTES: usize = 16 << 10;

/// A model's tokenizer, ready for its limit and prompt.
#[derive(Debug)]
pub struct TextTokenizer {
    encoder: TextEncoder,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    /// Where a row is more than a text behind a prompt.
    template: Option<RowTemplate>,
    text_tokens: usize,
    side: Side,
    dropped: Option<u32>,
    most_characters: Option<usize>,
    /// Whether texts are read to their end, however little of them is kept.
    reads_all: bool,
    /// Whether chunks share the row of their text.
    late: bool,
    prompt: String,
    prompt_tokens: usize,
    /// Tokens of the prompt alone, special ones not counted.
    prompt_ids: usize,
    pool: rayon::ThreadPool,
}

impl TextTokenizer {
    /// The same tokenizer, reading texts to their end, so that [`TokenRows::lost`] is a count and not an estimate.
    #[must_use]
    pub fn reading_all(mut self) -> Self {
        self.reads_all = true;
        self.encoder.any.read_all();
        self
    }

    /// How many tokens of a text have to be read, where `most` are kept.
    fn needed(&self, most: usize) -> usize {
        match self.side {
            Side::Right if !self.reads_all => most,
            Side::Right | Side::Left => usize::MAX,
        }
    }

    /// How many leading tokens of every row belong to the prompt (leading special tokens counted).
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Tokenizes all texts in order. A text that the tokenizer fails on is a refused row.
    #[must_use]
    pub fn tokenize(&self, texts: &Texts) -> TokenRows {
        self.tokenize_behind(&self.prompt, texts)
    }

    /// As [`TextTokenizer::tokenize`], behind another prompt than the model's, unless the model takes pairs or chats. Few
    /// short texts are tokenized on the calling thread.
    #[must_use]
    pub fn tokenize_behind(&self, prompt: &str, texts: &Texts) -> TokenRows {
        let (count, clock) = (texts.len(), Clock::default());
        if self.template.is_some() {
            return self.each(count, &|index| texts.get(index), &clock);
        }
        let push = |index, scratch: &mut BertScratch, rows: &mut TokenRows| {
            self.push_text(prompt, texts.get(index), scratch, rows)
        };
        match count <= CHUNK && texts.bytes() <= FEW_BYTES {
            true => rows_of(0..count, &push),
            false => self.in_chunks(count, &clock, &push),
        }
    }

    /// The row of a text that was tokenized elsewhere, without special tokens.
    ///
    /// # Errors
    /// If there are special tokens already, or the model has a prompt, which is text.
    pub fn frame_ids(&self, ids: &[u32], rows: &mut TokenRows) -> Result<(), Cause> {
        let (prefix, suffix) = (&self.prefix, &self.suffix);
        let begins = !prefix.is_empty() && ids.starts_with(prefix);
        let ends = !suffix.is_empty() && ids.ends_with(suffix);
        if begins || ends {
            return Err(
                Cause::of("the token ids have the model's special tokens already")
                    .with("leave them out; they are added"),
            );
        }
        if !self.prompt.is_empty() {
            return Err(
                Cause::of("token ids cannot be put behind the model's prompt")
                    .with("send the text"),
            );
        }
        self.frame(TextIds::whole(ids), rows);
        Ok(())
    }

    /// As [`TextTokenizer::tokenize`], for `count` texts by their index; adds the processor time of its
    /// threads to `clock`.
    pub fn tokenize_each<'a>(
        &self,
        count: usize,
        text: impl Fn(usize) -> &'a str + Sync,
        clock: &Clock,
    ) -> TokenRows {
        self.each(count, &text, clock)
    }

    fn each<'a>(
        &self,
        count: usize,
        text: &(dyn Fn(usize) -> &'a str + Sync),
        clock: &Clock,
    ) -> TokenRows {
        if let Some(template) = &self.template {
            return template.rows(self, count, text, clock);
        }
        self.in_chunks(count, clock, &|index, scratch, rows| {
            self.push_text(&self.prompt, text(index), scratch, rows)
        })
    }

    /// The rows that `push` makes of `count` texts, by their index, in parallel. It is no type parameter, because each closure
    /// would bring its own copy of what the threads do.
    fn in_chunks(
        &self,
        count: usize,
        clock: &Clock,
        push: &(dyn Fn(usize, &mut BertScratch, &mut TokenRows) -> Result<(), Cause> + Sync),
    ) -> TokenRows {
        let rows = rows_per_chunk(count, self.pool.current_num_threads());
        let chunk = |chunk: usize| {
            let indices = chunk * rows..((chunk + 1) * rows).min(count);
            rows_of(indices, push)
        };
        let parts: Vec<TokenRows> = self.pool.install(|| {
            (0..count.div_ceil(rows))
                .into_par_iter()
                .map(|index| clock.time_part(|| chunk(index)))
                .collect()
        });
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.append(&part));
        all
    }

    /// Appends the row of `text` behind `prompt`, or fails without one.
    fn push_text(
        &self,
        prompt: &str,
        text: &str,
        scratch: &mut BertScratch,
        rows: &mut TokenRows,
    ) -> Result<(), Cause> {
        let text = prompted(prompt, text);
        let end = self
            .most_characters
            .and_then(|most| text.char_indices().nth(most));
        let part = end.map_or(&*text, |(end, _)| &text[..end]);
        let mut ids = self.encode(part, self.needed(self.text_tokens), scratch)?;
        ids.share *= share(part.len(), text.len());
        self.frame(ids, rows);
        Ok(())
    }

    /// `text` behind the prompt.
    fn prompted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        prompted(&self.prompt, text)
    }

    /// The token ids of `text`, special ones not added: all of them, or more than `most`.
    fn encode<'s>(
        &self,
        text: &str,
        most: usize,
        scratch: &'s mut BertScratch,
    ) -> Result<TextIds<'s>, Cause> {
        self.encoder.encode(text, most, 0, scratch)
    }

    /// Appends a row of these tokens with special ones around them, cut at the limit.
    fn frame(&self, text: TextIds<'_>, rows: &mut TokenRows) {
        let (ids, lost) = text.cut(self.text_tokens, self.side);
        let row = self.prefix.iter().chain(ids).chain(&self.suffix).copied();
        let kept = row.filter(|&id| Some(id) != self.dropped);
        rows.push(kept, lost);
    }
}

/// How many of `count` rows a thread takes at a time, of so many threads: few where threads are many, so that a window
/// of some thousand rows has work for all of them.
fn rows_per_chunk(count: usize, threads: usize) -> usize {
    let chunks = threads.saturating_mul(CHUNKS_PER_THREAD).max(1);
    count.div_ceil(chunks).clamp(LEAST_CHUNK, CHUNK)
}

/// The rows that `push` makes of texts, by their index.
fn rows_of(
    indices: Range<usize>,
    push: &dyn Fn(usize, &mut BertScratch, &mut TokenRows) -> Result<(), Cause>,
) -> TokenRows {
    let (mut rows, mut scratch) = (TokenRows::default(), BertScratch::default());
    for index in indices {
        if let Err(cause) = push(index, &mut scratch, &mut rows) {
            rows.push_refused(cause);
        }
    }
    rows
}

/// `text` behind `prompt`.
fn prompted<'t>(prompt: &str, text: &'t str) -> Cow<'t, str> {
    match prompt {
        "" => Cow::Borrowed(text),
        prompt => Cow::Owned(format!("{prompt}{text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::fixture_tests::TokenizerFixture;
    use super::*;
    use embedctl_testing::stride;

    fn prepared(case: &str) -> TextTokenizer {
        prepared_for(case, 1)
    }

    fn prepared_for(case: &str, threads: usize) -> TextTokenizer {
        TokenizerFixture::of_parity(case).prepared(threads)
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
        let cases = [
            "bert-cls",
            "roberta-mean",
            "e5-prompts",
            "qwen3-lasttoken",
            "tok-truncation-left",
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let mut tokenizer = prepared(case);
            let texts = long_texts().into_iter().skip(number % stride(2));
            let texts: Texts = texts.step_by(stride(2)).collect();
            let rows = tokenizer.tokenize(&texts);
            // Those of BERT's kind must go both ways.
            tokenizer.encoder.bert = None;
            let by_crate = tokenizer.tokenize(&texts);
            for (index, text) in texts.iter().enumerate() {
                let whole = tokenizer
                    .encoder
                    .any
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
                for rows in [&rows, &by_crate] {
                    assert_eq!(rows.get(index), expected, "{case}, text {index}");
                    let truncated = ids.len() > tokenizer.text_tokens;
                    assert_eq!(rows.is_truncated(index), truncated, "{case}, text {index}");
                }
            }
        }
    }

    #[test]
    fn without_a_pre_tokenizer_no_more_of_a_text_is_read_than_the_limit_needs() {
        let tokenizer = prepared("family-gemma3-bidirectional");
        let crate_own = &tokenizer.encoder.any.tokenizer;
        assert!(crate_own.get_pre_tokenizer().is_none());
        for text in long_texts() {
            let (part, _) = tokenizer.encoder.any.encode(&text, 0).unwrap();
            let whole = crate_own.encode(text.as_str(), false).unwrap();
            let kept = whole.len().min(tokenizer.text_tokens);
            assert_eq!(part.get_ids()[..kept], whole.get_ids()[..kept]);
            // Without white space between letters there is no place that the tokenizer cannot join.
            if text.contains("quick brown") {
                assert!(
                    part.len() < whole.len(),
                    "{} tokens of {}",
                    part.len(),
                    whole.len()
                );
            }
        }
    }

    #[test]
    fn tokenizing_keeps_order_across_chunks() {
        for threads in [1, 3, 64] {
            let tokenizer = prepared_for("bert-cls", threads);
            // One row more than whole chunks of the largest and of the smallest size.
            for count in [2 * CHUNK + 1, 64 * CHUNKS_PER_THREAD * LEAST_CHUNK + 1] {
                let texts: Texts = (0..count).map(|index| "a ".repeat(index % 50)).collect();
                let rows = tokenizer.tokenize(&texts);
                assert_eq!(rows.len(), texts.len());
                for index in 0..rows.len() {
                    assert_eq!(rows.get(index).len(), 2 + index % 50, "{threads} threads");
                }
            }
        }
    }

    #[test]
    fn a_window_has_work_for_every_thread() {
        const WINDOW: usize = 8192;
        for threads in [1, 2, 8, 32, 64, 128, 192] {
            let rows = rows_per_chunk(WINDOW, threads);
            let chunks = WINDOW.div_ceil(rows);
            let wanted = (CHUNKS_PER_THREAD * threads).min(WINDOW / LEAST_CHUNK);
            assert!(chunks >= wanted, "{threads} threads: {chunks} chunks");
            assert!((LEAST_CHUNK..=CHUNK).contains(&rows), "{rows} rows");
        }
        // Threads that all are busy take as many rows as before.
        assert_eq!(rows_per_chunk(WINDOW, 2), CHUNK);
        assert_eq!(rows_per_chunk(0, 64), LEAST_CHUNK);
    }
}
