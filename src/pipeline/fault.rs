//! Errors about records.

use crate::error::{Error, Place};
use crate::record::{Origin, Reject, SourceNames};

/// Where a record was read, for messages.
pub(crate) fn record_place(names: &SourceNames, origin: &Origin) -> Place {
    let name = names.get(origin.source as usize);
    Place::file(name.map_or("input", String::as_str)).line(origin.line)
}

pub(super) fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::record(record_place(names, &reject.origin), &reject.cause)
}
