//! Long texts in chunks that each fit the model whole.
//!
//! A chunk is a text like any other: its tokens are those of `text[start..end]` alone, so its vector is that of this
//! part of the text alone. With late chunking it is a part of its text's row instead ([`late`]).

mod cuts;
mod headings;
mod late;
mod marks;
#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;

use rayon::prelude::*;
use serde::Serialize;

pub use self::headings::headings_above;
pub use self::late::SharedRows;

use self::cuts::{ChunkPiece, Cutter};
use super::bert::BertScratch;
use super::{TextIds, TextTokenizer};
use crate::ModelConfig;
use crate::batch::TokenRows;
use embedctl_common::Texts;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{CHUNK, CHUNK_OVERLAP, CHUNK_TOKENS, LATE, MAX_LENGTH};
use embedctl_common::stage::Clock;

/// Texts that a thread takes at a time: they are long.
const TEXTS: usize = 16;

/// Bytes from which a text counts as long.
const LONG: usize = 16 * 1024;

/// Tokens of a chunk at most, where the model has no limit: more than any text has.
const MOST_TOKENS: usize = 1 << 30;

named! {
    /// Where texts are cut, if they can be.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ChunkBy {
        /// At starts of words.
        Tokens = "tokens",
        /// At starts of sentences: as many whole sentences in a chunk as fit.
        Sentences = "sentences",
        /// Behind blank lines: as many whole paragraphs in a chunk as fit; within long ones at sentences.
        Paragraphs = "paragraphs",
        /// At headings of Markdown, the highest first, then between its blocks, list items and sentences.
        Markdown = "markdown",
    }
}

/// How texts are cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// Where.
    pub by: ChunkBy,
    /// Tokens of a chunk at most, special ones and the prompt's not counted; `None`: as many as the model takes.
    pub tokens: Option<usize>,
    /// How many of them may repeat the end of the chunk before.
    pub overlap: usize,
    /// Whether each chunk's text is a column of the output.
    pub text: bool,
    /// Whether each chunk has a key of its own in a column of the output.
    pub id: bool,
    /// Whether the headings above each chunk are a column of the output.
    pub heading: bool,
}

/// The same, for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Chunked {
    /// Where texts are cut.
    pub by: ChunkBy,
    /// Tokens of a chunk at most.
    pub tokens: usize,
    /// How many of them may repeat the end of the chunk before.
    pub overlap: usize,
}

/// The place of a chunk in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Index of the text.
    pub text: u32,
    /// Number of the chunk in it, from 0.
    pub part: u32,
    /// Its first code point, counted from 0.
    pub start: u64,
    /// The code point behind its last one.
    pub end: u64,
}

/// The chunks of some texts, in order: one of each text at least.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Their texts.
    pub texts: Texts,
    /// Their tokens, ready to run: a row for each chunk, unless [`Chunks::shared`] tells the rows that they share.
    pub tokens: TokenRows,
    /// With late chunking, the rows whose parts the chunks are.
    pub shared: Option<SharedRows>,
    /// Their places in the texts.
    pub spans: Vec<Span>,
}

impl TextTokenizer {
    /// Resolves `chunking` for this model.
    ///
    /// # Errors
    /// If a chunk would not fit the model, would have no limit, or would consist of overlap alone.
    pub fn chunked(&self, chunking: &Chunking) -> Result<Chunked> {
        let usage = |reason: String, remedy: String| Err(Error::usage(reason).with_remedy(remedy));
        let most = self.text_tokens.saturating_sub(self.prompt_ids);
        let limited = most < ModelConfig::UNLIMITED / 2;
        let tokens = match chunking.tokens {
            Some(tokens) if tokens > most => {
                return usage(
                    format!(
                        "{CHUNK_TOKENS} {tokens}: the model takes {most} tokens of a text, special tokens and the \
                         prompt's not counted"
                    ),
                    "lower it, or leave it out for as many as the model takes".to_owned(),
                );
            }
            Some(tokens) => tokens.min(MOST_TOKENS),
            None if self.late => {
                return usage(
                    format!(
                        "{LATE}: chunks as long as the model's limit would be whole texts, whose vectors need no {LATE}"
                    ),
                    format!("say with {CHUNK_TOKENS} how many tokens a chunk may have"),
                );
            }
            None if limited => most,
            None => {
                return usage(
                    format!("{CHUNK}: this model has no limit of its own"),
                    format!("say with {CHUNK_TOKENS} how many tokens a chunk may have"),
                );
            }
        };
        if tokens == 0 {
            return usage(
                format!("{CHUNK}: special tokens and the prompt leave no room for a text"),
                format!("raise {MAX_LENGTH}, or shorten the prompt"),
            );
        }
        if chunking.overlap >= tokens {
            return usage(
                format!(
                    "{CHUNK_OVERLAP} {}: a chunk has {tokens} tokens in all, repeated ones included",
                    chunking.overlap
                ),
                format!("lower it below {CHUNK_TOKENS}; a tenth is usual"),
            );
        }
        Ok(Chunked {
            by: chunking.by,
            tokens,
            overlap: chunking.overlap,
        })
    }

    /// Cuts all texts; adds the processor time of its threads to `clock`. A text that the tokenizer fails on is one
    /// chunk, and a refused row.
    #[must_use]
    pub fn chunk(&self, texts: &Texts, how: Chunked, clock: &Clock) -> Chunks {
        let some = |first: usize| {
            let (mut chunks, mut scratch) = (self.no_chunks(), BertScratch::default());
            for text in first..(first + TEXTS).min(texts.len()) {
                let number = u32::try_from(text).expect("a window has fewer than 2^32 rows");
                let text = texts.get(text);
                let pieces = self.pieces(text, how, &mut scratch);
                let pieces = pieces.and_then(|pieces| match &mut chunks.shared {
                    Some(shared) => {
                        self.push_shared(text, &pieces, &mut chunks.tokens, shared)?;
                        Ok(pieces)
                    }
                    None => Ok(pieces),
                });
                match pieces {
                    Ok(pieces) => self.push_pieces(text, number, pieces, &mut chunks),
                    Err(cause) => {
                        chunks.spans.push(Span {
                            text: number,
                            part: 0,
                            start: 0,
                            end: text.chars().count() as u64,
                        });
                        chunks.texts.push(text);
                        chunks.tokens.push_refused(cause);
                        if let Some(shared) = &mut chunks.shared {
                            shared.push(std::iter::once(0..0));
                        }
                    }
                }
            }
            chunks
        };
        let parts: Vec<Chunks> = self.pool.install(|| {
            let firsts = (0..texts.len().div_ceil(TEXTS)).into_par_iter();
            let parts = firsts.map(|part| clock.time_part(|| some(part * TEXTS)));
            parts.collect()
        });
        let mut all = self.no_chunks();
        for part in parts {
            part.texts.iter().for_each(|text| all.texts.push(text));
            all.tokens.append(&part.tokens);
            all.spans.extend(part.spans);
            if let (Some(all), Some(part)) = (&mut all.shared, part.shared) {
                all.append(part);
            }
        }
        all
    }

    fn no_chunks(&self) -> Chunks {
        Chunks {
            shared: self.late.then(SharedRows::default),
            ..Chunks::default()
        }
    }

    /// The parts of a text that become chunks.
    fn pieces(
        &self,
        text: &str,
        how: Chunked,
        scratch: &mut BertScratch,
    ) -> Result<Vec<ChunkPiece>, Cause> {
        let most = how.tokens + self.prompt_ids;
        let prompt_characters = self.prompt.chars().count();
        let characters = self
            .most_characters
            .map(|most| most.saturating_sub(prompt_characters).max(1));
        let mut ids = |part: &str| {
            let text = self.prompted(part);
            Ok(self.encode(&text, most, scratch)?.ids.to_vec())
        };
        let is_short = characters.is_none_or(|most| text.chars().nth(most).is_none());
        // A very long text is known to be long without being tokenized whole.
        let mut ends = None;
        if text.len() > LONG {
            ends = Some(self.encoder.any.ends(text)?);
        }
        let may_fit = is_short && ends.as_ref().is_none_or(|ends| ends.len() <= most);
        let whole = if may_fit { Some(ids(text)?) } else { None };
        match whole {
            Some(ids) if ids.len() <= most => Ok(vec![ChunkPiece {
                range: 0..text.len(),
                ids,
            }]),
            _ => {
                let cutter = Cutter {
                    text,
                    ends: match ends {
                        Some(ends) => ends,
                        None => self.encoder.any.ends(text)?,
                    },
                    marks: marks::part_starts(text, how.by)?,
                    tokens: how.tokens,
                    prompt: self.prompt_ids,
                    overlap: how.overlap,
                    characters,
                    tokenize: |range| ids(&text[range]),
                };
                cutter.cut()
            }
        }
    }

    /// Appends the chunks of text `number`, and their rows, unless they share some.
    fn push_pieces(&self, text: &str, number: u32, pieces: Vec<ChunkPiece>, chunks: &mut Chunks) {
        let (mut starts, mut ends) = (Counter::new(text), Counter::new(text));
        for (part, piece) in (0..).zip(pieces) {
            chunks.spans.push(Span {
                text: number,
                part,
                start: starts.code_points(piece.range.start),
                end: ends.code_points(piece.range.end),
            });
            chunks.texts.push(&text[piece.range]);
            if chunks.shared.is_none() {
                self.frame(TextIds::whole(&piece.ids), &mut chunks.tokens);
            }
        }
    }
}

/// Counts code points of places that come in order.
struct Counter<'a> {
    text: &'a str,
    at: usize,
    count: u64,
}

impl<'a> Counter<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            count: 0,
        }
    }

    fn code_points(&mut self, at: usize) -> u64 {
        self.count += self.text[self.at..at].chars().count() as u64;
        self.at = at;
        self.count
    }
}
