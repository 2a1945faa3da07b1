//! Rows of vectors of every kind, read back from columns of Arrow's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Schema, UInt32Type};

use super::lists::{Vectors, element, is_sparse};
use crate::writing::kinds::{KindColumns, TermIndices, no_rows};
use crate::writing::quantize::Dtype;
use embedctl_common::vectors::{RowVectors, SparseRow};

/// The places of a kind's columns in `schema`, where they hold such vectors in float32 or float16.
fn places_of(kind: &KindColumns, schema: &Schema) -> Option<Vec<usize>> {
    let place = |(name, width): (&str, usize)| {
        let (index, field) = schema.column_with_name(name)?;
        let holds = match (kind, field.data_type()) {
            (KindColumns::Dense(_), column) => is_float(column, width),
            (KindColumns::Sparse(..), column) => is_sparse(column),
            (KindColumns::Terms(..), column) => matches!(column, DataType::Map(..)),
            (KindColumns::Multi(..), DataType::List(vector)) => is_float(vector.data_type(), width),
            (KindColumns::Multi(..), _) => false,
        };
        holds.then_some(index)
    };
    kind.columns().map(place).collect()
}

/// Whether a column holds lists of floats, or floats, which may have that length.
fn is_float(kind: &DataType, width: usize) -> bool {
    let fits = match kind {
        DataType::FixedSizeList(_, length) => usize::try_from(*length) == Ok(width),
        _ => true,
    };
    fits && matches!(element(kind), Some(Dtype::F32 | Dtype::F16))
}

/// The places of all their columns in `schema`; `None` where it lacks one, or it holds other vectors.
pub(crate) fn places(kinds: &[KindColumns], schema: &Schema) -> Option<Vec<usize>> {
    let places = kinds.iter().map(|kind| places_of(kind, schema));
    Some(places.collect::<Option<Vec<_>>>()?.concat())
}

/// The vectors of one kind in a batch.
enum KindRows<'a> {
    Dense(Vec<Vectors<'a>>, usize),
    Sparse(&'a ArrayRef, usize),
    Terms(&'a ArrayRef, usize, Arc<TermIndices>),
    Multi(&'a ArrayRef, Vectors<'a>, usize),
}

/// The vectors of all kinds in a batch that has their columns.
pub(crate) struct BatchRows<'a> {
    kinds: Vec<KindRows<'a>>,
    none: RowVectors,
}

impl<'a> BatchRows<'a> {
    /// Those of `batch`; kinds whose columns it lacks have no rows.
    pub(crate) fn of(batch: &'a RecordBatch, kinds: &[KindColumns]) -> Self {
        let column = |name: &str| batch.column_by_name(name);
        let rows = |kind: &KindColumns| match kind {
            KindColumns::Dense(columns) => {
                let lists = columns.iter().filter_map(|(name, _)| column(name));
                let width = columns.iter().map(|(_, width)| width).sum();
                Some(KindRows::Dense(lists.map(Vectors::of).collect(), width))
            }
            KindColumns::Sparse(name, width) => Some(KindRows::Sparse(column(name)?, *width)),
            KindColumns::Terms(name, width, indices) => {
                Some(KindRows::Terms(column(name)?, *width, Arc::clone(indices)))
            }
            KindColumns::Multi(name, width) => {
                let lists = column(name)?;
                let vectors = Vectors::of(lists.as_list_opt::<i32>()?.values());
                Some(KindRows::Multi(lists, vectors, *width))
            }
        };
        Self {
            kinds: kinds.iter().filter_map(rows).collect(),
            none: no_rows(kinds),
        }
    }

    /// The vectors of a row, alone; `None` where it has none, or one of them is not of its kind.
    pub(crate) fn get(&self, row: usize) -> Option<RowVectors> {
        let mut out = self.none.same();
        match &mut out {
            RowVectors::Several(all) if all.len() == self.kinds.len() => {
                for (kind, out) in self.kinds.iter().zip(all) {
                    kind.push(row, out)?;
                }
            }
            out => self.kinds.first()?.push(row, out)?,
        }
        Some(out)
    }
}

impl KindRows<'_> {
    fn push(&self, row: usize, out: &mut RowVectors) -> Option<()> {
        match (self, out) {
            (Self::Dense(columns, width), RowVectors::Dense { values, .. }) => {
                let parts = columns.iter().filter_map(|column| column.get(row));
                let vector = parts.collect::<Vec<_>>().concat();
                (vector.len() == *width).then(|| values.extend(vector))
            }
            (Self::Sparse(column, width), RowVectors::Sparse(rows)) => {
                let parts = column.as_struct_opt()?;
                let list = |part: usize| Some(parts.column(part).as_list_opt::<i32>()?.value(row));
                let (indices, values) = (list(0)?, list(1)?);
                let indices = &indices.as_primitive_opt::<UInt32Type>()?.values()[..];
                let values = &values.as_primitive_opt::<Float32Type>()?.values()[..];
                let is_whole = parts.is_valid(row)
                    && indices.len() == values.len()
                    && indices.is_sorted_by(|one, next| one < next)
                    && indices.last().is_none_or(|last| (*last as usize) < *width);
                is_whole.then(|| rows.push(SparseRow { indices, values }))
            }
            (Self::Terms(column, width, terms), RowVectors::Sparse(rows)) => {
                let maps = column.as_map_opt()?;
                let entries = maps.is_valid(row).then(|| maps.value(row))?;
                let names = entries.column(0).as_string_opt::<i32>()?;
                let values = entries.column(1).as_primitive_opt::<Float32Type>()?;
                let mut found = Vec::with_capacity(names.len());
                for (place, value) in values.values().iter().enumerate() {
                    found.push((terms.get(names.value(place))?, *value));
                }
                found.sort_unstable_by_key(|(index, _)| *index);
                let (indices, values): (Vec<u32>, Vec<f32>) = found.into_iter().unzip();
                let is_whole = indices.is_sorted_by(|one, next| one < next)
                    && indices.last().is_none_or(|last| (*last as usize) < *width);
                is_whole.then(|| {
                    rows.push(SparseRow {
                        indices: &indices,
                        values: &values,
                    });
                })
            }
            (Self::Multi(column, vectors, width), RowVectors::Multi(rows)) => {
                let lists = column.as_list_opt::<i32>()?;
                let place = |at: usize| usize::try_from(*lists.value_offsets().get(at)?).ok();
                let own = (place(row)?..place(row + 1)?).map(|place| vectors.get(place));
                let own = own.collect::<Option<Vec<&[f32]>>>()?;
                let is_whole = lists.is_valid(row) && own.iter().all(|one| one.len() == *width);
                is_whole.then(|| rows.push(&own.concat()))
            }
            _ => None,
        }
    }
}
