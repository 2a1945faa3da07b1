//! Files and objects at addresses, listed, read and written alike.
//!
//! ```text
//!  Location ── where a file or a folder lies: a path of this machine, or an Address (s3://, https://, hf://datasets/…)
//!      ├─ read ──► Readable, Bytes ── content that can be read from any offset
//!      └─ folder ──► SharedFolder ── files that are put once: list, read, put, lock (LocalFolder, ObjectFolder)
//!  Storage ── the object stores of a run: list, read, put if absent, remove
//! ```
//!
//! Files of this machine are read and written here; object stores by `embedctl-cloud`, which implements [`ObjectStores`].
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
mod bytes;
mod folder;
mod location;
mod option;
mod seeking;
mod stores;

pub use address::{Address, Scheme};
pub use bytes::{Bytes, Readable};
pub use bytes::{FileBytes, no_fault_of_data};
pub use folder::{Content, Entry, FolderLock, LocalFolder, ObjectFolder, SharedFolder};
pub use folder::{OWN, own_address, own_folder, sidecar_key};
pub use location::Location;
pub use option::StorageOption;
pub use seeking::Seeking;
pub use stores::{
    Child, ObjectStores, ObjectWriter, Storage, StoredObject, WrittenObject, bare_etag,
};
