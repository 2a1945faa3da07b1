//! The parent's side: start a child, listen to it, end it.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, never, select};

use super::ProbeCommand;
use super::child::{ProbeRequest, ProviderTrials};
use super::protocol::Event;
use super::report::LibraryReport;
use crate::provider::ProviderReport;
use crate::runtime::bounded_command::{BoundedCommand, BoundedLines};
use crate::runtime::discovery::Candidate;
use crate::runtime::fault::LibraryFault;
use crate::runtime::plugin::PluginReport;
use embedctl_common::cancel::CancelToken;

/// The most bytes of a child's last standard error, kept for the report of a crash.
const LAST_WORDS: usize = 2048;
/// The wait for the rest of it.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(500);
/// The most bytes of a child's output, and of one line: a few kilobytes are usual.
const MOST_SAID: u64 = 16 << 20;
const LONGEST_LINE: usize = 1 << 20;

/// How an answer ended.
enum AnswerEnd {
    /// The child is finished.
    Done,
    /// It died, hung, or wrote nothing valid; with a message.
    Died(String),
    /// The answer is no longer needed.
    Stopped,
}

/// Probes the library `candidate` for `attempts`. If a child dies while it tries a provider, another child continues
/// with the next one.
///
/// # Errors
/// If no child can be started; [`io::ErrorKind::Interrupted`] if `stop` is cancelled.
pub(super) fn ask(
    command: &ProbeCommand,
    candidate: &Candidate,
    device: u32,
    attempts: ProviderTrials,
    stop: &CancelToken,
) -> io::Result<LibraryReport> {
    let mut report = LibraryReport::new(candidate);
    let mut request = ProbeRequest {
        library: candidate.path.clone(),
        plugin: candidate.plugin.clone(),
        device,
        attempts,
    };
    let deadline = after(command.time_limit);
    let started = Instant::now();
    loop {
        let mut trying = None;
        let end = listen(command, &request, &deadline, stop, |event| match event {
            Event::Loaded {
                version,
                build,
                available,
            } => {
                report.version = Some(version);
                report.build = build;
                report.available = available;
            }
            Event::Unusable { reason, remedy } => {
                report.unusable = Some(reason);
                report.remedy = remedy;
            }
            Event::Plugin(plugin) => report.plugins = vec![plugin],
            Event::Trying(provider) => trying = Some(provider),
            Event::Tried(tried) => {
                trying = None;
                report.providers.push(tried);
            }
            Event::Done => {}
        })?;
        let death = match end {
            AnswerEnd::Done => return Ok(report),
            AnswerEnd::Stopped => return Err(io::ErrorKind::Interrupted.into()),
            AnswerEnd::Died(words) => words,
        };
        let Some(provider) = trying else {
            match &candidate.plugin {
                _ if report.version.is_none() => report.fail(&LibraryFault::Words(death)),
                Some(path) if report.plugins.is_empty() => {
                    report.plugins.push(PluginReport {
                        unusable: Some(death),
                        ..PluginReport::new(path.clone())
                    });
                    report.refuse_plugin();
                }
                _ => {}
            }
            return Ok(report);
        };
        report.providers.push(ProviderReport {
            plugin: candidate.plugin.clone(),
            ..ProviderReport::refused(provider, death)
        });
        let rest = match &mut request.attempts {
            ProviderTrials::AllBut(left_out) => {
                *left_out = report.providers.iter().map(|one| one.provider).collect();
                true
            }
            ProviderTrials::These(list) => {
                list.retain(|one| report.provider(*one).is_none());
                !list.is_empty()
            }
        };
        if !rest || started.elapsed() >= command.time_limit {
            return Ok(report);
        }
    }
}

/// Runs one child and hands its events on.
fn listen(
    command: &ProbeCommand,
    request: &ProbeRequest,
    deadline: &Receiver<Instant>,
    stop: &CancelToken,
    mut heard: impl FnMut(Event),
) -> io::Result<AnswerEnd> {
    let mut process = Command::new(&command.program);
    process
        .args(&command.arguments)
        .args(request.arguments())
        // Stays open and silent for as long as this process lives: the child ends when it closes.
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = BoundedCommand::start(&mut process)?;
    let output = child.output(MOST_SAID)?;
    let errors = child.errors(u64::MAX)?;
    let silent = never();
    let mut open_errors = &errors;
    let mut last_words = StderrTail::default();
    let mut lines = BoundedLines::new(LONGEST_LINE);
    let mut said = 0;
    let end = 'listening: loop {
        select! {
            recv(output) -> part => match part {
                Ok(part) => {
                    said += part.len() as u64;
                    if said >= MOST_SAID {
                        break AnswerEnd::Died(format!("it printed {said} bytes and was stopped"));
                    }
                    for line in lines.complete(&part) {
                    match Event::read(&line) {
                        Some(Event::Done) => break 'listening AnswerEnd::Done,
                        Some(event) => heard(event),
                        None => {}
                    }
                    }
                }
                Err(_) => break AnswerEnd::Died(String::new()),
            },
            recv(open_errors) -> part => match part {
                Ok(part) => last_words.add(&part),
                // It has closed standard error and continues.
                Err(_) => open_errors = &silent,
            },
            recv(stop.channel()) -> _ => break AnswerEnd::Stopped,
            recv(deadline) -> _ => break AnswerEnd::Died(still_busy(command)),
        }
    };
    let by_itself = matches!(&end, AnswerEnd::Died(words) if words.is_empty());
    let status = child.end(by_itself);
    if !by_itself {
        return Ok(end);
    }
    // Its last output may still be on its way; a process that left the group and holds the pipe is not waited for.
    let patience = after(LAST_WORDS_WAIT);
    loop {
        select! {
            recv(errors) -> part => match part {
                Ok(part) => last_words.add(&part),
                Err(_) => break,
            },
            recv(patience) -> _ => break,
        }
    }
    Ok(AnswerEnd::Died(cause_of_death(status, &last_words.line())))
}

fn still_busy(command: &ProbeCommand) -> String {
    let limit = command.time_limit.as_secs_f32();
    format!("it was still busy after {limit} s and was stopped")
}

/// The end of a child's standard error.
#[derive(Default)]
struct StderrTail(Vec<u8>);

impl StderrTail {
    fn add(&mut self, part: &[u8]) {
        self.0.extend_from_slice(part);
        let excess = self.0.len().saturating_sub(LAST_WORDS);
        self.0.drain(..excess);
    }

    /// The last line that says something.
    fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let mut lines = text.lines().rev().map(str::trim);
        lines
            .find(|line| !line.is_empty())
            .unwrap_or_default()
            .to_owned()
    }
}

/// `it crashed (SIGSEGV): …`
fn cause_of_death(status: Option<ExitStatus>, said: &str) -> String {
    let mut words = match status {
        Some(status) => how_it_ended(status),
        None => "it ended with an unknown status".into(),
    };
    if !said.is_empty() {
        words.push_str(": ");
        words.push_str(said);
    }
    words
}

#[cfg(unix)]
fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(signal) = status.signal() else {
        return format!("it ended the process that asked it ({status}) without an answer");
    };
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGSYS => "SIGSYS",
        libc::SIGKILL => {
            return "it was killed (SIGKILL), perhaps because memory ran out".into();
        }
        libc::SIGILL => {
            return "it crashed (SIGILL): it uses instructions that this processor does not have"
                .into();
        }
        other => return format!("it crashed (signal {other})"),
    };
    format!("it crashed ({name})")
}

#[cfg(not(unix))]
fn how_it_ended(status: ExitStatus) -> String {
    match status.code() {
        // Windows ends a process with the exception's number: 0xC0000005 is a wrong access to memory.
        Some(code) if code < 0 => format!("it crashed ({:#010X})", code as u32),
        _ => format!("it ended the process that asked it ({status}) without an answer"),
    }
}
