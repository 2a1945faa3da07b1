//! Parts of an object in any order, all of the version that was listed.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object_store::{GetOptions, GetRange};

use super::failure::{Failure, Refusal, in_parts};
use super::list::FoundObject;
use super::read::BrokenStream;
use super::version::Version;
use embedctl_common::error::Result;
use embedctl_common::threads::locked;
use embedctl_storage::{self as storage, Readable};

/// Bytes of a part that is fetched for random access, and of all that are kept.
const BLOCK: u64 = 1 << 20;
const LARGEST_FETCH: u64 = 8 << 20;
const KEPT: u64 = 32 << 20;

/// Parts of an object in any order, some of which are kept: readers of Parquet ask for many small ones.
#[derive(Debug)]
pub(super) struct ObjectFile {
    object: FoundObject,
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

impl From<FoundObject> for storage::StoredObject {
    fn from(found: FoundObject) -> Self {
        let address = found.address().clone();
        Self::new(address, Arc::new(ObjectFile::new(found)))
    }
}

/// The cause of every error is one of this project's, with a remedy.
impl storage::Bytes for ObjectFile {
    fn len(&self) -> u64 {
        self.object.size()
    }

    fn etag(&self) -> Option<&str> {
        self.object.etag()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if into.len() as u64 > self.object.size().saturating_sub(offset) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = self.part(offset, into.len()).map_err(io::Error::other)?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.object.read_from(offset)))
    }

    fn copied(&self) -> Option<&'static str> {
        self.object.copied()
    }

    fn beside(&self, ending: &str) -> Result<Option<Readable>> {
        let beside = self.object.beside(ending)?;
        Ok(beside.map(|beside| Readable::from(storage::StoredObject::from(beside))))
    }
}

impl ObjectFile {
    pub(super) fn new(object: FoundObject) -> Self {
        Self {
            object,
            blocks: Mutex::default(),
        }
    }

    /// A part of it, which must lie inside.
    ///
    /// # Errors
    /// If the object has changed or gone, or the store refuses.
    fn part(&self, offset: u64, length: usize) -> Result<Bytes> {
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
        let fetched = start..end.max(start + least).min(self.object.size().max(end));
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
        self.object.read_copied(offset, &mut part)?;
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
                Ok((false, _)) => BrokenStream::Changed,
                Err(Failure {
                    refusal: Some(Refusal { no_parts: true, .. }),
                    ..
                }) => return Ok(None),
                Err(failure) => BrokenStream::Cut(failure),
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
