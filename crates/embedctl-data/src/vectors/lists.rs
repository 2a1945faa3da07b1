//! Lists of numbers in columns of Arrow's.

use std::ops::Range;

use half::f16;

use crate::writing::quantize::Dtype;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array};
use arrow::datatypes::{DataType, Float16Type, Float64Type, Int8Type, UInt8Type};

/// Whether a column holds lists.
pub(crate) fn is_list(kind: &DataType) -> bool {
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

    /// The numbers of a row; `None` where it is null, or one of them is.
    pub(crate) fn get(&self, row: usize) -> Option<&[f32]> {
        let range = self.range(row)?;
        let whole = self.is_whole(&range);
        self.values.values().get(range).filter(|_| whole)
    }

    /// Whether a row has a vector of which a number is null.
    pub(crate) fn is_partly_null(&self, row: usize) -> bool {
        self.range(row).is_some_and(|range| !self.is_whole(&range))
    }

    /// Whether all of these numbers are there.
    fn is_whole(&self, range: &Range<usize>) -> bool {
        let nulls = self.values.nulls().filter(|nulls| nulls.null_count() > 0);
        nulls.is_none_or(|nulls| {
            range
                .clone()
                .all(|at| at < nulls.len() && nulls.is_valid(at))
        })
    }

    /// The places of a row's numbers; `None` where it is null.
    fn range(&self, row: usize) -> Option<Range<usize>> {
        if self.lists.is_null(row) {
            return None;
        }
        let index = |offset: i64| usize::try_from(offset).ok();
        Some(match self.lists.data_type() {
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
        })
    }
}
