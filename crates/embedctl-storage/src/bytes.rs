//! Random access to the bytes of a file or an object, as formats with a footer, resumed runs, shards and `inspect`
//! need it.

use std::error::Error as StdError;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::folder;
use super::{Location, Seeking, Storage};
use embedctl_common::error::{Error, ErrorKind, Place, Result, io_errors};
use embedctl_common::small_file;
use embedctl_common::threads::locked;

/// Bytes of known number, readable from any offset. A file is opened at the first read.
pub trait Bytes: Send + Sync {
    /// Size in bytes, as it was listed.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A name of their content, if there is one: an object's etag, a dataset's commit.
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

    /// Why all of them were fetched before any were read, if they were.
    fn copied(&self) -> Option<&'static str> {
        None
    }

    /// Closes the file that [`Bytes::read_at`] has opened; the next read opens it again.
    fn close(&self) {}

    /// The file beside them, with `ending` after their name; `None` if there is none.
    ///
    /// # Errors
    /// If the system or the store refuses, or a file there is no regular one.
    fn beside(&self, ending: &str) -> Result<Option<Readable>>;
}

/// Something with a name, and its bytes.
#[derive(Clone)]
pub struct Readable {
    /// Its name in messages.
    pub name: String,
    /// Its bytes.
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
    /// The file or object that a user named ([`Location::read`]).
    ///
    /// # Errors
    /// If it is not there, or the system or the store refuses.
    pub fn open(path: &Path, storage: Option<&Storage>) -> Result<Self> {
        Location::of(path)?.read(storage)
    }

    /// A regular file of this machine.
    ///
    /// # Errors
    /// If it is not one, or the system refuses.
    pub fn file(path: &Path) -> Result<Self> {
        let found = small_file::open(path).and_then(|file| file.metadata());
        let found = found.map_err(|error| Error::io("read", path, error))?;
        Ok(Self::of_file(path, found.len()))
    }

    pub(super) fn of_file(path: &Path, len: u64) -> Self {
        Self {
            name: path.display().to_string(),
            bytes: Arc::new(FileBytes::new(path, len)),
        }
    }

    /// Its name as a path.
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
    #[must_use]
    pub fn seeking(&self) -> Seeking {
        Seeking::new(Arc::clone(&self.bytes))
    }
}

/// The cause, if a decoder failed because the file or object `name` could not be read: a store's refusal or the
/// system's.
///
/// # Errors
/// The decoder's own, where the data are at fault.
pub fn no_fault_of_data<E>(name: &str, error: E) -> Result<Error, E>
where
    E: StdError + Send + Sync + 'static,
{
    if let Some(own) = Error::behind(&error) {
        return Ok(own);
    }
    if io_errors(&error).all(|error| error.raw_os_error().is_none()) {
        return Err(error);
    }
    // A pipe that breaks on the way in is no reader of ours that went away, as `Error::io` would say.
    Ok(Error::new(ErrorKind::Io, "", "read")
        .at(Place::file(name))
        .caused_by(error))
}

/// A regular file, which stays open from its first part until it is closed: another one that gets its name meanwhile
/// is not mixed in.
pub struct FileBytes {
    path: PathBuf,
    len: u64,
    parts: Mutex<Option<Arc<File>>>,
}

impl Bytes for FileBytes {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let file = match &mut *locked(&self.parts) {
            Some(file) => Arc::clone(file),
            none => Arc::clone(none.insert(Arc::new(small_file::open(&self.path)?))),
        };
        small_file::read_at(&file, into, offset)
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = small_file::open(&self.path)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(Box::new(file))
    }

    fn close(&self) {
        *locked(&self.parts) = None;
    }

    fn beside(&self, ending: &str) -> Result<Option<Readable>> {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        let name = PathBuf::from(name);
        let instead = folder::sidecar(&name);
        match (Location::Local(name).find(None)?, instead) {
            (None, Some(instead)) => Location::Local(instead).find(None),
            (found, _) => Ok(found),
        }
    }
}

impl FileBytes {
    /// A file of `len` bytes.
    #[must_use]
    pub fn new(path: &Path, len: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            len,
            parts: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_replaced_while_its_parts_are_read_stays_the_one_that_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "first of two").unwrap();
        fs::write(&other, "another file").unwrap();
        let file = Readable::file(&path).unwrap();
        let mut part = [0; 5];
        file.bytes.read_at(0, &mut part).unwrap();
        assert_eq!(&part, b"first");
        // Windows does not replace an open file.
        if fs::rename(&other, &path).is_ok() {
            file.bytes.read_at(6, &mut part).unwrap();
            assert_eq!(&part, b"of tw");
            assert_eq!(file.read_whole(99).unwrap(), b"another file");
            file.bytes.close();
            file.bytes.read_at(0, &mut part).unwrap();
            assert_eq!(&part, b"anoth");
        }
        let missing = Location::Local(other).find(None).unwrap();
        assert!(missing.is_none() && Location::of(folder.path()).unwrap().find(None).is_err());
    }

    #[test]
    fn what_the_system_refuses_to_read_is_no_fault_of_the_data_and_no_closed_output() {
        for code in [5, 32] {
            let refused = parquet::errors::ParquetError::from(io::Error::from_raw_os_error(code));
            let error = no_fault_of_data("a.parquet", refused).unwrap();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(error.to_string(), "cannot read a.parquet");
            let cause = StdError::source(&error).unwrap();
            assert!(cause.is::<parquet::errors::ParquetError>());
            let code_of = io_errors(&error).find_map(io::Error::raw_os_error);
            assert_eq!(code_of, Some(code));
        }
        let damaged = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(no_fault_of_data("a.parquet", damaged).is_err());
    }
}
