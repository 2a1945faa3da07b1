//! Records in, rows with vectors out: every format that embedctl reads and writes.
//!
//! ```text
//!  sources ──► input: text, JSON Lines, CSV, Parquet, Arrow ──► Window: texts, ids, kept columns, rejects, position
//!  Rows ──► output: Parquet, NPY, JSON Lines, Arrow, PostgreSQL COPY, fbin ──► files published together, or a stream
//! ```
//!
//! Records keep their place (source, line, offset), so an error names it. Columns keep their types. An output appears under
//! its name only when it is complete, with its sidecars and rejects.
//!
//! ```
//! use embedctl_data::input::{RecordReader, Source};
//! use embedctl_records::options::InputOptions;
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("a.txt");
//! std::fs::write(&path, "one\ntwo\n").unwrap();
//! let mut reader = RecordReader::open(&[Source::Path(path)], InputOptions::default())?;
//! let window = reader.next_window()?.expect("two records");
//! assert!(window.texts.iter().eq(["one", "two"]));
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod formats;
pub mod input;
pub mod output;
mod reading;
mod vectors;
mod writing;

/// The version of Arrow in this interface.
pub use arrow;

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;
