//! Fields of a record: ids and kept columns, and their types.

/// Type of the `id` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdType {
    /// Strings; integers as their digits, missing as null, the line number for text input.
    #[default]
    String,
    /// 64-bit integers.
    Int,
}

/// Type of a kept column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KeepType {
    String,
    Int,
    Float,
    Bool,
    /// Any JSON value, as its text.
    Json,
}

/// A field carried through to the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Its name in the record (nested as `a.b`) and in the output.
    pub name: String,
    /// Its type; `None`: the first window decides.
    pub kind: Option<KeepType>,
}
