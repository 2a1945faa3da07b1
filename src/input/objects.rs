//! Objects on stores as sources: read from any byte on, or in parts for formats with a footer.

use std::io::{self, Read};
use std::sync::Arc;

use super::bytes::{Bytes, Object};
use crate::storage::{self, ObjectFile};

/// An object, and the parts of it that were fetched.
struct ObjectBytes {
    object: storage::Object,
    parts: ObjectFile,
}

impl From<storage::Object> for Object {
    fn from(object: storage::Object) -> Self {
        Self {
            name: object.address().to_string(),
            bytes: Arc::new(ObjectBytes {
                parts: object.random_access(),
                object,
            }),
        }
    }
}

/// The cause of every error is one of this library's, which says what helps.
impl Bytes for ObjectBytes {
    fn len(&self) -> u64 {
        self.object.size()
    }

    fn etag(&self) -> Option<&str> {
        self.object.etag()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if into.len() as u64 > self.len().saturating_sub(offset) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = self
            .parts
            .read_at(offset, into.len())
            .map_err(io::Error::other)?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.object.read_from(offset)))
    }
}
