//! Opening a table: where its reader begins, and the errors of one that cannot be read.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use super::table::RequestedColumns;
use super::{Batches, TableReader};
use crate::reading::compression::{SourceCompression, explain};
use crate::reading::source::Planned;
use embedctl_common::error::{Cause, Error, Place, Result, io_errors};
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_common::small_file;
use embedctl_common::threads::caught;
use embedctl_records::options::{InputOptions, Part};
use embedctl_storage::no_fault_of_data;

impl TableReader {
    /// Begins after `before` rows, and passes over `skip` more.
    pub(crate) fn begin(
        source: &Arc<Planned>,
        options: &InputOptions,
        (batches, table): (Box<dyn Batches>, RequestedColumns),
        (before, skip): (u64, u64),
    ) -> Result<Self> {
        let mut reader = Self {
            source: Arc::clone(source),
            batches,
            table,
            pending: None,
            rest: None,
            rows: before,
            is_window_per_batch: options.batches.are_whole(),
        };
        skip_rows(&mut reader, skip)?;
        Ok(reader)
    }
}

/// The rows that are read: the first, and the one behind the last.
pub(crate) fn part(source: &Planned) -> (u64, u64) {
    match source.part {
        Part::Rows { start, end } => (start, end),
        Part::Whole | Part::Bytes { .. } => (0, u64::MAX),
    }
}

/// Reads `skip` rows for nothing.
fn skip_rows(reader: &mut TableReader, mut skip: u64) -> Result<()> {
    while skip > 0 {
        let Some((batch, seek)) = reader.batches.next()? else {
            break;
        };
        let rows = batch.num_rows() as u64;
        if rows > skip {
            let first = index(skip);
            reader.rest = Some((batch.slice(first, batch.num_rows() - first), seek));
        }
        reader.rows += rows.min(skip);
        skip -= rows.min(skip);
    }
    Ok(())
}

pub(crate) fn wrong(source: &Planned, reason: &str, remedy: &str) -> Error {
    Error::input(Place::file(&source.facts.name), reason).with_remedy(remedy)
}

/// The same for a file that is not of its format, `what`, and begins with `start`: a pointer of Git LFS, or something else.
pub(crate) fn not_of_format(source: &Planned, what: &str, start: &[u8]) -> Error {
    let cause = small_file::lfs_pointer(start).unwrap_or_else(|| {
        Cause::of(format!("is {what}")).with(format!("name the format with `{INPUT_FORMAT}`"))
    });
    Error::input(Place::file(&source.facts.name), cause)
}

/// The result of `decode` at `spot`. Decoders panic over some damage, which is reported as an error of the data.
pub(crate) fn guarded<'s, T, E: StdError + Send + Sync + 'static>(
    source: &Planned,
    spot: impl Fn() -> Spot<'s>,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let decoded = caught(decode).map_err(|panic| damaged(source, spot(), panic))?;
    decoded.map_err(|error| damaged(source, spot(), error))
}

/// The part of a table that cannot be read, and the number of whole rows before it.
pub(crate) type Spot<'s> = (Cow<'s, str>, u64);

pub(crate) const START: Spot<'static> = (Cow::Borrowed("its start"), 0);

/// Of Parquet, and of Arrow's files.
pub(crate) fn footer() -> Spot<'static> {
    (Cow::Borrowed("its footer"), 0)
}

/// The error of a table that cannot be read on at `spot`.
pub(crate) fn damaged(
    source: &Planned,
    (what, rows): Spot<'_>,
    error: impl StdError + Send + Sync + 'static,
) -> Error {
    let error = match no_fault_of_data(&source.facts.name, error) {
        Ok(refused) => return refused,
        Err(error) => error,
    };
    let place = match rows {
        0 => Place::file(&source.facts.name),
        rows => Place::file(&source.facts.name).line(rows),
    };
    // A source that became shorter during the run.
    if let Some(cut) = io_errors(&error).find_map(|error| explain(SourceCompression::Plain, error))
    {
        return Error::input(place, cut);
    }
    let message = error.to_string();
    let mut said = message.as_str();
    for prefix in [
        "Parquet error: ",
        "External: ",
        "EOF: ",
        "Ipc error: ",
        "Io error: ",
    ] {
        said = said.strip_prefix(prefix).unwrap_or(said);
    }
    let reason = format!("{what} cannot be read ({said}), so it is cut short or damaged");
    Error::input(place, reason).with_remedy("copy or write it again")
}

/// A number of a row group or a row. One that doesn't fit is after any end.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
