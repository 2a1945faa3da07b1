//! What a user can say about the output.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::sidecar::{PROVENANCE, ROWS};
use crate::error::{Error, Result};

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
pub enum OutputFormat {
    /// Apache Parquet: `id`, kept fields, `embedding`.
    Parquet,
    /// `NumPy`'s array file, with its rows described in a file beside it.
    Npy,
    /// One JSON object per line.
    Jsonl,
}

impl OutputFormat {
    /// The format that a path's ending names.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension().and_then(OsStr::to_str)?;
        match ending.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "npy" => Some(Self::Npy),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// Endings of the files that stand beside a file of this format.
    pub(super) const fn sidecars(self) -> &'static [&'static str] {
        match self {
            Self::Parquet => &[],
            Self::Npy => &[ROWS, PROVENANCE],
            Self::Jsonl => &[PROVENANCE],
        }
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Parquet => "parquet",
            Self::Npy => "npy",
            Self::Jsonl => "jsonl",
        })
    }
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

impl OutputOptions {
    /// The format that will be written.
    ///
    /// # Errors
    /// If none is given and the path's ending names none.
    pub fn resolved_format(&self) -> Result<OutputFormat> {
        match (self.format, &self.destination) {
            (Some(format), _) => Ok(format),
            (None, Destination::Stdout) => Ok(OutputFormat::Jsonl),
            (None, Destination::Path(path)) => OutputFormat::from_path(path).ok_or_else(|| {
                Error::usage(format!(
                    "the ending of {} names no output format; end it in .parquet, .npy or .jsonl, \
                     or say which with -f",
                    path.display()
                ))
            }),
        }
    }
}
