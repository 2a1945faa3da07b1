//! A worker process, seen by its parent: started, sent requests, and always ended.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select};

use super::protocol::{Reply, WorkerRequest};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::threads::{locked, spawn};

/// Lines of a worker's standard error that are remembered.
const LAST_WORDS: usize = 8;

/// A running worker. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    requests: Option<ChildStdin>,
    replies: Receiver<Reply>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    /// Disconnected when standard error has been read to its end.
    heard: Receiver<()>,
}

/// Why a worker did not answer.
#[derive(Debug)]
pub(super) enum WorkerFailure {
    /// The run was cancelled.
    Interrupted,
    /// It reported an error, or died; with the message.
    Failed(String),
}

impl WorkerProcess {
    /// Starts `command`, program first, with further environment variables.
    pub(super) fn start(command: &[OsString], variables: &[(&str, &str)]) -> Result<Self> {
        let failed = |what: &str| Error::internal(format!("cannot start a worker process: {what}"));
        let (program, arguments) = command.split_first().ok_or_else(|| failed("no program"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("start", program, error))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(failed("no pipes"));
        };
        let (sender, replies) = bounded(1);
        spawn("worker-replies", move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                // Other lines are printed by libraries.
                if let Ok(reply) = serde_json::from_slice(&line)
                    && sender.send(reply).is_err()
                {
                    return;
                }
            }
        })?;
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        let (hearing, heard) = bounded::<()>(0);
        spawn("worker-messages", {
            let last_words = Arc::clone(&last_words);
            move || {
                let _hearing = hearing;
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).trim().to_owned();
                    let mut words = locked(&last_words);
                    if !line.is_empty() {
                        words.push_back(line);
                    }
                    if words.len() > LAST_WORDS {
                        words.pop_front();
                    }
                }
            }
        })?;
        Ok(Self {
            child,
            requests: Some(stdin),
            replies,
            last_words,
            heard,
        })
    }

    /// Sends a request and waits for the reply.
    pub(super) fn ask(
        &mut self,
        request: &WorkerRequest,
        cancel: &CancelToken,
    ) -> Result<Reply, WorkerFailure> {
        let mut line = serde_json::to_vec(request).map_err(|error| {
            WorkerFailure::Failed(format!("a request cannot be written: {error}"))
        })?;
        line.push(b'\n');
        let sent = self
            .requests
            .as_mut()
            .map(|requests| requests.write_all(&line).and_then(|()| requests.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(WorkerFailure::Failed(self.cause_of_death()));
        }
        select! {
            recv(self.replies) -> reply => match reply {
                Ok(Reply::Failed(reason)) => Err(WorkerFailure::Failed(reason)),
                Ok(reply) => Ok(reply),
                Err(_) => Err(WorkerFailure::Failed(self.cause_of_death())),
            },
            recv(cancel.channel()) -> _ => Err(WorkerFailure::Interrupted),
        }
    }

    /// Ends the worker if necessary and describes how it ended.
    fn cause_of_death(&mut self) -> String {
        self.requests = None;
        // It has closed its output: it is ending by itself, or stuck in doing so.
        let status = self.wait_for(Duration::from_secs(5));
        // Its last output may still be on its way; processes that inherited the pipe are not waited for.
        let _ = self.heard.recv_timeout(Duration::from_millis(500));
        let how = match status {
            Some(status) => describe(status),
            None => "closed its output and kept running".to_owned(),
        };
        let words = locked(&self.last_words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.is_empty() {
            format!("the worker process {how}")
        } else {
            format!("the worker process {how}: {}", words.join(" | "))
        }
    }

    /// Its status, if it ends within `time`. The system has no such wait: it is asked again and again.
    fn wait_for(&mut self, time: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < time => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return None,
            }
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.requests = None;
        // It may have ended by itself; other failures are not possible.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(libc::SIGKILL) => "was killed (the system does that when memory runs out)".into(),
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with code {}", status.code().unwrap_or_default()),
    }
}

#[cfg(not(unix))]
fn describe(status: ExitStatus) -> String {
    format!("ended with {status}")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn shell(script: &str) -> WorkerProcess {
        let command = ["sh", "-c", script].map(OsString::from);
        WorkerProcess::start(&command, &[]).unwrap()
    }

    fn reason(no_reply: WorkerFailure) -> String {
        match no_reply {
            WorkerFailure::Failed(reason) => reason,
            WorkerFailure::Interrupted => panic!("the run was not cancelled"),
        }
    }

    #[test]
    fn noise_on_standard_output_is_passed_over() {
        let mut worker = shell(r#"read x; echo "loading…"; echo '{"latencies":[1.5]}'; read x"#);
        let reply = worker
            .ask(&WorkerRequest::Work, &CancelToken::new())
            .unwrap();
        assert_eq!(reply, Reply::Latencies(vec![1.5]));
    }

    #[test]
    fn a_worker_that_dies_says_how() {
        let mut worker = shell("read x; echo 'no such device' >&2; exit 7");
        let reason = reason(
            worker
                .ask(&WorkerRequest::Work, &CancelToken::new())
                .unwrap_err(),
        );
        assert_eq!(
            reason,
            "the worker process ended with code 7: no such device"
        );
    }

    #[test]
    fn a_killed_worker_is_told_from_one_that_ends() {
        let mut worker = shell("read x; kill -9 $$");
        let reason = reason(
            worker
                .ask(&WorkerRequest::Work, &CancelToken::new())
                .unwrap_err(),
        );
        assert!(reason.contains("killed"), "{reason}");
    }

    #[test]
    fn a_refusal_is_passed_on() {
        let mut worker = shell(r#"read x; echo '{"failed":"no library"}'; read x"#);
        let reason = reason(
            worker
                .ask(&WorkerRequest::Work, &CancelToken::new())
                .unwrap_err(),
        );
        assert_eq!(reason, "no library");
    }

    #[test]
    fn an_interrupt_ends_the_wait_and_the_worker() {
        let mut worker = shell("read x; exec sleep 600");
        let cancel = CancelToken::new();
        cancel.cancel();
        let no_reply = worker.ask(&WorkerRequest::Work, &cancel).unwrap_err();
        assert!(matches!(no_reply, WorkerFailure::Interrupted));
        drop(worker); // returns only because it kills
    }
}
