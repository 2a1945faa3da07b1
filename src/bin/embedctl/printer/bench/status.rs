//! The progress display of a benchmark.

use std::time::Duration;

use embedctl::bench::BenchStep;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::{Printer, Verbosity, When};
use super::amount;

/// Shows the progress of a benchmark: a changing line on a terminal, otherwise lines if requested.
pub struct BenchStatus {
    printer: Printer,
    bar: Option<ProgressBar>,
    lines: bool,
}

impl BenchStatus {
    /// Takes the line away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Shows a step.
    pub fn show(&self, step: BenchStep<'_>) {
        match step {
            BenchStep::Begin(what) => self.begin(what),
            BenchStep::Sample {
                name,
                rows_per_second,
            } => self.sampled(name, rows_per_second),
        }
    }

    fn begin(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.printer.safe(what));
        } else if self.lines {
            self.printer.info(what);
        } else {
            self.printer.detail(what);
        }
    }

    fn sampled(&self, name: &str, rows_per_second: f64) {
        let text = format!("{name}: {} rows/s", amount(rows_per_second));
        if let Some(bar) = &self.bar {
            bar.set_message(self.printer.safe(&text));
        } else {
            self.printer.detail(text);
        }
    }
}

impl Printer {
    /// The progress display of a benchmark.
    pub fn bench_status(&self) -> BenchStatus {
        let wanted = match self.progress {
            When::Always => true,
            When::Auto => self.verbosity == Verbosity::Normal,
            When::Never => false,
        };
        let bar = (self.draws() && wanted).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        BenchStatus {
            printer: self.clone(),
            bar,
            lines: self.progress == When::Always,
        }
    }
}
