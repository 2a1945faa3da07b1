//! A connection's client: what it sends, whether it is still there, and whether it has its answer.
//!
//! hyper reads and writes through [`ClientStream`]. The server needs to know three things that hyper does not tell it.
//! A request with two lengths must be refused, but hyper drops one of them ([`Heads`]). A client that has closed its
//! sending side either waits for its answer or is gone ([`Client::gone`]). And an answer is given only once its last byte
//! is written ([`OpenAnswer`]).

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use embedctl_common::threads::locked;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::answers::OpenAnswer;
use crate::heads::Heads;

/// Bytes of further requests that are read while one is answered.
const AHEAD: usize = 16 << 10;

/// How long a client that sends no more may wait until it is asked whether it is there.
const ASKED_AFTER: Duration = Duration::from_secs(1);

/// How often it is looked whether its system has said that it is gone.
const LOOKED_EVERY: Duration = Duration::from_millis(100);

/// An interim answer that every client of HTTP/1.1 skips. The system of a client that is gone refuses it.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A stream of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether the other side has broken the connection.
    fn is_broken(&self) -> bool;

    /// Bytes that were written and that the other side has not taken yet, where the system tells.
    fn untaken(&self) -> Option<usize>;
}

impl Stream for tokio::net::TcpStream {
    fn is_broken(&self) -> bool {
        !matches!(self.take_error(), Ok(None))
    }

    fn untaken(&self) -> Option<usize> {
        untaken(self)
    }
}

#[cfg(unix)]
impl Stream for tokio::net::UnixStream {
    fn is_broken(&self) -> bool {
        !matches!(self.take_error(), Ok(None))
    }

    fn untaken(&self) -> Option<usize> {
        untaken(self)
    }
}

#[cfg(target_os = "linux")]
fn untaken(stream: &impl std::os::fd::AsRawFd) -> Option<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as the stream is borrowed, and this call fills in an integer.
    let failed = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } != 0;
    usize::try_from(bytes).ok().filter(|_| !failed)
}

#[cfg(not(target_os = "linux"))]
fn untaken<S>(_: &S) -> Option<usize> {
    None
}

/// The client of a connection.
pub(crate) struct Client {
    wire: Mutex<Wire>,
    /// Whether the request that is answered was read to its end.
    is_read: AtomicBool,
}

struct Wire {
    stream: Box<dyn Stream>,
    /// How long nothing of an answer may be read.
    limit: Duration,
    stalled: Option<WriteStall>,
    heads: Heads,
    /// Bytes that were read while a request was answered, and not yet by hyper.
    ahead: Vec<u8>,
    /// Whether the client sends no more.
    ended: bool,
    answer: Option<OpenAnswer>,
}

/// The time since nothing could be written.
struct WriteStall {
    over: Pin<Box<Sleep>>,
    /// Bytes that the client had not taken when it began.
    untaken: Option<usize>,
}

impl Client {
    pub fn new(stream: Box<dyn Stream>, limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            wire: Mutex::new(Wire {
                stream,
                limit,
                stalled: None,
                heads: Heads::default(),
                ahead: Vec::new(),
                ended: false,
                answer: None,
            }),
            is_read: AtomicBool::new(false),
        })
    }

    /// A request's head was read; whether its length is told in two ways.
    pub fn begin(&self) -> bool {
        self.is_read.store(false, Ordering::Relaxed);
        locked(&self.wire).heads.next_is_ambiguous()
    }

    /// The request was read to its end.
    pub fn end_of_request(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Its answer is being written from now on.
    pub fn answer(&self, answer: OpenAnswer) {
        locked(&self.wire).answer = Some(answer);
    }

    /// The outcome of `answer`; `None` if the client goes away before. `asks`: whether it may be sent an interim answer.
    pub async fn unless_gone<T>(&self, asks: bool, answer: impl Future<Output = T>) -> Option<T> {
        let (mut answer, mut gone) = (pin!(answer), pin!(self.gone(asks)));
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(Some(answer));
            }
            gone.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// Waits until the client has gone away. One that has only closed its sending side waits for its answer. The two
    /// differ in nothing but what becomes of bytes that are sent to them.
    async fn gone(&self, asks: bool) {
        let ended = poll_fn(|context| match self.is_read.load(Ordering::Relaxed) {
            true => locked(&self.wire).poll_ahead(context),
            // The task that reads the body wakes this one.
            false => Poll::Pending,
        });
        if ended.await.is_err() {
            return;
        }
        if !asks {
            return std::future::pending().await;
        }
        sleep(ASKED_AFTER).await;
        // Bytes of the answer before this one may still have to be written.
        while locked(&self.wire).answer.is_some() {
            sleep(LOOKED_EVERY).await;
        }
        let asked = poll_fn(|context| {
            let mut wire = locked(&self.wire);
            Pin::new(&mut wire.stream).poll_write(context, INTERIM)
        });
        if !asked.await.is_ok_and(|written| written == INTERIM.len()) {
            return;
        }
        while !locked(&self.wire).stream.is_broken() {
            sleep(LOOKED_EVERY).await;
        }
    }
}

impl Wire {
    /// Reads what comes behind a request, until the client sends no more.
    fn poll_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 1 << 10];
        while !self.ended {
            if self.ahead.len() >= AHEAD {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut bytes);
            std::task::ready!(self.poll_stream(context, &mut buffer))?;
            self.ahead.extend_from_slice(buffer.filled());
        }
        Poll::Ready(Ok(()))
    }

    /// Reads from the stream itself.
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read {
            let bytes = &buffer.filled()[before..];
            self.ended |= bytes.is_empty();
            self.heads.read(bytes);
        }
        read
    }

    /// Fails if nothing could be written for too long.
    fn patience<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        loop {
            let stall = self.stalled.get_or_insert_with(|| WriteStall {
                over: Box::pin(sleep(limit)),
                untaken: self.stream.untaken(),
            });
            std::task::ready!(stall.over.as_mut().poll(context));
            // The system asks for more only once it has sent a good part of what it holds: a slow reader may have taken some.
            let before = stall.untaken;
            self.stalled = None;
            match (before, self.stream.untaken()) {
                (Some(before), Some(now)) if now < before => {}
                _ => break,
            }
        }
        if let Some(answer) = self.answer.take() {
            answer.cut();
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// A client's connection, as hyper reads and writes it. Writing fails if nothing of an answer can be written for some time.
pub(crate) struct ClientStream(pub Arc<Client>);

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut wire = locked(&self.0.wire);
        if !wire.ahead.is_empty() {
            let length = wire.ahead.len().min(buffer.remaining());
            buffer.put_slice(&wire.ahead[..length]);
            wire.ahead.drain(..length);
            return Poll::Ready(Ok(()));
        }
        match wire.ended {
            true => Poll::Ready(Ok(())),
            false => wire.poll_stream(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut wire = locked(&self.0.wire);
        let written = Pin::new(&mut wire.stream).poll_write(context, bytes);
        wire.patience(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = locked(&self.0.wire);
        let written = Pin::new(&mut wire.stream).poll_write_vectored(context, pieces);
        wire.patience(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        locked(&self.0.wire).stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = locked(&self.0.wire);
        let flushed = Pin::new(&mut wire.stream).poll_flush(context);
        let flushed = wire.patience(context, flushed);
        // hyper flushes a stream once it has written all that it holds.
        if let Poll::Ready(Ok(())) = flushed
            && (wire.answer.as_ref()).is_some_and(OpenAnswer::is_handed_over)
        {
            wire.answer = None;
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = locked(&self.0.wire);
        Pin::new(&mut wire.stream).poll_shutdown(context)
    }
}
