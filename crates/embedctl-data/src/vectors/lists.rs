//! Lists of numbers in columns of Arrow's.

use half::f16;

use super::{RecordedColumns, StoredVector, TakeVector, VectorForm, in_full};
use crate::writing::quantize::Dtype;
use crate::writing::sparse::PARTS;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array, ListArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Schema, UInt8Type, UInt32Type,
};
use embedctl_common::error::{Error, Place, Result};

/// The columns of vectors.
pub(crate) fn vectors_in(schema: &Schema, recorded: &RecordedColumns) -> Vec<usize> {
    // A number is one where its column is named as that of numbers.
    let lists = || {
        (schema.fields().iter().enumerate()).filter(|(_, it)| {
            let kind = it.data_type();
            match recorded.form(it.name()) {
                VectorForm::Sparse(width) => width.is_some() && is_sparse(kind),
                VectorForm::OfTokens => of_tokens(kind).is_some(),
                VectorForm::Map => false,
                VectorForm::List => {
                    let is_named = || recorded.column(it.name()).is_some();
                    element(kind).is_some() && (is_list(kind) || is_named())
                }
            }
        })
    };
    let names = || lists().map(|(_, field)| field.name().as_str());
    let vectors = lists().filter(|(_, field)| recorded.takes(field.name(), names()));
    vectors.map(|(index, _)| index).collect()
}

/// Whether a column holds sparse vectors, as embedctl writes them.
pub(crate) fn is_sparse(kind: &DataType) -> bool {
    let DataType::Struct(parts) = kind else {
        return false;
    };
    let is = |part: usize, item: DataType| {
        let field = &parts[part];
        let kind = matches!(field.data_type(), DataType::List(own) if *own.data_type() == item);
        field.name() == PARTS[part] && kind
    };
    parts.len() == 2 && is(0, DataType::UInt32) && is(1, DataType::Float32)
}

/// The type of the vectors in a column of lists of vectors.
fn of_tokens(kind: &DataType) -> Option<&DataType> {
    match kind {
        DataType::List(item) => Some(item.data_type())
            .filter(|vector| matches!(vector, DataType::FixedSizeList(..)))
            .filter(|vector| element(vector).is_some()),
        _ => None,
    }
}

/// Whether a column holds lists.
fn is_list(kind: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List};
    matches!(kind, FixedSizeList(..) | List(_) | LargeList(_))
}

/// The type of the elements of a list of numbers, or of the numbers of a column of single ones.
pub(crate) fn element(kind: &DataType) -> Option<Dtype> {
    let number = match kind {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            item.data_type()
        }
        number => number,
    };
    match number {
        DataType::Float32 | DataType::Float64 => Some(Dtype::F32),
        DataType::Float16 => Some(Dtype::F16),
        DataType::Int8 => Some(Dtype::Int8),
        DataType::UInt8 => Some(Dtype::Uint8),
        _ => None,
    }
}

/// A column of vectors of a batch, to be read row by row.
enum VectorColumn<'a> {
    /// A row has a vector, or a number.
    Lists(Vectors<'a>, Dtype),
    /// A row has the entries of a vector of this width.
    Sparse(&'a ArrayRef, usize),
    /// A row has a vector for each token.
    OfTokens(&'a ListArray, Vectors<'a>, Dtype),
}

impl<'a> VectorColumn<'a> {
    /// `None` if its type is none of vectors.
    fn of(column: &'a ArrayRef, form: VectorForm) -> Option<Self> {
        if let VectorForm::Sparse(Some(width)) = form {
            return Some(Self::Sparse(column, width));
        }
        if let Some(vector) = of_tokens(column.data_type()) {
            let lists = column.as_list::<i32>();
            let dtype = element(vector).unwrap_or_default();
            return Some(Self::OfTokens(lists, Vectors::of(lists.values()), dtype));
        }
        let dtype = element(column.data_type())?;
        Some(Self::Lists(Vectors::of(column), dtype))
    }

    /// Hands the vectors of a row to `take`; there are none where it is null. `first` is the number of the batch's first row.
    fn read(
        &self,
        row: usize,
        (column, first): (&str, u64),
        take: &mut TakeVector<'_>,
    ) -> Result<()> {
        let mut hand = |dtype, values: &[f32]| {
            take(StoredVector {
                column,
                row: first + row as u64,
                dtype,
                values,
            })
        };
        match self {
            Self::Lists(vectors, dtype) => match vectors.get(row) {
                Some(values) => hand(*dtype, values),
                None => Ok(()),
            },
            Self::Sparse(entries, width) => match sparse_in_full(entries, *width, row) {
                Some(values) => hand(Dtype::F32, &values?),
                None => Ok(()),
            },
            Self::OfTokens(lists, vectors, dtype) => {
                if lists.is_null(row) {
                    return Ok(());
                }
                let start = usize::try_from(lists.value_offsets()[row]).unwrap_or(0);
                let own = start..start + usize::try_from(lists.value_length(row)).unwrap_or(0);
                let mut own = own.filter_map(|place| vectors.get(place));
                own.try_for_each(|values| hand(*dtype, values))
            }
        }
    }
}

/// A sparse vector of a column in full; `None` for a row that is null.
fn sparse_in_full(column: &ArrayRef, width: usize, row: usize) -> Option<Result<Vec<f32>>> {
    let parts = column.as_struct_opt()?;
    if parts.is_null(row) {
        return None;
    }
    let list = |part: usize| Some(parts.column(part).as_list_opt::<i32>()?.value(row));
    let (indices, values) = (list(0)?, list(1)?);
    let indices = indices.as_primitive_opt::<UInt32Type>()?.values();
    let values = values.as_primitive_opt::<Float32Type>()?.values();
    let full = in_full(width, indices.iter().copied(), values.iter().copied());
    let beyond = || {
        let reason =
            format!("row {row} of a batch has a sparse vector with an index beyond its width");
        Error::input(Place::file("the output"), reason)
    };
    Some(full.ok_or_else(beyond))
}

/// Hands the vectors of a batch to `take`, row by row: those of all columns before those of the next row. `rows` counts the
/// rows of the file so far.
pub(crate) fn of_batch(
    batch: &RecordBatch,
    recorded: &RecordedColumns,
    rows: &mut u64,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let columns = vectors_in(batch.schema_ref(), recorded).into_iter();
    let columns = columns.filter_map(|index| {
        let name = batch.schema_ref().field(index).name().as_str();
        let column = VectorColumn::of(batch.column(index), recorded.form(name))?;
        Some((name, column))
    });
    let columns: Vec<_> = columns.collect();
    for row in 0..batch.num_rows() {
        for (name, column) in &columns {
            column.read(row, (name, *rows), take)?;
        }
    }
    *rows += batch.num_rows() as u64;
    Ok(())
}

/// A column of lists of numbers, these as float32.
pub(crate) struct Vectors<'a> {
    lists: &'a ArrayRef,
    values: Float32Array,
}

impl<'a> Vectors<'a> {
    /// The vectors of a column whose type [`element`] knows.
    pub(crate) fn of(lists: &'a ArrayRef) -> Self {
        let values = match lists.data_type() {
            DataType::FixedSizeList(..) => lists.as_fixed_size_list().values(),
            DataType::List(_) => lists.as_list::<i32>().values(),
            DataType::LargeList(_) => lists.as_list::<i64>().values(),
            _ => lists,
        };
        let values = match values.data_type() {
            DataType::Float16 => values.as_primitive::<Float16Type>().unary(f16::to_f32),
            DataType::Float64 => values.as_primitive::<Float64Type>().unary(|it| it as f32),
            DataType::Int8 => values.as_primitive::<Int8Type>().unary(f32::from),
            DataType::UInt8 => values.as_primitive::<UInt8Type>().unary(f32::from),
            _ => values.as_primitive().clone(),
        };
        Self { lists, values }
    }

    /// The numbers of a row; `None` where it is null.
    pub(crate) fn get(&self, row: usize) -> Option<&[f32]> {
        if self.lists.is_null(row) {
            return None;
        }
        let index = |offset: i64| usize::try_from(offset).ok();
        let range = match self.lists.data_type() {
            DataType::FixedSizeList(_, width) => {
                let start = self.lists.as_fixed_size_list().value_offset_at(row);
                start..start + usize::try_from(*width).ok()?
            }
            DataType::List(_) => {
                let offsets = self.lists.as_list::<i32>().value_offsets();
                index(offsets[row].into())?..index(offsets[row + 1].into())?
            }
            DataType::LargeList(_) => {
                let offsets = self.lists.as_list::<i64>().value_offsets();
                index(offsets[row])?..index(offsets[row + 1])?
            }
            _ => row..row + 1,
        };
        self.values.values().get(range)
    }
}
