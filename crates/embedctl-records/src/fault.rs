//! Causes for which records of several formats are rejected.

use std::str;

use embedctl_common::error::Cause;
use embedctl_common::setting::{MAX_RECORD_BYTES, ON_ERROR};

/// Why a record above the limit is rejected.
#[must_use]
pub fn too_long(what: &str, length: u64, limit: usize) -> Cause {
    Cause::of(format!(
        "the {what} has {length} bytes, more than the limit of {limit}"
    ))
    .with(format!("raise it with `{MAX_RECORD_BYTES}`"))
}

/// The cause for a record (`which`) whose text, the field or column `name`, is null.
#[must_use]
pub fn no_text(which: &str, name: &str) -> Cause {
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
    .with(CONVERT)
}

/// How text of the other encodings becomes UTF-8. Windows-1252 is that of Excel, and has the characters of Latin-1.
pub(crate) const CONVERT: &str = "convert the input, for example with `iconv -f WINDOWS-1252 -t UTF-8`, the encoding of \
    Excel and of most old files in western languages";
