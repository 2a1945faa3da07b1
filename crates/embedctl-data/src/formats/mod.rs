//! Every format that is read or written: a folder or a file for each, with all that is particular to it.
//!
//! ```text
//!  input.rs   the list of input formats ──► InputSpec: endings, first bytes, reader
//!  output.rs  the list of output formats ─► OutputSpec: endings, types, sidecars, hashes, writer, read-back
//!
//!              text  jsonl  csv  parquet  arrow  matrix  pgcopy
//!  reader       ×      ×     ×      ×       ×
//!  writer              ×            ×       ×       ×       ×
//! ```
//!
//! The work that formats share is in [`crate::input`] (lines, cells, columns of tables, windows) and [`crate::output`]
//! (vectors in their types, files published together).

pub(crate) mod arrow;
mod csv;
pub(crate) mod input;
pub(crate) mod jsonl;
pub(crate) mod matrix;
pub(crate) mod output;
pub(crate) mod parquet;
mod pgcopy;
pub(crate) mod text;
