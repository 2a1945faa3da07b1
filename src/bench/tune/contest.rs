//! Two lanes compared, sample by sample in turn, until it is clear which is faster.

use crate::bench::lane::{Lane, Track};
use crate::bench::run::{BenchOptions, LEAST_SAMPLES};
use crate::bench::stats::Spread;
use crate::error::Result;

/// Gains below this are not worth a setting.
const LEAST_GAIN: f64 = 1.01;

/// A candidate that has lost its first samples by more than this is given up.
const HOPELESS: f64 = 0.95;

/// Two lanes compared.
#[derive(Debug, Clone)]
pub(super) struct Contest {
    /// Rows a second of the second as a multiple of the first's, for each pair of samples.
    pub(super) ratio: Option<Spread>,
}

impl Contest {
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

/// Samples two lanes in turn, each first every other time, until it is clear which is faster or the time
/// is up (`patience` times the duration of a configuration).
pub(super) fn contest(
    first: &mut Lane,
    second: &mut Lane,
    options: &BenchOptions,
    patience: f64,
    track: &Track<'_>,
) -> Result<Contest> {
    let most = options.duration.as_secs_f64() * patience;
    let before = first.spent() + second.spent();
    let mut ratios = Vec::new();
    loop {
        let pair = if ratios.len() % 2 == 0 {
            let one = first.sample(track)?;
            one.zip(second.sample(track)?)
        } else {
            let other = second.sample(track)?;
            first.sample(track)?.zip(other)
        };
        let Some((one, other)) = pair else {
            break;
        };
        ratios.push(if one > 0.0 { other / one } else { 1.0 });
        let contest = Contest {
            ratio: Spread::of(&ratios),
        };
        let over = match options.samples {
            Some(samples) => ratios.len() >= samples,
            None => contest.is_decided() || first.spent() + second.spent() - before > most,
        };
        if over {
            return Ok(contest);
        }
    }
    // One of them died.
    Ok(Contest { ratio: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest_of(ratios: &[f64]) -> Contest {
        Contest {
            ratio: Spread::of(ratios),
        }
    }

    #[test]
    fn only_what_is_better_beyond_noise_is_better() {
        assert!(contest_of(&[1.1, 1.12, 1.08, 1.1, 1.11, 1.09]).is_better());
        // One bad pair of six could be chance.
        assert!(!contest_of(&[1.1, 1.12, 0.98, 1.1, 1.11, 1.09]).is_better());
        // Certain, and not worth it.
        assert!(!contest_of(&[1.005; 8]).is_better());
        // Too few to be certain of anything.
        assert!(!contest_of(&[1.5; 5]).is_better());
        assert!(!contest_of(&[]).is_better());
    }

    #[test]
    fn a_contest_ends_when_it_is_decided() {
        assert!(contest_of(&[1.2; 6]).is_decided());
        assert!(contest_of(&[0.99; 6]).is_decided());
        assert!(contest_of(&[0.7, 0.8, 0.75]).is_decided());
        assert!(!contest_of(&[0.7, 0.8]).is_decided());
        assert!(!contest_of(&[0.9, 1.2, 1.1, 0.95, 1.0, 1.3]).is_decided());
    }
}
