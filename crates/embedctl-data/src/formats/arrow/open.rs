//! Opening Arrow's files and streams: which of both the first bytes say it is, and where reading begins.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::read::{ArrowFile, ArrowStream};
use crate::formats::columnar::open::{START, damaged, index, not_of_format, part, wrong};
use crate::formats::columnar::table::RequestedColumns;
use crate::formats::columnar::{Batches, TableReader};
use crate::formats::reader::Reader;
use crate::reading::compression::CountedSource;
use crate::reading::format::LFS_START;
use crate::reading::source::{Planned, SourceOpener};
use embedctl_common::error::Result;
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::{ARROW_MAGIC as MAGIC, PARQUET_MAGIC};
use embedctl_records::options::{InputOptions, Part};
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;
use embedctl_storage::Bytes;

const FEATHER_1: &[u8] = b"FEA1";

/// Opens a file or a stream, and gives the window's columns their types. `None`: of many streams, there is not one.
///
/// # Errors
/// If it is cut short, damaged or something else, or lacks a column that is asked for.
pub(super) fn open(
    source: &Arc<Planned>,
    options: &Arc<InputOptions>,
    opener: &mut SourceOpener<'_>,
    filling: &mut OpenWindow,
) -> Result<Option<Box<dyn Reader>>> {
    let Some((batches, table, rows, skip)) = opened(source, options, opener, filling)? else {
        return Ok(None);
    };
    let reader = TableReader::begin(source, options, (batches, table), (rows, skip))?;
    Ok(Some(Box::new(reader)))
}

/// Rows of each record batch of a file. `None` for a stream, which does not say where they are.
///
/// # Errors
/// If the footer is damaged.
pub(super) fn batches(source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
    match source.bytes() {
        Some(bytes) if is_file(source, bytes.as_ref())? => {
            let rows = ArrowFile::open(source, bytes)?
                .rows()
                .collect::<Result<_>>();
            rows.map(Some)
        }
        _ => Ok(None),
    }
}

/// Whether this is an Arrow file, and no stream.
fn is_file(source: &Planned, bytes: &dyn Bytes) -> Result<bool> {
    let mut start = [0; MAGIC.len()];
    if bytes.len() < start.len() as u64 {
        return Ok(false);
    }
    let read = bytes.read_at(0, &mut start);
    read.map_err(|error| damaged(source, START, error))?;
    Ok(start == MAGIC)
}

type Opened = (Box<dyn Batches>, RequestedColumns, u64, u64);

fn opened(
    source: &Arc<Planned>,
    options: &Arc<InputOptions>,
    opener: &mut SourceOpener<'_>,
    filling: &mut OpenWindow,
) -> Result<Option<Opened>> {
    let failed = |error| damaged(source, START, error);
    let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
    if let Some(bytes) = source.bytes()
        && is_file(source, bytes.as_ref())?
    {
        opener.pace.source = None;
        let mut file = ArrowFile::open(source, bytes)?;
        let table = RequestedColumns::new(source, options, &file.schema(), columns, warnings)?;
        if !options.batches.are_whole() {
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
        return Err(source
            .facts
            .usage("an Arrow stream cannot be read in parts"));
    }
    let mut stream = CountedSource::new(source.stream(opener)?, source.bytes);
    let mut next = |length: usize| {
        let mut bytes = Vec::new();
        let read = stream.by_ref().take(length as u64).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(failed)
    };
    let mut start = next(MAGIC.len())?;
    if start.is_empty() && options.batches.are_of_streams() {
        return Ok(None);
    }
    if LFS_START.starts_with(&start) {
        start.extend(next(64)?);
    }
    check(source, &start)?;
    // A file is a stream after its magic and zeros; its footer is not needed here.
    if start == MAGIC {
        start = next(MAGIC.len())?;
        while start == [0; MAGIC.len()] {
            start = next(MAGIC.len())?;
        }
    }
    let count = stream.count();
    let consumed = Box::new(move || count.load(Ordering::Relaxed));
    // A source that may pause is read ahead already, and nothing may wait in a second buffer.
    let rest: Box<dyn Read + Send> = if source.may_pause() {
        Box::new(stream)
    } else {
        Box::new(io::BufReader::with_capacity(1 << 16, stream))
    };
    let stream = Box::new(io::Cursor::new(start).chain(rest));
    let stream = ArrowStream::open(source, stream, consumed)?;
    let table = RequestedColumns::new(source, options, &stream.schema(), columns, warnings)?;
    let before = source.start.map_or(0, |(rows, _)| rows);
    Ok(Some((Box::new(stream), table, 0, before)))
}

fn check(source: &Planned, start: &[u8]) -> Result<()> {
    let (reason, remedy) = match start {
        [] => (
            "is empty, but an Arrow stream has a schema at least",
            "write it again (did its writer fail?)",
        ),
        _ if start.starts_with(FEATHER_1) => (
            "is Feather version 1, which Arrow has given up",
            "write it again with `pyarrow.feather.write_feather(table, path)`",
        ),
        _ if start.starts_with(PARQUET_MAGIC) => {
            ("is Parquet", &*format!("say `{INPUT_FORMAT} parquet`"))
        }
        _ if start.starts_with(&[0x1f, 0x8b]) || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) => (
            "is compressed as a whole",
            "decompress it first, Arrow compresses its buffers itself",
        ),
        // A stream's first message: a mark and a length, or (before 0.15) the length alone.
        [0xff, 0xff, 0xff, 0xff, ..] | [_, _, _, 0, ..] => return Ok(()),
        _ if start == MAGIC => return Ok(()),
        _ => {
            let what = "neither an Arrow file nor an Arrow stream";
            return Err(not_of_format(source, what, start));
        }
    };
    Err(wrong(source, reason, remedy))
}
