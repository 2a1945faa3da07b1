//! Files, object stores and web addresses, listed, read and written alike.
//!
//! ```text
//!  Location ── where a file or a folder lies: a path of this machine, or an Address (s3://, https://, hf://datasets/…)
//!      ├─ read ──► Readable, Bytes ── content that can be read from any offset
//!      └─ folder ──► SharedFolder ── files that are put once: list, read, put, lock (LocalFolder, ObjectFolder)
//!  Storage ── an object store: list, read, put if absent, remove     (feature `cloud`)
//!      └─ object_store knows the stores' languages and signatures; requests go through the Hub client's connections
//! ```
//!
//! `object_store` is asynchronous; one thread drives it, so callers wait as for a file. Without the feature `cloud` there
//! are addresses, and an error that names the feature.
//!
//! ```
//! use embedctl_storage::{Address, Scheme};
//!
//! let address = Address::parse("s3://bucket/texts/a.jsonl").unwrap();
//! assert_eq!((address.scheme(), address.bucket()), (Scheme::S3, "bucket"));
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod address;
#[cfg(feature = "cloud")]
mod body;
mod bytes;
#[cfg(feature = "cloud")]
mod failure;
mod folder;
#[cfg(test)]
#[cfg(feature = "cloud")]
mod hostile_tests;
#[cfg(feature = "cloud")]
mod list;
#[cfg(feature = "cloud")]
mod local_copy;
mod location;
mod option;
#[cfg(feature = "cloud")]
mod random_access;
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
pub use bytes::{FileBytes, no_fault_of_data};
pub use folder::{Content, Entry, FolderLock, LocalFolder, ObjectFolder, SharedFolder};
pub use folder::{OWN, own_address, own_folder};
#[cfg(feature = "cloud")]
pub use list::Object;
pub use location::Location;
pub use option::StorageOption;
#[cfg(feature = "cloud")]
pub use random_access::ObjectFile;
#[cfg(feature = "cloud")]
pub use read::ObjectReader;
pub use seeking::Seeking;
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
    /// The name behind the prefix.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// The ETag of its content, without quotes, if the store gives one.
    pub etag: Option<String>,
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenObject {
    /// The ETag of its content, without quotes, if the store gives one.
    pub etag: Option<String>,
}
