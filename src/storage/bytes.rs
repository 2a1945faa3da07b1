//! Bytes that can be read anywhere, wherever they are: what formats with a footer, resumed runs, shards and
//! `inspect` need. A file has them, and an object.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Address, Object, ObjectFile, Storage};
use crate::error::{Error, Result};
use crate::small_file;

/// Bytes of known number, readable from any offset. Nothing is opened before it is asked for.
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

    /// What stands beside them, with `ending` after their name; `None` where nothing does.
    ///
    /// # Errors
    /// If the system or the store refuses, or a file there is no regular one.
    fn beside(&self, ending: &str) -> Result<Option<Readable>>;
}

/// Something with a name, and its bytes.
#[derive(Clone)]
pub struct Readable {
    /// How it is called in messages; its ending tells the format.
    pub name: String,
    /// What it holds.
    pub bytes: Arc<dyn Bytes>,
}

impl fmt::Debug for Readable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Readable").field(&self.name).finish()
    }
}

/// By name.
impl PartialEq for Readable {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Readable {}

impl Readable {
    /// A file of this machine, or an object, where `path` is an address.
    ///
    /// # Errors
    /// If it is not there, or the system or the store refuses.
    pub fn open(path: &Path, storage: Option<&Storage>) -> Result<Self> {
        match storage {
            Some(storage) if Address::is_url_path(path) => {
                let address = Address::parse(&path.to_string_lossy())?;
                Ok(storage.look(&address)?.into())
            }
            _ => Self::file(path),
        }
    }

    /// The same, or `None` where nothing is there.
    ///
    /// # Errors
    /// If the system or the store refuses, or a file there is no regular one.
    pub fn find(path: &Path, storage: Option<&Storage>) -> Result<Option<Self>> {
        if let Some(storage) = storage.filter(|_| Address::is_url_path(path)) {
            let address = Address::parse(&path.to_string_lossy())?;
            return Ok(storage.look_for(&address)?.map(Self::from));
        }
        let refused = |error| Error::io("read", path, error);
        match small_file::open(path) {
            Ok(file) => {
                let found = file.metadata().map_err(refused)?;
                Ok(Some(Self::of_file(path, found.len())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    /// A file of this machine.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn file(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).map_err(|error| Error::io("read", path, error))?;
        Ok(Self::of_file(path, found.len()))
    }

    fn of_file(path: &Path, len: u64) -> Self {
        let path = path.to_path_buf();
        Self {
            name: path.display().to_string(),
            bytes: Arc::new(FileBytes { path, len }),
        }
    }

    /// Its name as a path, by whose ending the format is known.
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(&self.name)
    }

    /// All of it, where it is short.
    ///
    /// # Errors
    /// If it is longer than `limit` bytes, or cannot be read.
    pub fn read_whole(&self, limit: u64) -> Result<Vec<u8>> {
        let failed = |error| self.failed(error);
        let mut bytes = Vec::new();
        let reader = self.bytes.reader_from(0).map_err(failed)?;
        (reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)).map_err(failed)?;
        if bytes.len() as u64 > limit {
            let reason = format!("it is longer than {limit} bytes");
            return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, reason)));
        }
        Ok(bytes)
    }

    /// The error of reading it: the store's own words, or the system's.
    #[must_use]
    pub fn failed(&self, error: io::Error) -> Error {
        Error::behind(&error).unwrap_or_else(|| Error::io("read", self.path(), error))
    }

    /// Reads and seeks in it, in chunks.
    pub(crate) fn seeking(&self) -> Seeking {
        Seeking::new(Arc::clone(&self.bytes))
    }
}

/// A regular file.
pub(crate) struct FileBytes {
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

    fn beside(&self, ending: &str) -> Result<Option<Readable>> {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        Readable::find(&PathBuf::from(name), None)
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
pub(crate) struct Seeking {
    bytes: Arc<dyn Bytes>,
    at: u64,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Seeking {
    const CHUNK: u64 = 256 * 1024;

    pub(crate) fn new(bytes: Arc<dyn Bytes>) -> Self {
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

impl From<Object> for Readable {
    fn from(object: Object) -> Self {
        Self {
            name: object.address().to_string(),
            bytes: Arc::new(object.random_access()),
        }
    }
}

/// The cause of every error is one of this library's, which says what helps.
impl Bytes for ObjectFile {
    fn len(&self) -> u64 {
        self.size()
    }

    fn etag(&self) -> Option<&str> {
        self.object().etag()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if into.len() as u64 > self.len().saturating_sub(offset) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = Self::read_at(self, offset, into.len()).map_err(io::Error::other)?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.object().read_from(offset)))
    }

    fn beside(&self, ending: &str) -> Result<Option<Readable>> {
        Ok(self.object().beside(ending)?.map(Readable::from))
    }
}
