//! Errors, cancellation, threads, settings in messages and small files, shared by all crates of embedctl.
//!
//! ```text
//!  error ── kind, place, reason, remedy, cause      cancel ── CancelToken, checked by all long work
//!  setting ── how messages name settings            threads ── named threads, panics as errors
//!  small_file, folder, hash, background_hash ── files that are read whole, and SHA-256
//!  atomic ── files that appear whole or not at all; locks; temporary folders
//!  safe_text, secrets ── text from outside, safe to show; secrets removed
//!  texts, pair ── many texts in one allocation      stage ── where a run spends its time
//!  activation, arithmetic ── names of what runs      prometheus ── metrics as text
//!  trust ── whose files may be run or believed      user_cache ── the user's folder for files that can be made again
//! ```
//!
//! Nothing may be concluded from an error's words; its [`ErrorKind`] and [`Place`] are data:
//!
//! ```
//! use embedctl_common::{Error, ErrorKind, Place};
//!
//! let error = Error::record(Place::file("a.jsonl").line(7), "this is not an object");
//! assert_eq!(error.kind(), ErrorKind::Record);
//! assert_eq!(error.to_string(), "a.jsonl:7: this is not an object");
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod activation;
pub mod arithmetic;
pub mod atomic;
pub mod background_hash;
pub mod cancel;
pub mod error;
pub mod file_state;
pub mod folder;
pub mod hash;
pub mod machine;
pub mod named;
pub mod pair;
pub mod prometheus;
pub mod remedies;
pub mod safe_text;
pub mod secrets;
pub mod setting;
pub mod size;
pub mod small_file;
pub mod stage;
pub mod texts;
pub mod threads;
pub mod trust;
mod user_cache;
pub mod word_list;

pub use activation::Activation;
pub use arithmetic::Arithmetic;
pub use error::{Cause, Error, ErrorKind, Place, Result};
pub use pair::TextPair;
pub use texts::Texts;
pub use user_cache::user_cache;
