//! The footer of an Arrow file: its schema, and where its dictionaries and record batches lie. It is compared with the
//! file's length before any memory is allocated by it.

use std::collections::HashMap;
use std::sync::Arc;

use super::claims;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::try_fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
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
    /// What the file says of itself besides.
    metadata: HashMap<String, String>,
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
        let metadata = footer.custom_metadata().into_iter().flatten();
        let metadata =
            metadata.filter_map(|entry| Some((entry.key()?.to_owned(), entry.value()?.to_owned())));
        Ok(Self {
            metadata: metadata.collect(),
            schema: Arc::new(try_fb_to_schema(schema)?),
            version: footer.version(),
            dictionaries: all(dictionaries.map(within).collect())?,
            batches: all(batches.iter().map(within).collect())?,
        })
    }

    /// An entry of the file's metadata.
    pub(super) fn metadata(&self, key: &str) -> Option<&String> {
        self.metadata.get(key)
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
            decoder.read_dictionary(block, &checked(bytes, block)?)?;
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

/// All of a block, whose compressed buffers claim no more than they can hold.
///
/// # Errors
/// If it cannot be read, or claims more.
fn checked(bytes: &dyn Bytes, block: &Block) -> Result<Buffer, ArrowError> {
    let content = content(bytes, block)?;
    let head = place(block).map_or(0, |(_, head, _)| head);
    claims::check(&content, head)?;
    Ok(content)
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
    let batch = decoder.read_record_batch(block, &checked(bytes, block)?)?;
    batch.ok_or_else(|| wrong(NO_BATCH))
}

/// An Arrow file's record batches, one after another.
pub struct ArrowBatches {
    bytes: Arc<dyn Bytes>,
    footer: Footer,
    decoder: FileDecoder,
    /// How many were read.
    read: usize,
}

impl ArrowBatches {
    /// Opens a file; `choose` names the columns that are read, `None` all of them.
    ///
    /// # Errors
    /// If its footer or a dictionary cannot be read, or leads out of the file.
    pub fn open(
        bytes: &Arc<dyn Bytes>,
        choose: impl FnOnce(&SchemaRef) -> Option<Vec<usize>>,
    ) -> Result<Self, ArrowError> {
        let footer = Footer::read(bytes.as_ref())?;
        let decoder = footer.decoder(bytes.as_ref(), choose(&footer.schema))?;
        Ok(Self {
            bytes: Arc::clone(bytes),
            footer,
            decoder,
            read: 0,
        })
    }

    /// All columns, whether they are read or not.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.footer.schema)
    }

    /// An entry of the file's metadata.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&String> {
        self.footer.metadata(key)
    }

    /// The next record batch.
    ///
    /// # Errors
    /// If it cannot be read, or does not say that it is one.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(block) = self.footer.batches.get(self.read) else {
            return Ok(None);
        };
        self.read += 1;
        batch(&self.decoder, self.bytes.as_ref(), block).map(Some)
    }
}

/// How many rows a record batch has, by its header.
///
/// # Errors
/// If that cannot be read, or is none of a record batch.
pub(super) fn rows(bytes: &dyn Bytes, block: &Block) -> Result<u64, ArrowError> {
    let (offset, head, _) = place(block).ok_or_else(|| wrong("a block has no place"))?;
    let mut head = vec![0; head];
    bytes.read_at(offset, &mut head)?;
    let message =
        root_as_message(claims::behind_length(&head)).map_err(|error| wrong(&error.to_string()))?;
    let batch = message.header_as_record_batch();
    let rows = batch.and_then(|batch| u64::try_from(batch.length()).ok());
    rows.ok_or_else(|| wrong("it does not say how many rows it has"))
}
