//! Child programs with limits: each runs in a process group of its own, which is killed as a whole when its time is up,
//! its output is too long, or its answer is no longer needed.
//!
//! A process that leaves the group and keeps a pipe open is not waited for: pipes are read by threads of their own, and
//! the output so far is taken.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, bounded, select};

use embedctl_common::cancel::CancelToken;
use embedctl_common::threads::try_spawn;

/// How long a program that has closed its output may take to end.
const ENDING: Duration = Duration::from_secs(5);
/// Time between two looks at whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running program. It does not outlive this value, and neither does its group.
pub(super) struct BoundedCommand {
    child: Child,
    is_reaped: bool,
}

impl BoundedCommand {
    /// Starts a program whose standard output is a pipe.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        command.stdout(Stdio::piped());
        // A signal from the keyboard is for this process, which ends its children itself.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        #[cfg(windows)]
        std::os::windows::process::CommandExt::creation_flags(command, CREATE_NEW_PROCESS_GROUP);
        Ok(Self {
            child: command.spawn()?,
            is_reaped: false,
        })
    }

    /// Its standard output, in parts; it ends when the pipe is closed. `limit`: bytes after which no more is read.
    pub(super) fn output(&mut self, limit: u64) -> io::Result<Receiver<Vec<u8>>> {
        read(self.child.stdout.take(), limit)
    }

    /// The same for its standard error, if that is a pipe.
    pub(super) fn errors(&mut self, limit: u64) -> io::Result<Receiver<Vec<u8>>> {
        read(self.child.stderr.take(), limit)
    }

    /// Ends it, with everything that it has started. `by_itself`: it is dying, and is waited for a while, so that its
    /// status tells how.
    pub(super) fn end(&mut self, by_itself: bool) -> Option<ExitStatus> {
        if by_itself {
            let began = Instant::now();
            while !self.has_ended() && began.elapsed() < ENDING {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        // Before waiting: until then its process number is not reused.
        self.kill();
        self.is_reaped = true;
        self.child.wait().ok()
    }

    #[cfg(unix)]
    fn has_ended(&self) -> bool {
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `siginfo_t` is a plain C struct for which all zeros is a value, and it outlives the call. The child is
        // left to be waited for.
        let info = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            if libc::waitid(libc::P_PID, self.child.id(), &raw mut info, flags) != 0 {
                return true;
            }
            info
        };
        info.si_signo != 0
    }

    #[cfg(unix)]
    fn kill(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: the group is the child's, which has not been waited for: its number is still its own.
            unsafe { libc::killpg(group, libc::SIGKILL) };
        }
    }

    #[cfg(not(unix))]
    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    #[cfg(not(unix))]
    fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for BoundedCommand {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.end(false);
        }
    }
}

#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

fn read(pipe: Option<impl Read + Send + 'static>, limit: u64) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, parts) = bounded(16);
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(limit);
        try_spawn("asked", move || {
            let mut part = vec![0; 8192];
            // An error ends the output as well, and so does a closed receiver.
            while let Ok(length @ 1..) = pipe.read(&mut part) {
                if sender.send(part[..length].to_vec()).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(parts)
}

/// The whole output of a program.
///
/// # Errors
/// If it cannot be started, fails, takes longer than `time`, writes more than `limit` bytes, or `stop` is cancelled.
pub(super) fn answer(
    command: &mut Command,
    time: Duration,
    limit: u64,
    stop: &CancelToken,
) -> io::Result<Vec<u8>> {
    let mut asked = BoundedCommand::start(command.stdin(Stdio::null()).stderr(Stdio::null()))?;
    let output = asked.output(limit + 1)?;
    let deadline = after(time);
    let mut said = Vec::new();
    loop {
        select! {
            recv(output) -> part => match part {
                Ok(part) => said.extend_from_slice(&part),
                Err(_) => break,
            },
            recv(stop.channel()) -> _ => return Err(io::ErrorKind::Interrupted.into()),
            recv(deadline) -> _ => {
                let words = format!("it was still busy after {} s and was stopped", time.as_secs_f32());
                return Err(io::Error::new(io::ErrorKind::TimedOut, words));
            }
        }
    }
    if said.len() as u64 > limit {
        return Err(io::Error::other(format!(
            "it wrote more than {limit} bytes and was stopped"
        )));
    }
    match asked.end(true) {
        Some(status) if status.success() => Ok(said),
        Some(status) => Err(io::Error::other(format!("it failed ({status})"))),
        None => Err(io::Error::other("it ended with an unknown status")),
    }
}

/// Lines that arrive in parts. A line longer than `longest` is cut short: no valid line is so long.
pub(super) struct BoundedLines {
    longest: usize,
    begun: Vec<u8>,
}

impl BoundedLines {
    pub(super) fn new(longest: usize) -> Self {
        Self {
            longest,
            begun: Vec::new(),
        }
    }

    /// The lines that a part completes.
    pub(super) fn complete(&mut self, part: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in part {
            if byte == b'\n' {
                lines.push(String::from_utf8_lossy(&self.begun).into_owned());
                self.begun.clear();
            } else if self.begun.len() < self.longest {
                self.begun.push(byte);
            }
        }
        lines
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_answer_is_what_is_said() {
        let stop = CancelToken::new();
        let said = answer(&mut shell("echo yes; echo no >&2"), LONG, 100, &stop).unwrap();
        assert_eq!(said, b"yes\n");
        let error = answer(&mut shell("echo yes; exit 3"), LONG, 100, &stop).unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
        assert!(answer(&mut Command::new("/nowhere/program"), LONG, 100, &stop).is_err());
    }

    #[test]
    fn endless_talk_ends() {
        let stop = CancelToken::new();
        let error = answer(
            &mut shell("while :; do echo more; done"),
            LONG,
            10_000,
            &stop,
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("more than 10000 bytes"),
            "{error}"
        );
    }

    /// Whether all processes that inherited the writing end of a pipe have ended.
    fn all_ended(mut reading: impl Read) -> bool {
        // Returns at the end alone, and the test hangs if there is none.
        let mut rest = Vec::new();
        reading.read_to_end(&mut rest).is_ok()
    }

    #[test]
    fn pipes_close_when_all_started_processes_have_ended() {
        let (reading, writing) = io::pipe().unwrap();
        let mut command = with(shell("sleep 600 & sleep 600"), writing);
        let stop = CancelToken::new();
        let error = answer(&mut command, Duration::from_millis(50), 100, &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(command);
        assert!(all_ended(reading));
    }

    /// A command whose processes hold the pipe's writing end.
    fn with(mut command: Command, writing: io::PipeWriter) -> Command {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::process::CommandExt as _;
        // SAFETY: `fcntl` may be called between fork and exec; the descriptor lives in the closure.
        unsafe {
            command.pre_exec(move || {
                if libc::fcntl(writing.as_raw_fd(), libc::F_SETFD, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command
    }

    #[test]
    fn an_interrupt_ends_the_wait_and_the_group() {
        let (reading, writing) = io::pipe().unwrap();
        let mut command = with(shell("sleep 600 & sleep 600"), writing);
        let stop = CancelToken::new();
        stop.cancel();
        let error = answer(&mut command, LONG, 100, &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        drop(command);
        assert!(all_ended(reading));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_leaves_the_group_is_not_waited_for() {
        let mut command = shell("setsid sleep 5 & echo said; exit 0");
        let mut asked = BoundedCommand::start(command.stdin(Stdio::null())).unwrap();
        let output = asked.output(100).unwrap();
        assert_eq!(output.recv().unwrap(), b"said\n");
        assert!(asked.end(true).unwrap().success());
    }

    #[test]
    fn lines_come_in_parts_and_have_an_end() {
        let mut lines = BoundedLines::new(5);
        assert_eq!(lines.complete(b"on"), [""; 0]);
        assert_eq!(lines.complete(b"e\ntwo\nthree and"), ["one", "two"]);
        assert_eq!(lines.complete(b" more\n"), ["three"]);
    }
}
