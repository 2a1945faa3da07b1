//! Prometheus' text format, for `node_exporter`'s textfile collector: docs/numbers.md lists the metrics.
//!
//! A sample bears no time of its own (the collector refuses such), and every one bears the output's name,
//! so that the files of several jobs on one machine don't hold the same series.

use embedctl::stage::{Stage, StageWatch};
use embedctl_common::prometheus::MetricsPage;

use super::{Numbers, NumbersState, now};

/// The file's text.
pub(super) fn text(numbers: &Numbers, state: &NumbersState) -> String {
    let engine = state.engine.as_ref();
    let labels = [
        ("model", numbers.model.as_str()),
        ("engine", engine.map_or("", |engine| engine.engine)),
        (
            "provider",
            engine.map_or("", |engine| engine.provider.name()),
        ),
        ("output", numbers.output.as_str()),
    ];
    let labels = labels.map(|(name, value)| (name, numbers.printer.safe(value)));
    let labels: Vec<(&str, &str)> =
        (labels.iter().map(|(name, value)| (*name, &**value))).collect();
    let mut file = RunMetrics(MetricsPage::new("embedctl_", &labels));

    let (counts, end) = (&state.counts, state.end.as_ref());
    let reading = state.meter.read(numbers.worked(state));
    let finished = state.summary.is_some();
    let stages = state.stages.as_ref().map(StageWatch::times);
    let run = stages.as_ref();
    file.counter("records_read", "Records read.", counts.read);
    file.counter("rows_embedded", "Rows embedded.", counts.rows);
    file.counter("rows_rejected", "Records rejected.", counts.rejected);
    file.counter(
        "rows_truncated",
        "Rows cut to the model's length.",
        counts.truncated,
    );
    file.counter(
        "rows_repeated",
        "Duplicate rows: each took the vector of an equal text.",
        run.map_or(0, |run| run.duplicates),
    );
    file.counter(
        "rows_reused",
        "Rows with a vector copied from an earlier output.",
        counts.reused,
    );
    file.counter(
        "tokens",
        "Tokens that ran through the model, padding not counted.",
        state.tokens,
    );
    file.counter(
        "padding_tokens",
        "Padding tokens in the batches.",
        run.map_or(0, |run| run.padded_tokens.saturating_sub(run.real_tokens)),
    );
    file.counter(
        "input_read_bytes",
        "Bytes of the input read (compressed bytes of compressed files).",
        counts.consumed,
    );
    if let Some(bytes) = state.total_bytes {
        file.gauge("input_bytes", "Size of the input.", bytes as f64);
    }
    if let Some(run) = run {
        let wait = [("wait", run.wait)];
        let busy = Stage::ALL.map(|stage| (stage.name(), run.busy(stage)));
        let name = "stage_seconds_total";
        let help = "Time spent in a stage, summed over its threads; wait: workers without a batch.";
        file.0.family(name, "counter", help);
        for (stage, time) in busy.into_iter().chain(wait) {
            file.0.sample(name, &[("stage", stage)], time.as_secs_f64());
        }
    }
    if let Some(share) = if finished { Some(1.0) } else { reading.share } {
        file.gauge("run_progress_ratio", "Share of the input done.", share);
    }
    file.gauge(
        "run_started_timestamp_seconds",
        "When the run began.",
        numbers.began_at,
    );
    file.gauge(
        "run_updated_timestamp_seconds",
        "When this file was written.",
        end.map_or_else(now, |end| end.at),
    );
    file.gauge(
        "run_finished",
        "Whether the run has ended, with or without an error.",
        f64::from(u8::from(end.is_some())),
    );
    if let Some(end) = end {
        file.gauge(
            "run_finished_timestamp_seconds",
            "When the run ended.",
            end.at,
        );
        file.gauge(
            "run_exit_code",
            "The exit code: 0 done, 1 failed, 2 wrong options, 3 done with rejected records, 130 interrupted.",
            f64::from(end.code.number()),
        );
    }
    file.0.into_text()
}

/// A run's metrics, which have one sample each.
struct RunMetrics(MetricsPage);

impl RunMetrics {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.one(&format!("{name}_total"), "counter", help, value as f64);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.one(name, "gauge", help, value);
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.0.family(name, kind, help);
        self.0.sample(name, &[], value);
    }
}
