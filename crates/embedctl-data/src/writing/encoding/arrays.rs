//! Vectors as Arrow's fields and columns, and as JSON.

use std::sync::Arc;

use super::{EncodedVectors, VectorEncoding, taken};
use crate::writing::options::VectorType;
use arrow::array::{Array, ArrayRef, FixedSizeListArray, Float32Array, ListArray, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{VECTOR_TYPE, WINDOW};
use embedctl_records::json_rows::JsonVectors;
use embedctl_records::json_values::key;
use embedctl_records::record::Rows;
use embedctl_records::sparse::SparseColumn;
use embedctl_vectors::Numbers;

impl VectorEncoding {
    /// Whether a row has any number of vectors.
    pub fn has_lengths(&self) -> bool {
        !self.form().is_one_per_row()
    }

    /// How many lists are around a component in a column: none around one number, and none that is told of sparse vectors.
    pub fn list_depth(&self) -> usize {
        match self.sparse() {
            Some(_) => 0,
            None => usize::from(!self.is_single()) + usize::from(self.has_lengths()),
        }
    }

    /// The form of a column of sparse vectors, if they are sparse.
    pub fn sparse(&self) -> Option<SparseColumn> {
        SparseColumn::of(self.form())
    }

    /// Arrow's fields.
    pub fn fields(&self) -> impl Iterator<Item = FieldRef> {
        self.kinds().flat_map(Self::fields_of_one)
    }

    fn fields_of_one(&self) -> impl Iterator<Item = FieldRef> {
        self.columns.iter().map(|column| {
            let own = match self.sparse() {
                Some(sparse) => sparse.data_type(),
                None if self.has_lengths() => DataType::List(item(self.vector_type(column.width))),
                None => self.vector_type(column.width),
            };
            Arc::new(Field::new(&column.name, own, self.nullable))
        })
    }

    /// The type of a vector, or of one number.
    fn vector_type(&self, width: usize) -> DataType {
        let element = self.dtype.element();
        match self.list {
            _ if self.is_single() => element,
            VectorType::Fixed => DataType::FixedSizeList(item(element), fixed(width)),
            VectorType::List => DataType::List(item(element)),
        }
    }

    /// As Arrow's columns.
    ///
    /// # Errors
    /// As [`VectorEncoding::encode`], or if a list of variable length would be longer than Arrow counts.
    pub fn arrays(&self, rows: &mut Rows) -> Result<Vec<ArrayRef>> {
        let kinds = self.each_kind(rows, Self::arrays_of_one)?;
        Ok(kinds.into_iter().flatten().collect())
    }

    fn arrays_of_one(&self, rows: &mut Rows) -> Result<Vec<ArrayRef>> {
        let nulls = rows.missing.clone();
        if let Some(column) = self.sparse() {
            return Ok(vec![column.array(taken(rows)?, nulls)?]);
        }
        let EncodedVectors { columns, counts } = self.encode(rows)?;
        let columns = self.columns.iter().zip(columns);
        let columns = columns.map(|(column, elements)| {
            let (width, values) = (column.width, elements.into_array());
            match (&counts, self.list) {
                (Some(counts), _) => {
                    let vectors = fixed_lists(values, width, None)?;
                    lists(vectors, counts.iter().copied(), nulls.clone())
                }
                _ if self.is_single() => with_nulls(&values, nulls.clone()).map_err(failed),
                (None, VectorType::Fixed) => fixed_lists(values, width, nulls.clone()),
                (None, VectorType::List) => {
                    if i32::try_from(values.len()).is_err() {
                        return Err(Error::usage(format!(
                            "{VECTOR_TYPE} list: the vectors of a window hold more numbers than Arrow counts in a list"
                        ))
                        .with_remedy(format!("choose a smaller {WINDOW}")));
                    }
                    lists(values, std::iter::repeat_n(width, rows.len()), nulls.clone())
                }
            }
        });
        columns.collect()
    }

    /// The vectors of some rows of one form, as JSON; leaves none in `rows`.
    ///
    /// # Errors
    /// If a value is beyond its type.
    pub fn json(&self, rows: &mut Rows) -> Result<JsonVectors> {
        let columns = self.columns();
        if let Some(form) = self.sparse() {
            return Ok(JsonVectors::Entries {
                key: key(&columns[0].name),
                form,
                rows: taken(rows)?,
            });
        }
        let EncodedVectors {
            columns: encoded,
            counts,
        } = self.encode(rows)?;
        let fields = columns.iter().zip(encoded);
        let fields = fields.map(|(column, elements)| (key(&column.name), column.width, elements));
        Ok(JsonVectors::Full {
            fields: fields.collect(),
            is_single: self.is_single(),
            counts,
            next: 0,
        })
    }
}

/// An element of a list.
fn item(kind: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(kind, false))
}

fn failed(error: ArrowError) -> Error {
    Error::internal(format!("vectors as a column: {error}"))
}

/// Lists of `width` elements.
fn fixed_lists(elements: ArrayRef, width: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let item = item(elements.data_type().clone());
    let list = FixedSizeListArray::try_new(item, fixed(width), elements, nulls);
    Ok(Arc::new(list.map_err(failed)?))
}

/// Lists of as many elements as `lengths` say, one for each row.
///
/// # Errors
/// If all together are more than Arrow counts.
fn lists(
    elements: ArrayRef,
    lengths: impl IntoIterator<Item = usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if i32::try_from(elements.len()).is_err() {
        return Err(Error::usage(
            "the rows of a window hold more vectors than Arrow counts in a list",
        )
        .with_remedy(format!("choose a smaller {WINDOW}")));
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let item = item(elements.data_type().clone());
    let list = ListArray::try_new(item, offsets, elements, nulls);
    Ok(Arc::new(list.map_err(failed)?))
}

/// Numbers as a column of float32: lists of one length, structures of indices and values, or lists of vectors.
///
/// # Errors
/// If they are more than Arrow counts in a list.
pub fn column_of(numbers: Numbers) -> Result<ArrayRef> {
    let Some(width) = numbers.width() else {
        return SparseColumn { terms: None }.array(numbers, None);
    };
    let counts: Option<Vec<usize>> = numbers.counts().map(Iterator::collect);
    let values = Arc::new(Float32Array::from(numbers.into_values()));
    let vectors = fixed_lists(values, width, None)?;
    match counts {
        Some(counts) => lists(vectors, counts, None),
        None => Ok(vectors),
    }
}

/// Numbers of which some are null.
fn with_nulls(numbers: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let data = numbers.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

/// A width as Arrow counts.
fn fixed(width: usize) -> i32 {
    i32::try_from(width).expect("no model has vectors of so many components")
}
