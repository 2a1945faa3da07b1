//! What is read anywhere, wherever it is ([`Bytes`]), and object stores: what is there, reading it, writing it. The only
//! code beside `model/hub` that uses the network, over the same connections.
//!
//! `object_store` knows the stores' languages, signatures and retries; its requests are made by ureq
//! ([`transport`]), and one thread drives what it does asynchronously ([`store`]), so that whoever calls waits as for
//! a file. Without the feature `cloud` there is nothing here but addresses, and an error that says what is lacking.

mod address;
#[cfg(feature = "cloud")]
mod body;
mod bytes;
#[cfg(feature = "cloud")]
mod failure;
#[cfg(feature = "cloud")]
mod list;
mod option;
#[cfg(feature = "cloud")]
mod read;
#[cfg(feature = "cloud")]
mod refusal;
mod seeking;
#[cfg(feature = "cloud")]
mod store;
#[cfg(feature = "cloud")]
mod transport;
#[cfg(feature = "cloud")]
mod version;
#[cfg(feature = "cloud")]
mod write;

#[cfg(not(feature = "cloud"))]
mod absent;

#[cfg(not(feature = "cloud"))]
pub use absent::{Object, ObjectFile, ObjectReader, ObjectWriter, Storage};
pub use address::{Address, Scheme};
pub use bytes::{Bytes, Readable};
pub(crate) use bytes::{FileBytes, no_fault_of_data};
#[cfg(feature = "cloud")]
pub use list::Object;
pub use option::StorageOption;
#[cfg(feature = "cloud")]
pub use read::{ObjectFile, ObjectReader};
pub(crate) use seeking::Seeking;
#[cfg(feature = "cloud")]
pub use store::Storage;
#[cfg(feature = "cloud")]
pub use write::ObjectWriter;

/// Requests made again after the first.
#[cfg(feature = "cloud")]
const RETRIES: u32 = 3;

/// An object directly below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// What follows the prefix.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What names its content, without quotes, where the store tells.
    pub etag: Option<String>,
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What names its content, without quotes, where the store tells.
    pub etag: Option<String>,
}
