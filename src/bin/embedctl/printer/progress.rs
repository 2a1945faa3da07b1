//! Progress while a run lasts: a bar on a terminal, a line a minute elsewhere, more lines if asked for, or nothing.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use embedctl::engine::EngineInfo;
use embedctl::job::{is_folder, parts_of};
use embedctl::locked;
use embedctl::output::Destination;
use embedctl::progress::{BatchDone, Counts, InputSize, Progress, WindowSize};
use embedctl::storage::Address;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::meter::{Meter, MeterReading};
use super::summary::{engine, measured};
use super::words::{count, duration, number, rate};
use super::{MessageLevel, Printer};

/// Steps of a bar from empty to full.
const STEPS: u64 = 1000;
/// Time between two pictures of a bar.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// Time between two steps of a spinner, which shows that we are alive while nothing is told.
const SPIN_EVERY: Duration = Duration::from_millis(200);
/// What is done before the first batch.
const OPENING: &str = "opening the model";

/// Where progress goes.
#[derive(Debug)]
pub enum Display {
    /// A bar, or a spinner where the input's size is unknown.
    Bar(ProgressBar),
    /// A line now and then.
    Lines(LineTimes),
    /// Nowhere.
    Nothing,
}

/// When a line is printed.
#[derive(Debug, Clone, Copy)]
pub struct LineTimes {
    /// Time between two lines.
    every: Duration,
    /// Whether the first comes with the first batch, and one more at the end.
    shows_ends: bool,
}

impl LineTimes {
    /// Where progress is asked for.
    pub const ALWAYS: Self = Self {
        every: Duration::from_secs(2),
        shows_ends: true,
    };
    /// Where nothing is asked for: a run of less than a minute has its summary alone.
    pub const USUAL: Self = Self {
        every: Duration::from_secs(60),
        shows_ends: false,
    };

    /// When the last line counts as printed before there is one.
    pub fn first(self) -> Option<Instant> {
        (!self.shows_ends).then(Instant::now)
    }

    /// Whether it is time for another line; if so, the next one waits again.
    pub fn is_due(self, shown: &mut Option<Instant>) -> bool {
        is_due(shown, self.every)
    }
}

fn is_due(shown: &mut Option<Instant>, every: Duration) -> bool {
    let due = shown.is_none_or(|shown| shown.elapsed() >= every);
    if due {
        *shown = Some(Instant::now());
    }
    due
}

impl Display {
    /// A spinner that becomes a bar once the input's size is known.
    pub fn bar() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(style("{spinner} {wide_msg}"));
        bar.set_message(OPENING);
        bar.enable_steady_tick(SPIN_EVERY);
        Self::Bar(bar)
    }
}

/// Actions of the command besides showing progress.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Once the model is open; is given [`Hooks::output`].
    pub started: fn(&Printer, &EngineInfo, &'static str),
    /// Called when the output is published.
    pub published: fn(&Printer),
    /// The state of the output after a crash, as a sentence.
    pub output: &'static str,
}

/// Shows a run while it lasts.
#[derive(Debug)]
pub struct LiveProgress {
    printer: Printer,
    display: Display,
    hooks: Hooks,
    // Numbers for display alone: a panic elsewhere leaves nothing half-done in them.
    state: Mutex<ProgressState>,
    /// Its end ends the thread that prints lines while nothing happens.
    _ticking: Option<Sender<()>>,
}

#[derive(Debug, Default)]
struct ProgressState {
    meter: Meter,
    began: Option<Instant>,
    shown: Option<Instant>,
    // Rows on the last line, so that the end does not repeat it.
    shown_rows: Option<u64>,
    warnings: Vec<String>,
    /// Whether the run has ended.
    ended: bool,
}

impl ProgressState {
    fn read(&self) -> MeterReading {
        let elapsed = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.meter.read(elapsed)
    }
}

impl LiveProgress {
    /// Shows progress from now on.
    pub(super) fn start(printer: Printer, display: Display, hooks: Hooks) -> Arc<Self> {
        let times = match &display {
            Display::Lines(times) => Some(*times),
            Display::Bar(_) | Display::Nothing => None,
        };
        // Lines that were asked for come with the work; else the log shows that the run lives, whatever it waits for.
        let (sender, receiver) = mpsc::channel::<()>();
        let ticking = times.filter(|times| !times.shows_ends);
        let own = Arc::new(Self {
            printer,
            display,
            hooks,
            state: Mutex::new(ProgressState {
                shown: times.and_then(LineTimes::first),
                ..ProgressState::default()
            }),
            _ticking: ticking.map(|_| sender),
        });
        if let Some(times) = ticking {
            let weak = Arc::downgrade(&own);
            let run = move || {
                let mut wait = times.every;
                while receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    let Some(until_next) = weak.upgrade().map(|own| own.tick(times)) else {
                        break;
                    };
                    wait = until_next;
                }
            };
            // Without it lines come with the batches alone.
            let _ = std::thread::Builder::new()
                .name("progress".to_owned())
                .spawn(run);
        }
        own
    }

    /// Prints a line if it is time for one; the time until the next.
    fn tick(&self, times: LineTimes) -> Duration {
        let mut state = locked(&self.state);
        self.show(&mut state);
        let since = state.shown.map_or(Duration::ZERO, |shown| shown.elapsed());
        // A clock may stand still in a fraction of a second.
        (times.every.saturating_sub(since)).max(BAR_EVERY)
    }

    /// Takes the bar off the screen; the last line of `--progress always` is printed.
    pub fn end(&self) {
        let mut state = locked(&self.state);
        state.ended = true;
        match &self.display {
            Display::Bar(bar) => bar.finish_and_clear(),
            Display::Lines(times) if times.shows_ends => {
                let reading = state.read();
                if state.began.is_some() && state.shown_rows != Some(reading.rows) {
                    self.line(&mut state, &reading);
                }
            }
            Display::Lines(_) | Display::Nothing => {}
        }
    }

    /// The message of an interrupted run: its progress, and the state of the output.
    pub fn interrupted(&self, destination: &Destination) -> String {
        let reading = locked(&self.state).read();
        let place = reading
            .share
            .map_or_else(String::new, |share| format!(" at {:.0} %", share * 100.0));
        let rows = number(reading.rows, "row");
        let left = match destination {
            Destination::Path(path) if is_folder(path) => "finished parts are kept".to_owned(),
            Destination::Path(path) if path.is_file() || Address::is_url_path(path) => {
                format!("{} is unchanged", path.display())
            }
            Destination::Path(path) if parts_of(path).exists() => {
                "finished parts are kept".to_owned()
            }
            Destination::Path(path) if !path.exists() => {
                "nothing was written. To keep partial work, use `-o FOLDER/` or --resume".to_owned()
            }
            _ => format!("rows written: {}", count(reading.written)),
        };
        format!("interrupted{place} ({rows}); {left}")
    }

    /// Whether the run has already told this.
    pub fn has_warned(&self, message: &str) -> bool {
        locked(&self.state)
            .warnings
            .iter()
            .any(|one| one == message)
    }

    fn show(&self, state: &mut ProgressState) {
        match &self.display {
            Display::Bar(bar) if is_due(&mut state.shown, BAR_EVERY) => {
                let reading = state.read();
                if let Some(share) = reading.share {
                    bar.set_position((share * STEPS as f64) as u64);
                    if bar.length().is_none() {
                        bar.set_style(
                            style("{bar:10} {percent:>3} % {wide_msg}").progress_chars("=> "),
                        );
                        bar.set_length(STEPS);
                    }
                }
                bar.set_message(text(&reading));
            }
            Display::Lines(times) if !state.ended && times.is_due(&mut state.shown) => {
                let reading = state.read();
                self.line(state, &reading);
            }
            _ => {}
        }
    }

    fn line(&self, state: &mut ProgressState, reading: &MeterReading) {
        state.shown_rows = Some(reading.rows);
        let mut message = match state.began {
            Some(_) => text(reading),
            None => OPENING.to_owned(),
        };
        if let Some(share) = reading.share {
            message = format!("{:.0} %: {message}", share * 100.0);
        }
        if self.printer.json {
            let fields = json!({
                "rows": reading.rows,
                "rejected": reading.rejected,
                "rows_per_second": reading.rows_per_second,
                "tokens_per_second": reading.tokens_per_second,
                "share": reading.share,
                "seconds_left": reading.left.map(|left| left.as_secs_f64()),
            });
            if let serde_json::Value::Object(fields) = fields {
                self.printer
                    .event(MessageLevel::Info, "progress", &message, fields);
            }
        } else {
            self.printer.line(&message);
        }
    }

    /// Prints above the bar, if there is one.
    fn beside(&self, print: impl FnOnce()) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(print),
            _ => print(),
        }
    }
}

impl Progress for LiveProgress {
    fn started(&self, info: &EngineInfo, input: InputSize) {
        (self.hooks.started)(&self.printer, info, self.hooks.output);
        self.beside(|| {
            for one in info.passed_over.iter().filter(|one| !one.named) {
                self.printer
                    .detail(format!("skipped {}: {}", one.candidate, one.reason));
            }
            if let Some(fallback) = fallback(info) {
                self.printer.note(fallback);
            }
            self.printer.detail(format!("running on {}", engine(info)));
            if !info.ignored.is_empty() {
                self.printer.detail(format!(
                    "ignored in config.json, as transformers' class for this model type does not read it: {}",
                    info.ignored.join(", ")
                ));
            }
            for line in measured(info) {
                self.printer.detail(line);
            }
        });
        if let Display::Bar(bar) = &self.display {
            bar.set_message("reading");
        }
        let mut state = locked(&self.state);
        state.began = Some(Instant::now());
        state.meter.started(input);
    }

    fn window(&self, window: WindowSize) {
        locked(&self.state).meter.window(window);
    }

    fn batch(&self, done: BatchDone) {
        let mut state = locked(&self.state);
        state.meter.batch(done);
        self.show(&mut state);
    }

    fn published(&self) {
        (self.hooks.published)(&self.printer);
    }

    fn written(&self, counts: &Counts) {
        let mut state = locked(&self.state);
        state.meter.written(counts);
        self.show(&mut state);
    }

    fn warning(&self, message: &str) {
        locked(&self.state).warnings.push(message.to_owned());
        self.beside(|| self.printer.warning(message));
    }
}

impl Drop for LiveProgress {
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates in this file are valid")
}

/// That the providers which were named first do not do the work, and why.
fn fallback(info: &EngineInfo) -> Option<String> {
    let named = info.passed_over.iter().filter(|one| one.named);
    let reasons: Vec<String> = named
        .map(|one| format!("not {}: {}", one.candidate, one.reason))
        .collect();
    (!reasons.is_empty()).then(|| format!("{} is used, {}", info.provider, reasons.join("; ")))
}

/// The most important part comes first: a narrow terminal shows only the beginning.
fn text(reading: &MeterReading) -> String {
    let mut text = String::new();
    if let Some(left) = reading.left {
        // Fractions of a second would be false precision.
        let left = Duration::from_secs(left.as_secs_f64().round() as u64);
        text = format!("{} left, ", duration(left));
    }
    text += &format!(
        "{} rows, {} rows/s, {} tokens/s",
        count(reading.rows),
        rate(reading.rows_per_second),
        rate(reading.tokens_per_second),
    );
    if reading.rejected > 0 {
        text.push_str(&format!(", {} rejected", count(reading.rejected)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_being_asked_a_line_comes_once_a_minute() {
        let times = LineTimes::USUAL;
        assert!(!times.is_due(&mut times.first()));
        let ago = |time| Instant::now().checked_sub(time);
        let mut shown = ago(times.every / 2);
        assert!(!times.is_due(&mut shown));
        shown = ago(times.every);
        assert!(times.is_due(&mut shown));
        assert!(!times.is_due(&mut shown));
        let asked = LineTimes::ALWAYS;
        assert!(asked.is_due(&mut asked.first()));
    }
}
