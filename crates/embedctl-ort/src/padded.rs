//! Padding: ONNX graphs take rows of one length.

use embedctl_rows::batch::Batch;

/// A batch whose rows are padded on the right to the longest.
#[derive(Debug, Clone, Default)]
pub struct PaddedBatch {
    /// Rows.
    pub rows: usize,
    /// Padded length of each.
    pub length: usize,
    /// Token ids, row-major `[rows, length]`.
    pub input_ids: Vec<i64>,
    /// 1 for a real token, 0 for padding; row-major `[rows, length]`.
    pub attention_mask: Vec<i64>,
    /// Segments, row-major `[rows, length]`; empty where all are 0.
    pub token_types: Vec<i64>,
}

impl PaddedBatch {
    /// Fills this batch with the rows of `batch`, padded with `padding_id`, reusing its memory.
    pub fn fill(&mut self, batch: &Batch, padding_id: u32) {
        self.rows = batch.rows();
        self.length = batch.longest();
        let size = self.rows * self.length;
        self.input_ids.clear();
        self.input_ids.resize(size, i64::from(padding_id));
        self.attention_mask.clear();
        self.attention_mask.resize(size, 0);
        self.token_types.clear();
        if !batch.types.is_empty() {
            self.token_types.resize(size, 0);
        }
        for row in 0..self.rows {
            let (start, span) = (row * self.length, batch.span(row));
            let own = start..start + span.len();
            self.attention_mask[start..start + batch.seen(row)].fill(1);
            widen(&batch.ids[span.clone()], &mut self.input_ids[own.clone()]);
            if !batch.types.is_empty() {
                widen(&batch.types[span], &mut self.token_types[own]);
            }
        }
    }

    /// The attention mask of row `index`.
    #[must_use]
    pub fn mask(&self, index: usize) -> &[i64] {
        &self.attention_mask[index * self.length..(index + 1) * self.length]
    }
}

fn widen(from: &[u32], to: &mut [i64]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = i64::from(from);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_row_is_padded_to_the_longest_and_masked(
            lengths in proptest::collection::vec(1_usize..20, 1..12),
            typed: bool,
        ) {
            let mut batch = Batch::default();
            for (row, &length) in lengths.iter().enumerate() {
                batch.ids.extend((0..length).map(|token| (row * 100 + token) as u32));
                batch.types.extend((0..length).map(|token| (token % 2) as u32).filter(|_| typed));
                batch.ends.push(batch.ids.len());
            }
            let mut padded = PaddedBatch::default();
            padded.fill(&batch, 77);
            prop_assert_eq!(padded.length, batch.longest());
            for (row, &own) in lengths.iter().enumerate() {
                let masked: i64 = padded.mask(row).iter().sum();
                prop_assert_eq!(masked, own as i64);
                for position in 0..padded.length {
                    let at = row * padded.length + position;
                    let id = batch.row(row).get(position).map_or(77, |&id| i64::from(id));
                    prop_assert_eq!(padded.input_ids[at], id);
                    prop_assert_eq!(padded.attention_mask[at], i64::from(position < own));
                    if typed {
                        let kind = if position < own { position as i64 % 2 } else { 0 };
                        prop_assert_eq!(padded.token_types[at], kind);
                    }
                }
            }
            prop_assert_eq!(padded.token_types.is_empty(), !typed);
        }
    }
}
