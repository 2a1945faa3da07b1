//! The footer of a Parquet file, before the parquet crate gets it: the crate turns groups within groups into types, and
//! those into Arrow's, by recursion without a limit, and some thousand levels overflow its stack. (The limit belongs into
//! its `schema::types`, which could count levels as it counts children.)

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length, SerializedFileReader};

use super::pages::FileChunks;
use super::thrift::Thrift;

/// Levels of groups, at most. A list takes two; Arrow's own files have room for some 60 lists and structs within each
/// other.
const MOST_LEVELS: usize = 200;

/// Levels of a skipped value; all of Parquet's have fewer.
const MOST_SKIPPED: u32 = 64;

/// Bytes at the end: the footer's length, and the magic.
const TRAILER: u64 = 8;

/// Reads the footer of a file, for the decoder of record batches.
///
/// # Errors
/// If it is damaged, or its schema is nested too deeply.
pub(super) fn load(
    chunks: &FileChunks,
    options: ArrowReaderOptions,
) -> Result<ArrowReaderMetadata, ParquetError> {
    check(chunks)?;
    ArrowReaderMetadata::load(chunks, options)
}

/// Reads the footer of a file, whose columns are not wanted.
///
/// # Errors
/// As [`load`].
pub(super) fn reader(chunks: FileChunks) -> Result<SerializedFileReader<FileChunks>, ParquetError> {
    check(&chunks)?;
    SerializedFileReader::new(chunks)
}

fn check(chunks: &FileChunks) -> Result<(), ParquetError> {
    let Some(end) = chunks.len().checked_sub(TRAILER) else {
        return Ok(()); // the reader says what is wrong
    };
    let trailer = chunks.get_bytes(end, 4)?;
    let length = u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
    let Some(start) = end.checked_sub(u64::from(length)) else {
        return Ok(());
    };
    let footer = chunks.get_bytes(start, length as usize)?;
    match levels(&footer) {
        Some(levels) if levels > MOST_LEVELS => Err(ParquetError::General(format!(
            "its columns are nested {levels} levels deep or more, but the limit is {MOST_LEVELS}"
        ))),
        _ => Ok(()),
    }
}

/// How deep the schema in a footer is nested, up to one level beyond the limit; `None` where it cannot be read: the
/// reader says why.
fn levels(footer: &[u8]) -> Option<usize> {
    const SCHEMA: i16 = 2;
    const CHILDREN: i16 = 5;
    let mut thrift = Thrift(footer);
    let mut field = 0;
    loop {
        let kind = thrift.field(&mut field)?;
        if kind == Thrift::STOP {
            return None; // there is no schema
        }
        if (field, kind) != (SCHEMA, Thrift::LIST) {
            thrift.skip(kind, MOST_SKIPPED)?;
            continue;
        }
        let (kind, elements) = thrift.list()?;
        if kind != Thrift::STRUCT {
            return None;
        }
        // Children that are still to come, of each group around the next element.
        let mut open: Vec<i64> = Vec::new();
        let mut deepest = 0;
        for _ in 0..elements {
            let (mut field, mut children) = (0, 0);
            loop {
                match (thrift.field(&mut field)?, field) {
                    (Thrift::STOP, _) => break,
                    (Thrift::I32, CHILDREN) => children = thrift.number()?,
                    (kind, _) => thrift.skip(kind, MOST_SKIPPED)?,
                }
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            deepest = deepest.max(open.len());
            if deepest > MOST_LEVELS {
                return Some(deepest);
            }
            while open.last().is_some_and(|left| *left <= 0) {
                open.pop();
            }
        }
        return Some(deepest);
    }
}
