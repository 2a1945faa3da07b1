//! Vectors as Arrow's fields and columns.

use std::sync::Arc;

use half::f16;

use super::{VectorEncoding, beyond_f16};
use crate::record::{RowVectors, Rows};
use crate::writing::options::VectorType;
use crate::writing::quantize::{Dtype, Elements};
use crate::writing::sparse::SparseColumn;
use arrow::array::{Array, ArrayRef, FixedSizeListArray, Float32Array, ListArray, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{VECTOR_TYPE, WINDOW};
use embedctl_common::vectors::{RowForm, SparseRows, VectorKind};

impl VectorEncoding {
    /// Whether a row has any number of vectors.
    pub fn has_lengths(&self) -> bool {
        self.written_as() == VectorKind::Multi
    }

    /// How many lists are around a component in a column: none around one number, and none that is told of sparse vectors.
    pub fn list_depth(&self) -> usize {
        match self.written_as() {
            VectorKind::Dense => usize::from(!self.is_single()),
            VectorKind::Sparse => 0,
            VectorKind::Multi => 2,
        }
    }

    /// The form of sparse vectors, if they are sparse.
    pub fn sparse(&self) -> Option<SparseColumn> {
        match self.form() {
            RowForm::Sparse(terms) => Some(SparseColumn {
                terms: terms.names().cloned(),
            }),
            RowForm::Dense(_) | RowForm::Tokens(_) | RowForm::Scores(_) => None,
        }
    }

    /// The sparse vectors of some rows; leaves none in `rows`.
    ///
    /// # Errors
    /// If they are not sparse.
    pub fn entries(&self, rows: &mut Rows) -> Result<SparseRows> {
        match std::mem::take(&mut rows.vectors) {
            RowVectors::Sparse(entries) => Ok(entries),
            RowVectors::Dense { .. } | RowVectors::Multi(_) | RowVectors::Several(_) => {
                Err(Error::internal("vectors in full for sparse ones"))
            }
        }
    }

    /// The type of a column of sparse vectors.
    pub fn sparse_type(&self) -> DataType {
        let column = self.sparse().unwrap_or(SparseColumn { terms: None });
        column.data_type()
    }

    /// The sparse vectors of some rows as a column; leaves none in `rows`.
    ///
    /// # Errors
    /// As [`SparseColumn::array`].
    pub fn sparse_array(&self, rows: &mut Rows) -> Result<ArrayRef> {
        let column = self.sparse().unwrap_or(SparseColumn { terms: None });
        column.array(self.entries(rows)?, rows.missing.clone())
    }

    /// The vectors of some rows' tokens, and how many each row has; leaves none in `rows`.
    ///
    /// # Errors
    /// As [`VectorEncoding::encode`], or if rows have one vector each.
    pub fn encode_tokens(&self, rows: &mut Rows) -> Result<(Elements, Vec<usize>)> {
        let (RowVectors::Multi(all), [column]) =
            (std::mem::take(&mut rows.vectors), &self.columns[..])
        else {
            return Err(Error::internal("one vector for each row of tokens"));
        };
        let lengths: Vec<usize> = all.lengths().collect();
        if self.dtype == Dtype::F16 {
            for (row, vectors) in all.iter().enumerate() {
                let beyond = |value: &&f32| f16::from_f32(**value).is_infinite();
                if let Some(value) = vectors.values.iter().find(beyond) {
                    return Err(beyond_f16(rows, row, *value));
                }
            }
        }
        Ok((column.elements(all.into_parts().0, self.dtype), lengths))
    }

    /// As a column of lists of vectors.
    fn token_array(&self, rows: &mut Rows) -> Result<ArrayRef> {
        let nulls = rows.missing.clone();
        let (elements, lengths) = self.encode_tokens(rows)?;
        token_lists(elements.into_array(), self.columns[0].width, lengths, nulls)
    }

    /// The type of a column of lists of vectors.
    fn token_type(&self) -> DataType {
        DataType::List(self.vector_item())
    }

    /// A vector of a row's list.
    fn vector_item(&self) -> FieldRef {
        let width = fixed(self.columns[0].width);
        let kind = DataType::FixedSizeList(self.item(), width);
        Arc::new(Field::new_list_field(kind, false))
    }

    /// Arrow's fields.
    pub fn fields(&self) -> impl Iterator<Item = FieldRef> {
        self.kinds().flat_map(Self::fields_of_one)
    }

    fn fields_of_one(&self) -> impl Iterator<Item = FieldRef> {
        self.columns.iter().map(|column| {
            let own = match (self.written_as(), self.list) {
                (VectorKind::Sparse, _) => self.sparse_type(),
                (VectorKind::Multi, _) => self.token_type(),
                _ if self.is_single() => self.dtype.element(),
                (_, VectorType::Fixed) => DataType::FixedSizeList(self.item(), fixed(column.width)),
                (_, VectorType::List) => DataType::List(self.item()),
            };
            Arc::new(Field::new(&column.name, own, self.nullable))
        })
    }

    /// An element of a list.
    fn item(&self) -> FieldRef {
        Arc::new(Field::new_list_field(self.dtype.element(), false))
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
        match self.written_as() {
            VectorKind::Sparse => return Ok(vec![self.sparse_array(rows)?]),
            VectorKind::Multi => return Ok(vec![self.token_array(rows)?]),
            VectorKind::Dense => {}
        }
        let encoded = self.encode(rows)?;
        let columns = self.columns.iter().zip(encoded);
        columns
            .map(|(column, elements)| {
                let (values, nulls) = (elements.into_array(), rows.missing.clone());
                let list: Result<ArrayRef, _> = match self.list {
                    _ if self.is_single() => with_nulls(&values, nulls),
                    VectorType::Fixed => {
                        let width = fixed(column.width);
                        FixedSizeListArray::try_new(self.item(), width, values, nulls)
                            .map(|list| Arc::new(list) as _)
                    }
                    VectorType::List => {
                        if i32::try_from(values.len()).is_err() {
                            return Err(Error::usage(format!(
                                "{VECTOR_TYPE} list: the vectors of a window hold more numbers than Arrow \
                                 counts in a list"
                            ))
                            .with_remedy(format!("choose a smaller {WINDOW}")));
                        }
                        let lengths = std::iter::repeat_n(column.width, rows.len());
                        let offsets = OffsetBuffer::from_lengths(lengths);
                        ListArray::try_new(self.item(), offsets, values, nulls)
                            .map(|list| Arc::new(list) as _)
                    }
                };
                list.map_err(|error| Error::internal(format!("vectors as a column: {error}")))
            })
            .collect()
    }
}

/// Lists of vectors of `width` elements; `lengths` says how many vectors each row has.
fn token_lists(
    elements: ArrayRef,
    width: usize,
    lengths: Vec<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if i32::try_from(lengths.iter().sum::<usize>()).is_err() {
        return Err(Error::usage(
            "the rows of a window hold more vectors than Arrow counts in a list",
        )
        .with_remedy(format!("choose a smaller {WINDOW}")));
    }
    let item = |kind: &DataType| Arc::new(Field::new_list_field(kind.clone(), false));
    let element = item(elements.data_type());
    let list = FixedSizeListArray::try_new(element, fixed(width), elements, None);
    let list = list.and_then(|vectors| {
        let offsets = OffsetBuffer::from_lengths(lengths);
        let vector = item(vectors.data_type());
        ListArray::try_new(vector, offsets, Arc::new(vectors), nulls)
    });
    let list =
        list.map_err(|error| Error::internal(format!("vectors of tokens as a column: {error}")))?;
    Ok(Arc::new(list))
}

/// Vectors of one form as a column of float32: lists of one length, structures of indices and values, or lists of vectors.
///
/// # Errors
/// If they are of several forms, or more than Arrow counts in a list.
pub fn column_of(vectors: RowVectors) -> Result<ArrayRef> {
    match vectors {
        RowVectors::Dense { width, values } => {
            let values = Float32Array::from(values);
            let item = Field::new_list_field(DataType::Float32, false);
            let list =
                FixedSizeListArray::try_new(Arc::new(item), fixed(width), Arc::new(values), None);
            let list =
                list.map_err(|error| Error::internal(format!("vectors as a column: {error}")))?;
            Ok(Arc::new(list))
        }
        RowVectors::Sparse(rows) => SparseColumn { terms: None }.array(rows, None),
        RowVectors::Multi(rows) => {
            let (width, lengths) = (rows.width(), rows.lengths().collect());
            let values = Float32Array::from(rows.into_parts().0);
            token_lists(Arc::new(values), width, lengths, None)
        }
        RowVectors::Several(_) => Err(Error::internal("one column for vectors of several forms")),
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
