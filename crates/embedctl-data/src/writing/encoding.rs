//! The form of a row's vectors in an output: how many columns of which names, of which elements, in
//! which kind of list.

mod arrays;
mod column;
mod described;
mod settled;

pub use arrays::column_of;
pub(crate) use column::VectorColumn;
pub(crate) use described::{BESIDE, VECTOR_COLUMNS};

use std::collections::HashMap;
use std::sync::Arc;

use half::f16;
use serde_json::Value;

use super::made::KEY;
use super::options::VectorType;
use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Schema, SchemaRef};
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::setting::{DTYPE, NORMALIZE};
use embedctl_records::numbers;
use embedctl_records::quantize::{Dtype, Elements};
use embedctl_records::record::Rows;
use embedctl_vectors::{Numbers, RowForm};

/// How vectors are written.
#[derive(Debug)]
pub(crate) struct VectorEncoding {
    columns: Vec<VectorColumn>,
    dtype: Dtype,
    list: VectorType,
    form: RowForm,
    nullable: bool,
    /// The encodings of the other forms of numbers that a row has.
    beside: Vec<Self>,
}

/// Vectors as they are written.
pub(crate) struct EncodedVectors {
    /// Their elements, column by column.
    pub columns: Vec<Elements>,
    /// How many vectors each row has, where that is any number.
    pub counts: Option<Vec<usize>>,
}

impl VectorEncoding {
    /// The encoding of each kind of vectors, this one first.
    pub fn kinds(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    /// The vectors of some rows, kind by kind, each in rows that hold no others; leaves none in `rows`.
    ///
    /// # Errors
    /// If there are more or fewer kinds.
    pub fn each_kind<T>(
        &self,
        rows: &mut Rows,
        mut encode: impl FnMut(&Self, &mut Rows) -> Result<T>,
    ) -> Result<Vec<T>> {
        let parts = std::mem::take(&mut rows.vectors).into_parts();
        if parts.len() != self.kinds().count() {
            return Err(other_forms());
        }
        let kinds = self.kinds().zip(parts).map(|(encoding, part)| {
            rows.vectors = part.into();
            encode(encoding, rows)
        });
        kinds.collect()
    }

    /// The form of the numbers.
    pub fn form(&self) -> &RowForm {
        &self.form
    }

    /// The columns, in their order.
    pub fn columns(&self) -> &[VectorColumn] {
        &self.columns
    }

    /// Whether a row has one number, which is no list.
    pub fn is_single(&self) -> bool {
        self.form == RowForm::Scores(1)
    }

    /// The type of their elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Checks an invariant of the pipeline: rows are as wide as announced, and complete.
    pub fn check_shape(&self, rows: &Rows) -> Result<()> {
        let dimensions = self.columns.iter().map(|it| it.dimensions).sum::<usize>();
        let missing = rows.missing.as_ref().map(NullBuffer::len);
        let parts = rows.vectors.parts();
        let mut pairs = self.kinds().zip(parts);
        let is_whole = parts.len() == self.kinds().count()
            && pairs.all(|(own, part)| own.form.fits(part, rows.len()));
        if rows.dimensions == dimensions
            && is_whole
            && rows.columns.num_rows() == rows.len()
            && rows.origins.len() == rows.len()
            && missing.is_none_or(|length| self.nullable && length == rows.len())
        {
            return Ok(());
        }
        Err(Error::internal(format!(
            "{} rows of {} dimensions came with {} values, {} ids, {} origins and {missing:?} marks of missing \
             vectors, to an output of {dimensions} dimensions",
            rows.len(),
            rows.dimensions,
            rows.vectors.len(),
            rows.columns.num_rows(),
            rows.origins.len(),
        )))
    }

    /// The vectors of some rows, which are given in full; leaves none in `rows`.
    ///
    /// # Errors
    /// If a value is beyond what float16 holds: no vector holds infinity.
    pub fn encode(&self, rows: &mut Rows) -> Result<EncodedVectors> {
        let all = taken(rows)?;
        if self.dtype == Dtype::F16
            && let Some((row, value)) = numbers::beyond_f16(&all)
        {
            return Err(beyond_f16(rows, row, value));
        }
        let counts = all.counts().map(Iterator::collect);
        let all = all.into_values();
        if let [column] = &self.columns[..] {
            let columns = vec![column.elements(all, self.dtype)];
            return Ok(EncodedVectors { columns, counts });
        }
        let mut start = 0;
        let columns = self.columns.iter().map(|column| {
            let part = start..start + column.dimensions;
            start = part.end;
            let values = numbers::part_of_rows(&all, rows.dimensions, &part);
            column.elements(values, self.dtype)
        });
        let columns = columns.collect();
        Ok(EncodedVectors { columns, counts })
    }
}

/// The numbers of some rows, which are of one form; leaves none in `rows`.
///
/// # Errors
/// If they are of several.
pub(crate) fn taken(rows: &mut Rows) -> Result<Numbers> {
    let numbers = std::mem::take(&mut rows.vectors).into_one();
    numbers.ok_or_else(other_forms)
}

fn other_forms() -> Error {
    Error::internal("rows of more or fewer forms than columns")
}

fn beyond_f16(rows: &Rows, row: usize, value: f32) -> Error {
    let record = rows.refs[row].record + 1;
    let most = f16::MAX.to_f32();
    Error::input(
        Place::file(format!("record {record}")),
        format!("its vector holds {value}, but f16 ends at {most}"),
    )
    .with_remedy(format!("choose {DTYPE} f32, or {NORMALIZE} true"))
}

/// Makes record batches of one schema.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    encoding: VectorEncoding,
    /// Known with the first row.
    schema: Option<SchemaRef>,
    /// The provenance in the schema, if there is one.
    made: Option<String>,
}

impl BatchBuilder {
    pub fn new(encoding: VectorEncoding) -> Self {
        Self {
            encoding,
            schema: None,
            made: None,
        }
    }

    /// Puts the provenance into the schema.
    pub fn about(&mut self, made: &dyn Fn() -> Result<Value>) -> Result<()> {
        let mut made = made()?;
        if let Some(object) = made.as_object_mut() {
            self.encoding.describe(object);
        }
        self.made = Some(made.to_string());
        Ok(())
    }

    pub fn encoding(&self) -> &VectorEncoding {
        &self.encoding
    }

    /// Begins anew, with rows of other columns.
    pub fn begin(&mut self, columns: &Schema) -> SchemaRef {
        self.schema = None;
        Arc::clone(self.schema(columns))
    }

    /// The schema; the first call decides the columns' types.
    pub fn schema(&mut self, columns: &Schema) -> &SchemaRef {
        self.schema.get_or_insert_with(|| {
            let columns = columns.fields().iter().cloned();
            let fields: Vec<_> = columns.chain(self.encoding.fields()).collect();
            let made = self.made.iter();
            let metadata = made.map(|made| (KEY.to_owned(), made.clone()));
            let metadata: HashMap<String, String> = metadata.collect();
            Arc::new(Schema::new_with_metadata(fields, metadata))
        })
    }

    /// Some rows.
    ///
    /// # Errors
    /// If they are not of the first rows' types, or a vector cannot be written as it should.
    pub fn batch(&mut self, mut rows: Rows) -> Result<RecordBatch> {
        self.encoding.check_shape(&rows)?;
        let mut arrays = rows.columns.columns().to_vec();
        arrays.extend(self.encoding.arrays(&mut rows)?);
        let schema = self.schema(rows.columns.schema_ref()).clone();
        RecordBatch::try_new(schema, arrays)
            .map_err(|error| Error::internal(format!("rows as a record batch: {error}")))
    }
}
