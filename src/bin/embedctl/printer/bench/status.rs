//! What a benchmark is doing meanwhile.

use std::time::Duration;

use embedctl::bench::Watcher;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::{Printer, Verbosity, When};
use super::amount;

/// Shows what a benchmark is doing: a line that changes on a terminal, lines elsewhere if they are wanted.
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
}

impl Watcher for BenchStatus {
    fn state(&self, what: &str) {
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
    /// What shows a benchmark's progress.
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
