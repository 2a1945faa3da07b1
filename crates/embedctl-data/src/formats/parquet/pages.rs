//! The bytes of a Parquet file, as the parquet crate wants them. It asks for memory by what a page's header says, and
//! compares later; so what the header says is compared with the column's own size first.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::reader::{ChunkReader, Length};

use embedctl_storage::{Bytes, Seeking};

/// A page up to this size is believed, whatever its column says: some writers count wrongly.
const BELIEVED: u64 = 32 << 20;

/// Any bytes.
#[derive(Clone)]
pub struct FileChunks {
    bytes: Arc<dyn Bytes>,
    /// Where columns begin and end, and their size when they are decompressed.
    columns: Arc<[(u64, u64, u64)]>,
}

impl FileChunks {
    pub(crate) fn new(bytes: Arc<dyn Bytes>) -> Self {
        Self {
            bytes,
            columns: Arc::default(),
        }
    }

    /// The same, for the pages of these row groups.
    pub(crate) fn of_groups<'g>(&self, groups: impl Iterator<Item = &'g RowGroupMetaData>) -> Self {
        let size = |bytes| u64::try_from(bytes).unwrap_or(0);
        let columns = groups.flat_map(RowGroupMetaData::columns).map(|column| {
            let start = column.dictionary_page_offset();
            let start = size(start.unwrap_or_else(|| column.data_page_offset()));
            let end = start.saturating_add(size(column.compressed_size()));
            (start, end, size(column.uncompressed_size()))
        });
        Self {
            bytes: Arc::clone(&self.bytes),
            columns: columns.collect(),
        }
    }

    /// The most that the page at `start` may hold, if it is one.
    fn most(&self, start: u64) -> Option<u64> {
        let within = |(from, to, _): &&(u64, u64, u64)| (*from..*to).contains(&start);
        let column = self.columns.iter().find(within)?;
        Some(column.2.max(BELIEVED))
    }
}

impl Length for FileChunks {
    fn len(&self) -> u64 {
        self.bytes.len()
    }
}

impl ChunkReader for FileChunks {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> ::parquet::errors::Result<Self::T> {
        let mut reader = Seeking::in_chunks(Arc::clone(&self.bytes), AHEAD, start);
        if let Some(most) = self.most(start) {
            let mut head = Vec::new();
            (&mut reader).take(HEAD).read_to_end(&mut head)?;
            reader.seek(SeekFrom::Start(start))?;
            if let Some(page) = size(&head).filter(|&size| size > most) {
                return Err(ParquetError::General(format!(
                    "a page claims {page} bytes, and its column has {most} at most"
                )));
            }
        }
        Ok(Box::new(reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ::parquet::errors::Result<bytes::Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.bytes.len() {
            return Err(ParquetError::EOF(format!(
                "bytes {start} to {end} are asked for, and it has {}",
                self.bytes.len()
            )));
        }
        let mut buffer = vec![0; length];
        self.bytes.read_at(start, &mut buffer)?;
        Ok(buffer.into())
    }
}

/// Bytes of a page's header in which its sizes are.
const HEAD: u64 = 16;

/// Bytes that are read for a header, which is some dozen long. Pages themselves are asked for as a whole.
const AHEAD: u64 = 4 << 10;

/// The size of a page's content, which its header says second, behind its kind: two numbers in Thrift's compact
/// encoding, each behind a byte that says so.
fn size(head: &[u8]) -> Option<u64> {
    const NUMBER: u8 = 0x15;
    let mut bytes = head.iter().copied();
    let mut number = || {
        (bytes.next()? == NUMBER).then_some(())?;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // Signs are in the lowest bit.
                return (value & 1 == 0).then_some(value >> 1);
            }
        }
        None
    };
    number()?;
    number()
}
