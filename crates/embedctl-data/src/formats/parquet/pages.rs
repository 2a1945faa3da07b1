//! The bytes of a Parquet file, as the parquet crate wants them. It asks for memory by what a page's header says, and
//! compares later; so what the header says is compared with the column's own size first. (The limits belong into the
//! crate's page reader and its record reader, which grow without any.)

use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::file::reader::{ChunkReader, Length};

use super::thrift::Thrift;
use embedctl_common::error::Cause;
use embedctl_common::setting::MAX_RECORD_BYTES;
use embedctl_common::threads::locked;
use embedctl_storage::{Bytes, Seeking};

/// A page up to this size is believed, whatever its column says: some writers count wrongly.
const BELIEVED: u64 = 32 << 20;

/// Bytes of all pages that are in memory together, at most: of each column its dictionary, the page that is decoded, and
/// the page before, to whose values rows may still point. Writers divide pages at 1 MiB, or after some thousand values.
const MOST_PAGE_BYTES: u64 = 768 << 20;

/// A page up to this size is not counted: it is of the usual size, and a table may have many columns.
const USUAL: u64 = 2 << 20;

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
    held: Arc<Mutex<BufferedPages>>,
    /// Why a page is not decoded although nothing is wrong with it.
    refusal: Arc<OnceLock<Cause>>,
}

/// The pages of a column in a row group.
struct ColumnPages {
    /// Its number among the columns of a row group.
    leaf: usize,
    start: u64,
    end: u64,
    /// Bytes when they are decompressed.
    size: u64,
    is_list: bool,
    is_compressed: bool,
}

/// The pages in memory, without small ones.
#[derive(Default)]
struct BufferedPages {
    /// Bytes of a column's dictionary, the page before, and the present one, for each column of a row group.
    columns: Vec<[u64; 3]>,
    /// Bytes of them all.
    total: u64,
}

impl BufferedPages {
    /// Adds a page of the column `leaf`, and says how many bytes are held while it is decompressed.
    fn add(&mut self, leaf: usize, page: &PageClaims, is_compressed: bool) -> u64 {
        let counted = |bytes: u64| if bytes > USUAL { bytes } else { 0 };
        let [dictionary, before, present] = &mut self.columns[leaf];
        let old = [*dictionary, *before, *present];
        if page.is_dictionary {
            *dictionary = counted(page.size);
        } else {
            (*before, *present) = (*present, counted(page.size));
        }
        let new = self.columns[leaf];
        self.total = self.total - old.iter().sum::<u64>() + new.iter().sum::<u64>();
        self.total
            + if is_compressed {
                counted(page.compressed)
            } else {
                0
            }
    }
}

impl FileChunks {
    pub(crate) fn new(bytes: Arc<dyn Bytes>) -> Self {
        Self {
            bytes,
            columns: Arc::default(),
            largest_value: u64::MAX,
            elements: Arc::default(),
            held: Arc::default(),
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
        let columns = groups.flat_map(|group| group.columns().iter().enumerate());
        let columns = columns.map(|(leaf, column)| {
            let start = column.dictionary_page_offset();
            let start = size(start.unwrap_or_else(|| column.data_page_offset()));
            ColumnPages {
                leaf,
                start,
                end: start.saturating_add(size(column.compressed_size())),
                size: size(column.uncompressed_size()),
                is_list: column.column_descr().max_rep_level() > 0,
                is_compressed: column.compression() != Compression::UNCOMPRESSED,
            }
        });
        let mut columns: Vec<_> = columns.collect();
        columns.sort_by_key(|column| column.start);
        let leaves = columns.iter().map(|column| column.leaf + 1).max();
        let held = BufferedPages {
            columns: vec![[0; 3]; leaves.unwrap_or(0)],
            total: 0,
        };
        Self {
            bytes: Arc::clone(&self.bytes),
            held: Arc::new(Mutex::new(held)),
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
    pub(super) fn refusal(&self) -> Option<&Cause> {
        self.refusal.get()
    }

    fn refuse(&self, reason: String, remedy: impl Into<String>) -> Result<(), String> {
        let cause = || Cause::of(reason).with(remedy);
        Err(self.refusal.get_or_init(cause).reason.clone())
    }

    /// Checks the page whose header begins with `head` at `start`, if there is one.
    fn check(&self, start: u64, head: &[u8]) -> Result<(), String> {
        let before = self.columns.partition_point(|column| column.start <= start);
        let column = before.checked_sub(1).map(|index| &self.columns[index]);
        let Some(column) = column.filter(|column| start < column.end) else {
            return Ok(());
        };
        let Some(page) = PageClaims::read(head) else {
            return Ok(()); // the reader says what is wrong
        };
        let most = column.size.max(BELIEVED);
        if page.size > most {
            return Err(format!(
                "a page claims {} bytes, but its column has {most} at most",
                page.size
            ));
        }
        if let Some(values) = page.values
            && page.size > BELIEVED
            && page.size / values.max(1) > self.largest_value
        {
            let reason = format!(
                "a page of it has {} bytes for {values} value{}, but the limit of a record is {} bytes",
                page.size,
                if values == 1 { "" } else { "s" },
                self.largest_value
            );
            let remedy = format!("raise {MAX_RECORD_BYTES}, or write the file with smaller values");
            return self.refuse(reason, remedy);
        }
        let held = locked(&self.held).add(column.leaf, &page, column.is_compressed);
        if held > MOST_PAGE_BYTES {
            let reason = format!(
                "its pages take {held} bytes at a time, but the limit is {MOST_PAGE_BYTES}"
            );
            return self.refuse(reason, "write the file with smaller pages");
        }
        let Some(values) = page.values else {
            return Ok(());
        };
        let elements = self.elements.load(Ordering::Relaxed);
        if column.is_list && elements != u64::MAX {
            let elements = elements.saturating_add(values).min(u64::MAX - 1);
            self.elements.store(elements, Ordering::Relaxed);
            if elements > MOST_ELEMENTS {
                let reason = format!(
                    "the lists of some rows have {elements} elements, but the limit is {MOST_ELEMENTS}"
                );
                return self.refuse(reason, "write the file with shorter lists");
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
                "bytes {start} to {end} are asked for, but it has {}",
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

/// A page, as its header says it is.
#[derive(Debug, PartialEq, Eq)]
struct PageClaims {
    /// Bytes of its content when it is decompressed.
    size: u64,
    /// The same as they are in the file.
    compressed: u64,
    values: Option<u64>,
    is_dictionary: bool,
}

impl PageClaims {
    /// Reads the beginning of a page; `None` where it is none.
    fn read(head: &[u8]) -> Option<Self> {
        const SIZE: i16 = 2;
        const COMPRESSED: i16 = 3;
        const DICTIONARY: i16 = 7;
        /// Headers of data pages and of dictionaries, which begin with the number of values.
        const KINDS: [i16; 3] = [5, DICTIONARY, 8];
        let mut thrift = Thrift(head);
        let (mut field, mut size, mut compressed) = (0, None, 0);
        let (values, is_dictionary) = loop {
            match (thrift.field(&mut field)?, field) {
                (Thrift::STOP, _) => break (None, false),
                (Thrift::I32, SIZE) => size = Some(u64::try_from(thrift.number()?).ok()?),
                (Thrift::I32, COMPRESSED) => compressed = u64::try_from(thrift.number()?).ok()?,
                (Thrift::STRUCT, kind) if KINDS.contains(&kind) => {
                    let mut field = 0;
                    let values = match (thrift.field(&mut field)?, field) {
                        (Thrift::I32, 1) => u64::try_from(thrift.number()?).ok(),
                        _ => None,
                    };
                    break (values, kind == DICTIONARY);
                }
                (kind, _) => thrift.skip(kind, 8)?,
            }
        };
        Some(Self {
            size: size?,
            compressed,
            values,
            is_dictionary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::basic::Type;
    use ::parquet::file::metadata::ColumnChunkMetaData;
    use ::parquet::schema::types::{SchemaDescriptor, Type as SchemaType};
    use embedctl_storage::Readable;

    /// Bytes that a page says it has in the file and when it is decompressed, and whether it is a dictionary.
    type Page = (u64, u64, bool);

    fn header((compressed, size, is_dictionary): Page) -> Vec<u8> {
        let number = |value: u64| {
            let mut rest = value << 1;
            let mut bytes = vec![0x15];
            while rest > 0x7f {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
            bytes
        };
        let (kind, inner) = if is_dictionary { (2, 0x4c) } else { (0, 0x2c) };
        let mut bytes = [number(kind), number(size), number(compressed)].concat();
        bytes.push(inner);
        bytes.extend(number(1000));
        bytes.extend([0, 0]);
        bytes.resize(64, 0);
        bytes
    }

    /// Reads the headers of these pages in turn, each of a column; the first error.
    fn read(compression: Compression, pages: &[(usize, Page)]) -> Result<(), String> {
        const COLUMN: u64 = 1 << 40;
        let count = pages.iter().map(|(column, _)| column + 1).max().unwrap();
        let leaf = |column| {
            let name = format!("c{column}");
            let leaf = SchemaType::primitive_type_builder(&name, Type::BYTE_ARRAY);
            Arc::new(leaf.build().unwrap())
        };
        let root = SchemaType::group_type_builder("root");
        let root = root.with_fields((0..count).map(leaf).collect());
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(root.build().unwrap())));
        let columns = (0..count).map(|column| {
            ColumnChunkMetaData::builder(schema.column(column))
                .set_compression(compression)
                .set_data_page_offset(column as i64 * COLUMN as i64)
                .set_total_compressed_size(COLUMN as i64)
                .set_total_uncompressed_size(COLUMN as i64)
                .build()
                .unwrap()
        });
        let group = RowGroupMetaData::builder(Arc::clone(&schema))
            .set_column_metadata(columns.collect())
            .build()
            .unwrap();
        let empty = tempfile::NamedTempFile::new().unwrap();
        let file = Readable::file(empty.path()).unwrap();
        let chunks = FileChunks::new(file.bytes).of_groups([&group].into_iter(), 4 << 20);
        pages
            .iter()
            .enumerate()
            .try_for_each(|(number, (column, page))| {
                chunks.check(*column as u64 * COLUMN + number as u64 * 64, &header(*page))
            })
    }

    /// Pages of any number, columns and codec are refused before they take more than the limit together.
    #[test]
    fn pages_that_take_too_much_memory_together_are_refused() {
        let page = |mebibytes: u64| (9, mebibytes << 20, false);
        let dictionary = |mebibytes: u64| (9, mebibytes << 20, true);
        let (plain, zstd) = (
            Compression::UNCOMPRESSED,
            Compression::ZSTD(Default::default()),
        );
        let wide: Vec<_> = (0..5000).map(|column| (column, page(1))).collect();
        for (compression, pages, is_read) in [
            (plain, vec![(0, page(768))], true),
            (plain, vec![(0, page(769))], false),
            (zstd, vec![(0, page(2000))], false),
            // The page before is there, the one before that is not.
            (plain, vec![(0, page(300)); 9], true),
            (plain, vec![(0, page(400)); 2], false),
            (plain, vec![(0, dictionary(300)), (0, page(300))], true),
            (
                plain,
                vec![(0, dictionary(300)), (0, page(300)), (0, page(300))],
                false,
            ),
            // Of other columns.
            (plain, vec![(0, page(300)), (1, page(300))], true),
            (
                plain,
                vec![(0, page(300)), (1, page(300)), (2, page(300))],
                false,
            ),
            (plain, wide, true),
            // In the file, too, while it is decompressed.
            (zstd, vec![(0, (400 << 20, 400 << 20, false))], false),
            (plain, vec![(0, (400 << 20, 400 << 20, false))], true),
        ] {
            let result = read(compression, &pages);
            assert_eq!(
                result.is_ok(),
                is_read,
                "{compression} {:?}: {result:?}",
                &pages[..1]
            );
            assert!(is_read || result.unwrap_err().contains("at a time"));
        }
    }
}
