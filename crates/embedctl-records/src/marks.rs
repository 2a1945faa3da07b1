//! Where windows lie among all records: for jobs, which resume between them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::position::Position;
use arrow::datatypes::SchemaRef;

/// The hash by which a text is known again.
pub type TextHash = [u8; 16];

/// Where a window, or a portion of one, lies among all records, and what was read up to its end.
#[derive(Debug, Clone, Default)]
pub struct WindowSpan {
    /// Records before it, rejected ones counted.
    pub start: u64,
    /// Records up to its end.
    pub end: u64,
    /// Hash of all records before it.
    pub before: String,
    /// Hash of all records up to its end.
    pub hash: String,
    /// Where the record behind it stands.
    pub position: Option<Position>,
    /// Types of the kept columns, where there are some and they are decided.
    pub columns: Option<SchemaRef>,
    /// The hashes of its texts.
    pub texts: Vec<TextHash>,
    /// The records of the window that are to be embedded, by their numbers among all records: ranges in order.
    pub missing: Vec<Range<u64>>,
    /// Where the window begins.
    pub window: WindowStart,
    /// Whether the window goes on behind its end: it is that of a portion.
    pub is_inside: bool,
}

/// Where a window begins: a run that resumes inside of it reads it from there, since windows are the same in every run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowStart {
    /// Records before it.
    pub records: u64,
    /// Hash of all records before it.
    pub hash: String,
    /// Where its first record stands; `None`: at the begin of the input.
    pub position: Option<Position>,
}
