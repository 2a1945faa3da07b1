//! The result of a benchmark, as it is shown, written as JSON, and read again as a baseline.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::comparison::BaselineComparison;
use super::configuration::Configuration;
use super::machine::Machine;
use super::protocol::{OpenedConfiguration, Stages};
use super::runner::Runner;
use super::stats::{Spread, percentile};
use super::workload::WorkloadInfo;
use crate::setting::DURATION;
use crate::size::per;
use crate::stage::padding;

/// Samples further apart than this, as a share of their median, are worth a warning.
const NOISY: f64 = 0.2;

/// Version of the report's schema.
pub(super) const SCHEMA: u32 = 1;

/// A finished benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Version of this schema: 1.
    pub schema: u32,
    /// Program and version, such as `embedctl 0.1.0`.
    pub tool: String,
    /// When it began, in UTC: `2026-11-21T12:00:00Z`.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// The texts.
    pub workload: WorkloadInfo,
    /// One for each configuration, in the order in which they were given.
    pub rows: Vec<Row>,
    /// Warnings and notes to show once.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Against an earlier report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<BaselineComparison>,
}

impl BenchReport {
    /// The measured rows, with their figures.
    pub fn measured(&self) -> impl Iterator<Item = (&Row, &MeasuredConfiguration)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.measured.as_ref()?)))
    }

    /// Why configurations failed: names that share a reason, and the reason.
    #[must_use]
    pub fn failures(&self) -> Vec<(Vec<&str>, &str)> {
        let mut failures: Vec<(Vec<&str>, &str)> = Vec::new();
        for row in &self.rows {
            let Some(reason) = row.failed.as_deref() else {
                continue;
            };
            match failures.iter_mut().find(|(_, known)| *known == reason) {
                Some((names, _)) => names.push(&row.name),
                None => failures.push((vec![&row.name], reason)),
            }
        }
        failures
    }
}

/// A configuration and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its label: the settings in which it differs from the other rows.
    pub name: String,
    /// The requested configuration.
    pub configuration: Configuration,
    /// The figures, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredConfiguration>,
    /// The reason, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Measurements of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredConfiguration {
    /// The configuration as opened: engine, provider, all settings.
    pub opened: OpenedConfiguration,
    /// Rows in a sample.
    pub sample_rows: u64,
    /// Tokens in a sample, padding not counted.
    pub sample_tokens: u64,
    /// Rows of a sample that were cut to the model's length.
    pub truncated: u64,
    /// Records of a sample for which there is no vector.
    pub rejected: u64,
    /// Rows a second, a value for each sample.
    pub rows_per_second: Spread,
    /// Tokens a second, padding not counted.
    pub tokens_per_second: Spread,
    /// Of single texts, in milliseconds; absent where none was measured.
    pub latency_ms: Option<Latency>,
    /// The most memory that the worker has held, in bytes; absent where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// The most memory that it held on the provider's devices after a sample, in bytes; absent for the
    /// processor, and where no driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory_bytes: Option<u64>,
    /// Share of the tokens run that were padding, 0 to 1.
    pub padding: f64,
    /// Share of each stage in the time of all threads, 0 to 1.
    pub stages: Stages,
    /// The stage that held up the others in most samples.
    pub limited_by: String,
    /// Useful work a second: 10⁹ floating-point operations of the model's matrix products.
    pub useful_gflops: Option<f64>,
    /// The same as a share of the machine's measured peak in that arithmetic (single precision, or the native engine's
    /// integers), on the processor.
    pub share_of_peak: Option<f64>,
}

/// How long a single text takes from its characters to its vector, one after another on one worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the texts take no longer.
    pub p50: f64,
    /// 95 % take no longer.
    pub p95: f64,
    /// 99 % take no longer.
    pub p99: f64,
    /// Texts that were measured.
    pub texts: usize,
}

impl Latency {
    fn of(seconds: &[f64]) -> Option<Self> {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |p| percentile(&sorted, p).map(|seconds| seconds * 1000.0);
        Some(Self {
            p50: at(0.5)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            texts: sorted.len(),
        })
    }
}

impl Row {
    /// Whether the samples are so far apart that their median says little.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        let measured = self.measured.as_ref();
        measured.is_some_and(|measured| measured.rows_per_second.noise() > NOISY)
    }

    /// The result of `runner`, one of `all`, on this machine with its measured peaks.
    pub(super) fn of(runner: &Runner, all: &[Configuration], machine: &Machine) -> Self {
        let measured = match &runner.failed {
            Some(_) => None,
            None => MeasuredConfiguration::of(runner, machine),
        };
        let failed = match (&measured, &runner.failed) {
            (Some(_), _) => None,
            (None, Some(reason)) => Some(reason.clone()),
            (None, None) => Some(format!(
                "there was no time for a sample; give it a longer {DURATION}"
            )),
        };
        Self {
            name: name(runner, all),
            configuration: runner.configuration.clone(),
            measured,
            failed,
        }
    }
}

/// The configuration's label; `auto` is replaced by its actual provider, unless another row has that label.
fn name(runner: &Runner, all: &[Configuration]) -> String {
    let own = &runner.configuration;
    let label = own.label(all);
    let Some(opened) = runner.opened.as_ref().filter(|_| own.provider == "auto") else {
        return label;
    };
    let named = Configuration {
        provider: opened.provider.clone(),
        ..own.clone()
    };
    let taken = all.iter().any(|other| other.label(all) == named.label(all));
    if taken {
        return label.replacen("auto", &format!("auto ({})", opened.provider), 1);
    }
    named.label(all)
}

impl MeasuredConfiguration {
    fn of(runner: &Runner, machine: &Machine) -> Option<Self> {
        let opened = runner.opened.clone()?;
        let last = runner.samples.last()?;
        let samples = || runner.samples.iter();
        let rates = |amount: fn(&super::protocol::WorkloadSample) -> u64| {
            let values = samples().map(|sample| per(amount(sample) as f64, sample.seconds));
            Spread::of(&values.collect::<Vec<_>>())
        };
        let rows_per_second = rates(|sample| sample.rows)?;
        let real: u64 = samples().map(|sample| sample.real_tokens).sum();
        let padded: u64 = samples().map(|sample| sample.padded_tokens).sum();
        // Of a sample, at the median rate: as robust as that is.
        let useful_gflops = runner.work.map(|work| {
            let operations = work.total(last.real_tokens as f64, last.pairs as f64);
            operations * rows_per_second.median / (last.rows.max(1) as f64) / 1e9
        });
        let on_processor = opened.devices.is_empty();
        let share = |(useful, peak): (f64, f64)| useful / peak;
        Some(Self {
            sample_rows: last.rows,
            sample_tokens: last.tokens,
            truncated: last.truncated,
            rejected: last.rejected,
            tokens_per_second: rates(|sample| sample.tokens)?,
            rows_per_second,
            latency_ms: Latency::of(&runner.latencies),
            peak_memory_bytes: samples().filter_map(|sample| sample.peak_memory).max(),
            device_memory_bytes: samples().filter_map(|sample| sample.device_memory).max(),
            padding: padding(real, padded),
            stages: Stages::sum(samples().map(|sample| sample.stages)).shares(),
            limited_by: most_frequent(samples().map(|sample| sample.limit.as_str())),
            useful_gflops,
            share_of_peak: useful_gflops
                .zip(machine.peak(opened.precision.as_deref()))
                .filter(|_| on_processor)
                .map(share),
            opened,
        })
    }
}

fn most_frequent<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for word in words {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    let most = counts.iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

/// Now, in UTC, to the second.
pub(super) fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_in_milliseconds() {
        let seconds: Vec<f64> = (1..=101).map(|i| f64::from(i) / 1000.0).collect();
        let latency = Latency::of(&seconds).unwrap();
        assert!((latency.p50 - 51.0).abs() < 1e-9 && (latency.p99 - 100.0).abs() < 1e-9);
        assert_eq!(latency.texts, 101);
        assert_eq!(Latency::of(&[]), None);
    }

    #[test]
    fn the_usual_limit_is_named() {
        assert_eq!(
            most_frequent(["infer", "write", "infer"].into_iter()),
            "infer"
        );
        assert_eq!(most_frequent([].into_iter()), "");
    }
}
