//! The interface of object stores, web servers and the Hub's datasets: objects that are found at addresses, read, and put
//! in one piece.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use super::{Address, Bytes, Readable};
use embedctl_common::error::{Error, ErrorKind, Result};

/// The stores that a run reads and writes. Clones share their connections.
pub type Storage = Arc<dyn ObjectStores>;

/// Objects at addresses.
pub trait ObjectStores: fmt::Debug + Send + Sync {
    /// The objects of `address`: the one with that name, all that match a pattern, or all below a prefix,
    /// sorted by address.
    ///
    /// # Errors
    /// If there is none, or the store refuses; both errors have a remedy.
    fn list(&self, address: &Address) -> Result<Vec<StoredObject>>;

    /// Names, sizes and etags of the objects directly below a prefix, sorted; none where there is nothing. What has
    /// objects below it in turn ends in a slash.
    ///
    /// # Errors
    /// If the store refuses.
    fn children(&self, prefix: &Address) -> Result<Vec<Child>>;

    /// One object by its name.
    ///
    /// # Errors
    /// If it is not there, or the store refuses.
    fn look(&self, address: &Address) -> Result<StoredObject>;

    /// One object by its name, if there is one. An object that a web server forbids counts as missing.
    ///
    /// # Errors
    /// If the store refuses.
    fn look_for(&self, address: &Address) -> Result<Option<StoredObject>>;

    /// Whether there is an object of that name.
    ///
    /// # Errors
    /// If the store does not tell.
    fn exists(&self, address: &Address) -> Result<bool>;

    /// The object of that name, if this is its content.
    ///
    /// # Errors
    /// If it cannot be read.
    fn holds(&self, address: &Address, bytes: &[u8]) -> Result<Option<WrittenObject>> {
        match self.look_for(address)? {
            Some(object) if object.size() == bytes.len() as u64 => {
                let etag = bare_etag(object.etag());
                let is_so = object.read_whole(bytes.len() as u64)? == bytes;
                Ok(is_so.then_some(WrittenObject { etag }))
            }
            _ => Ok(None),
        }
    }

    /// Begins to write an object: fails at once where nothing could be written. Nothing stands under the name
    /// before [`ObjectWriter::finish`].
    ///
    /// # Errors
    /// If there is such an object and `replace` is not given, its place is read only, or the store refuses.
    fn create(&self, address: &Address, replace: bool) -> Result<Box<dyn ObjectWriter>>;

    /// Writes a short object by one request, unless the name exists. Returns the written object; `None` if the name
    /// exists. The store decides, so exactly one of several writers succeeds. A request that was cut is repeated; the
    /// object may then be that of the first attempt, which its content shows.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    fn put_new(&self, address: &Address, bytes: Vec<u8>) -> Result<Option<WrittenObject>>;

    /// Writes a short object by one request, in the place of one that may be there.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    fn put_over(&self, address: &Address, bytes: Vec<u8>) -> Result<()>;

    /// Proves that the store refuses to write a name twice: writes the object at `address` again as it is, if nothing else
    /// is there. `bytes` are its content, so a store that writes it changes nothing. Messages name `shown`.
    ///
    /// # Errors
    /// If it is written, or the store cannot be asked.
    fn prove_conditional_writes(
        &self,
        shown: &Address,
        address: &Address,
        bytes: Vec<u8>,
    ) -> Result<()>;

    /// Removes an object; one that is not there is no error.
    ///
    /// # Errors
    /// If its place is read only, or the store refuses.
    fn remove(&self, address: &Address) -> Result<()>;

    /// The same stores, for writes after the run was cancelled. Only the end of the process ends operations that wait
    /// here.
    ///
    /// # Errors
    /// If the system gives no thread.
    fn after_cancel(&self) -> Result<Storage>;
}

/// An object that is being written. Dropped before [`ObjectWriter::finish`], it leaves nothing. The cause of an error of
/// [`Write`] is one of this project's, with a remedy.
pub trait ObjectWriter: Write + fmt::Debug + Send {
    /// Puts the object together under its name.
    ///
    /// # Errors
    /// If one of that name has appeared meanwhile and may not be replaced, or the store refuses. Then nothing new
    /// stands under the name.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// An object that was found. Cloning it is cheap.
#[derive(Clone)]
pub struct StoredObject {
    address: Address,
    bytes: Arc<dyn Bytes>,
}

impl StoredObject {
    /// The object at `address` and its content.
    #[must_use]
    pub fn new(address: Address, bytes: Arc<dyn Bytes>) -> Self {
        Self { address, bytes }
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Its content.
    #[must_use]
    pub fn bytes(&self) -> &dyn Bytes {
        &*self.bytes
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// The version of its content (an ETag), if the store gives one; of a dataset the commit.
    #[must_use]
    pub fn etag(&self) -> Option<&str> {
        self.bytes.etag()
    }

    /// All of it, where it is short.
    ///
    /// # Errors
    /// If it is longer than `limit` bytes, has changed or gone, or the store refuses.
    pub fn read_whole(&self, limit: u64) -> Result<Vec<u8>> {
        let failed = |reason| Error::new(ErrorKind::Storage, &self.address, reason);
        if self.size() > limit {
            return Err(failed(format!(
                "it is {} bytes long, but the limit is {limit}",
                self.size()
            )));
        }
        let mut bytes = Vec::new();
        let read = (self.bytes.reader_from(0)).and_then(|mut all| all.read_to_end(&mut bytes));
        match read.map_err(io::Error::downcast::<Error>) {
            Ok(_) => Ok(bytes),
            Err(Ok(own)) => Err(own),
            Err(Err(error)) => Err(failed(error.to_string())),
        }
    }
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("StoredObject")
            .field(&self.address)
            .finish()
    }
}

/// Compared by address.
impl PartialEq for StoredObject {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl Eq for StoredObject {}

impl From<StoredObject> for Readable {
    fn from(object: StoredObject) -> Self {
        Self {
            name: object.address.to_string(),
            bytes: object.bytes,
        }
    }
}

/// An object directly below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The name behind the prefix.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// The ETag of its content, without quotes, if the store gives one.
    pub etag: Option<String>,
}

/// An ETag without its quotes: Azure quotes it in its header, and not where it lists.
#[must_use]
pub fn bare_etag(etag: Option<&str>) -> Option<String> {
    etag.map(|etag| etag.trim_matches('"').to_owned())
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenObject {
    /// The ETag of its content, without quotes, if the store gives one.
    pub etag: Option<String>,
}
