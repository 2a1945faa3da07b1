//! Looking for the best settings: one setting after another, each candidate against the best so far, their
//! samples in turn. A change is kept only if it is better beyond noise, and the result is compared with the
//! defaults once more before it is saved.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lane::{Lane, Track};
use super::machine::Machine;
use super::profile::{Profile, Tuned};
use super::report::now;
use super::run::{BenchOptions, LEAST_SAMPLES, Watcher};
use super::stats::Spread;
use crate::error::Result;

/// Gains below this are not worth a setting.
const LEAST_GAIN: f64 = 1.01;

/// A candidate that has lost its first samples by more than this is given up.
const HOPELESS: f64 = 0.95;

/// Budgets of tokens that are tried.
const BATCH_TOKENS: (usize, usize) = (32, 1 << 20);

/// How to tune.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// Where profiles are kept; `None`: the result is shown and not saved.
    pub folder: Option<PathBuf>,
}

/// What tuning found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Everything that was tried, in order.
    pub steps: Vec<Step>,
    /// The settings that differ from the defaults in the end.
    pub settings: Tuned,
    /// Rows a second with them as a multiple of those with the defaults, compared in turn at the end.
    pub speedup: Option<Spread>,
    /// Settings that could not be tried, and why.
    pub skipped: Vec<String>,
    /// Profiles that were saved.
    pub saved: Vec<PathBuf>,
    /// In a sentence.
    pub outcome: String,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The setting, by its name as an option.
    pub setting: String,
    /// Its value in the best settings so far.
    pub from: usize,
    /// Its value in the candidate.
    pub to: usize,
    /// Rows a second as a multiple of the best so far.
    pub ratio: Option<Spread>,
    /// Whether the candidate is the best from now on.
    pub kept: bool,
    /// Why it could not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    BatchTokens,
    Threads,
    Window,
}

impl Setting {
    const ALL: [Self; 3] = [Self::BatchTokens, Self::Threads, Self::Window];

    fn name(self) -> &'static str {
        match self {
            Self::BatchTokens => "batch-tokens",
            Self::Threads => "threads",
            Self::Window => "window",
        }
    }

    fn value(self, lane: &Lane) -> Option<usize> {
        let opened = lane.opened.as_ref()?;
        Some(match self {
            Self::BatchTokens => opened.batch_tokens,
            Self::Threads => opened.threads,
            Self::Window => opened.window,
        })
    }

    fn slot(self, settings: &mut Tuned) -> &mut Option<usize> {
        match self {
            Self::BatchTokens => &mut settings.batch_tokens,
            Self::Threads => &mut settings.threads,
            Self::Window => &mut settings.window,
        }
    }

    /// Whether the command line has decided it.
    fn is_given(self, lane: &Lane) -> bool {
        let configuration = &lane.configuration;
        match self {
            Self::BatchTokens => configuration.batch_tokens,
            Self::Threads => configuration.threads,
            Self::Window => configuration.window,
        }
        .is_some()
    }

    /// Ways to go from a value: each is followed for as long as it helps, and the first that helps is the
    /// only one.
    fn ways(self) -> &'static [fn(usize) -> usize] {
        match self {
            Self::BatchTokens => &[|tokens| tokens * 2, |tokens| tokens / 2],
            Self::Threads => &[
                |threads| threads / 2,
                |threads| threads - 1,
                |threads| threads * 2,
            ],
            Self::Window => &[|rows| rows * 4, |rows| rows / 4],
        }
    }

    fn is_sensible(self, value: usize, machine: &Machine, lane: &Lane) -> bool {
        match self {
            Self::BatchTokens => (BATCH_TOKENS.0..=BATCH_TOKENS.1).contains(&value),
            Self::Threads => (1..=2 * machine.cores).contains(&value),
            // What does not fit a sample makes no difference to it.
            Self::Window => (256..=lane.rows).contains(&value),
        }
    }
}

/// Tunes the configuration of `base`, which is warmed up. Returns the lane of the best settings too, where
/// they differ from the defaults.
pub(super) fn tune(
    tune_options: &TuneOptions,
    options: &BenchOptions,
    base: &mut Lane,
    track: &mut Track<'_>,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<(Tuning, Option<Lane>)> {
    let mut search = Search {
        options,
        machine,
        watcher,
        settings: Tuned::default(),
        best: None,
        steps: Vec::new(),
        skipped: Vec::new(),
    };
    for setting in Setting::ALL {
        search.climb(setting, base, track)?;
    }
    let Search {
        settings,
        best,
        steps,
        skipped,
        ..
    } = search;
    let mut tuning = Tuning {
        steps,
        settings,
        speedup: None,
        skipped,
        saved: Vec::new(),
        outcome: String::new(),
    };
    let Some(mut best) = best else {
        tuning.outcome =
            "nothing that was tried is faster than the defaults beyond noise; no profile \
                          was written"
                .into();
        return Ok((tuning, None));
    };
    watcher.state("comparing the best settings with the defaults");
    let last = contest(base, &mut best, options, 2.0, track)?;
    tuning.speedup.clone_from(&last.ratio);
    tuning.outcome = match (&last, &best.opened, &tune_options.folder) {
        (last, Some(opened), Some(folder)) if last.is_better() => {
            let median = last.median();
            let workload = track.workload.info.name.clone();
            let profile = Profile::new(machine, opened, workload, median, now(), settings);
            let mut providers = vec![base.configuration.provider.clone()];
            if opened.provider != providers[0] {
                providers.push(opened.provider.clone());
            }
            for provider in providers {
                tuning.saved.push(profile.save(folder, &provider)?);
            }
            format!(
                "{:.1} % faster than the defaults; embed uses these settings from now on",
                100.0 * (median - 1.0)
            )
        }
        (last, _, None) if last.is_better() => format!(
            "{:.1} % faster than the defaults; no home folder is known to save a profile in",
            100.0 * (last.median() - 1.0)
        ),
        _ => "compared once more, the best settings are not faster than the defaults beyond noise; no \
              profile was written"
            .into(),
    };
    Ok((tuning, Some(best)))
}

struct Search<'a> {
    options: &'a BenchOptions,
    machine: &'a Machine,
    watcher: &'a dyn Watcher,
    settings: Tuned,
    /// The lane of the best settings, where they are not the defaults.
    best: Option<Lane>,
    steps: Vec<Step>,
    skipped: Vec<String>,
}

impl Search<'_> {
    /// Moves one setting for as long as that helps.
    fn climb(&mut self, setting: Setting, base: &mut Lane, track: &mut Track<'_>) -> Result<()> {
        let name = setting.name();
        if setting.is_given(base) {
            self.skipped
                .push(format!("{name}: given on the command line"));
            return Ok(());
        }
        let Some(start) = setting.value(base) else {
            return Ok(());
        };
        if setting == Setting::Window && base.rows <= start {
            self.skipped.push(format!(
                "{name}: a sample has {} records and fits one window of {start}, so no other could \
                 make a difference",
                base.rows
            ));
            return Ok(());
        }
        let mut tried = vec![start];
        for way in setting.ways() {
            let mut helped = false;
            let mut value = start;
            loop {
                value = way(value);
                if tried.contains(&value) || !setting.is_sensible(value, self.machine, base) {
                    break;
                }
                tried.push(value);
                if !self.attempt(setting, value, base, track)? {
                    break;
                }
                helped = true;
            }
            if helped {
                break;
            }
        }
        Ok(())
    }

    /// Tries one value; whether it is the best now.
    fn attempt(
        &mut self,
        setting: Setting,
        value: usize,
        base: &mut Lane,
        track: &mut Track<'_>,
    ) -> Result<bool> {
        let champion = self.best.as_mut().unwrap_or(&mut *base);
        let from = setting.value(champion).unwrap_or(value);
        self.watcher.state(&format!(
            "trying --{} {value} against {from}",
            setting.name()
        ));
        let mut settings = self.settings;
        *setting.slot(&mut settings) = Some(value);
        let mut configuration = champion.configuration.clone();
        configuration.threads = settings.threads.or(configuration.threads);
        configuration.batch_tokens = settings.batch_tokens.or(configuration.batch_tokens);
        configuration.window = settings.window.or(configuration.window);
        let number = self.steps.len() + 1;
        let mut candidate = Lane::start(configuration, number, track)?;
        candidate.set_rows(champion.rows, track)?;
        // The first sample fills caches; it counts for nothing.
        candidate.sample(track)?;
        candidate.samples.clear();
        let contest = contest(champion, &mut candidate, self.options, 1.0, track)?;
        let kept = candidate.is_alive() && contest.is_better();
        self.steps.push(Step {
            setting: setting.name().into(),
            from,
            to: value,
            ratio: contest.ratio,
            kept,
            failed: candidate.failed.clone(),
        });
        if kept {
            self.settings = settings;
            self.best = Some(candidate);
        }
        Ok(kept)
    }
}

/// Two lanes compared.
#[derive(Debug, Clone)]
struct Contest {
    /// Rows a second of the second as a multiple of the first's, for each pair of samples.
    ratio: Option<Spread>,
}

impl Contest {
    fn median(&self) -> f64 {
        self.ratio.as_ref().map_or(1.0, |ratio| ratio.median)
    }

    /// Whether the second is faster, and that not by chance.
    fn is_better(&self) -> bool {
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
fn contest(
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
