//! What readers of all formats work with: sources and their bytes, lines, cells, columns and windows.
//!
//! ```text
//!  source ──► compression ──► lines ──┐
//!             gzip, zstd,     limit,  ├──► columns ──► window
//!             bzip2, xz       numbers │    cells, kept fields, places
//!             batches of tables ──────┘
//! ```

pub(crate) mod compression;
pub(crate) mod format;
pub(crate) mod pace;
pub(crate) mod source;
