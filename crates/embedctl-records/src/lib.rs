//! What every record passes: from the bytes of a line or a column to its text, id and kept values, and from a row's vector
//! to bytes.
//!
//! ```text
//!  lines ──► csv │ jsonl │ text ──► cells ──► columns ─┐
//!            columns of tables ──► fit, texts ─────────┴► window
//!  vectors ──► quantize, sparse ──► rows of JSON, of PostgreSQL │ numbers of matrices and columns, and back
//! ```
//!
//! This is the code that runs for every record, row or value, so a clone's build optimises it. What runs once for a run, a
//! file or a page is `embedctl-data`, which is not optimised: functions that are not generic are the border between both.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod batch_lines;
pub mod cells;
pub mod columns;
pub mod csv;
pub mod csv_options;
pub mod elements;
pub mod expansion;
pub mod fault;
pub mod fields;
pub mod fit;
pub mod format;
pub mod html;
pub mod json;
pub mod json_rows;
pub mod json_values;
pub mod json_vectors;
pub mod jsonl;
pub mod lines;
pub mod marks;
pub mod numbers;
pub mod options;
pub mod parse;
pub mod paths;
pub mod pgcopy;
pub mod places;
pub mod position;
pub mod quantize;
pub mod record;
pub mod retype;
pub mod source;
pub mod sparse;
pub mod template;
pub mod texts;
pub mod value_text;
pub mod vectors;
pub mod window;

use arrow::error::ArrowError;
use embedctl_common::error::Error;

/// The error for columns that do not go together.
#[must_use]
pub fn unsound(error: ArrowError) -> Error {
    Error::internal(format!("columns of the input: {error}"))
}
