//! The footer of an Arrow file: its schema, and where its dictionaries and record batches lie. It is compared with the
//! file's length before any memory is allocated by it.

use std::io::{Read, Seek};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, FileReader, read_footer_length};
use arrow::ipc::{Block, MetadataVersion, root_as_footer, root_as_message};
use embedctl_storage::Bytes;

/// Bytes behind a footer: its length, and the magic.
const TRAILER: u64 = 10;

const NO_BATCH: &str = "a record batch does not say that it is one";

/// The content of a footer, with places inside the file.
pub(super) struct Footer {
    pub schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    /// The record batches, in order.
    pub batches: Vec<Block>,
}

impl Footer {
    /// Reads the footer of an Arrow file.
    ///
    /// # Errors
    /// If it cannot be read, or leads out of the file.
    pub(super) fn read(bytes: &dyn Bytes) -> Result<Self, ArrowError> {
        let end = (bytes.len().checked_sub(TRAILER)).ok_or_else(|| wrong("there is none"))?;
        let mut trailer = [0; TRAILER as usize];
        bytes.read_at(end, &mut trailer)?;
        let length = read_footer_length(trailer)?;
        let start = end.checked_sub(length as u64);
        let start = start.ok_or_else(|| wrong("it would be longer than the file"))?;
        let mut footer = vec![0; length];
        bytes.read_at(start, &mut footer)?;
        let footer = root_as_footer(&footer).map_err(|error| wrong(&error.to_string()))?;
        let schema = (footer.schema()).ok_or_else(|| wrong("it has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(wrong("its byte order is not this machine's"));
        }
        let within = |block: &Block| {
            let (offset, head, body) = place(block)?;
            let end = offset.checked_add(head as u64)?.checked_add(body as u64)?;
            (end <= start).then_some(*block)
        };
        let all = |blocks: Option<Vec<Block>>| {
            blocks.ok_or_else(|| wrong("a record batch would lie outside of the file"))
        };
        let dictionaries = footer.dictionaries().into_iter().flatten();
        // A table without rows has a list without entries.
        let batches = footer.recordBatches();
        let batches = batches.ok_or_else(|| wrong("it names no record batches"))?;
        Ok(Self {
            schema: Arc::new(try_fb_to_schema(schema)?),
            version: footer.version(),
            dictionaries: all(dictionaries.map(within).collect())?,
            batches: all(batches.iter().map(within).collect())?,
        })
    }

    /// The decoder of the record batches, of these columns or of all.
    ///
    /// # Errors
    /// If a dictionary cannot be read.
    pub(super) fn decoder(
        &self,
        bytes: &dyn Bytes,
        columns: Option<Vec<usize>>,
    ) -> Result<FileDecoder, ArrowError> {
        let mut decoder = FileDecoder::new(Arc::clone(&self.schema), self.version);
        if let Some(columns) = columns {
            decoder = decoder.with_projection(columns);
        }
        for block in &self.dictionaries {
            decoder.read_dictionary(block, &content(bytes, block)?)?;
        }
        Ok(decoder)
    }
}

fn wrong(reason: &str) -> ArrowError {
    ArrowError::ParseError(reason.to_owned())
}

/// Where a block begins, the bytes before its columns, and those of its columns.
fn place(block: &Block) -> Option<(u64, usize, usize)> {
    let offset = u64::try_from(block.offset()).ok()?;
    let head = usize::try_from(block.metaDataLength()).ok()?;
    let body = usize::try_from(block.bodyLength()).ok()?;
    Some((offset, head, body))
}

/// All of a block that lies in the file.
///
/// # Errors
/// If it cannot be read.
fn content(bytes: &dyn Bytes, block: &Block) -> Result<Buffer, ArrowError> {
    let (offset, head, body) = place(block).ok_or_else(|| wrong("a block has no place"))?;
    let length = head
        .checked_add(body)
        .ok_or_else(|| wrong("a block has no end"))?;
    let mut content = MutableBuffer::try_from_len_zeroed(length)
        .map_err(|error| ArrowError::MemoryError(error.to_string()))?;
    bytes.read_at(offset, &mut content)?;
    Ok(content.into())
}

/// Checks the footer of an Arrow file, and returns its schema.
///
/// # Errors
/// As [`Footer::read`].
pub fn check(bytes: &dyn Bytes) -> Result<SchemaRef, ArrowError> {
    Footer::read(bytes).map(|footer| footer.schema)
}

/// Decodes a record batch that the footer names.
///
/// # Errors
/// If it cannot be read, or is none.
pub(super) fn batch(
    decoder: &FileDecoder,
    bytes: &dyn Bytes,
    block: &Block,
) -> Result<RecordBatch, ArrowError> {
    let batch = decoder.read_record_batch(block, &content(bytes, block)?)?;
    batch.ok_or_else(|| wrong(NO_BATCH))
}

/// The next record batch of a whole file; `read` counts them. The reader takes one that does not say what it is for
/// the end.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn next_batch<R: Read + Seek>(
    reader: &mut FileReader<R>,
    read: &mut usize,
) -> Result<Option<RecordBatch>, ArrowError> {
    let batch = reader.next().transpose()?;
    if batch.is_none() && *read < reader.num_batches() {
        return Err(wrong(NO_BATCH));
    }
    *read += 1;
    Ok(batch)
}

/// How many rows a record batch has, by its header.
///
/// # Errors
/// If that cannot be read, or is none of a record batch.
pub(super) fn rows(bytes: &dyn Bytes, block: &Block) -> Result<u64, ArrowError> {
    let (offset, head, _) = place(block).ok_or_else(|| wrong("a block has no place"))?;
    let mut head = vec![0; head];
    bytes.read_at(offset, &mut head)?;
    // A mark and a length, or (before 0.15) the length alone.
    let skip = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let message = head.get(skip..).unwrap_or_default();
    let message = root_as_message(message).map_err(|error| wrong(&error.to_string()))?;
    let batch = message.header_as_record_batch();
    let rows = batch.and_then(|batch| u64::try_from(batch.length()).ok());
    rows.ok_or_else(|| wrong("it does not say how many rows it has"))
}
