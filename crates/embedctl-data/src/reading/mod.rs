//! What readers of all formats work with: sources and their bytes, lines, cells, columns and windows.
//!
//! ```text
//!  source ──► compression ──► lines ──┐
//!             gzip, zstd,     limit,  ├──► columns ──► window
//!             bzip2, xz       numbers │    cells, kept fields, places
//!             batches of tables ──────┘
//! ```

mod batch_lines;
pub(crate) mod cells;
pub(crate) mod columns;
pub(crate) mod compression;
pub(crate) mod csv_options;
pub(crate) mod elements;
pub(crate) mod fields;
pub(crate) mod fit;
pub(crate) mod format;
mod html;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod paths;
pub(crate) mod places;
pub(crate) mod source;
pub(crate) mod template;
pub(crate) mod texts;
pub(crate) mod window;

use arrow::error::ArrowError;
use embedctl_common::error::Error;

/// The error for columns that do not go together.
pub(crate) fn unsound(error: ArrowError) -> Error {
    Error::internal(format!("columns of the input: {error}"))
}
