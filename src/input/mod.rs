//! Reading records: sources in a row, decompressed, cut into windows.
//!
//! Formats live in one file each. A reader holds one window and one record at most, whatever the size of
//! the sources; a record above the limit is rejected while it is being read.

mod compression;
mod fields;
mod jsonl;
mod text;

use std::path::PathBuf;

pub use fields::{IdType, Keep, KeepType};

use crate::error::Result;
use crate::record::{SourceNames, Window};

/// Records in a window at most, unless the caller says otherwise.
pub const DEFAULT_WINDOW_ROWS: usize = 8192;

/// Bytes of text after which a window is closed, unless the caller says otherwise.
pub const WINDOW_BYTES: usize = 16 << 20;

/// Bytes of a record at most, unless the caller says otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 4 << 20;

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file, a FIFO or a device.
    Path(PathBuf),
}

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// A line is a record.
    Text,
    /// A line is a JSON object.
    Jsonl,
}

/// How to read.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// Format of every source; `None`: from each path's ending, text for standard input.
    pub format: Option<InputFormat>,
    /// JSONL field that holds the text; nested as `a.b`.
    pub text_field: String,
    /// JSONL field that holds the id; nested as `a.b`.
    pub id_field: String,
    /// Type of the `id` column.
    pub id_type: IdType,
    /// Fields carried through to the output.
    pub keep: Vec<Keep>,
    /// Bytes of a record at most.
    pub max_record_bytes: usize,
    /// Records in a window at most.
    pub window_rows: usize,
    /// Bytes of text after which a window is closed.
    pub window_bytes: usize,
}

/// Reads windows from sources.
pub struct RecordReader {
    _todo: (),
}

impl RecordReader {
    /// Opens every source once, so that a missing file is found before any work, and decides formats.
    ///
    /// # Errors
    /// If a source cannot be opened, or its format is unknown.
    pub fn open(sources: &[Source], options: InputOptions) -> Result<Self> {
        let _ = (sources, options);
        unimplemented!()
    }

    /// Names of the sources as shown in messages; [`crate::record::Origin::source`] counts in it.
    pub fn names(&self) -> SourceNames {
        unimplemented!()
    }

    /// Size of all sources together, where all are regular files.
    pub fn total_bytes(&self) -> Option<u64> {
        unimplemented!()
    }

    /// Reads the next window; `None` at the end. A window may hold rejects alone.
    ///
    /// # Errors
    /// If a source cannot be read to its end. Bad records are no error here but [`Window::rejects`].
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        unimplemented!()
    }

    /// Schema of [`Window::columns`]: known after the first window (before it: what is declared, and
    /// string where nothing is).
    pub fn schema(&self) -> arrow::datatypes::SchemaRef {
        unimplemented!()
    }
}
