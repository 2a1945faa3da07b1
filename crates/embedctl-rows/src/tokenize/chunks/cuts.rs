//! Where a text is cut: at the coarsest place within reach, and never so that anything gets lost.
//!
//! Where the tokens of the whole text end only says how far a chunk may reach. Whether it does is counted on
//! the chunk's own tokens, since a text that begins or ends elsewhere may be tokenized otherwise; a chunk with
//! too many is cut shorter.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use embedctl_common::error::Cause;

/// A kind of place to cut at, the coarsest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutLevel {
    /// At one of the text's marks of this number.
    Mark(usize),
    /// Behind white space.
    Space,
    /// Before a word (UAX 29): for scripts that don't separate words.
    Word,
    /// Before a grapheme cluster.
    Grapheme,
    /// Before a code point.
    Character,
}

impl CutLevel {
    /// The levels that every text has.
    const ALL: [Self; 4] = [Self::Space, Self::Word, Self::Grapheme, Self::Character];
}

/// How far Unicode's rules look ahead of a boundary, in bytes, but for texts made to defy them.
const LOOK_AHEAD: usize = 64;

/// A chunk: its bytes in the text, and its token ids, without special tokens.
#[derive(Debug)]
pub(super) struct ChunkPiece {
    pub(super) range: Range<usize>,
    pub(super) ids: Vec<u32>,
}

/// One text to be cut.
pub(super) struct Cutter<'a, F> {
    pub(super) text: &'a str,
    /// Where each token of the whole text ends, in bytes.
    pub(super) ends: Vec<usize>,
    /// Places that are asked for, in ascending order, the coarsest kind first: starts of sections, paragraphs, sentences.
    pub(super) marks: Vec<Vec<usize>>,
    /// Tokens of a chunk at most, and how many the prompt has before them.
    pub(super) tokens: usize,
    pub(super) prompt: usize,
    /// Tokens that a chunk repeats of the one before it, at most.
    pub(super) overlap: usize,
    /// Code points of a chunk at most.
    pub(super) characters: Option<usize>,
    /// The token ids of the prompt and a part of the text.
    pub(super) tokenize: F,
}

/// The next chunk, and where it was cut.
struct ChunkCut {
    start: usize,
    end: usize,
    level: CutLevel,
    piece: ChunkPiece,
}

impl<F: FnMut(Range<usize>) -> Result<Vec<u32>, Cause>> Cutter<'_, F> {
    /// All chunks in order; one at least.
    pub(super) fn cut(mut self) -> Result<Vec<ChunkPiece>, Cause> {
        let mut pieces = Vec::new();
        let first = self.skip_space(0);
        let mut starts = vec![first];
        let mut end = first;
        while end < self.text.len() {
            let cut = self.next(&starts, end)?;
            starts = self.repeated(&cut)?;
            end = self.skip_space(cut.end);
            starts.push(end);
            pieces.push(cut.piece);
        }
        if pieces.is_empty() {
            let ids = (self.tokenize)(0..0)?;
            pieces.push(ChunkPiece { range: 0..0, ids });
        }
        Ok(pieces)
    }

    /// The next chunk that ends behind `after`, cut at the coarsest possible level from any of `starts`; the last of
    /// these is `after` itself.
    fn next(&mut self, starts: &[usize], after: usize) -> Result<ChunkCut, Cause> {
        for level in self.levels() {
            for &start in starts {
                if let Some(cut) = self.reach(start, after, level)? {
                    return Ok(cut);
                }
            }
        }
        // A single code point of more tokens than a chunk may have.
        let width = self.text[after..].chars().next().map_or(0, char::len_utf8);
        let range = after..after + width;
        Ok(ChunkCut {
            start: after,
            end: range.end,
            level: CutLevel::Character,
            piece: ChunkPiece {
                ids: (self.tokenize)(range.clone())?,
                range,
            },
        })
    }

    fn levels(&self) -> impl Iterator<Item = CutLevel> + use<F> {
        (0..self.marks.len())
            .map(CutLevel::Mark)
            .chain(CutLevel::ALL)
    }

    /// The longest chunk from `start` that ends behind `after` at a place of this level.
    fn reach(
        &mut self,
        start: usize,
        after: usize,
        level: CutLevel,
    ) -> Result<Option<ChunkCut>, Cause> {
        let mut tokens = self.tokens;
        loop {
            let until = self.limit(start, tokens);
            let Some(end) = self.last(level, after, until) else {
                return Ok(None);
            };
            let range = self.trimmed(start..end);
            let ids = (self.tokenize)(range.clone())?;
            let over = ids.len().saturating_sub(self.prompt + self.tokens);
            if over == 0 {
                return Ok(Some(ChunkCut {
                    start,
                    end,
                    level,
                    piece: ChunkPiece { range, ids },
                }));
            }
            tokens = tokens.saturating_sub(over);
            if tokens == 0 {
                return Ok(None);
            }
        }
    }

    /// Where the next chunk may begin so that it repeats the end of this one: the earliest place first, at the
    /// level at which this one was cut.
    fn repeated(&mut self, cut: &ChunkCut) -> Result<Vec<usize>, Cause> {
        let end = cut.piece.range.end;
        if self.overlap == 0 || cut.end == self.text.len() {
            return Ok(Vec::new());
        }
        let behind = self.ends.partition_point(|&token| token < end) + 1;
        let from = match behind.checked_sub(self.overlap + 1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        let from = from.max(cut.start + 1);
        // White space around a chunk does not belong to it: after a line break a sentence may begin with more of it.
        let mut starts = self.starts(cut.level, cut.start, from..end);
        starts
            .iter_mut()
            .for_each(|start| *start = self.skip_space(*start));
        starts.dedup();
        // As for chunks, its own tokens are counted.
        while let Some(&start) = starts.first() {
            if (self.tokenize)(start..end)?.len() <= self.prompt + self.overlap {
                break;
            }
            starts.remove(0);
        }
        Ok(starts)
    }

    /// How far `tokens` tokens reach from `start`, with the white space behind them.
    fn limit(&self, start: usize, tokens: usize) -> usize {
        let first = self.ends.partition_point(|&end| end <= start);
        let reach = match self.ends.get(first + tokens - 1) {
            Some(&end) if first + tokens < self.ends.len() => self.text.ceil_char_boundary(end),
            _ => self.text.len(),
        };
        let most = self.characters.and_then(|most| {
            let mut places = self.text[start..].char_indices();
            places.nth(most).map(|(at, _)| start + at)
        });
        most.map_or_else(
            || self.skip_space(reach),
            |most| most.min(self.skip_space(reach)),
        )
    }

    /// The last place of this level behind `after` and no farther than `until`; the end is one of every level.
    fn last(&self, level: CutLevel, after: usize, until: usize) -> Option<usize> {
        if until == self.text.len() {
            return Some(until);
        }
        if until <= after {
            return None;
        }
        match level {
            CutLevel::Mark(kind) => {
                let marks = &self.marks[kind];
                let before = marks.partition_point(|&start| start <= until);
                let last = marks[..before].last().copied();
                last.filter(|&start| start > after)
            }
            CutLevel::Space => {
                let mut places = self.text[after..until].char_indices().rev();
                let mut next = self.text[until..].chars().next();
                places.find_map(|(at, character)| {
                    let behind = after + at + character.len_utf8();
                    let is_place =
                        character.is_whitespace() && next.is_some_and(|next| !next.is_whitespace());
                    next = Some(character);
                    is_place.then_some(behind)
                })
            }
            CutLevel::Word | CutLevel::Grapheme => {
                let ahead = (until + LOOK_AHEAD).min(self.text.len());
                let part = after..self.text.ceil_char_boundary(ahead);
                let places = self.starts(level, part.start, after + 1..part.end);
                let within = places.partition_point(|&place| place <= until);
                places[..within].last().copied()
            }
            CutLevel::Character => Some(until),
        }
    }

    /// The places of this level in `range`; `base` is one at or before it.
    fn starts(&self, level: CutLevel, base: usize, range: Range<usize>) -> Vec<usize> {
        let part = &self.text[base..range.end];
        let is_inside = |place: &usize| range.contains(place);
        match level {
            CutLevel::Mark(kind) => {
                let marks = self.marks[kind].iter().copied();
                marks.filter(is_inside).collect()
            }
            CutLevel::Space => {
                let mut before = ' ';
                let places = part.char_indices().filter_map(|(at, character)| {
                    let is_place = before.is_whitespace() && !character.is_whitespace();
                    before = character;
                    is_place.then_some(base + at)
                });
                places.filter(is_inside).collect()
            }
            CutLevel::Word => {
                let words = part.unicode_word_indices();
                words.map(|(at, _)| base + at).filter(is_inside).collect()
            }
            CutLevel::Grapheme => {
                let clusters = part.grapheme_indices(true);
                let places = clusters.map(|(at, _)| base + at);
                places.filter(is_inside).collect()
            }
            CutLevel::Character => {
                let places = part.char_indices().map(|(at, _)| base + at);
                places.filter(is_inside).collect()
            }
        }
    }

    fn skip_space(&self, from: usize) -> usize {
        self.text.len() - self.text[from..].trim_start().len()
    }

    fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let part = self.text[range.clone()].trim_end();
        range.start..range.start + part.len()
    }
}
