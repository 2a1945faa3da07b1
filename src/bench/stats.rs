//! Medians, percentiles and intervals of repeated measurements. Pure.

use serde::{Deserialize, Serialize};

use crate::size::per;

/// Repeated measurements of one quantity, in its own unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value.
    pub median: f64,
    /// Lower end of the 95 % interval of the median; absent with fewer than six values.
    pub low: Option<f64>,
    /// Upper end of the same.
    pub high: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// All values, in the order in which they were measured.
    pub values: Vec<f64>,
}

impl Spread {
    /// The statistics of `values`, which must be finite; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let interval = median_ranks(sorted.len()).map(|(low, high)| (sorted[low], sorted[high]));
        Some(Self {
            median: percentile(&sorted, 0.5)?,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            min,
            max,
            values: values.to_vec(),
        })
    }

    /// Ends of the 95 % interval of the median; of everything measured, where six values are not there.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        (self.low.unwrap_or(self.min), self.high.unwrap_or(self.max))
    }

    /// Half the interval's width as a share of the median.
    #[must_use]
    pub fn noise(&self) -> f64 {
        let (low, high) = self.interval();
        per((high - low) / 2.0, self.median)
    }

    /// Whether the 95 % interval is known and its half within `share` of the median.
    #[must_use]
    pub fn is_tight(&self, share: f64) -> bool {
        self.low.is_some() && self.noise() < share
    }

    /// The same measurements in another unit.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let scale = |value: f64| value * factor;
        Self {
            median: scale(self.median),
            low: self.low.map(scale),
            high: self.high.map(scale),
            min: scale(self.min),
            max: scale(self.max),
            values: self.values.iter().copied().map(scale).collect(),
        }
    }
}

/// The value below which a share `p` (0 to 1) of `sorted` lies, interpolated between neighbours.
#[must_use]
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// Indices of the order statistics that enclose the median with a probability of at least 95 % for every distribution:
/// the number of values below the median is binomial with one half. Fewer than six values cannot promise that much.
fn median_ranks(count: usize) -> Option<(usize, usize)> {
    const NORMAL_FROM: usize = 200; // from here on the binomial's own sums add nothing but rounding
    let below = if count < NORMAL_FROM {
        let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
        let mut cumulative = 0.0;
        let mut below = 0;
        while cumulative + probability <= 0.025 {
            cumulative += probability;
            probability *= (count - below) as f64 / (below + 1) as f64;
            below += 1;
        }
        below
    } else {
        ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0) as usize
    };
    // The interval goes from the `below`-th smallest value to the `below`-th largest.
    let low = below.checked_sub(1)?;
    Some((low, count - 1 - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_interpolated() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(percentile(&sorted, 0.0), Some(1.0));
        assert_eq!(percentile(&sorted, 0.5), Some(2.5));
        assert_eq!(percentile(&sorted, 1.0), Some(4.0));
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    /// The ranks of the usual tables for the sign test (counted from 1 there).
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        for (count, ranks) in [
            (6, (1, 6)),
            (8, (1, 8)),
            (9, (2, 8)),
            (15, (4, 12)),
            (20, (6, 15)),
        ] {
            assert_eq!(
                median_ranks(count),
                Some((ranks.0 - 1, ranks.1 - 1)),
                "{count}"
            );
        }
        assert_eq!(median_ranks(5), None);
        assert_eq!(median_ranks(0), None);
    }

    #[test]
    fn many_values_go_by_the_normal_distribution() {
        let (low, high) = median_ranks(1000).unwrap();
        assert_eq!((low, high), (468, 531)); // 469 and 532 counted from 1
        let (low, high) = median_ranks(199).unwrap();
        assert!(
            (84..=86).contains(&low) && low + high == 198,
            "{low} {high}"
        );
    }

    #[test]
    fn an_outlier_moves_neither_median_nor_interval() {
        let mut values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i % 5)).collect();
        let calm = Spread::of(&values).unwrap();
        values[3] = 1.0;
        let disturbed = Spread::of(&values).unwrap();
        assert_eq!(disturbed.min, 1.0);
        assert!((calm.median - disturbed.median).abs() <= 1.0);
        assert!(disturbed.low.unwrap() >= 100.0);
        assert!(disturbed.is_tight(0.02), "{disturbed:?}");
    }

    #[test]
    fn few_values_promise_nothing() {
        let spread = Spread::of(&[10.0, 11.0, 12.0]).unwrap();
        assert_eq!((spread.low, spread.high), (None, None));
        assert_eq!(spread.interval(), (10.0, 12.0));
        assert!(!spread.is_tight(0.5));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_unit_changes_everything_alike() {
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let scaled = spread.scaled(10.0);
        assert_eq!((scaled.median, scaled.low), (35.0, Some(10.0)));
        assert!((scaled.noise() - spread.noise()).abs() < 1e-12);
    }
}
