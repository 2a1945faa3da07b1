//! The bytes of a Parquet file, as the parquet crate wants them. It asks for memory by what a page's header says, and
//! compares later; so what the header says is compared with the column's own size first. (The limits belong into the
//! crate's page reader and its record reader, which grow without any.)

use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::reader::{ChunkReader, Length};

use super::thrift::Thrift;
use embedctl_storage::{Bytes, Seeking};

/// A page up to this size is believed, whatever its column says: some writers count wrongly.
const BELIEVED: u64 = 32 << 20;

/// Bytes of a page at most. Writers divide pages at 1 MiB, or after some thousand values.
const LARGEST_PAGE: u64 = 1 << 30;

/// Elements of lists that a step may decode, at most. A step ends with a whole record, so only a record with so many
/// elements gets here.
pub(crate) const MOST_ELEMENTS: u64 = 64 << 20;

/// Any bytes.
#[derive(Clone)]
pub struct FileChunks {
    bytes: Arc<dyn Bytes>,
    /// The columns whose pages are read.
    columns: Arc<[ColumnPages]>,
    /// Bytes of a value at most.
    largest_value: u64,
    /// Elements of lists that were decoded since the last step.
    elements: Arc<AtomicU64>,
    /// Why a page is not decoded although nothing is wrong with it.
    refusal: Arc<OnceLock<String>>,
}

/// The pages of a column in a row group.
struct ColumnPages {
    start: u64,
    end: u64,
    /// Bytes when they are decompressed.
    size: u64,
    is_list: bool,
}

impl FileChunks {
    pub(crate) fn new(bytes: Arc<dyn Bytes>) -> Self {
        Self {
            bytes,
            columns: Arc::default(),
            largest_value: u64::MAX,
            elements: Arc::default(),
            refusal: Arc::default(),
        }
    }

    /// The same, for the pages of these row groups. A page whose values have more than `largest_value` bytes on average
    /// is not decoded.
    pub(crate) fn of_groups<'g>(
        &self,
        groups: impl Iterator<Item = &'g RowGroupMetaData>,
        largest_value: u64,
    ) -> Self {
        let size = |bytes| u64::try_from(bytes).unwrap_or(0);
        let columns = groups.flat_map(RowGroupMetaData::columns).map(|column| {
            let start = column.dictionary_page_offset();
            let start = size(start.unwrap_or_else(|| column.data_page_offset()));
            ColumnPages {
                start,
                end: start.saturating_add(size(column.compressed_size())),
                size: size(column.uncompressed_size()),
                is_list: column.column_descr().max_rep_level() > 0,
            }
        });
        let mut columns: Vec<_> = columns.collect();
        columns.sort_by_key(|column| column.start);
        Self {
            bytes: Arc::clone(&self.bytes),
            columns: columns.into(),
            largest_value,
            elements: Arc::default(),
            refusal: Arc::default(),
        }
    }

    /// Begins a step. One that passes over rows (`skips`) may decode any number of elements for it.
    pub(super) fn begin_step(&self, skips: bool) {
        let elements = if skips { u64::MAX } else { 0 };
        self.elements.store(elements, Ordering::Relaxed);
    }

    /// Why a page was not decoded although nothing is wrong with it, if that is why the reader has failed.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    fn refuse(&self, reason: String) -> Result<(), String> {
        Err(self.refusal.get_or_init(|| reason).clone())
    }

    /// Checks the page whose header begins with `head` at `start`, if there is one.
    fn check(&self, start: u64, head: &[u8]) -> Result<(), String> {
        let before = self.columns.partition_point(|column| column.start <= start);
        let column = before.checked_sub(1).map(|index| &self.columns[index]);
        let Some(column) = column.filter(|column| start < column.end) else {
            return Ok(());
        };
        let Some((page, values)) = page_claims(head) else {
            return Ok(()); // the reader says what is wrong
        };
        let most = column.size.max(BELIEVED);
        if page > most {
            return Err(format!(
                "a page claims {page} bytes, and its column has {most} at most"
            ));
        }
        if page > LARGEST_PAGE {
            return self.refuse(format!(
                "a page of it has {page} bytes, and {LARGEST_PAGE} are the limit"
            ));
        }
        let Some(values) = values else { return Ok(()) };
        if page > BELIEVED && page / values.max(1) > self.largest_value {
            return self.refuse(format!(
                "a page of it has {page} bytes for {values} value{}, and the limit of a record is {} bytes",
                if values == 1 { "" } else { "s" },
                self.largest_value
            ));
        }
        let elements = self.elements.load(Ordering::Relaxed);
        if column.is_list && elements != u64::MAX {
            let elements = elements.saturating_add(values).min(u64::MAX - 1);
            self.elements.store(elements, Ordering::Relaxed);
            if elements > MOST_ELEMENTS {
                return self.refuse(format!(
                    "the lists of some rows have {elements} elements, and {MOST_ELEMENTS} are the limit"
                ));
            }
        }
        Ok(())
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
        if !self.columns.is_empty() {
            let mut head = Vec::new();
            (&mut reader).take(HEAD).read_to_end(&mut head)?;
            reader.seek(SeekFrom::Start(start))?;
            self.check(start, &head).map_err(ParquetError::General)?;
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

/// Bytes of a page's header in which its sizes and its number of values are.
const HEAD: u64 = 64;

/// Bytes that are read for a header, which is some dozen long. Pages themselves are asked for as a whole.
const AHEAD: u64 = 4 << 10;

/// The bytes of a page's content when it is decompressed, and its values, as its header says them; `None` where it cannot
/// be read.
fn page_claims(head: &[u8]) -> Option<(u64, Option<u64>)> {
    const SIZE: i16 = 2;
    /// Headers of data pages and of dictionaries, which begin with the number of values.
    const KINDS: [i16; 3] = [5, 7, 8];
    let mut thrift = Thrift(head);
    let (mut field, mut size) = (0, None);
    loop {
        match (thrift.field(&mut field)?, field) {
            (Thrift::STOP, _) => return Some((size?, None)),
            (Thrift::I32, SIZE) => size = Some(u64::try_from(thrift.number()?).ok()?),
            (Thrift::STRUCT, kind) if KINDS.contains(&kind) => {
                let mut field = 0;
                let values = match (thrift.field(&mut field)?, field) {
                    (Thrift::I32, 1) => u64::try_from(thrift.number()?).ok(),
                    _ => None,
                };
                return Some((size?, values));
            }
            (kind, _) => thrift.skip(kind, 8)?,
        }
    }
}
