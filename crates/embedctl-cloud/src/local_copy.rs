//! The copy on this machine of an object whose server gives no parts of it, or no means to tell its versions apart.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Mutex;

use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::threads::locked;
use embedctl_storage::Address;

/// A file without a name that holds all of an object, once it is made.
#[derive(Debug, Default)]
pub(super) struct LocalCopy(Mutex<Option<CopiedObject>>);

#[derive(Debug)]
struct CopiedObject {
    file: File,
    reason: CopyReason,
}

/// What an object's server does not give, so that it is copied.
#[derive(Debug, Clone, Copy)]
pub(super) enum CopyReason {
    Versions,
    Parts,
    Length,
}

impl CopyReason {
    /// What its server does not do.
    fn as_str(self) -> &'static str {
        match self {
            Self::Versions => "gives neither an ETag nor a settled Last-Modified",
            Self::Parts => "gives no parts of a file",
            Self::Length => "does not say how long the file is",
        }
    }
}

impl LocalCopy {
    /// The content of an answer without a length.
    pub(super) fn of_unknown_length(file: File) -> Self {
        let reason = CopyReason::Length;
        Self(Mutex::new(Some(CopiedObject { file, reason })))
    }

    pub(super) fn is_there(&self) -> bool {
        locked(&self.0).is_some()
    }

    /// Why there is one, if there is.
    pub(super) fn reason(&self) -> Option<&'static str> {
        locked(&self.0)
            .as_ref()
            .map(|copied| copied.reason.as_str())
    }

    /// Fills `into`, which must lie inside. The copy of the object at `address` is made before its first use, for the
    /// reason that `original` gives, of the content that it gives.
    ///
    /// # Errors
    /// If the object cannot be read, or the copy cannot be written or read.
    pub(super) fn read_at<R: Read>(
        &self,
        address: &Address,
        original: impl FnOnce() -> (CopyReason, R),
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let mut copy = locked(&self.0);
        let CopiedObject { file, reason } = match &mut *copy {
            Some(copied) => copied,
            none => {
                let (reason, mut content) = original();
                none.insert(CopiedObject::make(address, reason, &mut content)?)
            }
        };
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(into));
        read.map_err(|error| failed(address, *reason, error))
    }
}

impl CopiedObject {
    fn make(address: &Address, reason: CopyReason, content: &mut impl Read) -> Result<Self> {
        let mut file = tempfile::tempfile().map_err(|error| failed(address, reason, error))?;
        match io::copy(content, &mut file) {
            Ok(_) => Ok(Self { file, reason }),
            Err(error) => Err(match error.downcast::<Error>() {
                Ok(own) => own,
                Err(error) => failed(address, reason, error),
            }),
        }
    }
}

fn failed(address: &Address, reason: CopyReason, error: io::Error) -> Error {
    let reason = format!(
        "its server {}, so it is read from a copy in {}, which failed",
        reason.as_str(),
        std::env::temp_dir().display()
    );
    Error::new(ErrorKind::Storage, address, reason)
        .with_remedy(
            "set TMPDIR to a folder with room for all of it, or fetch it first and name the file",
        )
        .caused_by(error)
}
