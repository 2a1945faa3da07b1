//! Equal texts of a window are one text: tokenized once, run once, and its vector copied to every row. With late chunking
//! the rows that chunks share have numbers, and those of equal whole texts run once.

use std::collections::HashMap;

use crate::batch::TokenRows;
use crate::record::Texts;
use crate::tokenize::{SharedRows, Span};

/// The distinct texts of a window, numbered in the order of their first rows.
pub(crate) struct Distinct {
    /// The first row of each distinct text.
    firsts: Vec<u32>,
    /// How many rows hold it.
    copies: Vec<u32>,
    /// Which distinct text each row holds.
    of_row: Vec<u32>,
}

impl Distinct {
    /// Finds them.
    pub(crate) fn new(texts: &Texts) -> Self {
        let rows = u32::try_from(texts.len()).expect("a window has fewer than 2^32 rows");
        let mut numbers: HashMap<&str, u32, ahash::RandomState> =
            HashMap::with_capacity_and_hasher(texts.len(), ahash::RandomState::default());
        let mut distinct = Self {
            firsts: Vec::with_capacity(texts.len()),
            copies: Vec::with_capacity(texts.len()),
            of_row: Vec::with_capacity(texts.len()),
        };
        for (row, text) in (0..rows).zip(texts.iter()) {
            let next = u32::try_from(distinct.firsts.len()).expect("no more texts than rows");
            let number = *numbers.entry(text).or_insert(next);
            if number == next {
                distinct.firsts.push(row);
                distinct.copies.push(0);
            }
            distinct.copies[number as usize] += 1;
            distinct.of_row.push(number);
        }
        distinct
    }

    /// Chunks that share rows: each has the number of its row, or that of an equal text's row. `texts` are the whole
    /// texts, and `spans` the places of the chunks in them.
    pub(crate) fn of_shared(shared: &SharedRows, spans: &[Span], texts: &Texts) -> Self {
        let whole = Self::new(texts);
        let rows: Vec<u32> = (shared.of_chunks())
            .map(|(row, _)| u32::try_from(row).expect("a window has fewer than 2^32 rows"))
            .collect();
        // The first chunk of each text.
        let mut first_chunks = vec![0; texts.len()];
        for (chunk, span) in spans.iter().enumerate().filter(|(_, span)| span.part == 0) {
            first_chunks[span.text as usize] = chunk;
        }
        let numbers: Vec<usize> = whole.of_rows().collect();
        let of_row: Vec<u32> = (spans.iter())
            .map(|span| {
                let equal = whole.first(numbers[span.text as usize]);
                rows[first_chunks[equal] + span.part as usize]
            })
            .collect();
        let count = rows.last().map_or(0, |last| *last as usize + 1);
        let mut distinct = Self {
            firsts: vec![0; count],
            copies: vec![0; count],
            of_row,
        };
        for (chunk, &row) in (0..).zip(&distinct.of_row) {
            let row = row as usize;
            if distinct.copies[row] == 0 {
                distinct.firsts[row] = chunk;
            }
            distinct.copies[row] += 1;
        }
        distinct
    }

    /// The tokens of the distinct texts that are wanted, of those of all rows.
    pub(super) fn of_texts(&self, rows: &TokenRows, wanted: impl Fn(usize) -> bool) -> TokenRows {
        let mut tokens = TokenRows::default();
        for number in (0..self.len()).filter(|&number| wanted(number)) {
            tokens.push_row(rows, self.first(number));
        }
        tokens
    }

    /// How many distinct texts there are.
    pub(crate) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.of_row.len()
    }

    /// The first row that holds distinct text `number`.
    pub(crate) fn first(&self, number: usize) -> usize {
        self.firsts[number] as usize
    }

    /// How many rows hold distinct text `number`.
    pub(super) fn copies(&self, number: usize) -> u64 {
        u64::from(self.copies[number])
    }

    /// Which distinct text each row holds, in the rows' order.
    pub(crate) fn of_rows(&self) -> impl ExactSizeIterator<Item = usize> {
        self.of_row.iter().map(|&number| number as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_of_equal_texts_stands_for_all() {
        let texts: Texts = ["b", "a", "b", "", "b", "a"].into_iter().collect();
        let distinct = Distinct::new(&texts);
        assert_eq!((distinct.len(), distinct.rows()), (3, 6));
        assert_eq!(distinct.of_rows().collect::<Vec<_>>(), [0, 1, 0, 2, 0, 1]);
        assert_eq!(distinct.firsts, [0, 1, 3]);
        assert_eq!(distinct.copies, [3, 2, 1]);
        assert_eq!(Distinct::new(&Texts::default()).len(), 0);
    }

    proptest! {
        #[test]
        fn every_row_is_given_its_own_text(all in proptest::collection::vec("[ab]{0,3}", 0..60)) {
            let texts: Texts = all.iter().collect();
            let distinct = Distinct::new(&texts);
            for (row, number) in distinct.of_rows().enumerate() {
                prop_assert_eq!(texts.get(distinct.first(number)), &all[row]);
            }
            let mut sorted = all.clone();
            sorted.sort();
            sorted.dedup();
            prop_assert_eq!(distinct.len(), sorted.len());
            let copies: u64 = (0..distinct.len()).map(|number| distinct.copies(number)).sum();
            prop_assert_eq!(copies, all.len() as u64);
        }
    }
}
