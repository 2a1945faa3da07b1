//! The bytes of a source that can be read anywhere: what formats with a footer, resumed runs and shards
//! need. A file is one; object stores bring their own.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

/// A source of known size, readable from any offset. Nothing is opened before it is asked for.
pub trait Bytes: Send + Sync {
    /// Size in bytes, as it was listed.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What names their content, where something does: an object's etag, a dataset's commit.
    fn etag(&self) -> Option<&str> {
        None
    }

    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If there are fewer ([`io::ErrorKind::UnexpectedEof`]), or the system refuses.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// The bytes from `offset` to the end, in order.
    ///
    /// # Errors
    /// If the system refuses.
    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>>;
}

/// Something with a name that is no file here, and its bytes.
#[derive(Clone)]
pub struct Object {
    /// How it is called in messages; its ending tells the format.
    pub name: String,
    /// What it holds.
    pub bytes: Arc<dyn Bytes>,
}

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Object").field(&self.name).finish()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Object {}

/// A regular file.
pub(super) struct FileBytes {
    pub path: PathBuf,
    pub len: u64,
}

impl Bytes for FileBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.open(offset)?.read_exact(into)
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.open(offset)?))
    }
}

impl FileBytes {
    fn open(&self, offset: u64) -> io::Result<File> {
        let mut file = File::open(&self.path)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(file)
    }
}

/// Reads and seeks in bytes, for formats that want both: in chunks, so that small reads cost no request.
pub(super) struct Seeking {
    bytes: Arc<dyn Bytes>,
    at: u64,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Seeking {
    const CHUNK: u64 = 256 * 1024;

    pub(super) fn new(bytes: Arc<dyn Bytes>) -> Self {
        Self {
            bytes,
            at: 0,
            buffer: Vec::new(),
            buffered: 0,
        }
    }
}

impl Read for Seeking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.len().saturating_sub(self.at);
        let wanted = rest.min(into.len() as u64);
        let Ok(length) = usize::try_from(wanted) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if length == 0 {
            return Ok(0);
        }
        let ahead = self.at.checked_sub(self.buffered);
        let within = ahead.filter(|&ahead| ahead + wanted <= self.buffer.len() as u64);
        let start = match within {
            Some(start) => start,
            None if wanted >= Self::CHUNK => {
                self.bytes.read_at(self.at, &mut into[..length])?;
                self.at += wanted;
                return Ok(length);
            }
            None => {
                let chunk = rest.min(Self::CHUNK);
                self.buffer
                    .resize(usize::try_from(chunk).unwrap_or(length), 0);
                self.bytes.read_at(self.at, &mut self.buffer)?;
                self.buffered = self.at;
                0
            }
        };
        let start = usize::try_from(start).map_err(io::Error::other)?;
        into[..length].copy_from_slice(&self.buffer[start..start + length]);
        self.at += wanted;
        Ok(length)
    }
}

impl Seek for Seeking {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.bytes.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
