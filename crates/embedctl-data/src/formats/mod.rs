//! Every format that is read or written: a folder or a file for each, with all that is particular to it.
//!
//! ```text
//!  input.rs   the reader of each input format ──► InputSpec
//!  output.rs  the writer of each output format and its read-back ─► OutputSpec
//!
//!              text  jsonl  csv  parquet  arrow  matrix  pgcopy
//!  reader       ×      ×     ×      ×       ×
//!  writer              ×            ×       ×       ×       ×
//! ```
//!
//! Names, endings and abilities of formats are in [`crate::reading::format`] and [`crate::writing::format`]. `rows` and
//! `parse` read lines, `columnar` reads tables, `json_columns` writes columns as JSON.

pub(crate) mod arrow;
mod columnar;
mod csv;
pub(crate) mod input;
mod json_columns;
pub(crate) mod jsonl;
pub(crate) mod matrix;
pub(crate) mod output;
pub(crate) mod parquet;
pub(crate) mod parse;
mod pgcopy;
pub(crate) mod reader;
mod rows;
mod text;
