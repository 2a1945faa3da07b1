//! Reading records: sources in a row, each by the reader of its format, cut into windows.
//!
//! ```text
//!  source ─┬► compression ──► lines ──► text │ jsonl │ csv ─┬► window ──► sample
//!  files,  │  gzip, zstd,     limit,    records             │  texts, columns,
//!  pipes   │  bzip2, xz       numbers                       │  rejects, position
//!          └► columnar ──► parquet │ arrow ─────────────────┘
//! ```
//!
//! A reader of lines holds one window and one record at most, whatever the size of the sources; a record
//! above the limit is rejected while it is being read. A reader of tables holds one decoded batch more.

mod documents;
mod lake;
mod list;
mod plan;
mod record_reader;
mod sample;

#[cfg(test)]
#[path = "input_tests/mod.rs"]
pub(crate) mod tests;

pub use crate::formats::arrow::ArrowBatches;
pub use crate::reading::pace::WrittenSignal;
pub use crate::reading::source::Source;
pub use documents::implied_format;
pub use list::{expand, resolve};
pub use record_reader::RecordReader;
pub use record_reader::opening::ListedInput;
