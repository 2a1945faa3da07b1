//! Downloads while they last: a bar for each file and one for all of it on a terminal, lines elsewhere.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use embedctl::hub::{FileOutcome, Transfer};
use embedctl::locked;
use embedctl::size::per;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::progress::LineTimes;
use super::words::{bytes, duration};
use super::{MessageLevel, Printer};

/// Width of the size column beside a file's bar: `123.4 MB of 567.8 MB`.
const SIZE_WIDTH: usize = 20;
/// Width of a file's name.
const NAME_WIDTH: usize = 32;

/// Where progress goes.
#[derive(Debug)]
pub enum TransferDisplay {
    /// Bars, the total below.
    Bars {
        all: MultiProgress,
        total: ProgressBar,
    },
    /// A line now and then, and one for each file.
    Lines(LineTimes),
    /// A line for each file that came.
    Files,
}

impl TransferDisplay {
    /// Bars on standard error.
    pub fn bars() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let total = all.add(ProgressBar::new(0));
        total.set_style(style());
        Self::Bars { all, total }
    }
}

/// Shows a download while it lasts.
#[derive(Debug)]
pub struct Downloads {
    printer: Printer,
    display: TransferDisplay,
    // Numbers for display alone: a panic elsewhere leaves nothing half-done in them.
    state: Mutex<TransferState>,
}

#[derive(Debug, Default)]
struct TransferState {
    began: Option<Instant>,
    shown: Option<Instant>,
    planned: u64,
    /// Bytes that are here, and bytes that came just now.
    here: u64,
    came: u64,
    files: BTreeMap<String, TransferredFile>,
}

#[derive(Debug)]
struct TransferredFile {
    began: Instant,
    here: u64,
    size: Option<u64>,
    bar: Option<ProgressBar>,
}

impl TransferredFile {
    /// Draws how much of it is here.
    fn show(&self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.here);
            let size = self.size.map_or_else(|| "?".to_owned(), bytes);
            let size = format!("{} of {size}", bytes(self.here));
            bar.set_message(format!("{size:SIZE_WIDTH$} {}", shortened(name)));
        }
    }
}

impl TransferState {
    /// Bytes per second received in this run.
    fn rate(&self) -> f64 {
        let time = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        per(self.came as f64, time.as_secs_f64())
    }

    /// `1.2 MB of 90.4 MB`
    fn size(&self) -> String {
        format!("{} of {}", bytes(self.here), bytes(self.planned))
    }

    /// `, 3.4 MB/s, 26 s left`
    fn speed(&self) -> String {
        let rate = self.rate();
        let mut text = format!(", {}/s", bytes(rate as u64));
        if rate > 0.0 {
            let left = self.planned.saturating_sub(self.here) as f64 / rate;
            let left = duration(Duration::from_secs(left.round() as u64));
            text.push_str(&format!(", {left} left"));
        }
        text
    }
}

impl Downloads {
    pub(super) fn new(printer: Printer, display: TransferDisplay) -> Self {
        Self {
            printer,
            state: Mutex::new(TransferState {
                shown: match &display {
                    TransferDisplay::Lines(times) => times.first(),
                    _ => None,
                },
                ..TransferState::default()
            }),
            display,
        }
    }

    /// Takes the bars off the screen.
    pub fn end(&self) {
        if let TransferDisplay::Bars { all, .. } = &self.display {
            // Clearing can only fail where standard error is gone.
            let _ = all.clear();
        }
    }

    /// Prints above the bars, if there are any.
    fn beside(&self, print: impl FnOnce()) {
        match &self.display {
            TransferDisplay::Bars { all, .. } => all.suspend(print),
            _ => print(),
        }
    }

    fn event(&self, event: &str, message: &str, fields: &Value) {
        self.beside(|| {
            if !self.printer.json {
                self.printer.info(message);
            } else if let Value::Object(fields) = fields {
                self.printer
                    .shown_event(MessageLevel::Info, event, message, fields.clone());
            }
        });
    }

    fn show_total(&self, state: &TransferState) {
        if let TransferDisplay::Bars { total, .. } = &self.display {
            total.set_length(state.planned);
            total.set_position(state.here);
            total.set_message(format!(
                "{:SIZE_WIDTH$} total{}",
                state.size(),
                state.speed()
            ));
        }
    }

    fn line(&self, state: &mut TransferState, times: LineTimes) {
        if state.began.is_none() || !times.is_due(&mut state.shown) {
            return;
        }
        let fields = json!({
            "bytes": state.here,
            "total_bytes": state.planned,
            "bytes_per_second": state.rate(),
        });
        self.event("progress", &(state.size() + &state.speed()), &fields);
    }
}

impl Transfer for Downloads {
    fn planned(&self, _files: usize, bytes: u64) {
        let mut state = locked(&self.state);
        state.planned = state.planned.saturating_add(bytes);
        self.show_total(&state);
    }

    fn began(&self, file: &str, size: Option<u64>, have: u64) {
        let mut state = locked(&self.state);
        state.began.get_or_insert_with(Instant::now);
        state.here += have;
        let bar = match &self.display {
            TransferDisplay::Bars { all, total } => {
                let bar = all.insert_before(total, ProgressBar::new(size.unwrap_or(0)));
                bar.set_style(style());
                Some(bar)
            }
            _ => None,
        };
        let turn = TransferredFile {
            began: Instant::now(),
            here: have,
            size,
            bar,
        };
        turn.show(&self.printer.safe(file));
        self.show_total(&state);
        state.files.insert(file.to_owned(), turn);
    }

    fn advanced(&self, file: &str, bytes: u64) {
        let mut state = locked(&self.state);
        state.here += bytes;
        state.came += bytes;
        if let Some(turn) = state.files.get_mut(file) {
            turn.here += bytes;
            turn.show(&self.printer.safe(file));
        }
        match &self.display {
            TransferDisplay::Bars { .. } => self.show_total(&state),
            TransferDisplay::Lines(times) => self.line(&mut state, *times),
            TransferDisplay::Files => {}
        }
    }

    fn restarted(&self, file: &str, reason: &str) {
        let mut state = locked(&self.state);
        let lost = state.files.get_mut(file).map_or(0, |turn| {
            let lost = std::mem::take(&mut turn.here);
            turn.show(&self.printer.safe(file));
            lost
        });
        state.here = state.here.saturating_sub(lost);
        drop(state);
        self.beside(|| {
            self.printer.note(format!("{file} starts over: {reason}"));
        });
    }

    fn ended(&self, file: &str, size: u64, outcome: FileOutcome) {
        let mut state = locked(&self.state);
        let turn = state.files.remove(file);
        if let Some(bar) = turn.as_ref().and_then(|turn| turn.bar.as_ref()) {
            bar.finish_and_clear();
        }
        if outcome == FileOutcome::Verified {
            state.here += size;
            self.show_total(&state);
        }
        drop(state);
        match outcome {
            FileOutcome::Fetched => {
                let took = turn.map_or(Duration::ZERO, |turn| turn.began.elapsed());
                let message = format!("fetched {file} ({}) in {}", bytes(size), duration(took));
                let fields = json!({"file": file, "bytes": size, "seconds": took.as_secs_f64()});
                match &self.display {
                    TransferDisplay::Bars { .. } => self.beside(|| self.printer.detail(message)),
                    _ => self.event("fetched", &message, &fields),
                }
            }
            FileOutcome::Verified => self.beside(|| {
                self.printer
                    .detail(format!("{file} is present ({})", bytes(size)));
            }),
            FileOutcome::Failed => {}
        }
    }

    fn retrying(&self, what: &str, reason: &str, pause: Duration) {
        self.beside(|| {
            self.printer.note(format!(
                "{what}: {reason}; trying again in {}",
                duration(pause)
            ));
        });
    }

    fn note(&self, message: &str) {
        self.beside(|| self.printer.note(message));
    }

    fn warning(&self, message: &str) {
        self.beside(|| self.printer.warning(message));
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of a path tells files apart.
fn shortened(file: &str) -> String {
    let length = file.chars().count();
    if length <= NAME_WIDTH {
        return file.to_owned();
    }
    let end: String = file.chars().skip(length - NAME_WIDTH + 1).collect();
    format!("…{end}")
}

/// Cut at the terminal's edge: a line that is broken in two is not taken away as a whole.
fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:10} {wide_msg}")
        .expect("the template is valid")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(shortened("onnx/model.onnx"), "onnx/model.onnx");
        let long = "sentence-transformers/onnx/model_qint8_avx512_vnni.onnx";
        let short = shortened(long);
        assert_eq!(short.chars().count(), NAME_WIDTH);
        assert!(short.starts_with('…') && long.ends_with(&short['…'.len_utf8()..]));
    }
}
