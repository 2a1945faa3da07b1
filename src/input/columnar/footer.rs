//! The footer of an Arrow file: where its record batches lie, and how many rows they have. Read without a batch
//! being decoded, and compared with the file's length before anybody asks for memory by it.

use ::arrow::error::ArrowError;
use ::arrow::ipc::reader::read_footer_length;
use ::arrow::ipc::{root_as_footer, root_as_message};

use crate::storage::Bytes;

/// Bytes behind a footer: its length, and the magic.
const TRAILER: u64 = 10;

/// A record batch in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    offset: u64,
    /// Bytes of what comes before its columns.
    head: usize,
}

/// The record batches of an Arrow file, in order.
///
/// # Errors
/// If the footer cannot be read, or leads out of the file.
pub(super) fn blocks(bytes: &dyn Bytes) -> Result<Vec<Block>, ArrowError> {
    let wrong = |reason: &str| ArrowError::ParseError(reason.to_owned());
    let end = (bytes.len().checked_sub(TRAILER)).ok_or_else(|| wrong("there is none"))?;
    let mut trailer = [0; TRAILER as usize];
    bytes.read_at(end, &mut trailer)?;
    let length = read_footer_length(trailer)?;
    let start = end.checked_sub(length as u64);
    let start = start.ok_or_else(|| wrong("it would be longer than the file"))?;
    let mut footer = vec![0; length];
    bytes.read_at(start, &mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| wrong(&error.to_string()))?;
    let within = |block: &::arrow::ipc::Block| {
        let offset = u64::try_from(block.offset()).ok()?;
        let head = u32::try_from(block.metaDataLength()).ok()?;
        let body = u64::try_from(block.bodyLength()).ok()?;
        let end = offset.checked_add(u64::from(head))?.checked_add(body)?;
        (end <= start).then_some(Block {
            offset,
            head: head as usize,
        })
    };
    let out = || wrong("a record batch would lie outside of the file");
    let dictionaries = footer.dictionaries().into_iter().flatten();
    if dictionaries.map(within).any(|block| block.is_none()) {
        return Err(out());
    }
    let batches = footer.recordBatches().into_iter().flatten();
    batches.map(|block| within(block).ok_or_else(out)).collect()
}

/// Looks at the footer of an Arrow file before anybody else does.
///
/// # Errors
/// As [`blocks`].
pub(crate) fn check(bytes: &dyn Bytes) -> Result<(), ArrowError> {
    blocks(bytes).map(drop)
}

/// How many rows a record batch has.
///
/// # Errors
/// If what comes before its columns cannot be read, or is none of a record batch.
pub(super) fn rows(bytes: &dyn Bytes, block: Block) -> Result<u64, ArrowError> {
    let wrong = |reason: &str| ArrowError::ParseError(reason.to_owned());
    let mut head = vec![0; block.head];
    bytes.read_at(block.offset, &mut head)?;
    // A mark and a length, or (before 0.15) the length alone.
    let skip = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = head.get(skip..).unwrap_or_default();
    let message = root_as_message(message).map_err(|error| wrong(&error.to_string()))?;
    let batch = message.header_as_record_batch();
    let rows = batch.and_then(|batch| u64::try_from(batch.length()).ok());
    rows.ok_or_else(|| wrong("it does not say how many rows it has"))
}
