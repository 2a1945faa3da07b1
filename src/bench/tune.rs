//! Looking for the best settings: first among the configurations that were listed (providers, precisions),
//! then one setting after another, each candidate against the best so far, their samples in turn. A change
//! is kept only if it is better beyond noise, and the result is compared with the defaults once more before
//! it is saved.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::configuration::Configuration;
use super::lane::{Lane, Track};
use super::machine::Machine;
use super::profile::{Profile, Tuned};
use super::protocol::OpenedAs;
use super::report::now;
use super::run::{BenchOptions, LEAST_SAMPLES, Watcher};
use super::stats::Spread;
use crate::error::{Error, Result};

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
    /// [`super::fingerprint`] of the ONNX file that is taken where none is named, if several precisions are
    /// listed: the profile is found by it. `None`: the file of the first configuration.
    pub fingerprint: Option<String>,
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
    /// The setting, by its name as an option; several, where configurations differ in more than one.
    pub setting: String,
    /// Its value in the best settings so far.
    pub from: String,
    /// Its value in the candidate.
    pub to: String,
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
    fn is_given(self, configuration: &Configuration) -> bool {
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

    /// Whether `value` is worth a try with samples of `rows`.
    fn is_sensible(self, value: usize, machine: &Machine, rows: usize) -> bool {
        match self {
            Self::BatchTokens => (BATCH_TOKENS.0..=BATCH_TOKENS.1).contains(&value),
            Self::Threads => (1..=2 * machine.cores).contains(&value),
            // What does not fit a sample makes no difference to it.
            Self::Window => (256..=rows).contains(&value),
        }
    }
}

/// What tuning may choose between, where several were listed: names of settings.
const CHOICES: [&str; 3] = ["provider", "precision", "provider-option"];

/// The configuration that the others are compared with: the first that can run.
fn first_alive(lanes: &[Lane]) -> Option<usize> {
    lanes.iter().position(Lane::is_alive)
}

/// Tunes the configurations of `lanes`, which are warmed up. Returns the lane of the best settings too,
/// where it is none of them; `None` if none of them can run.
pub(super) fn tune(
    tune_options: &TuneOptions,
    options: &BenchOptions,
    lanes: &mut [Lane],
    track: &mut Track<'_>,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Option<(Tuning, Option<Lane>)>> {
    let Some(base) = first_alive(lanes) else {
        return Ok(None);
    };
    let all: Vec<Configuration> = lanes
        .iter()
        .map(|lane| lane.configuration.clone())
        .collect();
    let mut search = Search {
        options,
        machine,
        watcher,
        all: &all,
        lanes,
        base,
        champion: base,
        settings: Tuned::default(),
        best: None,
        steps: Vec::new(),
        skipped: Vec::new(),
    };
    search.choose(track)?;
    for setting in Setting::ALL {
        search.climb(setting, track)?;
    }
    let chosen = search.chosen();
    let Search {
        champion,
        mut best,
        steps,
        skipped,
        lanes,
        settings,
        ..
    } = search;
    let mut tuning = Tuning {
        steps,
        settings: Tuned {
            provider: chosen.provider,
            precision: chosen.precision,
            provider_options: chosen.provider_options,
            ..settings
        },
        speedup: None,
        skipped,
        saved: Vec::new(),
        outcome: String::new(),
    };
    let several = all.len() > 1;
    let reference = if several {
        all[base].label(&all)
    } else {
        "the defaults".to_owned()
    };
    let better = if champion == base && best.is_none() {
        if tuning.settings == Tuned::default() {
            tuning.outcome = format!(
                "nothing that was tried is faster than {reference} beyond noise; no profile was written"
            );
            return Ok(Some((tuning, None)));
        }
        // Listed first and the fastest: that is worth remembering.
        tuning.outcome = format!("{reference} is the fastest of these");
        true
    } else {
        watcher.state(&format!("comparing the best settings with {reference}"));
        let last = match (&mut best, base == champion) {
            (Some(best), _) => contest(&mut lanes[base], best, options, 2.0, track)?,
            (None, false) => {
                let [one, other] = pair(lanes, base, champion)?;
                contest(one, other, options, 2.0, track)?
            }
            (None, true) => unreachable!("answered above"),
        };
        tuning.speedup.clone_from(&last.ratio);
        tuning.outcome = if last.is_better() {
            format!(
                "{:.1} % faster than {reference}",
                100.0 * (last.median() - 1.0)
            )
        } else {
            format!(
                "compared once more, the best settings are not faster than {reference} beyond noise; no \
                 profile was written"
            )
        };
        last.is_better()
    };
    let winner = best.as_ref().unwrap_or(&lanes[champion]);
    if better && let Some(opened) = &winner.opened {
        match &tune_options.folder {
            Some(folder) => {
                tuning.saved = save(
                    folder,
                    tune_options,
                    &tuning,
                    &lanes[base],
                    opened,
                    machine,
                    track,
                )?;
                tuning.outcome += "; embed uses these settings from now on";
            }
            None => tuning.outcome += "; no home folder is known to save a profile in",
        }
    }
    Ok(Some((tuning, best)))
}

/// Saves what was found for runs that ask for the provider as this one did, and for those that name it.
fn save(
    folder: &Path,
    tune_options: &TuneOptions,
    tuning: &Tuning,
    base: &Lane,
    winner: &OpenedAs,
    machine: &Machine,
    track: &Track<'_>,
) -> Result<Vec<PathBuf>> {
    let fingerprint = match (&tune_options.fingerprint, &base.opened) {
        (Some(fingerprint), _) => fingerprint.clone(),
        (None, Some(opened)) => opened.fingerprint.clone(),
        (None, None) => winner.fingerprint.clone(),
    };
    let speedup = tuning
        .speedup
        .as_ref()
        .map_or(1.0, |speedup| speedup.median);
    let profile = |settings: Tuned| {
        let workload = track.workload.info.name.clone();
        Profile::new(
            machine,
            winner,
            fingerprint.clone(),
            workload,
            speedup,
            now(),
            settings,
        )
    };
    let asked = base.configuration.provider.as_str();
    uses(&tuning.settings, asked, &winner.provider)
        .into_iter()
        .map(|(provider, settings)| profile(settings).save(folder, provider))
        .collect()
}

/// For which `--provider` which of the settings are of use: for `asked`, which tuning was given, or for
/// `auto`, where it had several to choose from; and for who names `winner`, who need not be told which.
fn uses<'a>(settings: &Tuned, asked: &'a str, winner: &'a str) -> Vec<(&'a str, Tuned)> {
    let named = Tuned {
        provider: None,
        ..settings.clone()
    };
    let mut uses = Vec::new();
    if settings.provider.is_some() {
        uses.push(("auto", settings.clone()));
    } else if asked != winner {
        uses.push((asked, named.clone()));
    }
    if named != Tuned::default() {
        uses.push((winner, named));
    }
    uses
}

/// Two different lanes, both to be changed.
fn pair(lanes: &mut [Lane], one: usize, other: usize) -> Result<[&mut Lane; 2]> {
    lanes
        .get_disjoint_mut([one, other])
        .map_err(|error| Error::Internal(format!("lanes {one} and {other}: {error}")))
}

struct Search<'a> {
    options: &'a BenchOptions,
    machine: &'a Machine,
    watcher: &'a dyn Watcher,
    /// The configurations that were listed.
    all: &'a [Configuration],
    lanes: &'a mut [Lane],
    /// Number of the lane that everything is compared with in the end.
    base: usize,
    /// Number of the fastest lane of those that were listed.
    champion: usize,
    /// What was changed in the champion's configuration.
    settings: Tuned,
    /// The lane with these changes.
    best: Option<Lane>,
    steps: Vec<Step>,
    skipped: Vec<String>,
}

impl Search<'_> {
    fn best(&mut self) -> &mut Lane {
        self.best.as_mut().unwrap_or(&mut self.lanes[self.champion])
    }

    /// Finds the fastest of the configurations that were listed.
    fn choose(&mut self, track: &mut Track<'_>) -> Result<()> {
        for number in 0..self.lanes.len() {
            if number == self.base || !self.lanes[number].is_alive() {
                continue;
            }
            let [best, other] = pair(self.lanes, self.champion, number)?;
            if is_the_same(best, other) {
                self.skipped.push(format!(
                    "{}: it is what {} came down to",
                    other.configuration.label(self.all),
                    best.configuration.label(self.all)
                ));
                other.redundant = true;
                other.end();
                continue;
            }
            let (setting, from, to) = difference(best, other, self.all);
            self.watcher.state(&format!("trying {to} against {from}"));
            // The same work for both; afterwards each has its own again.
            let rows = [best.rows, other.rows];
            let least = rows[0].min(rows[1]);
            best.set_rows(least, track)?;
            other.set_rows(least, track)?;
            let contest = contest(best, other, self.options, 1.0, track)?;
            best.set_rows(rows[0], track)?;
            other.set_rows(rows[1], track)?;
            let kept = other.is_alive() && contest.is_better();
            self.steps.push(Step {
                setting,
                from,
                to,
                ratio: contest.ratio,
                kept,
                failed: other.failed.clone(),
            });
            if kept {
                self.champion = number;
            }
        }
        Ok(())
    }

    /// The champion's values of the settings that there was a choice of.
    fn chosen(&self) -> Tuned {
        let lane = &self.lanes[self.champion];
        let varies = |name: &str| {
            let value = |one: &Configuration| {
                let found = one.settings().into_iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| value)
            };
            let mut all = self.all.iter().map(value);
            let first = all.next();
            all.any(|other| Some(other) != first)
        };
        let [mut provider, precision, options] = CHOICES.map(varies);
        // What `auto` takes is not written down: it may find something better one day.
        provider &= lane.configuration.provider != "auto";
        let opened = lane.opened.as_ref();
        Tuned {
            provider: provider
                .then(|| opened.map(|opened| opened.provider.clone()))
                .flatten(),
            precision: precision
                .then(|| lane.configuration.precision.clone())
                .flatten(),
            provider_options: if options {
                lane.configuration.provider_options.clone()
            } else {
                Vec::new()
            },
            ..Tuned::default()
        }
    }

    /// Moves one setting for as long as that helps.
    fn climb(&mut self, setting: Setting, track: &mut Track<'_>) -> Result<()> {
        let name = setting.name();
        let best = self.best();
        if setting.is_given(&best.configuration) {
            self.skipped
                .push(format!("{name}: given on the command line"));
            return Ok(());
        }
        let best = self.best();
        let rows = best.rows;
        let Some(start) = setting.value(best) else {
            return Ok(());
        };
        if setting == Setting::Window && rows <= start {
            self.skipped.push(format!(
                "{name}: a sample has {rows} records and fits one window of {start}, so no other could \
                 make a difference"
            ));
            return Ok(());
        }
        let mut tried = vec![start];
        for way in setting.ways() {
            let mut helped = false;
            let mut value = start;
            loop {
                value = way(value);
                if tried.contains(&value) || !setting.is_sensible(value, self.machine, rows) {
                    break;
                }
                tried.push(value);
                if !self.attempt(setting, value, track)? {
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
    fn attempt(&mut self, setting: Setting, value: usize, track: &mut Track<'_>) -> Result<bool> {
        let mut settings = self.settings.clone();
        *setting.slot(&mut settings) = Some(value);
        let number = self.lanes.len() + self.steps.len();
        let best = self.best();
        let from = setting.value(best).unwrap_or(value);
        let mut configuration = best.configuration.clone();
        configuration.threads = settings.threads.or(configuration.threads);
        configuration.batch_tokens = settings.batch_tokens.or(configuration.batch_tokens);
        configuration.window = settings.window.or(configuration.window);
        let rows = best.rows;
        self.watcher.state(&format!(
            "trying --{} {value} against {from}",
            setting.name()
        ));
        let mut candidate = Lane::start(configuration, number, track)?;
        candidate.set_rows(rows, track)?;
        // The first sample fills caches; it counts for nothing.
        candidate.sample(track)?;
        candidate.samples.clear();
        let options = self.options;
        let contest = contest(self.best(), &mut candidate, options, 1.0, track)?;
        let kept = candidate.is_alive() && contest.is_better();
        self.steps.push(Step {
            setting: setting.name().into(),
            from: from.to_string(),
            to: value.to_string(),
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

/// Whether two configurations came down to one: `auto` and the provider that it takes.
fn is_the_same(one: &Lane, other: &Lane) -> bool {
    let Some((a, b)) = one.opened.as_ref().zip(other.opened.as_ref()) else {
        return false;
    };
    (
        &a.fingerprint,
        &a.provider,
        &a.library,
        &a.options,
        a.threads,
    ) == (
        &b.fingerprint,
        &b.provider,
        &b.library,
        &b.options,
        b.threads,
    )
}

/// In which settings two of the listed configurations differ, with what each has.
fn difference(one: &Lane, other: &Lane, all: &[Configuration]) -> (String, String, String) {
    let (a, b) = (&one.configuration, &other.configuration);
    let value = |configuration: &Configuration, name: &str| {
        let settings = configuration.settings();
        let found = settings.into_iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value)
    };
    let names: Vec<&str> = CHOICES
        .into_iter()
        .filter(|name| value(a, name) != value(b, name))
        .collect();
    (names.join(", "), a.label(all), b.label(all))
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
    fn settings_are_kept_for_who_asks_for_them() {
        let settings = Tuned {
            batch_tokens: Some(1024),
            ..Tuned::default()
        };
        let both = |first: &'static str| vec![(first, settings.clone()), ("cpu", settings.clone())];
        assert_eq!(uses(&settings, "cpu", "cpu"), both("cpu")[1..]);
        assert_eq!(uses(&settings, "auto", "cpu"), both("auto"));
        // Whoever names OpenVINO gets the settings; to take it is for `auto`.
        let chosen = Tuned {
            provider: Some("openvino".into()),
            ..settings.clone()
        };
        let expected = vec![("auto", chosen.clone()), ("openvino", settings)];
        assert_eq!(uses(&chosen, "auto", "openvino"), expected);
        let alone = Tuned {
            provider: Some("openvino".into()),
            ..Tuned::default()
        };
        assert_eq!(uses(&alone, "auto", "openvino"), [("auto", alone.clone())]);
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
