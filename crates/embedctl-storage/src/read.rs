//! Reading an object: from a byte to its end, or parts of it in any order. Both continue where a connection was cut, and
//! never mix the bytes of two versions: every answer must be of the version that was listed. Where the server gives no
//! means to tell versions apart, an object is read from its beginning in one request; after a cut it is asked for again
//! as a whole, and its beginning must have the same hash. Other orders are read from a copy made in that way.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::RecvTimeoutError;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::RETRIES;
use super::failure::{Failure, Refusal, in_parts, watched, watched_body};
use super::list::Object;
use super::refusal::Doing;
use super::version::Version;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::threads::locked;

/// Bytes that must arrive for a cut connection not to count against the retries.
const PROGRESS: u64 = 1 << 20;
/// Chunks in the channel to the reader: some hundred KiB.
const AHEAD: usize = 4;
/// Bytes of a part that is fetched for random access, and of all that are kept.
const BLOCK: u64 = 1 << 20;
const LARGEST_FETCH: u64 = 8 << 20;
const KEPT: u64 = 32 << 20;

/// The cause of an early end of a stream.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // made once a broken stream
enum Broken {
    /// The read may be continued.
    Cut(Failure),
    /// The object was replaced.
    Changed,
}

impl Object {
    /// Reads from a byte on to the end.
    #[must_use]
    pub fn read_from(&self, offset: u64) -> ObjectReader {
        let is_copied = !self.is_certain() && (offset > 0 || self.copy.is_there());
        match is_copied {
            true => ObjectReader(ObjectSource::Copied {
                object: self.clone(),
                offset,
            }),
            false => ObjectReader(ObjectSource::Streamed(Box::new(self.streamed(offset)))),
        }
    }

    fn streamed(&self, offset: u64) -> Streamed {
        Streamed {
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
    #[must_use]
    pub fn copied(&self) -> Option<&'static str> {
        self.copy.reason()
    }

    /// Parts of it in any order.
    #[must_use]
    pub fn random_access(&self) -> ObjectFile {
        ObjectFile {
            object: self.clone(),
            blocks: Mutex::default(),
        }
    }

    /// All of it, where it is short.
    ///
    /// # Errors
    /// If it is longer than `limit` bytes, has changed or gone, or the store refuses.
    pub fn read_whole(&self, limit: u64) -> Result<Vec<u8>> {
        if self.size() > limit {
            let reason = format!("it is {} bytes long, and the limit is {limit}", self.size());
            return Err(Error::new(ErrorKind::Storage, self.address(), reason));
        }
        let mut bytes = Vec::new();
        self.read_from(0)
            .read_to_end(&mut bytes)
            .map_err(|error| own(error, self))?;
        Ok(bytes)
    }

    fn stream(&self, offset: u64) -> mpsc::Receiver<Result<Bytes, Broken>> {
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
        sender: &mpsc::Sender<Result<Bytes, Broken>>,
    ) -> Result<(), Broken> {
        // From the beginning without a range: not every server knows them.
        let options = GetOptions {
            range: (offset > 0).then_some(GetRange::Offset(offset)),
            ..GetOptions::default()
        };
        let (store, path) = (&self.location.store, &self.location.path);
        let mut got = watched(store.get_opts(path, options))
            .await
            .map_err(Broken::Cut)?;
        if !self.is_still(&Version::answered(&got)) {
            return Err(Broken::Changed);
        }
        let object_store::GetResultPayload::Stream(stream) = &mut got.payload;
        while let Some(chunk) = watched_body(async { stream.next().await.transpose() })
            .await
            .map_err(Broken::Cut)?
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
    fn again(&self, broken: Broken, failures: &mut u32) -> Result<()> {
        if self.storage.cancel().is_cancelled() {
            return Err(Error::interrupted());
        }
        let failure = match broken {
            Broken::Changed => return Err(self.changed()),
            Broken::Cut(failure) => failure,
        };
        // Answers that say no, after `object_store` has asked often enough.
        let refused = |refusal: &Refusal| refusal.error.is_none() || refusal.no_credentials;
        let is_final = failure.refusal.as_ref().is_some_and(refused);
        if *failures == RETRIES || is_final {
            return Err(self.storage.explain(self.address(), Doing::Read, failure));
        }
        let pause = match *failures {
            0 => Duration::ZERO,
            count => self.storage.settings().pause * 2_u32.pow(count - 1),
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
pub struct ObjectReader(ObjectSource);

#[derive(Debug)]
enum ObjectSource {
    Streamed(Box<Streamed>),
    Copied { object: Object, offset: u64 },
}

/// The cause of an error is one of this library's, with a remedy.
impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            ObjectSource::Streamed(streamed) => streamed.read(buffer),
            ObjectSource::Copied { object, offset } => {
                let left = object.size().saturating_sub(*offset);
                let length = buffer
                    .len()
                    .min(usize::try_from(left).unwrap_or(usize::MAX));
                (object.copy.read_at(object, *offset, &mut buffer[..length]))
                    .map_err(io::Error::other)?;
                *offset += length as u64;
                Ok(length)
            }
        }
    }
}

#[derive(Debug)]
struct Streamed {
    object: Object,
    chunks: mpsc::Receiver<Result<Bytes, Broken>>,
    offset: u64,
    chunk: Bytes,
    failures: u32,
    furthest: u64,
    /// Hash of all bytes so far, if nothing else identifies the version.
    read: Option<Sha256>,
    /// The part already read of a body that has begun anew.
    again: Option<Again>,
}

/// The part of a second answer that was read from the first.
#[derive(Debug)]
struct Again {
    left: u64,
    hash: Sha256,
}

impl Streamed {
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
                    None => Broken::Changed,
                },
                Some(Err(broken)) => broken,
                None => Broken::Cut(Failure {
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
            self.again = self.read.is_some().then(|| Again {
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

/// A copy on this machine of an object whose versions cannot be told apart, or that its server gives as a whole only: a
/// file without a name.
#[derive(Debug, Default)]
pub(super) struct LocalCopy(Mutex<Option<CopiedObject>>);

#[derive(Debug)]
struct CopiedObject {
    file: File,
    /// Why there is one.
    reason: &'static str,
}

/// Why an object is copied.
const NO_VERSIONS: &str = "gives neither an ETag nor a settled Last-Modified";
const NO_PARTS: &str = "gives no parts of a file";
const NO_LENGTH: &str = "does not say how long the file is";

impl LocalCopy {
    /// The content of an answer without a length.
    pub(super) fn of_unknown_length(file: File) -> Self {
        let reason = NO_LENGTH;
        Self(Mutex::new(Some(CopiedObject { file, reason })))
    }

    fn is_there(&self) -> bool {
        locked(&self.0).is_some()
    }

    fn reason(&self) -> Option<&'static str> {
        locked(&self.0).as_ref().map(|copied| copied.reason)
    }

    /// Fills `into`, which must lie inside, from the copy, which is made before its first use.
    fn read_at(&self, object: &Object, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut copy = locked(&self.0);
        let CopiedObject { file, reason } = match &mut *copy {
            Some(copied) => copied,
            none => none.insert(Self::make(object)?),
        };
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(into));
        read.map_err(|error| Self::failed(object, reason, error))
    }

    fn make(object: &Object) -> Result<CopiedObject> {
        let reason = match object.is_certain() {
            true => NO_PARTS,
            false => NO_VERSIONS,
        };
        let failed = |error| Self::failed(object, reason, error);
        let mut file = tempfile::tempfile().map_err(failed)?;
        let mut content = ObjectReader(ObjectSource::Streamed(Box::new(object.streamed(0))));
        match io::copy(&mut content, &mut file) {
            Ok(_) => Ok(CopiedObject { file, reason }),
            Err(error) => Err(match error.downcast::<Error>() {
                Ok(own) => own,
                Err(error) => failed(error),
            }),
        }
    }

    fn failed(object: &Object, reason: &str, error: io::Error) -> Error {
        let reason = format!(
            "its server {reason}, so it is read from a copy in {}, which failed",
            std::env::temp_dir().display()
        );
        Error::new(ErrorKind::Storage, object.address(), reason)
            .with_remedy("set TMPDIR to a folder with room for all of it, or fetch it first and name the file")
            .caused_by(error)
    }
}

/// The library's own error behind an [`io::Error`].
fn own(error: io::Error, object: &Object) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(error) => Error::new(ErrorKind::Storage, object.address(), error.to_string()),
    }
}

/// Parts of an object in any order, some of which are kept: readers of Parquet ask for many small ones.
#[derive(Debug)]
pub struct ObjectFile {
    object: Object,
    blocks: Mutex<Blocks>,
}

/// The fetched blocks, the latest last.
#[derive(Debug, Default)]
struct Blocks {
    kept: VecDeque<(u64, Bytes)>,
    /// Where the last fetch ended, and how much it was.
    end: u64,
    length: u64,
}

impl ObjectFile {
    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.object.size()
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// A part of it, which must lie inside.
    ///
    /// # Errors
    /// If the object has changed or gone, or the store refuses.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if !self.object.is_certain() || self.object.copy.is_there() {
            return self.read_copied(offset, length);
        }
        let mut blocks = locked(&self.blocks);
        let begun = blocks.from(offset);
        if begun.len() >= length {
            return Ok(begun.slice(..length));
        }
        // Bytes that are here are not fetched again.
        let (start, end) = (offset + begun.len() as u64, offset + length as u64);
        // Sequential reads get larger blocks.
        let ahead = if start == blocks.end {
            blocks.length * 2
        } else {
            BLOCK
        };
        let least = ahead.clamp(BLOCK, LARGEST_FETCH);
        let fetched = start..end.max(start + least).min(self.size().max(end));
        let Some(bytes) = self.fetch(fetched.clone())? else {
            return self.read_copied(offset, length);
        };
        blocks.end = fetched.end;
        blocks.length = fetched.end - fetched.start;
        blocks.keep(start, bytes.clone());
        let rest = bytes.slice(..length - begun.len());
        Ok(match begun.is_empty() {
            true => rest,
            false => [begun, rest].concat().into(),
        })
    }

    fn read_copied(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut part = vec![0; length];
        self.object.copy.read_at(&self.object, offset, &mut part)?;
        Ok(part.into())
    }

    /// A part of it; `None` where its server gives no parts.
    fn fetch(&self, range: Range<u64>) -> Result<Option<Bytes>> {
        let mut failures = 0;
        loop {
            let (object, range) = (self.object.clone(), range.clone());
            let got = async move {
                let options = GetOptions {
                    range: Some(GetRange::Bounded(range)),
                    ..GetOptions::default()
                };
                let got = object
                    .location
                    .store
                    .get_opts(&object.location.path, options)
                    .await?;
                let same = object.is_still(&Version::answered(&got));
                Ok((same, got.bytes().await?))
            };
            let broken = match self.object.storage.attempt(in_parts(got))? {
                Ok((true, bytes)) => return Ok(Some(bytes)),
                Ok((false, _)) => Broken::Changed,
                Err(Failure {
                    refusal: Some(Refusal { no_parts: true, .. }),
                    ..
                }) => return Ok(None),
                Err(failure) => Broken::Cut(failure),
            };
            self.object.again(broken, &mut failures)?;
        }
    }
}

impl Blocks {
    /// The cached bytes from `offset` on.
    fn from(&self, offset: u64) -> Bytes {
        let follows = |(start, bytes): &(u64, Bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            (from < bytes.len()).then(|| bytes.slice(from..))
        };
        let found = self.kept.iter().filter_map(follows);
        found.max_by_key(Bytes::len).unwrap_or_default()
    }

    fn keep(&mut self, offset: u64, bytes: Bytes) {
        self.kept.push_back((offset, bytes));
        let size = |blocks: &VecDeque<(u64, Bytes)>| -> u64 {
            blocks.iter().map(|(_, bytes)| bytes.len() as u64).sum()
        };
        while self.kept.len() > 1 && size(&self.kept) > KEPT {
            self.kept.pop_front();
        }
    }
}
