//! Opening a table: which kind its first bytes say it is, and where reading begins.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arrow::{ArrowFile, ArrowStream};
use super::parquet::Parquet;
use super::table::Table;
use super::{Batches, TableReader};
use crate::input::columns::Columns;
use crate::input::compression::{Counted, Encoding, explain};
use crate::input::format::{ARROW, InputFormat, PARQUET};
use crate::input::options::{InputOptions, Part};
use crate::input::reader::Reader;
use crate::input::source::{From, Planned};
use crate::input::window::Filling;
use crate::position::Seek;
use embedctl_common::error::{Error, Place, Result, io_errors};
use embedctl_common::threads::caught;
use embedctl_storage::{Bytes, no_fault_of_data};

const ENCRYPTED: &[u8] = b"PARE";
const FEATHER_1: &[u8] = b"FEA1";

/// Opens a table, and gives the window's columns their types. `None`: of many streams, there is not one.
///
/// # Errors
/// If it is cut short, damaged or something else, or lacks a column that is asked for.
pub fn open(
    source: &Arc<Planned>,
    options: &Arc<InputOptions>,
    from: &mut From<'_>,
    filling: &mut Filling,
) -> Result<Option<Box<dyn Reader>>> {
    let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
    let (batches, table, rows, skip) = match (source.format, source.bytes()) {
        (InputFormat::Parquet, Some(bytes)) => {
            from.pace.source = None;
            check_parquet(source, bytes.as_ref())?;
            let mut parquet = Parquet::open(source, bytes)?;
            let table = Table::new(source, options, &parquet.schema(), columns, warnings)?;
            let window = (options.window_rows, options.window_bytes);
            parquet.project(Some(&table).filter(|_| !options.window_per_batch), window)?;
            let (first, end) = part(source);
            parquet.stop_before(end);
            let rows = match source.start {
                Some((_, Seek::RowGroup { group, row })) => parquet.seek(index(group), row),
                _ => parquet.enter(first),
            };
            (Box::new(parquet) as Box<dyn Batches>, table, rows, 0)
        }
        (InputFormat::Parquet, None) => {
            return Err(source
                .usage("Parquet is read from its end, so it has to be a file")
                .with_remedy("save it first, or send Arrow (`-i arrow`) through the pipe"));
        }
        (_, bytes) => match arrow(source, options, bytes, from, filling)? {
            Some(opened) => opened,
            None => return Ok(None),
        },
    };
    let mut reader = TableReader {
        source: Arc::clone(source),
        batches,
        table,
        pending: None,
        rows,
        window_per_batch: options.window_per_batch,
    };
    skip_rows(&mut reader, skip, &filling.columns)?;
    Ok(Some(Box::new(reader)))
}

/// The rows that are read: the first, and the one behind the last.
fn part(source: &Planned) -> (u64, u64) {
    match source.part {
        Part::Rows { start, end } => (start, end),
        Part::Whole | Part::Bytes { .. } => (0, u64::MAX),
    }
}

/// Rows of each row group of Parquet, of each record batch of an Arrow file. `None` for an Arrow stream, which does not
/// say where they are.
///
/// # Errors
/// If the footer is damaged.
pub fn stretches(source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
    let Some(bytes) = source.bytes() else {
        return Ok(None);
    };
    if source.format == InputFormat::Parquet {
        check_parquet(source, bytes.as_ref())?;
        return Ok(Some(Parquet::open(source, bytes)?.rows().collect()));
    }
    match is_arrow_file(source, bytes.as_ref())? {
        true => ArrowFile::open(source, bytes)?
            .rows()
            .collect::<Result<_>>()
            .map(Some),
        false => Ok(None),
    }
}

/// Whether this is an Arrow file, and no stream.
fn is_arrow_file(source: &Planned, bytes: &dyn Bytes) -> Result<bool> {
    let mut start = [0; ARROW.len()];
    if bytes.len() < start.len() as u64 {
        return Ok(false);
    }
    let read = bytes.read_at(0, &mut start);
    read.map_err(|error| damaged(source, START, error))?;
    Ok(start == ARROW)
}

type Opened = (Box<dyn Batches>, Table, u64, u64);

fn arrow(
    source: &Arc<Planned>,
    options: &Arc<InputOptions>,
    bytes: Option<Arc<dyn Bytes>>,
    from: &mut From<'_>,
    filling: &mut Filling,
) -> Result<Option<Opened>> {
    let failed = |error| damaged(source, START, error);
    let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
    if let Some(bytes) = bytes
        && is_arrow_file(source, bytes.as_ref())?
    {
        from.pace.source = None;
        let mut file = ArrowFile::open(source, bytes)?;
        let table = Table::new(source, options, &file.schema(), columns, warnings)?;
        if !options.window_per_batch {
            file.project(&table);
        }
        let (first, end) = part(source);
        file.stop_before(end);
        let rows = match source.start {
            Some((_, Seek::Batch { batch, row })) => file.seek(index(batch), row)?,
            _ => file.enter(first)?,
        };
        return Ok(Some((Box::new(file), table, rows, 0)));
    }
    if source.part != Part::Whole {
        return Err(source.usage("an Arrow stream cannot be read in parts"));
    }
    let mut stream = Counted::new(source.stream(from)?, source.bytes);
    let mut next = || {
        let mut bytes = Vec::new();
        let read = stream
            .by_ref()
            .take(ARROW.len() as u64)
            .read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(failed)
    };
    let mut start = next()?;
    if start.is_empty() && options.streams {
        return Ok(None);
    }
    check_arrow(source, &start)?;
    // A file is a stream behind its magic and zeros, with a footer that nobody needs here.
    if start == ARROW {
        start = next()?;
        while start == [0; ARROW.len()] {
            start = next()?;
        }
    }
    let count = stream.count();
    let consumed = Box::new(move || count.load(Ordering::Relaxed));
    // What may pause is read ahead already, and nothing may wait in a second buffer.
    let rest: Box<dyn Read + Send> = if source.may_pause() {
        Box::new(stream)
    } else {
        Box::new(io::BufReader::with_capacity(1 << 16, stream))
    };
    let stream = Box::new(io::Cursor::new(start).chain(rest));
    let stream = ArrowStream::open(source, stream, consumed)?;
    let table = Table::new(source, options, &stream.schema(), columns, warnings)?;
    let before = source.start.map_or(0, |(rows, _)| rows);
    Ok(Some((Box::new(stream), table, 0, before)))
}

/// Reads `skip` rows for nothing.
fn skip_rows(reader: &mut TableReader, mut skip: u64, columns: &Columns) -> Result<()> {
    while skip > 0 {
        let Some((batch, seek)) = reader.batches.next()? else {
            break;
        };
        let rows = batch.num_rows() as u64;
        if rows > skip {
            let first = index(skip);
            let rest = batch.slice(first, batch.num_rows() - first);
            reader.pending = Some((reader.table.prepare(&rest, columns)?, 0, seek));
        }
        reader.rows += rows.min(skip);
        skip -= rows.min(skip);
    }
    Ok(())
}

fn check_parquet(source: &Planned, bytes: &dyn Bytes) -> Result<()> {
    let wrong = |reason: &str, remedy: &str| Err(wrong(source, reason, remedy));
    let read = |offset: u64| {
        let mut found = [0; 4];
        let read = bytes.read_at(offset, &mut found);
        read.map_err(|error| damaged(source, START, error))?;
        Ok(found)
    };
    if bytes.is_empty() {
        return wrong(
            "is empty, and a Parquet file has a footer at least",
            "write it again (is its writer still at work?)",
        );
    }
    if bytes.len() < 12 {
        return wrong("is too short to be Parquet", "copy or write it again");
    }
    let (start, end) = (read(0)?, read(bytes.len() - 4)?);
    match (start.as_slice(), end.as_slice()) {
        (ENCRYPTED, _) | (_, ENCRYPTED) => wrong(
            "is encrypted Parquet, which embedctl does not read",
            "write it without encryption",
        ),
        (PARQUET, PARQUET) => Ok(()),
        (PARQUET, _) => wrong(
            "begins as Parquet and has no footer at its end, so it is cut short or still being written",
            "copy it again when it is complete",
        ),
        _ => wrong("is no Parquet file", "say what it is with `-i`"),
    }
}

fn wrong(source: &Planned, reason: &str, remedy: &str) -> Error {
    Error::input(Place::file(&source.name), reason).with_remedy(remedy)
}

fn check_arrow(source: &Planned, start: &[u8]) -> Result<()> {
    let (reason, remedy) = match start {
        [] => (
            "is empty, and an Arrow stream has a schema at least",
            "write it again (did its writer fail?)",
        ),
        _ if start.starts_with(FEATHER_1) => (
            "is Feather version 1, which Arrow has given up",
            "write it again with `pyarrow.feather.write_feather(table, path)`",
        ),
        _ if start.starts_with(PARQUET) => ("is Parquet", "say `-i parquet`"),
        _ if start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) => (
            "is compressed as a whole",
            "decompress it first, Arrow compresses its buffers itself",
        ),
        // A stream's first message: a mark and a length, or (before 0.15) the length alone.
        [0xff, 0xff, 0xff, 0xff, ..] | [_, _, _, 0, ..] => return Ok(()),
        _ if start == ARROW => return Ok(()),
        _ => (
            "is neither an Arrow file nor an Arrow stream",
            "say what it is with `-i`",
        ),
    };
    Err(wrong(source, reason, remedy))
}

/// What `decode` makes of the source at `spot`. Decoders panic over some damage; that is the data's fault.
pub(super) fn guarded<'s, T, E: StdError + Send + Sync + 'static>(
    source: &Planned,
    spot: impl Fn() -> Spot<'s>,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let decoded = caught(decode).map_err(|panic| damaged(source, spot(), panic))?;
    decoded.map_err(|error| damaged(source, spot(), error))
}

/// What of a table cannot be read, and how many whole rows come before it.
pub(super) type Spot<'s> = (Cow<'s, str>, u64);

const START: Spot<'static> = (Cow::Borrowed("its start"), 0);

/// Of Parquet, and of Arrow's files.
pub(super) fn footer() -> Spot<'static> {
    (Cow::Borrowed("its footer"), 0)
}

/// The error of a table that cannot be read on at `spot`.
pub(super) fn damaged(
    source: &Planned,
    (what, rows): Spot<'_>,
    error: impl StdError + Send + Sync + 'static,
) -> Error {
    let error = match no_fault_of_data(&source.name, error) {
        Ok(refused) => return refused,
        Err(error) => error,
    };
    let place = match rows {
        0 => Place::file(&source.name),
        rows => Place::file(&source.name).line(rows),
    };
    // Of what is compressed by itself: that it was cut meanwhile.
    if let Some(cut) = io_errors(&error).find_map(|error| explain(Encoding::Plain, error)) {
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

/// A number of a row group or a row. What doesn't fit is behind any end.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
