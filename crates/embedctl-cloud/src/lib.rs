//! Object stores (s3://, gs://, az://), web servers (https://) and the Hub's datasets (hf://), behind the interface of
//! [`embedctl_storage`].
//!
//! ```text
//!  open ──► Stores ── list, read, put if absent, remove
//!             └─ object_store knows the stores' languages and signatures; requests go through the Hub client's connections
//! ```
//!
//! `object_store` is asynchronous; one thread drives it, so callers wait as for a file.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod body;
mod failure;
#[cfg(test)]
mod hostile_tests;
mod list;
mod local_copy;
mod options;
mod random_access;
mod read;
mod refusal;
mod settings;
mod store;
mod transport;
mod version;
mod write;

pub use store::open;

/// Requests made again after the first.
const RETRIES: u32 = 3;
