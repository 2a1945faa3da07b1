//! The one place that decides what goes to standard error and standard output: how much, in which form,
//! in which colour. Standard output is for data alone.

mod bench;
mod config;
mod cuts;
mod devices;
mod info;
mod inspect;
mod meter;
mod parser;
mod progress;
mod summary;
mod survey;
mod table;
mod transfer;
mod words;
mod wrap;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Map, Value, json};
use terminal_size::{Width, terminal_size_of};

pub use bench::tables as bench_tables;
pub use config::table as config_table;
pub use devices::table as devices_table;
pub use info::table as info_table;
pub use meter::Meter;
pub use parser::print_parser_answer;
pub use progress::{Hooks, LiveProgress};
pub use summary::{RunReport, destination, engine as engine_label, stage_fields};
pub use table::TextTable;
pub use transfer::Downloads;
pub use words::{bytes, count, number};

use embedctl::safe_text::{printable, printable_json};
use embedctl::secrets::Secrets;
use embedctl_common::threads::is_decoding;

use crate::args::{LogFormat, MessageArgs, When};
use crate::failure::{CommandFailure, panic_message};
use crate::standard;
use progress::{Display, LineTimes};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageLevel {
    Error,
    Warning,
    Note,
    Info,
    Debug,
}

impl MessageLevel {
    /// The least verbosity at which messages of this level are shown.
    fn shown_from(self) -> Verbosity {
        match self {
            Self::Error => Verbosity::Quiet,
            Self::Warning | Self::Note | Self::Info => Verbosity::Normal,
            Self::Debug => Verbosity::Verbose,
        }
    }

    /// The level's name in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note | Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The label before a message in text, and its colour.
    fn label(self) -> Option<(&'static str, AnsiColor)> {
        match self {
            Self::Error => Some(("error", AnsiColor::Red)),
            Self::Warning => Some(("warning", AnsiColor::Yellow)),
            Self::Note => Some(("note", AnsiColor::Blue)),
            Self::Info | Self::Debug => None,
        }
    }
}

/// Says things to people and programs. Cheap to clone; clones behave alike.
#[derive(Debug, Clone)]
pub struct Printer {
    verbosity: Verbosity,
    json: bool,
    colour: bool,
    progress: When,
    /// Secrets that no message may show.
    secrets: Arc<Secrets>,
}

impl Printer {
    /// A printer for these options and the terminal, which shows none of `secrets`.
    pub fn new(args: &MessageArgs, secrets: Secrets) -> Self {
        let verbosity = match (args.quiet, args.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1..) => Verbosity::Verbose,
        };
        let json = args.log_format == LogFormat::Json;
        let colour = match args.color {
            When::Always => true,
            When::Never => false,
            When::Auto => io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb(),
        };
        Self {
            verbosity,
            json,
            colour: colour && !json,
            progress: args.progress,
            secrets: Arc::new(secrets),
        }
    }

    /// Panics are printed like every other message, so that JSON stays JSON.
    pub fn take_over_panics(&self) {
        let printer = self.clone();
        std::panic::set_hook(Box::new(move |panic| printer.panic(panic)));
    }

    /// Why a command failed, with all causes; the hint comes last.
    pub fn failure(&self, failure: &CommandFailure) {
        if self.json {
            let messages = failure.messages();
            let (message, causes) = messages
                .split_first()
                .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            self.object(&json!({
                "level": "error",
                "time": now(),
                "message": message,
                "causes": causes,
                "hint": failure.hint(),
            }));
        } else {
            self.message(MessageLevel::Error, failure);
        }
        match failure.details() {
            Some(details) if self.verbosity >= Verbosity::Verbose => self.detail(details),
            Some(_) if !self.json => self.hint("-v shows the engine's whole message"),
            _ => {}
        }
        if self.json {
            return;
        }
        if let Some(hint) = failure.hint() {
            self.hint(hint);
        }
    }

    /// Something that should not be overlooked; hidden by `-q`.
    pub fn warning(&self, message: impl fmt::Display) {
        self.message(MessageLevel::Warning, message);
    }

    /// Something that is told once, such as a default that was taken; hidden by `-q`.
    pub fn note(&self, message: impl fmt::Display) {
        self.message(MessageLevel::Note, message);
    }

    /// Information about the run; hidden by `-q`.
    pub fn info(&self, message: impl fmt::Display) {
        self.message(MessageLevel::Info, message);
    }

    /// Details that `-v` asks for.
    pub fn detail(&self, message: impl fmt::Display) {
        self.message(MessageLevel::Debug, message);
    }

    /// Whether `-v` asks for details, in tables too.
    pub fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Verbose
    }

    /// Text for people, to standard output.
    pub fn text(&self, table: &TextTable) -> Result<(), CommandFailure> {
        self.data(printable(&self.secrets.redact(table.text())).as_bytes())
    }

    /// JSON, to standard output.
    pub fn json(&self, text: &str) -> Result<(), CommandFailure> {
        self.data(printable_json(&self.secrets.redact(text)).as_bytes())
    }

    /// Prints the result of a command to standard output, as JSON or as a table.
    pub fn found<T: Serialize>(
        &self,
        json: bool,
        found: &T,
        table: impl FnOnce(&T) -> TextTable,
    ) -> Result<(), CommandFailure> {
        match json {
            true => self.pretty(found),
            false => self.text(&table(found)),
        }
    }

    /// The same, over several lines.
    pub fn pretty(&self, object: &impl Serialize) -> Result<(), CommandFailure> {
        let json = serde_json::to_string_pretty(object).context("cannot write JSON")?;
        self.json(&format!("{json}\n"))
    }

    /// Prints data of this program (no text of users or servers) to standard output.
    pub fn data(&self, bytes: &[u8]) -> Result<(), CommandFailure> {
        let mut stdout = io::stdout().lock();
        let written = standard::check_output()
            .and_then(|()| stdout.write_all(bytes))
            .and_then(|()| stdout.flush());
        Ok(written.context("cannot write to standard output")?)
    }

    /// The progress display of a run. `data_on_terminal`: rows go to a terminal, where a bar would overwrite them.
    pub fn progress(&self, data_on_terminal: bool, hooks: Hooks) -> Arc<LiveProgress> {
        let terminal = self.draws();
        let display = match self.progress {
            When::Never => Display::Nothing,
            When::Always if terminal => Display::bar(),
            When::Always => Display::Lines(LineTimes::ALWAYS),
            When::Auto if self.verbosity == Verbosity::Quiet => Display::Nothing,
            When::Auto if terminal && data_on_terminal => Display::Nothing,
            When::Auto if terminal => Display::bar(),
            When::Auto => Display::Lines(LineTimes::USUAL),
        };
        LiveProgress::start(self.clone(), display, hooks)
    }

    /// The progress display of downloads.
    pub fn downloads(&self) -> Arc<Downloads> {
        let terminal = self.draws();
        let display = match self.progress {
            When::Always if terminal => transfer::TransferDisplay::bars(),
            When::Always => transfer::TransferDisplay::Lines(LineTimes::ALWAYS),
            When::Never => transfer::TransferDisplay::Files,
            When::Auto if self.verbosity == Verbosity::Quiet => transfer::TransferDisplay::Files,
            When::Auto if terminal => transfer::TransferDisplay::bars(),
            When::Auto => transfer::TransferDisplay::Lines(LineTimes::USUAL),
        };
        Arc::new(Downloads::new(self.clone(), display))
    }

    /// Whether bars can be drawn.
    fn draws(&self) -> bool {
        io::stderr().is_terminal() && !is_dumb() && !self.json
    }

    fn panic(&self, panic: &PanicHookInfo<'_>) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed").to_owned();
        let place = panic
            .location()
            .map_or_else(String::new, |at| format!(" at {at}"));
        let words = panic_message(panic.payload());
        let mut message = format!("thread '{name}' panicked{place}: {words}");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            message.push_str(&format!("\n{backtrace}"));
        }
        // A library's panic over data from outside becomes the error of that data, which is told later.
        let level = match is_decoding() {
            true => MessageLevel::Debug,
            false => MessageLevel::Error,
        };
        self.message(level, message);
    }

    /// An error as [`Printer::failure`] would print it, to be printed where nothing can be made any more but the time:
    /// [`NO_TIME`] stands in its place.
    pub fn crash_line(&self, message: &str) -> String {
        if self.json {
            let object = json!({
                "level": "error", "time": NO_TIME, "message": message, "causes": [], "hint": null,
            });
            return format!("{}\n", self.safe_json(&object));
        }
        // A bar may stand on the line.
        let start = if io::stderr().is_terminal() { "\n" } else { "" };
        let label = self.paint("error:", AnsiColor::Red);
        format!("{start}{label} {}\n", self.safe(message))
    }

    fn hint(&self, message: &str) {
        let label = self.paint("hint:", AnsiColor::Cyan);
        self.line(&format!("{label} {}", self.safe(message)));
    }

    fn message(&self, level: MessageLevel, message: impl fmt::Display) {
        if self.verbosity >= level.shown_from() {
            self.print(level, message);
        }
    }

    /// Prints a message however little is to be said.
    fn print(&self, level: MessageLevel, message: impl fmt::Display) {
        if self.json {
            self.object(
                &json!({"level": level.name(), "time": now(), "message": message.to_string()}),
            );
        } else if let Some((label, colour)) = level.label() {
            let label = format!("{label}:");
            let message = self.fitted(&self.safe(&message.to_string()), label.len() + 1);
            self.line(&format!("{} {message}", self.paint(&label, colour)));
        } else {
            self.line(&self.fitted(&self.safe(&message.to_string()), 0));
        }
    }

    /// A message in lines that fit the terminal, if it goes to one; its first line stands behind `before` characters.
    fn fitted(&self, message: &str, before: usize) -> String {
        match self.width() {
            Some(width) => wrap::message(message, before, width),
            None => message.to_owned(),
        }
    }

    /// Columns of the terminal that messages go to; `None`: they go elsewhere, where a message is a line.
    fn width(&self) -> Option<usize> {
        if self.json || !io::stderr().is_terminal() {
            return None;
        }
        let (Width(columns), _) = terminal_size_of(io::stderr())?;
        Some(usize::from(columns)).filter(|&columns| columns > 0)
    }

    /// Columns of the terminal that results go to; `None`: they go elsewhere.
    pub fn result_width() -> Option<usize> {
        let (Width(columns), _) = terminal_size_of(io::stdout())?;
        Some(usize::from(columns)).filter(|&columns| columns > 0)
    }

    /// One message for programs, with fields of its own.
    fn event(&self, level: MessageLevel, event: &str, message: &str, fields: Map<String, Value>) {
        let mut object = Map::new();
        object.insert("level".to_owned(), level.name().into());
        object.insert("time".to_owned(), now().into());
        object.insert("event".to_owned(), event.into());
        object.insert("message".to_owned(), message.into());
        object.extend(fields);
        self.object(&Value::Object(object));
    }

    /// The same, if it is to be shown.
    fn shown_event(
        &self,
        level: MessageLevel,
        event: &str,
        message: &str,
        fields: Map<String, Value>,
    ) {
        if self.verbosity >= level.shown_from() {
            self.event(level, event, message, fields);
        }
    }

    fn object(&self, object: &Value) {
        self.line(&self.safe_json(object));
    }

    /// A message that may hold anybody's words, fit to be shown: without secrets, without what steers a terminal, and
    /// with lines after its first set in, so that none can pass for a message of its own.
    pub fn safe(&self, message: &str) -> String {
        let message = self.secrets.redact(message);
        let mut lines = printable(&message)
            .split('\n')
            .map(str::to_owned)
            .collect::<Vec<_>>();
        for line in lines.iter_mut().skip(1) {
            if !line.is_empty() && !line.starts_with(' ') {
                line.insert_str(0, "  ");
            }
        }
        lines.join("\n")
    }

    /// The same for JSON, which stays JSON.
    pub fn safe_json(&self, object: &Value) -> String {
        printable_json(&self.secrets.redact(&object.to_string())).into_owned()
    }

    fn paint(&self, text: &str, colour: AnsiColor) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let style = Style::new().bold().fg_color(Some(colour.into()));
        format!("{style}{text}{style:#}")
    }

    /// One write a line, so that lines of several processes on one terminal don't run into each other.
    /// A failure to write to standard error cannot be reported.
    fn line(&self, text: &str) {
        let _ = io::stderr()
            .lock()
            .write_all(format!("{text}\n").as_bytes());
    }
}

/// A time that is not known yet, of the width of a time.
pub const NO_TIME: &str = "0000-00-00T00:00:00.000Z";

/// The time of a line of the log: UTC, to the millisecond.
fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Whether an environment variable is set to anything.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Whether the terminal says that it cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
