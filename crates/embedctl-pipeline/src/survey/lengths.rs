//! The lengths of rows, in bins.

use std::collections::BTreeMap;

use serde::Serialize;

/// How long rows are, in tokens: special ones counted, and those that are cut off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RowLengths {
    /// Half of the rows are no longer.
    pub median: usize,
    /// Nineteen of twenty rows are no longer.
    pub percentile_95: usize,
    /// The longest.
    pub longest: usize,
    /// The rows by their length, without gaps from the shortest to the longest: each bin ends at a power of two, or at the
    /// model's limit.
    pub bins: Vec<LengthBin>,
}

/// The rows of some lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LengthBin {
    /// The shortest length.
    pub from: usize,
    /// The greatest one.
    pub to: usize,
    /// How many rows.
    pub rows: u64,
}

impl RowLengths {
    /// Of so many rows of each length, where the model cuts at `limit`.
    pub(super) fn new(counts: &BTreeMap<usize, u64>, limit: Option<usize>) -> Self {
        let all: u64 = counts.values().sum();
        // The least length that this share of the rows does not exceed.
        let percentile = |share: f64| {
            let mut rows = 0;
            let reaches = |(_, count): &(&usize, &u64)| {
                rows += **count;
                rows as f64 >= share * all as f64
            };
            counts.iter().find(reaches).map_or(0, |(&length, _)| length)
        };
        let longest = counts.last_key_value().map_or(0, |(&length, _)| length);
        Self {
            median: percentile(0.5),
            percentile_95: percentile(0.95),
            longest,
            bins: bins(counts, limit),
        }
    }
}

fn bins(counts: &BTreeMap<usize, u64>, limit: Option<usize>) -> Vec<LengthBin> {
    let (Some((&shortest, _)), Some((&longest, _))) =
        (counts.first_key_value(), counts.last_key_value())
    else {
        return Vec::new();
    };
    let powers = (0..usize::BITS).map(|power| 1 << power);
    let mut ends: Vec<usize> = powers.chain(limit).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut from = 0;
    let mut bins = Vec::new();
    for to in ends {
        if to >= shortest && from <= longest {
            let rows = counts.range(from..=to).map(|(_, count)| count).sum();
            bins.push(LengthBin { from, to, rows });
        }
        from = to + 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_end_at_powers_of_two_and_at_the_limit() {
        let counts = BTreeMap::from([(5, 1), (8, 2), (9, 3), (65, 1), (200, 1)]);
        let lengths = RowLengths::new(&counts, Some(100));
        let bins: Vec<_> = (lengths.bins.iter())
            .map(|bin| (bin.from, bin.to, bin.rows))
            .collect();
        let expected = [
            (5, 8, 3),
            (9, 16, 3),
            (17, 32, 0),
            (33, 64, 0),
            (65, 100, 1),
            (101, 128, 0),
            (129, 256, 1),
        ];
        assert_eq!(bins, expected);
        assert_eq!(
            (lengths.median, lengths.percentile_95, lengths.longest),
            (9, 200, 200)
        );
        assert_eq!(
            RowLengths::new(&BTreeMap::new(), None),
            RowLengths::default()
        );
        // Rows without any token have a bin, too.
        let bins = RowLengths::new(&BTreeMap::from([(0, 2)]), None).bins;
        assert_eq!((bins[0].from, bins[0].to, bins[0].rows), (0, 1, 2));
    }
}
