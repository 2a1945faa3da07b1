//! The parts of a single file while it is made: the pipeline's rows unchanged, in Arrow's file format, as input for the
//! writer of the final format.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::atomic;
use crate::error::{Error, Place, Result};
use crate::input::ArrowBatches;
use crate::output::fault::{io_cause, write_error};
use crate::output::{Finish, SelfHashed, VectorWriter, column_of, proof};
use crate::record::{Numbers, Origin, RowRef, RowVectors, Rows};
use crate::setting::RESUME;
use crate::stage::Clock;
use crate::storage::Readable;
use crate::threads::caught;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StructArray, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::FileWriter;
use embedctl_records::vectors::rows_of;

/// Key of the file's metadata that holds its provenance.
const PROVENANCE: &str = "embedctl";

/// Columns behind those of the rows.
const OWN: usize = 7;

/// The file behind a buffer, and the hash of its content.
type SpoolSink = BufWriter<SelfHashed<File>>;

/// Writes rows as they are.
pub struct Spool {
    path: PathBuf,
    dimensions: usize,
    /// No vectors, of the form of those that are written.
    form: RowVectors,
    writer: Option<FileWriter<SpoolSink>>,
    clock: Arc<Clock>,
}

impl Spool {
    /// Ending of its files, and the name of the format.
    pub const ENDING: &'static str = "spool";

    /// Begins a file at `path`, for vectors of `dimensions`; `clock` counts the processor time of hashing.
    #[must_use]
    pub fn new(path: &Path, dimensions: usize, form: RowVectors, clock: &Arc<Clock>) -> Self {
        Self {
            path: path.to_path_buf(),
            dimensions,
            form,
            writer: None,
            clock: Arc::clone(clock),
        }
    }

    fn failed(&self, error: &ArrowError) -> Error {
        match io_cause(error) {
            Some(cause) => write_error(&self.path, cause),
            None => Error::internal(format!("writing rows aside: {error}")),
        }
    }

    fn open(&mut self, columns: &Schema) -> Result<&mut FileWriter<SpoolSink>> {
        if self.writer.is_none() {
            let file = File::create(&self.path).map_err(|error| write_error(&self.path, error))?;
            let schema = schema(columns, self.dimensions, &self.form)?;
            let sink = BufWriter::new(SelfHashed::new(file, true, &self.clock));
            let writer = FileWriter::try_new(sink, &schema);
            self.writer = Some(writer.map_err(|error| self.failed(&error))?);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| Error::internal("no spool"))
    }
}

/// The vectors' column; where rows have several forms, its metadata tell how wide those of the first are in full.
fn vector_field(dimensions: usize, form: &RowVectors) -> Result<Field> {
    if let [one] = form.parts() {
        return part_field(dimensions, one);
    }
    let fields = form.parts().iter().enumerate().map(|(place, part)| {
        let own = part_field(part.width().unwrap_or(dimensions), part)?;
        Ok(own.with_name(place.to_string()))
    });
    let fields = fields.collect::<Result<Vec<Field>>>()?;
    let field = Field::new(VECTOR, DataType::Struct(fields.into()), false);
    Ok(with_width(field, SEVERAL, dimensions))
}

/// The column of the numbers of one form; where these tell no width, its metadata do.
fn part_field(dimensions: usize, part: &Numbers) -> Result<Field> {
    let kind = column_of(part.same())?.data_type().clone();
    let field = Field::new(VECTOR, kind, false);
    Ok(match part.width() {
        Some(_) => field,
        None => with_width(field, WIDTH, dimensions),
    })
}

fn with_width(field: Field, key: &str, width: usize) -> Field {
    field.with_metadata(HashMap::from([(key.to_owned(), width.to_string())]))
}

/// Name of the vectors' column.
const VECTOR: &str = "vector";

/// Key of the metadata of a column of several kinds: how wide those of the first are.
const SEVERAL: &str = "embedctl.several";

/// Key of a sparse column's metadata: how wide its vectors are in full.
const WIDTH: &str = "embedctl.width";

fn schema(columns: &Schema, dimensions: usize, form: &RowVectors) -> Result<SchemaRef> {
    let mut fields = columns.fields().to_vec();
    // Whatever fields are called: these are found by their place.
    for (name, kind) in [
        ("source", DataType::UInt32),
        ("line", DataType::UInt64),
        ("offset", DataType::UInt64),
        ("record", DataType::UInt64),
        ("part", DataType::UInt32),
        ("missing", DataType::Boolean),
    ] {
        fields.push(Arc::new(Field::new(name, kind, false)));
    }
    fields.push(Arc::new(vector_field(dimensions, form)?));
    Ok(Arc::new(Schema::new(fields)))
}

fn aside(error: ArrowError) -> Error {
    Error::internal(format!("rows aside: {error}"))
}

/// Vectors as a column of that type.
fn vector_column(vectors: RowVectors, kind: &DataType) -> Result<ArrayRef> {
    let columns = vectors.into_parts().into_iter().map(column_of);
    let mut columns = columns.collect::<Result<Vec<_>>>()?;
    match (kind, columns.len()) {
        (DataType::Struct(fields), 2..) => {
            let column = StructArray::try_new(fields.clone(), columns, None);
            Ok(Arc::new(column.map_err(aside)?))
        }
        _ => (columns.pop()).ok_or_else(|| Error::internal("rows without numbers")),
    }
}

/// Vectors that were written as a column, and their width in full.
fn vectors_of(column: &ArrayRef, field: &Field) -> Option<(RowVectors, usize)> {
    let stated = |key: &str| field.metadata().get(key)?.parse().ok();
    if field.metadata().contains_key(SEVERAL) {
        let parts = column.as_struct_opt()?.columns().iter().map(rows_of);
        return Some((parts.collect::<Option<RowVectors>>()?, stated(SEVERAL)?));
    }
    let rows = rows_of(column)?;
    let width = rows.width().or_else(|| stated(WIDTH))?;
    Some((rows.into(), width))
}

impl VectorWriter for Spool {
    fn write(&mut self, rows: Rows) -> Result<()> {
        let marks: Vec<bool> = (0..rows.len()).map(|row| rows.is_missing(row)).collect();
        let Rows {
            columns,
            origins,
            refs,
            vectors,
            ..
        } = rows;
        let schema = schema(&columns.schema(), self.dimensions, &self.form)?;
        let kind = schema.field(schema.fields().len() - 1).data_type();
        let vectors = vector_column(vectors, kind)?;
        let mut arrays: Vec<ArrayRef> = columns.columns().to_vec();
        arrays.extend([
            Arc::new(UInt32Array::from_iter_values(
                origins.iter().map(|it| it.source),
            )) as ArrayRef,
            Arc::new(UInt64Array::from_iter_values(
                origins.iter().map(|it| it.line),
            )),
            Arc::new(UInt64Array::from_iter_values(
                origins.iter().map(|it| it.offset),
            )),
            Arc::new(UInt64Array::from_iter_values(
                refs.iter().map(|it| it.record),
            )),
            Arc::new(UInt32Array::from_iter_values(refs.iter().map(|it| it.part))),
        ]);
        arrays.push(Arc::new(BooleanArray::from(marks)));
        arrays.push(vectors);
        let batch = RecordBatch::try_new(schema, arrays).map_err(aside)?;
        let written = self.open(&columns.schema())?.write(&batch);
        written.map_err(|error| self.failed(&error))
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let path = self.path.clone();
        let failed = |error| write_error(&path, error);
        let provenance = proof::with_place(finish.provenance).to_string();
        let writer = self.open(&finish.schema)?;
        let sink = writer.get_mut();
        sink.flush().map_err(failed)?;
        sink.get_mut().begin_footer();
        writer.write_metadata(PROVENANCE, provenance);
        let finished = writer.finish();
        finished.map_err(|error| self.failed(&error))?;
        let file = self.writer.take().map(FileWriter::into_inner);
        let file = file.transpose().map_err(|error| self.failed(&error))?;
        let Some(file) = file else {
            return Ok(());
        };
        let mut hashed = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .map_err(failed)?;
        let digits = hashed.digits()?;
        let mut file = hashed.into_inner();
        if let Some((at, digits)) = digits {
            let place = file.seek(SeekFrom::Start(at));
            let written = place.and_then(|_| file.write_all(digits.as_bytes()));
            written.map_err(failed)?;
        }
        atomic::sync(&file).map_err(failed)
    }
}

/// Reads rows back.
pub struct SpoolReader {
    path: PathBuf,
    batches: ArrowBatches,
}

impl SpoolReader {
    /// Opens a part.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = Readable::file(path)?.bytes;
        let batches = guarded(path, || ArrowBatches::open(&bytes, |_| None));
        Ok(Self {
            path: path.to_path_buf(),
            batches: batches?,
        })
    }

    /// Its provenance.
    #[must_use]
    pub fn provenance(&self) -> Option<Value> {
        let text = self.batches.metadata(PROVENANCE)?;
        serde_json::from_str(text).ok()
    }

    /// Schema of the rows' columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let schema = self.batches.schema();
        let fields = schema.fields();
        let own = fields.len().saturating_sub(OWN);
        Arc::new(Schema::new(fields[..own].to_vec()))
    }

    /// The next rows.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn next_rows(&mut self) -> Result<Option<Rows>> {
        let Some(batch) = guarded(&self.path, || self.batches.next_batch())? else {
            return Ok(None);
        };
        rows(&batch).map(Some).ok_or_else(|| {
            Error::input(
                Place::file(self.path.display().to_string()),
                "is not part of an output",
            )
        })
    }
}

fn rows(batch: &RecordBatch) -> Option<Rows> {
    let own = batch.num_columns().checked_sub(OWN)?;
    let column = |index: usize| batch.column(own + index);
    let u32s = |index| column(index).as_any().downcast_ref::<UInt32Array>();
    let u64s = |index| column(index).as_any().downcast_ref::<UInt64Array>();
    let (sources, lines, offsets) = (u32s(0)?, u64s(1)?, u64s(2)?);
    let (records, parts) = (u64s(3)?, u32s(4)?);
    let marks = column(5).as_any().downcast_ref::<BooleanArray>()?;
    let missing = (marks.true_count() > 0).then(|| NullBuffer::new(!marks.values()));
    let (vectors, dimensions) = vectors_of(column(6), batch.schema_ref().field(own + 6))?;
    let indices: Vec<usize> = (0..own).collect();
    Some(Rows {
        columns: batch.project(&indices).ok()?,
        origins: (0..batch.num_rows())
            .map(|row| Origin {
                source: sources.value(row),
                line: lines.value(row),
                offset: offsets.value(row),
            })
            .collect(),
        refs: (0..batch.num_rows())
            .map(|row| RowRef {
                record: records.value(row),
                part: parts.value(row),
            })
            .collect(),
        vectors,
        dimensions,
        missing,
    })
}

/// Runs the decoder on a part. The decoder panics on some kinds of damage, which are reported as a damaged file.
fn guarded<T>(path: &Path, decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    let damaged = |error: &dyn std::fmt::Display| {
        Error::input(
            Place::file(path.display().to_string()),
            format!("is damaged ({error})"),
        )
        .with_remedy(format!(
            "remove it and continue with {RESUME}, which writes it again"
        ))
    };
    let decoded = caught(decode).map_err(|panic| damaged(&panic))?;
    decoded.map_err(|error| damaged(&error))
}
