//! Errors of several readers.

use arrow::error::ArrowError;
use embedctl_common::error::Error;

/// The error for columns that do not go together.
pub(crate) fn unsound(error: ArrowError) -> Error {
    Error::internal(format!("columns of the input: {error}"))
}
