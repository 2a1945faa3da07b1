//! Late chunking: a text is one row, and the vector of a chunk is pooled from the states of its tokens in that row.
//!
//! A text beyond the model's limit becomes several rows. Each begins and ends with whole chunks, so every chunk lies in
//! one row. A row repeats chunks of the row before it, as context for the chunks behind them.

use std::ops::Range;

use super::cuts::ChunkPiece;
use super::{Counter, TextIds, TextTokenizer};
use crate::Side;
use crate::batch::TokenRows;
use embedctl_common::error::Cause;

/// The share of a row that may repeat chunks of the row before it: a quarter.
const CONTEXT: usize = 4;

/// Rows of tokens whose parts are chunks, in the order of the chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedRows {
    /// The tokens of each chunk in its row, special tokens counted.
    parts: Vec<Range<usize>>,
    /// Where each row's chunks end.
    ends: Vec<usize>,
}

impl SharedRows {
    /// Appends a row of chunks with these tokens.
    pub fn push(&mut self, parts: impl IntoIterator<Item = Range<usize>>) {
        self.parts.extend(parts);
        self.ends.push(self.parts.len());
    }

    /// Appends all rows of `other`.
    pub(super) fn append(&mut self, other: Self) {
        let before = self.parts.len();
        self.parts.extend(other.parts);
        self.ends.extend(other.ends.iter().map(|end| before + end));
    }

    /// The chunks of row `row`, by their numbers.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn chunks(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[row]
    }

    /// The tokens of each chunk of row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn parts(&self, row: usize) -> &[Range<usize>] {
        &self.parts[self.chunks(row)]
    }

    /// Each chunk's row, and its number in that row.
    pub fn of_chunks(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.ends.len()).flat_map(|row| (0..self.chunks(row).len()).map(move |at| (row, at)))
    }
}

impl TextTokenizer {
    /// Appends the rows of a text's chunks: one, if the text fits the model.
    ///
    /// # Errors
    /// If the tokenizer fails on the text. Nothing is appended then.
    pub(super) fn push_shared(
        &self,
        text: &str,
        pieces: &[ChunkPiece],
        rows: &mut TokenRows,
        shared: &mut SharedRows,
    ) -> Result<(), Cause> {
        let room = self.text_tokens.saturating_sub(self.prompt_ids);
        let ends = self.encoder.any.ends(text)?;
        // About: near the cuts of a long text, ends may differ from those of the whole text.
        let tokens = |range: Range<usize>| {
            let until = |at: usize| ends.partition_point(|&end| end <= at);
            until(range.end) - until(range.start)
        };
        let start = |piece: usize| {
            if piece == 0 {
                0
            } else {
                pieces[piece].range.start
            }
        };
        let end = |piece: usize| match piece + 1 == pieces.len() {
            true => text.len(),
            false => pieces[piece].range.end,
        };
        let reach = room.saturating_add(room / 64 + 2);
        let mut made = Vec::new();
        let mut next = 0;
        while next < pieces.len() {
            let is_near = |&piece: &usize| tokens(start(piece)..start(next)) <= room / CONTEXT;
            let mut first = (0..next).find(is_near).unwrap_or(next);
            let fitting =
                (next..pieces.len()).take_while(|&last| tokens(start(first)..end(last)) <= reach);
            let mut last = fitting.last().unwrap_or(next);
            let (range, encoding) = loop {
                let range = start(first)..end(last);
                let encoding = self
                    .encoder
                    .any
                    .with_places(&self.prompted(&text[range.clone()]))?;
                if encoding.get_ids().len() <= self.text_tokens || (first, last) == (next, next) {
                    break (range, encoding);
                }
                match last > next {
                    true => last -= 1,
                    false => first += 1,
                }
            };
            made.push((range, next..last + 1, encoding));
            next = last + 1;
        }
        for (range, own, encoding) in made {
            let ids = encoding.get_ids();
            self.frame(TextIds::whole(ids), rows);
            let kept = ids.len().min(self.text_tokens);
            let cut = match self.side {
                Side::Right => 0,
                Side::Left => ids.len() - kept,
            };
            let in_row = |token: usize| self.prefix.len() + token.saturating_sub(cut).min(kept);
            let places = encoding.get_offsets();
            let part = self.prompted(&text[range.clone()]);
            let (mut starts, mut ends) = (Counter::new(&part), Counter::new(&part));
            shared.push(pieces[own].iter().map(|piece| {
                let in_part = |place: usize| place + self.prompt.len() - range.start;
                let start = starts.code_points(in_part(piece.range.start));
                let end = ends.code_points(in_part(piece.range.end));
                let code_points = |count| usize::try_from(count).unwrap_or(usize::MAX);
                let (start, end) = (code_points(start), code_points(end));
                let mut first = places.partition_point(|&(_, end)| end <= start);
                let mut behind = places.partition_point(|&(start, _)| start < end);
                // Tokens of trimmed white space have places without a character.
                let is_empty = |token: usize| places[token].0 == places[token].1;
                while first < behind && is_empty(first) {
                    first += 1;
                }
                while first < behind && is_empty(behind - 1) {
                    behind -= 1;
                }
                in_row(first)..in_row(behind.max(first))
            }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_know_their_rows() {
        let mut rows = SharedRows::default();
        rows.push([1..3, 3..4]);
        let mut more = SharedRows::default();
        more.push(std::iter::once(1..2));
        more.push([4..6, 6..6, 6..9]);
        rows.append(more);
        assert_eq!(rows.chunks(2), 3..6);
        assert_eq!(rows.parts(2), [4..6, 6..6, 6..9]);
        let of_chunks: Vec<_> = rows.of_chunks().collect();
        assert_eq!(of_chunks, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]);
    }
}
