//! Pages that threads beside the writer's compress: pages of vectors hardly shrink, and trying takes most of the time of
//! writing them. Tables of very many columns have all pages compressed so, since each column's encoder would have a codec of
//! its own.
//!
//! The encoder makes the pages of such a column uncompressed and hands each to a [`PageStore`], which has it compressed
//! and gives it back so when the row group is written. The file's bytes are those of an encoder that compresses itself:
//! the same codec with the same input, and the sizes that headers and metadata state are put right
//! ([`CompressedColumn::describe`]).

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ::parquet::arrow::arrow_writer::{
    InMemoryPageStoreFactory, PageKey, PageStore, PageStoreArgs, PageStoreFactory,
};
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::properties::WriterPropertiesPtr;
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use embedctl_common::stage::Clock;
use embedctl_common::threads::{guarded, locked, try_spawn};
use zstd::bulk::Compressor;

use super::thrift::Thrift;

/// Compression level: vectors hardly compress (7 to 8 %), and higher levels gain nothing.
const ZSTD_LEVEL: i32 = 1;

/// How pages are compressed.
pub(super) fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("zstd has that level"))
}

/// Threads at most: as fast as the other stages together.
const MOST_THREADS: usize = 8;

/// Pages for each thread that wait for it, at most.
const WAITING: usize = 2;

/// How many threads compress pages where so many cores may be used: none where all are busy with other stages.
pub(super) fn threads_of(cores: usize) -> usize {
    (cores / 4).min(MOST_THREADS)
}

/// The threads that compress. Dropped, they end with the pages that wait.
#[derive(Debug, Default)]
pub(super) struct PageThreads {
    jobs: Option<Sender<PageJob>>,
    threads: Vec<JoinHandle<()>>,
    /// Where there is no thread.
    own: Mutex<OwnCompressor>,
}

/// Compresses pages one after another; made with the first.
#[derive(Default)]
struct OwnCompressor(Option<Compressor<'static>>);

impl fmt::Debug for OwnCompressor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OwnCompressor")
            .finish_non_exhaustive()
    }
}

/// A page to compress.
struct PageJob {
    page: Bytes,
    done: Sender<Result<Bytes>>,
}

impl PageThreads {
    /// Starts that many; fewer where the system refuses some, and none is `None`. `clock` counts their processor time.
    pub(super) fn start(count: usize, clock: &Arc<Clock>) -> Option<Self> {
        let (jobs, received) = bounded::<PageJob>((WAITING * count).max(1));
        let start = |number: usize| {
            let (received, clock) = (received.clone(), Arc::clone(clock));
            try_spawn(&format!("page-{number}"), move || {
                let mut compressor = None;
                for PageJob { page, done } in received {
                    let compress = || compressed(&page, &mut compressor);
                    let compress = || guarded(compress, ParquetError::General);
                    // Nobody may want it any more.
                    let _ = done.send(clock.time_part(compress));
                }
            })
        };
        let threads: Vec<_> = (0..count).map_while(|number| start(number).ok()).collect();
        (!threads.is_empty()).then_some(Self {
            jobs: Some(jobs),
            threads,
            own: Mutex::default(),
        })
    }

    /// None: each page is compressed where it is made.
    pub(super) fn none() -> Self {
        Self::default()
    }

    fn compress(&self, page: Bytes) -> Receiver<Result<Bytes>> {
        let (done, receiver) = bounded(1);
        // A page that is never done is found by the one who waits for it.
        match &self.jobs {
            Some(jobs) => _ = jobs.send(PageJob { page, done }),
            None => _ = done.send(compressed(&page, &mut locked(&self.own).0)),
        }
        receiver
    }
}

impl Drop for PageThreads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A page as the encoder's own codec would compress it.
fn compressed(page: &[u8], compressor: &mut Option<Compressor<'static>>) -> Result<Bytes> {
    let compressor = match compressor {
        Some(compressor) => compressor,
        none => none.insert(Compressor::new(ZSTD_LEVEL)?),
    };
    let mut small = compressor.compress(page)?;
    small.shrink_to_fit();
    Ok(small.into())
}

/// The pages of one column of a row group.
#[derive(Debug, Default)]
pub(super) struct CompressedColumn(Mutex<Vec<StoredPage>>);

#[derive(Debug)]
struct StoredPage {
    /// Bytes of the page and of its header before it is compressed.
    page: usize,
    header: usize,
    content: PageContent,
}

#[derive(Debug)]
enum PageContent {
    /// Its header states no compression.
    Waiting(Bytes, Receiver<Result<Bytes>>),
    Ready(Bytes, Bytes),
}

impl StoredPage {
    /// Header and content, once it is compressed.
    fn ready(&mut self) -> Result<(&mut Bytes, &mut Bytes)> {
        if let PageContent::Waiting(header, done) = &self.content {
            let ended = |_| ParquetError::General("a thread that compresses has ended".to_owned());
            let page = done.recv().map_err(ended)??;
            let header = with_compressed_size(header, page.len())?;
            self.content = PageContent::Ready(header, page);
        }
        match &mut self.content {
            PageContent::Ready(header, page) => Ok((header, page)),
            PageContent::Waiting(..) => unreachable!("it was made ready"),
        }
    }
}

impl CompressedColumn {
    /// Bytes of all complete pages with their headers: as the encoder counts them, and compressed.
    pub(super) fn bytes(&self) -> Result<(usize, usize)> {
        let (mut before, mut after) = (0, 0);
        for stored in &mut *locked(&self.0) {
            before += stored.page + stored.header;
            let (header, page) = stored.ready()?;
            after += header.len() + page.len();
        }
        Ok((before, after))
    }

    /// Puts right what the encoder says about the column.
    pub(super) fn describe(&self, close: &mut ColumnCloseResult) -> Result<()> {
        let (mut before, mut after) = (0, 0);
        let mut stored = locked(&self.0);
        let mut locations = close.offset_index.as_mut().map(|it| &mut it.page_locations);
        for (number, stored) in stored.iter_mut().enumerate() {
            let page = stored.page;
            let (header, compressed) = stored.ready()?;
            let bytes = header.len() + compressed.len();
            if let Some(location) = locations.as_mut().and_then(|all| all.get_mut(number)) {
                location.offset = signed(after)?;
                location.compressed_page_size = i32::try_from(bytes).map_err(too_large)?;
            }
            before += header.len() + page;
            after += bytes;
        }
        let metadata = close.metadata.clone().into_builder();
        close.metadata = metadata
            .set_compression(zstd())
            .set_total_compressed_size(signed(after)?)
            .set_total_uncompressed_size(signed(before)?)
            .build()?;
        close.bytes_written = after as u64;
        Ok(())
    }
}

fn signed(bytes: usize) -> Result<i64> {
    i64::try_from(bytes).map_err(too_large)
}

fn too_large(error: std::num::TryFromIntError) -> ParquetError {
    ParquetError::General(format!("the size of a page: {error}"))
}

/// A page's header with another compressed size, which is the third of its fields.
fn with_compressed_size(header: &[u8], size: usize) -> Result<Bytes> {
    let places = || {
        let (mut rest, mut number) = (Thrift(header), 0);
        let mut next = |rest: &mut Thrift<'_>, wanted: i16| {
            let kind = rest.field(&mut number);
            (kind == Some(Thrift::I32) && number == wanted).then_some(())
        };
        for before in [1, 2] {
            next(&mut rest, before)?;
            rest.number()?;
        }
        next(&mut rest, 3)?;
        let start = header.len() - rest.0.len();
        rest.number()?;
        Some((start, rest.0))
    };
    let odd = || ParquetError::General("a page's header of another form".to_owned());
    let (start, behind) = places().ok_or_else(odd)?;
    let mut changed = header[..start].to_vec();
    // Its sign is in the lowest bit, and seven bits go into a byte.
    let mut number = u64::try_from(size).map_err(too_large)? << 1;
    while number >= 0x80 {
        changed.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    changed.push(number.to_le_bytes()[0]);
    changed.extend_from_slice(behind);
    Ok(changed.into())
}

/// Makes the stores of a row group's columns: with threads for those that the encoder leaves uncompressed, and the usual
/// ones for others.
#[derive(Debug)]
pub(super) struct PageStores {
    threads: Arc<PageThreads>,
    /// The encoder's.
    properties: WriterPropertiesPtr,
    /// The pages of the columns of the last row group, in the order of columns.
    made: Mutex<Vec<Option<Arc<CompressedColumn>>>>,
}

impl PageStores {
    pub(super) fn new(threads: PageThreads, properties: WriterPropertiesPtr) -> Self {
        Self {
            threads: Arc::new(threads),
            properties,
            made: Mutex::default(),
        }
    }

    /// The pages of the columns whose stores were made since the last call.
    pub(super) fn take(&self) -> Vec<Option<Arc<CompressedColumn>>> {
        std::mem::take(&mut locked(&self.made))
    }
}

impl PageStoreFactory for PageStores {
    fn create(&self, args: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let pages = Arc::<CompressedColumn>::default();
        let compression = (self.properties).compression(args.column_descriptor().path());
        let is_plain = compression == Compression::UNCOMPRESSED;
        locked(&self.made).push(is_plain.then(|| Arc::clone(&pages)));
        if !is_plain {
            return InMemoryPageStoreFactory.create(args);
        }
        Ok(Box::new(CompressingStore {
            pages,
            threads: Arc::clone(&self.threads),
            header: None,
        }))
    }
}

/// The store of one column: headers and pages come in turn.
struct CompressingStore {
    pages: Arc<CompressedColumn>,
    threads: Arc<PageThreads>,
    /// The header of the page that comes next.
    header: Option<Bytes>,
}

impl PageStore for CompressingStore {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let mut pages = locked(&self.pages.0);
        let key = 2 * pages.len() as u64;
        let Some(header) = self.header.take() else {
            self.header = Some(value);
            return Ok(PageKey::new(key));
        };
        pages.push(StoredPage {
            page: value.len(),
            header: header.len(),
            content: PageContent::Waiting(header, self.threads.compress(value)),
        });
        Ok(PageKey::new(key + 1))
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let mut pages = locked(&self.pages.0);
        let number = usize::try_from(key.get() / 2).ok();
        let stored = number.and_then(|number| pages.get_mut(number));
        let odd = || ParquetError::General(format!("there is no page {}", key.get()));
        let (header, page) = stored.ok_or_else(odd)?.ready()?;
        Ok(std::mem::take(match key.get() % 2 {
            0 => header,
            _ => page,
        }))
    }

    fn memory_size(&self) -> usize {
        let pages = locked(&self.pages.0);
        pages.iter().map(|it| it.page + it.header).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_gets_another_size_of_any_length() {
        // A data page of 300 bytes, with a field behind the sizes.
        let header = [
            0x15, 0x00, 0x15, 0xd8, 0x04, 0x15, 0xd8, 0x04, 0x2c, 0x15, 0x02,
        ];
        let changed = |size| with_compressed_size(&header, size).unwrap().to_vec();
        assert_eq!(changed(300), header);
        assert_eq!(changed(5), [&header[..6], &[0x0a], &header[8..]].concat());
        let large = [&header[..6], &[0x80, 0x80, 0x80, 0x01], &header[8..]].concat();
        assert_eq!(changed(1 << 20), large);
        for end in 0..8 {
            assert!(with_compressed_size(&header[..end], 5).is_err(), "{end}");
        }
        assert!(with_compressed_size(&[0x15, 0, 0x25, 0, 0x15, 0], 5).is_err());
    }

    #[test]
    fn cores_that_other_stages_need_compress_no_pages() {
        let threads = [1, 2, 3, 4, 8, 64, 192].map(threads_of);
        assert_eq!(threads, [0, 0, 0, 1, 2, 8, 8]);
        assert!(PageThreads::start(0, &Arc::default()).is_none());
    }
}
