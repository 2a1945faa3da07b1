//! The search itself: which of the listed configurations, then one setting after another.

use super::paired::compare;
use super::setting::TuneSetting;
use super::{TuneStep, pair};
use crate::bench::configuration::Configuration;
use crate::bench::machine::Machine;
use crate::bench::options::{BenchOptions, Watcher};
use crate::bench::runner::{Runner, RunnerShare};
use crate::error::Result;
use crate::profile::Tuned;

/// Settings with several listed values, among which tuning may choose.
const CHOICES: [&str; 3] = ["provider", "precision", "provider-option"];

/// A search under way.
pub(super) struct Search<'a> {
    pub(super) options: &'a BenchOptions,
    pub(super) machine: &'a Machine,
    pub(super) watcher: &'a dyn Watcher,
    /// The configurations that were listed.
    pub(super) all: &'a [Configuration],
    pub(super) runners: &'a mut [Runner],
    /// Number of the runner that everything is compared with in the end.
    pub(super) base: usize,
    /// Number of the fastest of the listed runners.
    pub(super) champion: usize,
    /// The changes to the champion's configuration.
    pub(super) settings: Tuned,
    /// The runner with these changes.
    pub(super) best: Option<Runner>,
    pub(super) steps: Vec<TuneStep>,
    pub(super) skipped: Vec<String>,
}

impl Search<'_> {
    fn best(&mut self) -> &mut Runner {
        self.best
            .as_mut()
            .unwrap_or(&mut self.runners[self.champion])
    }

    /// Finds the fastest of the configurations that were listed.
    pub(super) fn choose(&mut self, shared: &mut RunnerShare<'_>) -> Result<()> {
        for number in 0..self.runners.len() {
            if number == self.base || !self.runners[number].is_alive() {
                continue;
            }
            let [best, other] = pair(self.runners, self.champion, number)?;
            if is_the_same(best, other) {
                self.skipped.push(format!(
                    "{}: the same configuration as {}",
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
            best.set_rows(least, shared)?;
            other.set_rows(least, shared)?;
            let comparison = compare(best, other, self.options, 1.0, shared)?;
            best.set_rows(rows[0], shared)?;
            other.set_rows(rows[1], shared)?;
            let kept = other.is_alive() && comparison.is_better();
            self.steps.push(TuneStep {
                setting,
                from,
                to,
                ratio: comparison.ratio,
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
    pub(super) fn chosen(&self) -> Tuned {
        let runner = &self.runners[self.champion];
        let varies = |name: &str| {
            let mut all = self.all.iter().map(|one| one.setting(name));
            let first = all.next();
            all.any(|other| Some(other) != first)
        };
        let [mut provider, precision, options] = CHOICES.map(varies);
        // The provider that `auto` takes is not saved: a later run may find a better one.
        provider &= runner.configuration.provider != "auto";
        let opened = runner.opened.as_ref();
        Tuned {
            provider: provider
                .then(|| opened.map(|opened| opened.provider.clone()))
                .flatten(),
            precision: precision
                .then(|| runner.configuration.precision.clone())
                .flatten(),
            provider_options: if options {
                runner.configuration.provider_options.clone()
            } else {
                Vec::new()
            },
            ..Tuned::default()
        }
    }

    /// Moves one setting for as long as that helps.
    pub(super) fn improve(
        &mut self,
        setting: TuneSetting,
        shared: &mut RunnerShare<'_>,
    ) -> Result<()> {
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
        if setting == TuneSetting::Window && rows <= start {
            self.skipped.push(format!(
                "{name}: a sample has {rows} records and fits one window of {start}, so no other could \
                 make a difference"
            ));
            return Ok(());
        }
        let mut tried = vec![start];
        for way in setting.candidate_changes() {
            let mut helped = false;
            let mut value = start;
            loop {
                value = way(value);
                if tried.contains(&value) || !setting.is_sensible(value, self.machine, rows) {
                    break;
                }
                tried.push(value);
                if !self.attempt(setting, value, shared)? {
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
        setting: TuneSetting,
        value: usize,
        shared: &mut RunnerShare<'_>,
    ) -> Result<bool> {
        let mut settings = self.settings.clone();
        *setting.slot(&mut settings) = Some(value);
        let number = self.runners.len() + self.steps.len();
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
        let mut candidate = Runner::start(configuration, number, shared)?;
        candidate.set_rows(rows, shared)?;
        // The first sample fills caches; it counts for nothing.
        candidate.sample(shared)?;
        candidate.samples.clear();
        let options = self.options;
        let comparison = compare(self.best(), &mut candidate, options, 1.0, shared)?;
        let kept = candidate.is_alive() && comparison.is_better();
        self.steps.push(TuneStep {
            setting: setting.name().into(),
            from: from.to_string(),
            to: value.to_string(),
            ratio: comparison.ratio,
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
fn is_the_same(one: &Runner, other: &Runner) -> bool {
    let Some((a, b)) = one.opened.as_ref().zip(other.opened.as_ref()) else {
        return false;
    };
    let weights = (&a.fingerprint, &a.precision) == (&b.fingerprint, &b.precision);
    let engine = (&a.provider, &a.library, &a.options) == (&b.provider, &b.library, &b.options);
    weights && engine && a.threads == b.threads
}

/// The settings in which two of the listed configurations differ, with both values.
fn difference(one: &Runner, other: &Runner, all: &[Configuration]) -> (String, String, String) {
    let (a, b) = (&one.configuration, &other.configuration);
    let names: Vec<&str> = CHOICES
        .into_iter()
        .filter(|name| a.setting(name) != b.setting(name))
        .collect();
    (names.join(", "), a.label(all), b.label(all))
}
