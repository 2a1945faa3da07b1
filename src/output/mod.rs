//! Writing vectors: one trait, one file per format.
//!
//! A writer is created before any work, so that a bad path fails at once; it writes beside the final
//! name and renames at the end, so that the name never holds half a result.

mod jsonl;
mod npy;
mod parquet;
mod target;

use std::path::PathBuf;

use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::record::{Rows, SourceNames};

/// Where vectors go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A path: a file to be made, or an existing device or FIFO.
    Path(PathBuf),
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OutputFormat {
    Parquet,
    Npy,
    Jsonl,
}

/// How to write.
#[derive(Debug, Clone)]
pub struct OutputOptions {
    /// Where to.
    pub destination: Destination,
    /// Format; `None`: from the path's ending, JSONL for standard output.
    pub format: Option<OutputFormat>,
    /// Replace an output that exists.
    pub force: bool,
}

/// What a writer needs to know at the end.
#[derive(Debug)]
pub struct Finish<'a> {
    /// Schema of `id` and the kept fields, for outputs without any row.
    pub schema: SchemaRef,
    /// The run's provenance: one JSON object.
    pub provenance: &'a serde_json::Value,
}

/// Writes rows in the order in which they come.
///
/// Dropped without [`VectorWriter::finish`], a writer removes whatever it has written.
pub trait VectorWriter: Send {
    /// Appends rows; may be called with none.
    ///
    /// # Errors
    /// If the system refuses (a full disk, a closed pipe).
    fn write(&mut self, rows: Rows) -> Result<()>;

    /// Completes the output and publishes it under its name, sidecars first.
    ///
    /// # Errors
    /// If the system refuses; nothing stands under the final name then.
    fn finish(self: Box<Self>, finish: &Finish<'_>) -> Result<()>;
}

/// Creates the output (beside its final name), before any work.
///
/// `dimensions` is the width of a vector; `names` are the sources' names.
///
/// # Errors
/// If the output exists and `force` is not given, its folder is missing or cannot be written to, or the
/// format cannot be written there.
pub fn create(
    options: &OutputOptions,
    dimensions: usize,
    names: SourceNames,
) -> Result<Box<dyn VectorWriter>> {
    let _ = (options, dimensions, names);
    unimplemented!()
}

/// Removes every temporary file that this process has made so far; for an exit that runs no destructors.
pub fn remove_temporaries() {}
