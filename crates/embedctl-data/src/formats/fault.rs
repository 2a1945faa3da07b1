//! Causes for which records of several formats are rejected.

use std::str;

use embedctl_common::error::Cause;
use embedctl_common::setting::{MAX_RECORD_BYTES, ON_ERROR};

/// Why a record above the limit is rejected.
pub(crate) fn too_long(what: &str, length: u64, limit: usize) -> Cause {
    Cause::of(format!(
        "the {what} has {length} bytes, more than the limit of {limit}"
    ))
    .with(format!("raise it with `{MAX_RECORD_BYTES}`"))
}

/// The cause for a record (`which`) whose text, the field or column `name`, is null.
pub(crate) fn no_text(which: &str, name: &str) -> Cause {
    Cause::of(format!("{which} has no text (`{name}` is null)")).with(format!(
        "give it a text, or leave such records out with `{ON_ERROR} skip`"
    ))
}

/// The cause for a record whose bytes are not text.
pub(crate) fn not_utf8(error: str::Utf8Error) -> Cause {
    Cause::of(format!(
        "the record is not valid UTF-8 at its byte {}",
        error.valid_up_to() + 1
    ))
    .with("convert the input, for example with `iconv -f LATIN1 -t UTF-8`")
}
