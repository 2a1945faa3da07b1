//! Which shapes batches run in. Pure.

use std::ops::Range;

use crate::batch::Batch;

/// Rows of a plan for many rows: fewer leave a third of the speed unused, more gain nothing.
pub(super) const ROWS: usize = 8;

/// Rows longer than this run alone: at that length it costs no speed, and eight rows need eight times the
/// memory for their attention scores (MiniLM at 512 tokens: 100 MB, several times over, in every worker).
pub(super) const LONG: usize = 128;

/// The shape of a plan's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub rows: usize,
    pub length: usize,
}

/// Tokens that a plan for many rows wastes on `rows` rows of `length` tokens, measured against running
/// each alone. A row alone costs as much as if it were 8 tokens longer (MiniLM: twice as much at 8 tokens,
/// half as much again at 16, an eighth at 64).
pub(super) fn waste(rows: usize, length: usize) -> usize {
    (ROWS * length).saturating_sub(rows * (length + 8))
}

/// The fixed length under which rows of `length` tokens run; never beyond the model's positions.
pub(super) fn bucket(length: usize, max_length: usize) -> usize {
    let bucket = match length {
        0..=64 => length.next_multiple_of(16),
        65..=256 => length.next_multiple_of(64),
        _ => length.next_multiple_of(256),
    };
    bucket.min(max_length).max(length)
}

/// Fills `part` with rows `rows` of `batch`, padded to `shape`: missing rows repeat the last, missing
/// tokens are `padding` and masked.
pub(super) fn fill_part(
    part: &mut Batch,
    batch: &Batch,
    rows: Range<usize>,
    shape: Shape,
    padding: i64,
) {
    part.rows = shape.rows;
    part.length = shape.length;
    part.input_ids.clear();
    part.attention_mask.clear();
    for index in 0..shape.rows {
        let row = (rows.start + index).min(rows.end - 1);
        let own = row * batch.length..(row + 1) * batch.length;
        part.input_ids
            .extend_from_slice(&batch.input_ids[own.clone()]);
        part.attention_mask
            .extend_from_slice(&batch.attention_mask[own]);
        part.input_ids.resize((index + 1) * shape.length, padding);
        part.attention_mask.resize((index + 1) * shape.length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_repeats_its_last_row_and_masks_what_is_added() {
        let batch = Batch {
            rows: 3,
            length: 2,
            input_ids: vec![1, 2, 3, 4, 5, 6],
            attention_mask: vec![1, 1, 1, 1, 1, 0],
        };
        let mut part = Batch::default();
        let shape = Shape { rows: 3, length: 3 };
        fill_part(&mut part, &batch, 1..3, shape, 9);
        assert_eq!((part.rows, part.length), (3, 3));
        assert_eq!(part.input_ids, [3, 4, 9, 5, 6, 9, 5, 6, 9]);
        assert_eq!(part.attention_mask, [1, 1, 0, 1, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn few_rows_waste_a_plan_for_many_and_the_more_so_the_longer_they_are() {
        assert_eq!(waste(ROWS, 100), 0);
        assert_eq!(waste(4, 8), 0);
        assert!(waste(5, 16) > 0 && waste(6, 16) == 0);
        assert!(waste(7, 100) > 0);
    }

    #[test]
    fn a_bucket_holds_the_length_and_ends_at_the_models_positions() {
        for length in 1..2000 {
            assert!(bucket(length, 8192) >= length);
            assert!(bucket(length, 8192) <= (length * 2).max(16));
        }
        assert_eq!(bucket(3, 512), 16);
        assert_eq!(bucket(65, 512), 128);
        assert_eq!(bucket(500, 510), 510);
        // A limit that was raised by hand beyond what the files say.
        assert_eq!(bucket(600, 512), 600);
    }
}
