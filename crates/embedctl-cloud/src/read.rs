//! Reading an object from a byte to its end. It continues where a connection was cut, and never mixes the bytes of two
//! versions: every answer must be of the version that was listed. Where the server gives no means to tell versions apart,
//! an object is read from its beginning in one request; after a cut it is asked for again as a whole, and its beginning
//! must have the same hash. Other orders are read from a copy made in that way.

use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::RecvTimeoutError;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::RETRIES;
use super::failure::{Failure, Refusal, watched, watched_body};
use super::list::FoundObject;
use super::local_copy::CopyReason;
use super::refusal::Operation;
use super::version::Version;
use embedctl_common::error::{Error, ErrorKind, Result};

/// Bytes that must arrive for a cut connection not to count against the retries.
const PROGRESS: u64 = 1 << 20;
/// Chunks in the channel to the reader: some hundred KiB.
const AHEAD: usize = 4;
/// The cause of an early end of a stream.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // made once a broken stream
pub(super) enum BrokenStream {
    /// The read may be continued.
    Cut(Failure),
    /// The object was replaced.
    Changed,
}

impl FoundObject {
    /// Reads from a byte on to the end.
    pub(super) fn read_from(&self, offset: u64) -> ObjectReader {
        let is_copied = !self.is_certain() && (offset > 0 || self.copy.is_there());
        match is_copied {
            true => ObjectReader(ObjectSource::Copied {
                object: self.clone(),
                offset,
            }),
            false => ObjectReader(ObjectSource::StreamedBody(Box::new(self.streamed(offset)))),
        }
    }

    fn streamed(&self, offset: u64) -> StreamedBody {
        StreamedBody {
            chunks: self.stream(offset),
            object: self.clone(),
            offset,
            chunk: Bytes::new(),
            failures: 0,
            furthest: offset,
            read: (!self.is_certain()).then(Sha256::new),
            again: None,
        }
    }

    /// Why all of it was fetched before any of it was read, if it was.
    pub(super) fn copied(&self) -> Option<&'static str> {
        self.copy.reason()
    }

    /// Fills `into`, which must lie inside, from the copy on this machine.
    ///
    /// # Errors
    /// If the object has changed or gone, the store refuses, or the copy fails.
    pub(super) fn read_copied(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let original = || {
            let reason = match self.is_certain() {
                true => CopyReason::Parts,
                false => CopyReason::Versions,
            };
            let content = ObjectSource::StreamedBody(Box::new(self.streamed(0)));
            (reason, ObjectReader(content))
        };
        self.copy.read_at(self.address(), original, offset, into)
    }

    fn stream(&self, offset: u64) -> mpsc::Receiver<Result<Bytes, BrokenStream>> {
        let (sender, chunks) = mpsc::channel(AHEAD);
        if offset < self.size() {
            let object = self.clone();
            let storage = self.storage.clone();
            storage.spawn(async move {
                if let Err(broken) = object.send_from(offset, &sender).await {
                    let _ = sender.send(Err(broken)).await;
                }
            });
        }
        chunks
    }

    async fn send_from(
        &self,
        offset: u64,
        sender: &mpsc::Sender<Result<Bytes, BrokenStream>>,
    ) -> Result<(), BrokenStream> {
        // From the beginning without a range: not every server knows them.
        let options = GetOptions {
            range: (offset > 0).then_some(GetRange::Offset(offset)),
            ..GetOptions::default()
        };
        let (store, path) = (&self.location.store, &self.location.path);
        let mut got = watched(store.get_opts(path, options))
            .await
            .map_err(BrokenStream::Cut)?;
        if !self.is_still(&Version::answered(&got)) {
            return Err(BrokenStream::Changed);
        }
        let object_store::GetResultPayload::Stream(stream) = &mut got.payload;
        while let Some(chunk) = watched_body(async { stream.next().await.transpose() })
            .await
            .map_err(BrokenStream::Cut)?
        {
            if sender.send(Ok(chunk)).await.is_err() {
                break; // the reader is gone
            }
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        Error::new(
            ErrorKind::Storage,
            self.address(),
            "it was replaced by another object while it was read",
        )
        .with_remedy("wait until its writer has finished, and start again")
    }

    /// Whether it makes sense to try again; the failure's error where it does not.
    pub(super) fn again(&self, broken: BrokenStream, failures: &mut u32) -> Result<()> {
        if self.storage.cancel().is_cancelled() {
            return Err(Error::interrupted());
        }
        let failure = match broken {
            BrokenStream::Changed => return Err(self.changed()),
            BrokenStream::Cut(failure) => failure,
        };
        // Answers that say no, after `object_store` has asked often enough.
        let refused = |refusal: &Refusal| refusal.error.is_none() || refusal.no_credentials;
        let is_final = failure.refusal.as_ref().is_some_and(refused);
        if *failures == RETRIES || is_final {
            return Err(self
                .storage
                .explain(self.address(), Operation::Read, failure));
        }
        let pause = match *failures {
            0 => Duration::ZERO,
            count => self.storage.settings().net.pause * 2_u32.pow(count - 1),
        };
        *failures += 1;
        match self.storage.cancel().channel().recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(Error::interrupted()),
        }
    }
}

/// Reads an object from a byte to its end.
#[derive(Debug)]
pub(super) struct ObjectReader(ObjectSource);

#[derive(Debug)]
enum ObjectSource {
    StreamedBody(Box<StreamedBody>),
    Copied { object: FoundObject, offset: u64 },
}

/// The cause of an error is one of this library's, with a remedy.
impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            ObjectSource::StreamedBody(streamed) => streamed.read(buffer),
            ObjectSource::Copied { object, offset } => {
                let left = object.size().saturating_sub(*offset);
                let length = buffer
                    .len()
                    .min(usize::try_from(left).unwrap_or(usize::MAX));
                (object.read_copied(*offset, &mut buffer[..length])).map_err(io::Error::other)?;
                *offset += length as u64;
                Ok(length)
            }
        }
    }
}

#[derive(Debug)]
struct StreamedBody {
    object: FoundObject,
    chunks: mpsc::Receiver<Result<Bytes, BrokenStream>>,
    offset: u64,
    chunk: Bytes,
    failures: u32,
    furthest: u64,
    /// Hash of all bytes so far, if nothing else identifies the version.
    read: Option<Sha256>,
    /// The part already read of a body that has begun anew.
    again: Option<RereadCheck>,
}

/// The part of a second answer that was read from the first.
#[derive(Debug)]
struct RereadCheck {
    left: u64,
    hash: Sha256,
}

impl StreamedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.chunk.is_empty() {
                let count = buffer.len().min(self.chunk.len());
                buffer[..count].copy_from_slice(&self.chunk.split_to(count));
                if let Some(read) = &mut self.read {
                    read.update(&buffer[..count]);
                }
                self.offset += count as u64;
                return Ok(count);
            }
            if self.offset >= self.object.size() || buffer.is_empty() {
                return Ok(0);
            }
            let broken = match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => match self.behind_what_was_read(chunk) {
                    Some(chunk) => {
                        let left = self.object.size() - self.offset;
                        let left = usize::try_from(left).unwrap_or(usize::MAX);
                        self.chunk = chunk.slice(..chunk.len().min(left));
                        continue;
                    }
                    None => BrokenStream::Changed,
                },
                Some(Err(broken)) => broken,
                None => BrokenStream::Cut(Failure {
                    error: object_store::Error::Generic {
                        store: "",
                        source: format!(
                            "it ended after {} of {} bytes",
                            self.offset,
                            self.object.size()
                        )
                        .into(),
                    },
                    refusal: None,
                    answered: true,
                }),
            };
            if self.offset >= self.furthest.saturating_add(PROGRESS) {
                self.failures = 0;
            }
            self.furthest = self.furthest.max(self.offset);
            self.object
                .again(broken, &mut self.failures)
                .map_err(io::Error::other)?;
            self.again = self.read.is_some().then(|| RereadCheck {
                left: self.offset,
                hash: Sha256::new(),
            });
            let from = if self.again.is_some() { 0 } else { self.offset };
            self.chunks = self.object.stream(from);
        }
    }

    /// The new bytes of a chunk; `None` if the bytes read before have changed.
    fn behind_what_was_read(&mut self, mut chunk: Bytes) -> Option<Bytes> {
        let (Some(again), Some(read)) = (&mut self.again, &self.read) else {
            return Some(chunk);
        };
        let known = again.left.min(chunk.len() as u64);
        again
            .hash
            .update(chunk.split_to(usize::try_from(known).ok()?));
        again.left -= known;
        if again.left > 0 {
            return Some(Bytes::new());
        }
        let is_same = again.hash.clone().finalize() == read.clone().finalize();
        self.again = None;
        is_same.then_some(chunk)
    }
}
