//! Looking for the best settings: first among the configurations that were listed (providers, precisions),
//! then one setting after another, each candidate against the best so far, their samples in turn. A change
//! is kept only if it is better beyond noise, and the result is compared with the defaults once more before
//! it is saved.

mod paired;
mod search;
mod setting;

use std::path::{Path, PathBuf};

use self::paired::compare;
use self::search::Search;
use super::machine::Machine;
use super::options::{BenchOptions, TuneOptions, Watcher};
use super::protocol::OpenedAs;
use super::report::{TuneStep, Tuning, now};
use super::runner::{Runner, RunnerShare, configurations};
use crate::error::{Error, Result};
use crate::profile::{Profile, SCHEMA, Tuned};
use crate::setting::DURATION;

/// Tunes the configurations of `runners`, which are warmed up. Returns the runner of the best settings too,
/// where it is none of them; `None` if none of them can run.
pub(super) fn tune(
    tune_options: &TuneOptions,
    options: &BenchOptions,
    runners: &mut [Runner],
    shared: &mut RunnerShare<'_>,
    machine: &Machine,
    watcher: &dyn Watcher,
) -> Result<Option<(Tuning, Option<Runner>)>> {
    // The reference of the comparisons: the first that can run.
    let Some(base) = runners.iter().position(Runner::is_alive) else {
        return Ok(None);
    };
    let all = configurations(runners);
    let mut search = Search {
        options,
        machine,
        watcher,
        all: &all,
        runners,
        base,
        champion: base,
        settings: Tuned::default(),
        best: None,
        steps: Vec::new(),
        skipped: Vec::new(),
    };
    search.choose(shared)?;
    for setting in setting::TuneSetting::ALL {
        search.improve(setting, shared)?;
    }
    let chosen = search.chosen();
    let Search {
        champion,
        mut best,
        steps,
        skipped,
        runners,
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
    let reference = match all.len() {
        1 => "the defaults".to_owned(),
        _ => all[base].label(&all),
    };
    let advice = if tuning.steps.iter().any(TuneStep::is_unclear) {
        format!("; a longer {DURATION} may settle the unclear ones")
    } else {
        String::new()
    };
    let better = if champion == base && best.is_none() {
        if tuning.settings == Tuned::default() {
            tuning.outcome = format!(
                "no tried setting is proven to be faster than {reference}{advice}; no profile was written"
            );
            return Ok(Some((tuning, None)));
        }
        // Listed first and the fastest: that is worth remembering.
        tuning.outcome = format!("{reference} is the fastest of these");
        true
    } else {
        watcher.state(&format!("comparing the best settings with {reference}"));
        let last = match (&mut best, base == champion) {
            (Some(best), _) => compare(&mut runners[base], best, options, 2.0, shared)?,
            (None, false) => {
                let [one, other] = pair(runners, base, champion)?;
                compare(one, other, options, 2.0, shared)?
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
                "compared once more, the best settings are not proven to be faster than {reference} (a longer \
                 {DURATION} tells more); no profile was written"
            )
        };
        last.is_better()
    };
    let winner = best.as_ref().unwrap_or(&runners[champion]);
    if better && let Some(opened) = &winner.opened {
        match &tune_options.folder {
            Some(folder) => {
                let base = &runners[base];
                let fingerprint = tune_options.fingerprint.as_ref();
                tuning.saved = save(folder, fingerprint, &tuning, base, opened, machine, shared)?;
                tuning.outcome += "; embed uses these settings from now on";
            }
            None => tuning.outcome += "; no home folder is known to save a profile in",
        }
    }
    Ok(Some((tuning, best)))
}

/// Saves the best settings for runs with this run's provider option, and for runs that name the provider.
fn save(
    folder: &Path,
    fingerprint: Option<&String>,
    tuning: &Tuning,
    base: &Runner,
    winner: &OpenedAs,
    machine: &Machine,
    shared: &RunnerShare<'_>,
) -> Result<Vec<PathBuf>> {
    let of_base = base.opened.as_ref().map(|opened| &opened.fingerprint);
    let fingerprint = fingerprint.or(of_base).unwrap_or(&winner.fingerprint);
    let speedup = tuning.speedup.as_ref();
    let profile = |settings: Tuned| Profile {
        schema: SCHEMA,
        model: winner.model.clone(),
        fingerprint: fingerprint.clone(),
        machine: machine.signature(),
        cpu: machine.cpu.clone(),
        provider: winner.provider.clone(),
        engine: format!("{} {}", winner.engine, winner.version),
        workload: shared.workload.info.name.clone(),
        speedup: speedup.map_or(1.0, |speedup| speedup.median),
        date: now(),
        settings,
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

/// Two different runners, both to be changed.
fn pair(runners: &mut [Runner], one: usize, other: usize) -> Result<[&mut Runner; 2]> {
    runners
        .get_disjoint_mut([one, other])
        .map_err(|error| Error::internal(format!("runners {one} and {other}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_for_who_asks_for_them() {
        let settings = Tuned {
            batch_tokens: Some(1024),
            ..Tuned::default()
        };
        let both = |first: &'static str| vec![(first, settings.clone()), ("cpu", settings.clone())];
        assert_eq!(uses(&settings, "cpu", "cpu"), both("cpu")[1..]);
        assert_eq!(uses(&settings, "auto", "cpu"), both("auto"));
        // A run that names OpenVINO gets the settings; `auto` decides whether to use it.
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
}
