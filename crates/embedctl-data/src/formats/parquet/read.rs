//! Parquet: row group by row group, the asked columns alone.
//!
//! Pages are read and decoded as rows are asked for; a step is as many rows as fill a window on average,
//! so that memory depends neither on the file's size nor on that of its row groups.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use ::parquet::file::reader::Length;

use super::footer::load;
use super::pages::FileChunks;
use crate::formats::columnar::open::{
    START, Spot, damaged, footer, guarded, index, not_of_format, part, wrong,
};
use crate::formats::columnar::table::RequestedColumns;
use crate::formats::columnar::{Batches, TableReader, at_most, entered};
use crate::formats::reader::Reader;
use crate::reading::source::{Planned, SourceOpener};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::PARQUET_MAGIC as MAGIC;
use embedctl_records::options::InputOptions;
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;
use embedctl_storage::Bytes;

const ENCRYPTED: &[u8] = b"PARE";

/// The error for Parquet from a pipe.
pub(in crate::formats) fn not_a_file(source: &Planned) -> Error {
    source
        .facts
        .usage("Parquet is read from its end, so it has to be a file")
        .with_remedy(format!(
            "save it and name the file, or send Arrow (`{INPUT_FORMAT} arrow`) through the pipe"
        ))
}

/// Opens a file, and gives the window's columns their types.
///
/// # Errors
/// If it is cut short, damaged or something else, or lacks a column that is asked for.
pub(super) fn open(
    source: &Arc<Planned>,
    options: &Arc<InputOptions>,
    opener: &mut SourceOpener<'_>,
    filling: &mut OpenWindow,
) -> Result<Box<dyn Reader>> {
    let Some(bytes) = source.bytes() else {
        return Err(not_a_file(source));
    };
    let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
    opener.pace.source = None;
    check(source, bytes.as_ref())?;
    let mut parquet = Parquet::open(source, bytes)?;
    let table = RequestedColumns::new(source, options, &parquet.schema(), columns, warnings)?;
    let window = (options.window_rows, options.window_bytes);
    parquet.largest_value = options.max_record_bytes as u64;
    parquet.project(
        Some(&table).filter(|_| !options.batches.are_whole()),
        window,
    )?;
    let (first, end) = part(source);
    parquet.stop_before(end);
    let rows = match source.start {
        Some((_, Seek::RowGroup { group, row })) => parquet.seek(index(group), row),
        _ => parquet.enter(first),
    };
    let batches = Box::new(parquet);
    let reader = TableReader::begin(source, options, (batches, table), (rows, 0))?;
    Ok(Box::new(reader))
}

/// Rows of each row group.
///
/// # Errors
/// If the footer is damaged.
pub(super) fn row_groups(source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
    let Some(bytes) = source.bytes() else {
        return Ok(None);
    };
    check(source, bytes.as_ref())?;
    Ok(Some(Parquet::open(source, bytes)?.rows().collect()))
}

fn check(source: &Planned, bytes: &dyn Bytes) -> Result<()> {
    let wrong = |reason: &str, remedy: &str| Err(wrong(source, reason, remedy));
    let read = |offset: u64| {
        let mut found = [0; 4];
        let read = bytes.read_at(offset, &mut found);
        read.map_err(|error| damaged(source, START, error))?;
        Ok(found)
    };
    if bytes.is_empty() {
        return wrong(
            "is empty, but a Parquet file has a footer at least",
            "write it again (is its writer still at work?)",
        );
    }
    if bytes.len() < 12 {
        return wrong("is too short to be Parquet", "copy or write it again");
    }
    let (start, end) = (read(0)?, read(bytes.len() - 4)?);
    match (start.as_slice(), end.as_slice()) {
        (ENCRYPTED, _) | (_, ENCRYPTED) => wrong(
            "is encrypted Parquet, which embedctl does not read",
            "write it without encryption",
        ),
        (MAGIC, MAGIC) => Ok(()),
        (MAGIC, _) => wrong(
            "begins as Parquet and has no footer at its end, so it is cut short or still being written",
            "copy it again when it is complete",
        ),
        _ => {
            let mut start = [0; 64];
            let length = start
                .len()
                .min(usize::try_from(bytes.len()).unwrap_or(usize::MAX));
            let start = &mut start[..length];
            (bytes.read_at(0, start)).map_err(|error| damaged(source, START, error))?;
            Err(not_of_format(source, "not a Parquet file", start))
        }
    }
}

/// A Parquet file.
struct Parquet {
    source: Arc<Planned>,
    chunks: FileChunks,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    mask: ProjectionMask,
    /// The reader of a row group, and its pages.
    reader: Option<(ParquetRecordBatchReader, FileChunks)>,
    /// Bytes of a value at most.
    largest_value: u64,
    /// The row group that is read, and the rows of it that were.
    group: usize,
    row: u64,
    /// The row of the file to stop before.
    end: u64,
    window: (usize, usize),
    read_rows: u64,
}

impl Parquet {
    /// Reads the footer.
    fn open(source: &Arc<Planned>, bytes: Arc<dyn Bytes>) -> Result<Self> {
        let chunks = FileChunks::new(bytes);
        let metadata = guarded(source, footer, || load(&chunks, ArrowReaderOptions::new()))?;
        let schema = Arc::clone(metadata.schema());
        let mask = ProjectionMask::all();
        Ok(Self {
            source: Arc::clone(source),
            chunks,
            end: u64::MAX,
            metadata,
            schema,
            mask,
            reader: None,
            largest_value: u64::MAX,
            group: 0,
            row: 0,
            window: (usize::MAX, usize::MAX),
            read_rows: 0,
        })
    }

    /// How many row groups there are.
    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Stops before the row `end`.
    fn stop_before(&mut self, end: u64) {
        self.end = end;
    }

    /// Rows of each row group.
    fn rows(&self) -> impl Iterator<Item = u64> {
        let groups = self.metadata.metadata().row_groups().iter();
        groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
    }

    /// Reads only the columns of `table`, in steps that fill a window of `window` (rows, bytes).
    fn project(&mut self, table: Option<&RequestedColumns>, window: (usize, usize)) -> Result<()> {
        self.window = window;
        let Some(table) = table else { return Ok(()) };
        // Strings as views: a value that a page holds once is not copied for every row.
        let roots: HashSet<&str> = table
            .paths()
            .filter_map(|path| path.first().map(String::as_str))
            .collect();
        let fields = self.schema.fields().iter().map(|field| {
            let kind = match field.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
                DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
                _ => return Arc::clone(field),
            };
            match roots.contains(field.name().as_str()) {
                true => Arc::new(Field::clone(field).with_data_type(kind)),
                false => Arc::clone(field),
            }
        });
        let metadata = self.schema.metadata().clone();
        let schema = Schema::new_with_metadata(fields.collect::<Fields>(), metadata);
        if schema.fields() != self.schema.fields() {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            let file = Arc::clone(self.metadata.metadata());
            self.metadata = guarded(&self.source, footer, || {
                ArrowReaderMetadata::try_new(file, options)
            })?;
        }
        let parquet = self.metadata.parquet_schema();
        let mut asked: HashMap<&str, Vec<&[String]>> = HashMap::new();
        for path in table.paths() {
            let root = path.first().map_or("", String::as_str);
            asked.entry(root).or_default().push(path);
        }
        let wanted = |leaf: &usize| {
            let column = parquet.column(*leaf);
            let parts = column.path().parts();
            let paths = parts.first().and_then(|root| asked.get(root.as_str()));
            let is_below =
                |path: &&[String]| parts.len() >= path.len() && parts[..path.len()] == **path;
            paths.is_some_and(|paths| paths.iter().any(is_below))
        };
        let leaves = (0..parquet.num_columns())
            .filter(wanted)
            .collect::<Vec<_>>();
        self.mask = ProjectionMask::leaves(parquet, leaves);
        Ok(())
    }

    /// Goes to a row of a row group, and returns how many come before it.
    fn seek(&mut self, group: usize, row: u64) -> u64 {
        (self.group, self.row) = (group, row);
        self.read_rows = self.rows().take(group).fold(row, u64::saturating_add);
        self.read_rows
    }

    /// Goes to a row of the file, which is how many come before it.
    fn enter(&mut self, row: u64) -> u64 {
        let (group, row) = entered(self.rows(), row);
        self.seek(group, row)
    }

    /// Rows to decode at a time, by the mean size of the asked columns in this row group.
    fn step(&self) -> usize {
        let group = self.metadata.metadata().row_group(self.group);
        let columns = group.columns().iter().enumerate();
        let asked = columns.filter(|(leaf, _)| self.mask.leaf_included(*leaf));
        let bytes: i64 = asked
            .map(|(_, column)| column.uncompressed_size().max(0))
            .sum();
        // Four bytes of each element of a list, whose repetitions hardly take room in the file.
        let asked = group.columns().iter().enumerate();
        let asked = asked.filter(|(leaf, _)| self.mask.leaf_included(*leaf));
        let lists = asked.filter(|(_, column)| column.column_descr().max_rep_level() > 0);
        let elements = lists.map(|(_, column)| column.num_values().max(0));
        let elements = elements.fold(0_i64, i64::saturating_add).saturating_mul(4);
        let rows = usize::try_from(group.num_rows()).unwrap_or(0).max(1);
        let mean = usize::try_from(bytes.max(elements)).unwrap_or(0) / rows;
        (self.window.1 / mean.max(1)).clamp(1, self.window.0.min(8192))
    }

    fn open_group(&self) -> Result<(ParquetRecordBatchReader, FileChunks)> {
        let metadata = self.metadata.clone();
        let group = metadata.metadata().row_group(self.group);
        let chunks = (self.chunks).of_groups([group].into_iter(), self.largest_value);
        // The rows before the first one are passed over.
        chunks.begin_step(self.row > 0);
        let pages = chunks.clone();
        let reader = guarded(
            &self.source,
            || self.spot(),
            || {
                ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
                    .with_row_groups(vec![self.group])
                    .with_projection(self.mask.clone())
                    .with_batch_size(self.step())
                    .with_offset(usize::try_from(self.row).unwrap_or(usize::MAX))
                    .build()
            },
        );
        let reader = reader.map_err(|error| self.explained(&pages, error))?;
        Ok((reader, pages))
    }

    /// The error of reading these pages: in its own words if it is a limit that was reached.
    fn explained(&self, pages: &FileChunks, error: Error) -> Error {
        let Some(refusal) = pages.refusal() else {
            return error;
        };
        let reason = format!(
            "row group {} cannot be read: {}",
            self.group + 1,
            refusal.reason
        );
        let remedy = refusal.remedy.as_deref().unwrap_or_default();
        wrong(&self.source, &reason, remedy)
    }

    /// The row group that is read, for messages.
    fn spot(&self) -> Spot<'static> {
        let group = format!("row group {} of {}", self.group + 1, self.groups());
        (group.into(), self.read_rows)
    }
}

impl Batches for Parquet {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>> {
        while self.group < self.groups() && self.read_rows < self.end {
            let place = self.place();
            let (mut reader, pages) = match self.reader.take() {
                Some(reader) => reader,
                None => self.open_group()?,
            };
            let spot = || self.spot();
            let next = guarded(&self.source, spot, || reader.next().transpose());
            if let Some(batch) = next.map_err(|error| self.explained(&pages, error))? {
                pages.begin_step(false);
                self.reader = Some((reader, pages));
                let batch = at_most(batch, self.end - self.read_rows);
                self.row += batch.num_rows() as u64;
                self.read_rows += batch.num_rows() as u64;
                return Ok(Some((batch, place)));
            }
            // A column that ends early is no error to the decoder.
            let rows = self.metadata.metadata().row_group(self.group).num_rows();
            if u64::try_from(rows).is_ok_and(|rows| self.row < rows) {
                let short = format!("it holds {} of {rows} rows", self.row);
                let short = std::io::Error::other(short);
                return Err(damaged(&self.source, self.spot(), short));
            }
            self.group += 1;
            self.row = 0;
        }
        Ok(None)
    }

    fn place(&self) -> Seek {
        Seek::RowGroup {
            group: self.group as u64,
            row: self.row,
        }
    }

    fn consumed(&self) -> u64 {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        let rows = u64::try_from(rows).unwrap_or(0).max(1);
        let share = self.read_rows.min(rows) as f64 / rows as f64;
        (self.chunks.len() as f64 * share) as u64
    }
}
