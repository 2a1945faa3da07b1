//! The position after a window at which another run can resume, in the terms of the source's format.

use serde::{Deserialize, Serialize};

/// The place of a record that is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Index into the list of sources.
    pub source: u32,
    /// Lines (of tables: rows) of that source before it.
    pub lines: u64,
    /// How to get there.
    #[serde(flatten)]
    pub seek: Seek,
}

/// How a reader gets to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "seek", rename_all = "kebab-case")]
pub enum Seek {
    /// By reading everything before it: pipes and compressed sources.
    Reread,
    /// Lines: by its first byte in the source.
    Byte {
        /// Counted from 0.
        byte: u64,
    },
    /// Parquet: by its row group, and its row there.
    RowGroup {
        /// Number of the row group, from 0.
        group: u64,
        /// Number of the row in it, from 0.
        row: u64,
    },
    /// Arrow: by its record batch, and its row there.
    Batch {
        /// Number of the record batch, from 0.
        batch: u64,
        /// Number of the row in it, from 0.
        row: u64,
    },
}

impl Seek {
    /// The same, `rows` further in its row group or record batch.
    #[must_use]
    pub fn plus(self, rows: u64) -> Self {
        match self {
            Self::RowGroup { group, row } => Self::RowGroup {
                group,
                row: row + rows,
            },
            Self::Batch { batch, row } => Self::Batch {
                batch,
                row: row + rows,
            },
            other => other,
        }
    }
}
