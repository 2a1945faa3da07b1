//! The footer of a Parquet file, before the parquet crate gets it: the crate turns groups within groups into types, and
//! those into Arrow's, by recursion without a limit, and some thousand levels overflow its stack. (The limit belongs into
//! its `schema::types`, which could count levels as it counts children.)

use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length, SerializedFileReader};

use super::pages::FileChunks;

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
            "its columns are nested {levels} levels deep or more, and {MOST_LEVELS} are the limit"
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

/// Values in Thrift's compact encoding.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    const STOP: u8 = 0;
    const I32: u8 = 5;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number whose sign is in the lowest bit.
    fn number(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The type of the next field, and its number in place of that of the one before.
    fn field(&mut self, number: &mut i16) -> Option<u8> {
        let head = self.byte()?;
        let kind = head & 0xf;
        if kind != Self::STOP {
            *number = match head >> 4 {
                0 => i16::try_from(self.number()?).ok()?,
                more => number.checked_add(i16::from(more))?,
            };
        }
        Some(kind)
    }

    /// The type and number of a list's elements.
    fn list(&mut self) -> Option<(u8, u64)> {
        let head = self.byte()?;
        let elements = match head >> 4 {
            15 => self.unsigned()?,
            few => u64::from(few),
        };
        Some((head & 0xf, elements))
    }

    fn skip(&mut self, kind: u8, levels: u32) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()), // a truth value in its field's head
            3 => self.pass(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            9 | 10 => {
                let (kind, elements) = self.list()?;
                (0..elements).try_for_each(|_| self.skip_element(kind, levels))
            }
            11 => {
                let entries = self.unsigned()?;
                if entries == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..entries).try_for_each(|_| {
                    self.skip_element(kinds >> 4, levels)?;
                    self.skip_element(kinds & 0xf, levels)
                })
            }
            12 => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        Self::STOP => return Some(()),
                        kind => self.skip(kind, levels)?,
                    }
                }
            }
            13 => self.pass(16),
            _ => None,
        }
    }

    /// Passes over an element of a list or map, where a truth value has a byte of its own.
    fn skip_element(&mut self, kind: u8, levels: u32) -> Option<()> {
        match kind {
            1 | 2 => self.pass(1),
            kind => self.skip(kind, levels),
        }
    }
}
