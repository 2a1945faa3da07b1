//! The parent's side: start a child, listen to it, end it.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, after, select, unbounded};

use super::ProbeCommand;
use super::child::{Attempts, Request};
use super::protocol::Event;
use super::report::LibraryReport;
use crate::cancel::CancelToken;
use crate::provider::ProviderReport;
use crate::runtime::discovery::Candidate;
use crate::runtime::fault::LibraryFault;

/// The end of what a child says on standard error, kept for the report of a crash.
const LAST_WORDS: usize = 2048;

/// How an answer ended.
enum End {
    /// The child had no more to say.
    Done,
    /// It died, hung, or said nothing that can be understood; in words.
    Died(String),
    /// Nobody wants to know any more.
    Stopped,
}

/// Asks the library `candidate` about `attempts`. A child that dies over a provider is followed by another
/// that goes on with the next.
///
/// # Errors
/// If no child can be started. Where `stop` asks for it, an [`io::ErrorKind::Interrupted`].
pub(super) fn ask(
    command: &ProbeCommand,
    candidate: &Candidate,
    device: u32,
    attempts: Attempts,
    stop: &CancelToken,
) -> io::Result<LibraryReport> {
    let mut report = LibraryReport::new(candidate);
    let mut request = Request {
        library: candidate.path.clone(),
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
            Event::Trying(provider) => trying = Some(provider),
            Event::Tried(tried) => {
                trying = None;
                report.providers.push(tried);
            }
            Event::Done => {}
        })?;
        let death = match end {
            End::Done => return Ok(report),
            End::Stopped => return Err(io::ErrorKind::Interrupted.into()),
            End::Died(words) => words,
        };
        let Some(provider) = trying else {
            if report.version.is_none() {
                report.fail(&LibraryFault::Words(death));
            }
            return Ok(report);
        };
        report
            .providers
            .push(ProviderReport::refused(provider, death));
        let rest = match &mut request.attempts {
            Attempts::AllBut(left_out) => {
                *left_out = report.providers.iter().map(|one| one.provider).collect();
                true
            }
            Attempts::These(list) => {
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
    request: &Request,
    deadline: &Receiver<Instant>,
    stop: &CancelToken,
    mut heard: impl FnMut(Event),
) -> io::Result<End> {
    let mut child = Reaped(start(command, request)?);
    let (sender, events) = unbounded();
    let output = child.0.stdout.take();
    let errors = child.0.stderr.take();
    thread::scope(|scope| {
        scope.spawn(move || {
            // Ends when the child does.
            let lines = output
                .into_iter()
                .flat_map(|output| BufReader::new(output).split(b'\n'));
            for line in lines.map_while(Result::ok) {
                if let Some(event) = Event::read(&String::from_utf8_lossy(&line)) {
                    let _ = sender.send(event);
                }
            }
        });
        let errors = scope.spawn(move || errors.map(last_words).unwrap_or_default());
        let end = loop {
            select! {
                recv(events) -> event => match event {
                    Ok(Event::Done) => break End::Done,
                    Ok(event) => heard(event),
                    Err(_) => break End::Died(String::new()),
                },
                recv(stop.channel()) -> _ => break End::Stopped,
                recv(deadline) -> _ => break End::Died(format!(
                    "it was still busy after {} s and was stopped",
                    command.time_limit.as_secs_f32()
                )),
            }
        };
        let status = child.end(matches!(&end, End::Died(words) if words.is_empty()));
        let said = errors.join().unwrap_or_default();
        Ok(match end {
            End::Died(words) if words.is_empty() => End::Died(cause_of_death(status, &said)),
            end => end,
        })
    })
}

fn start(command: &ProbeCommand, request: &Request) -> io::Result<Child> {
    let mut process = Command::new(&command.program);
    process
        .args(&command.arguments)
        .args(request.arguments())
        // Stays open and silent for as long as this process lives: the child ends when it closes.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A signal from the keyboard is for this process, which ends its children itself.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut process, CREATE_NEW_PROCESS_GROUP);
    process.spawn()
}

#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

/// A child that does not outlive this value.
struct Reaped(Child);

impl Reaped {
    /// Waits for the child's end, which is brought about unless it is dying `by_itself`.
    fn end(&mut self, by_itself: bool) -> Option<ExitStatus> {
        if !by_itself {
            let _ = self.0.kill();
        }
        self.0.wait().ok()
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last line that says something, on standard error.
fn last_words(mut errors: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = errors.read(&mut part) {
        kept.extend_from_slice(&part[..length]);
        let excess = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..excess);
    }
    let text = String::from_utf8_lossy(&kept);
    let line = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

/// `it crashed (SIGSEGV): …`
fn cause_of_death(status: Option<ExitStatus>, said: &str) -> String {
    let mut words = match status {
        Some(status) => how_it_ended(status),
        None => "it ended, and nobody knows how".into(),
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
