//! The pace of a source that may pause: a pipe, a terminal.
//!
//! A thread reads ahead of the parser, which shows when no more input is waiting. A partial window is then passed on,
//! but only while no earlier window is in work: as long as there is work, waiting for more records costs no time, and
//! windows stay as full as without this. The first window decides the types and set of fields, which must not depend
//! on timing, so it waits to be full, unless the output is a stream. Without a report of written windows, all windows
//! wait to be full.

use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError, Sender, bounded, select, unbounded};

use embedctl_common::error::Result;
use embedctl_common::threads::{locked, spawn};

/// Bytes read ahead at a time, and how often: several times the capacity of a pipe.
const CHUNK: usize = 64 * 1024;
const CHUNKS_AHEAD: usize = 8;

/// How long nothing must come for a source to count as pausing: longer than a busy writer takes from one write
/// to the next, shorter than anybody notices.
const GRACE: Duration = Duration::from_millis(5);

type Chunk = io::Result<Vec<u8>>;

/// A source that is read ahead of its reader.
#[derive(Clone)]
pub(crate) struct ReadAhead(Arc<Mutex<ReadAheadBuffer>>);

/// Bytes that were read and not yet taken.
struct ReadAheadBuffer {
    chunks: Receiver<Chunk>,
    chunk: io::Cursor<Vec<u8>>,
    /// Its error, once: after it, and at its end, there is nothing more.
    failed: Option<io::Error>,
    ended: bool,
}

impl ReadAhead {
    /// Starts to read `source`.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn of(mut source: Box<dyn Read + Send>) -> Result<Self> {
        let (sender, chunks) = bounded(CHUNKS_AHEAD);
        // Detached: it may be in the middle of a read that never returns.
        spawn("ahead", move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = match source.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(bytes) => {
                        chunk.truncate(bytes);
                        Ok(chunk)
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let last = read.is_err();
                if sender.send(read).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Self(Arc::new(Mutex::new(ReadAheadBuffer {
            chunks,
            chunk: io::Cursor::default(),
            failed: None,
            ended: false,
        }))))
    }
}

impl ReadAheadBuffer {
    fn take(&mut self, chunk: Result<Chunk, RecvError>) {
        match chunk {
            Ok(Ok(chunk)) => self.chunk = io::Cursor::new(chunk),
            Ok(Err(error)) => self.failed = Some(error),
            Err(RecvError) => self.ended = true,
        }
    }

    /// Whether a read returns at once.
    fn is_ready(&self) -> bool {
        let left = self.chunk.position() < self.chunk.get_ref().len() as u64;
        left || self.failed.is_some() || self.ended
    }
}

impl Read for ReadAhead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut inlet = locked(&self.0);
        if !inlet.is_ready() {
            let chunk = inlet.chunks.recv();
            inlet.take(chunk);
        }
        match inlet.failed.take() {
            Some(error) => Err(error),
            None => inlet.chunk.read(into),
        }
    }
}

/// Tells a reader that a window it has handed on is written.
#[derive(Debug, Clone)]
pub struct WrittenSignal(Sender<()>);

impl WrittenSignal {
    /// One more window is written.
    pub fn window(&self) {
        // The reader may be at its end, and gone.
        let _ = self.0.send(());
    }
}

/// When to hand on a window that is not full.
pub(crate) struct WindowPacing {
    settled: (Sender<()>, Receiver<()>),
    in_flight: u64,
    /// Whether written windows are reported; otherwise a pause ends no window.
    is_told: bool,
    /// Whether the output is a stream that is read while it is written.
    pub(crate) is_awaited: bool,
    /// The source that is read, if it may pause.
    pub(crate) source: Option<ReadAhead>,
}

impl WindowPacing {
    pub(crate) fn new() -> Self {
        Self {
            settled: unbounded(),
            in_flight: 0,
            is_told: false,
            is_awaited: false,
            source: None,
        }
    }

    /// The handle for the writer of the windows.
    pub(crate) fn settled(&mut self) -> WrittenSignal {
        self.is_told = true;
        WrittenSignal(self.settled.0.clone())
    }

    /// A window was handed on.
    pub(crate) fn handed_on(&mut self) {
        self.in_flight += 1;
    }

    /// Whether a pause may end a window; `decides`: the window decides the columns of all others.
    pub(crate) fn may_end(&self, decides: bool) -> bool {
        self.is_told && (self.is_awaited || !decides)
    }

    /// Waits until the source has something to read, or until it pauses while no window is in flight: true
    /// then. False at once where no pause may end the window.
    pub(crate) fn pauses(&mut self, decides: bool) -> bool {
        let Some(source) = self.source.as_ref().filter(|_| self.may_end(decides)) else {
            return false;
        };
        let mut inlet = locked(&source.0);
        let until = Instant::now() + GRACE;
        while !inlet.is_ready() {
            while self.settled.1.try_recv().is_ok() {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
            let grace = until.saturating_duration_since(Instant::now());
            let chunks = inlet.chunks.clone();
            if self.in_flight == 0 {
                select! {
                    recv(chunks) -> chunk => inlet.take(chunk),
                    default(grace) => return true,
                }
            } else {
                select! {
                    recv(chunks) -> chunk => inlet.take(chunk),
                    recv(self.settled.1) -> _ => self.in_flight -= 1,
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what is sent to it, and waits for it.
    struct Sent(std::sync::mpsc::Receiver<Vec<u8>>);

    impl Read for Sent {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Ok(bytes) = self.0.recv() else {
                return Ok(0);
            };
            into[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    fn sent() -> (std::sync::mpsc::Sender<Vec<u8>>, ReadAhead, WindowPacing) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let ahead = ReadAhead::of(Box::new(Sent(receiver))).unwrap();
        let mut pace = WindowPacing::new();
        pace.source = Some(ahead.clone());
        let _ = pace.settled();
        (sender, ahead, pace)
    }

    #[test]
    fn a_silent_source_pauses_and_one_that_has_something_or_has_ended_does_not() {
        let (sender, mut ahead, mut pace) = sent();
        assert!(pace.pauses(false));
        sender.send(b"abc".to_vec()).unwrap();
        let mut two = [0; 2];
        assert_eq!(ahead.read(&mut two).unwrap(), 2);
        assert!(!pace.pauses(false), "a byte is left");
        assert_eq!(ahead.read(&mut two).unwrap(), 1);
        assert!(pace.pauses(false));
        drop(sender);
        let mut rest = Vec::new();
        assert_eq!(ahead.read_to_end(&mut rest).unwrap(), 0);
        assert!(!pace.pauses(false));
    }

    #[test]
    fn a_pause_ends_nothing_that_must_not_depend_on_the_moment() {
        // Silent all along: a reader that waited for it would hang.
        let (_sender, _, mut pace) = sent();
        for (is_told, is_awaited, decides, ends) in [
            (false, false, false, false),
            (false, true, true, false),
            (true, false, true, false),
            (true, false, false, true),
            (true, true, true, true),
        ] {
            (pace.is_told, pace.is_awaited) = (is_told, is_awaited);
            assert_eq!(pace.pauses(decides), ends);
        }
    }

    #[test]
    fn while_a_window_is_in_flight_only_input_or_its_end_wakes_the_reader() {
        let (sender, mut ahead, mut pace) = sent();
        pace.handed_on();
        pace.handed_on();
        let settled = pace.settled();
        let waiting = std::thread::spawn(move || (pace.pauses(false), pace));
        settled.window();
        settled.window();
        let (paused, mut pace) = waiting.join().unwrap();
        assert!(paused);

        pace.handed_on();
        let waiting = std::thread::spawn(move || pace.pauses(false));
        sender.send(b"more".to_vec()).unwrap();
        assert!(!waiting.join().unwrap());
        let mut four = [0; 4];
        ahead.read_exact(&mut four).unwrap();
        assert_eq!(&four, b"more");
    }

    #[test]
    fn an_error_comes_after_what_was_read_before_it() {
        struct FailsAfterwards(bool);
        impl Read for FailsAfterwards {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(io::Error::other("broken"));
                }
                into[0] = b'a';
                Ok(1)
            }
        }
        let mut ahead = ReadAhead::of(Box::new(FailsAfterwards(false))).unwrap();
        let mut bytes = Vec::new();
        let error = ahead.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(
            (bytes.as_slice(), error.to_string().as_str()),
            (&b"a"[..], "broken")
        );
    }
}
