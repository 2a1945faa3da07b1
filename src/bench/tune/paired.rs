//! Two runners compared, sample by sample in turn, until it is clear which is faster.

use crate::bench::options::{BenchOptions, LEAST_SAMPLES};
use crate::bench::report::LEAST_GAIN;
use crate::bench::runner::{Runner, RunnerShare};
use crate::bench::stats::Spread;
use crate::error::Result;

/// A candidate that has lost its first samples by more than this is given up.
const HOPELESS: f64 = 0.95;

/// Two runners compared.
#[derive(Debug, Clone)]
pub(super) struct PairedComparison {
    /// Rows a second of the second as a multiple of the first's, for each pair of samples.
    pub(super) ratio: Option<Spread>,
}

impl PairedComparison {
    pub(super) fn median(&self) -> f64 {
        self.ratio.as_ref().map_or(1.0, |ratio| ratio.median)
    }

    /// Whether the second is faster, and that not by chance.
    pub(super) fn is_better(&self) -> bool {
        let beyond_noise = self.ratio.as_ref().and_then(|ratio| ratio.low);
        self.median() >= LEAST_GAIN && beyond_noise.is_some_and(|low| low > 1.0)
    }

    /// Whether more samples could change the answer.
    fn is_decided(&self) -> bool {
        let Some(ratio) = &self.ratio else {
            return false;
        };
        let hopeless = ratio.values.len() >= LEAST_SAMPLES / 2 && ratio.max < HOPELESS;
        let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
            return hopeless;
        };
        hopeless || low > 1.0 || high < LEAST_GAIN
    }
}

/// Samples two runners in turn, each first every other time, until it is clear which is faster or the time
/// is up (`patience` times the duration of a configuration).
pub(super) fn compare(
    first: &mut Runner,
    second: &mut Runner,
    options: &BenchOptions,
    patience: f64,
    shared: &RunnerShare<'_>,
) -> Result<PairedComparison> {
    let most = options.duration.as_secs_f64() * patience;
    let before = first.spent() + second.spent();
    let mut ratios = Vec::new();
    loop {
        let pair = if ratios.len() % 2 == 0 {
            let one = first.sample(shared)?;
            one.zip(second.sample(shared)?)
        } else {
            let other = second.sample(shared)?;
            first.sample(shared)?.zip(other)
        };
        let Some((one, other)) = pair else {
            break;
        };
        ratios.push(if one > 0.0 { other / one } else { 1.0 });
        let compared = PairedComparison {
            ratio: Spread::of(&ratios),
        };
        let over = match options.samples {
            Some(samples) => ratios.len() >= samples,
            None => compared.is_decided() || first.spent() + second.spent() - before > most,
        };
        if over {
            return Ok(compared);
        }
    }
    // One of them died.
    Ok(PairedComparison { ratio: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(ratios: &[f64]) -> PairedComparison {
        PairedComparison {
            ratio: Spread::of(ratios),
        }
    }

    #[test]
    fn only_what_is_better_beyond_noise_is_better() {
        assert!(paired(&[1.1, 1.12, 1.08, 1.1, 1.11, 1.09]).is_better());
        // One bad pair of six could be chance.
        assert!(!paired(&[1.1, 1.12, 0.98, 1.1, 1.11, 1.09]).is_better());
        // Certain, and not worth it.
        assert!(!paired(&[1.005; 8]).is_better());
        // Too few to be certain of anything.
        assert!(!paired(&[1.5; 5]).is_better());
        assert!(!paired(&[]).is_better());
    }

    #[test]
    fn a_comparison_ends_when_it_is_decided() {
        assert!(paired(&[1.2; 6]).is_decided());
        assert!(paired(&[0.99; 6]).is_decided());
        assert!(paired(&[0.7, 0.8, 0.75]).is_decided());
        assert!(!paired(&[0.7, 0.8]).is_decided());
        assert!(!paired(&[0.9, 1.2, 1.1, 0.95, 1.0, 1.3]).is_decided());
    }
}
