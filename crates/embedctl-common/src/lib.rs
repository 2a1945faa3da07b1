//! What every crate of embedctl needs: errors, cancellation, threads, hashes and small files.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod cancel;
pub mod error;
pub mod folder;
pub mod hash;
pub mod named;
pub mod private_folder;
pub mod remedies;
pub mod safe_text;
pub mod size;
pub mod small_file;
pub mod stage;
pub mod texts;
pub mod threads;
pub mod word_list;

pub use error::{Cause, Error, ErrorKind, Place, Result};
pub use texts::Texts;
