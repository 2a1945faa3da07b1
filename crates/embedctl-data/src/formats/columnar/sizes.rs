//! How much the rows of a column hold when each stands for itself: a dictionary's value may be huge and stand in every
//! row, and a list of nulls takes no memory until it is written.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, GenericListArray,
    GenericListViewArray, MapArray, OffsetSizeTrait, RunArray, StructArray, UnionArray,
};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType,
};
use arrow::downcast_dictionary_array;

/// The bytes of a range of rows, about.
type SizeOf<'a> = Box<dyn Fn(Range<usize>) -> usize + 'a>;

/// A null that stands in a list, as JSON writes it.
const NULL: usize = 4;

/// The sizes of some columns' rows.
pub(crate) struct RowSizes<'a>(Vec<SizeOf<'a>>);

impl<'a> RowSizes<'a> {
    /// Of the rows that these columns have in common.
    pub(crate) fn of(columns: impl Iterator<Item = &'a ArrayRef>) -> Self {
        Self(columns.map(|column| size_of(column.as_ref())).collect())
    }

    /// Bytes of these rows, about.
    pub(crate) fn sum(&self, rows: Range<usize>) -> usize {
        let columns = self.0.iter().map(|size| size(rows.clone()));
        columns.fold(0, usize::saturating_add)
    }

    /// The rows of more than `limit` bytes, and their sizes.
    pub(crate) fn beyond(&self, limit: usize, rows: usize) -> Vec<(usize, usize)> {
        if self.sum(0..rows) <= limit {
            return Vec::new();
        }
        let sizes = (0..rows).map(|row| (row, self.sum(row..row + 1)));
        sizes.filter(|(_, size)| *size > limit).collect()
    }
}

fn size_of(array: &dyn Array) -> SizeOf<'_> {
    match array.data_type() {
        DataType::Null => fixed(NULL),
        DataType::Utf8 => by_offsets(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => by_offsets(array.as_string::<i64>().value_offsets()),
        DataType::Binary => by_offsets(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => by_offsets(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => {
            let views = array.as_string_view();
            each(|row| views.views()[row] as u32 as usize)
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            each(|row| views.views()[row] as u32 as usize)
        }
        DataType::List(_) => list(array.as_list::<i32>()),
        DataType::LargeList(_) => list(array.as_list::<i64>()),
        DataType::ListView(_) => list_view(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>()),
        DataType::FixedSizeList(..) => fixed_list(array.as_fixed_size_list()),
        DataType::Map(..) => map(array.as_map()),
        DataType::Struct(_) => structs(array.as_struct()),
        DataType::Union(..) => union(array.as_union()),
        DataType::Dictionary(..) => downcast_dictionary_array! {
            array => dictionary(array),
            _ => fixed(NULL)
        },
        DataType::RunEndEncoded(ends, _) => {
            let any = array.as_any();
            let runs = match ends.data_type() {
                DataType::Int16 => any.downcast_ref().map(runs::<Int16Type>),
                DataType::Int32 => any.downcast_ref().map(runs::<Int32Type>),
                _ => any.downcast_ref().map(runs::<Int64Type>),
            };
            runs.unwrap_or_else(|| fixed(NULL))
        }
        DataType::FixedSizeBinary(width) => fixed(usize::try_from(*width).unwrap_or(0)),
        kind => fixed(kind.primitive_width().unwrap_or(1)),
    }
}

fn fixed<'a>(width: usize) -> SizeOf<'a> {
    Box::new(move |rows| rows.len().saturating_mul(width))
}

fn each<'a>(size: impl Fn(usize) -> usize + 'a) -> SizeOf<'a> {
    Box::new(move |rows| rows.map(&size).fold(0, usize::saturating_add))
}

fn between<O: OffsetSizeTrait>(offsets: &[O], rows: &Range<usize>) -> Range<usize> {
    offsets[rows.start].as_usize()..offsets[rows.end].as_usize()
}

fn by_offsets<O: OffsetSizeTrait>(offsets: &[O]) -> SizeOf<'_> {
    Box::new(move |rows| between(offsets, &rows).len())
}

fn list<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> SizeOf<'_> {
    let (offsets, items) = (lists.value_offsets(), size_of(lists.values().as_ref()));
    Box::new(move |rows| items(between(offsets, &rows)))
}

fn list_view<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>) -> SizeOf<'_> {
    let items = size_of(lists.values().as_ref());
    each(move |row| {
        let start = lists.value_offset(row).as_usize();
        items(start..start + lists.value_size(row).as_usize())
    })
}

fn fixed_list(lists: &FixedSizeListArray) -> SizeOf<'_> {
    let items = size_of(lists.values().as_ref());
    let width = usize::try_from(lists.value_length()).unwrap_or(0);
    let first = lists.value_offset_at(0);
    Box::new(move |rows| items(first + rows.start * width..first + rows.end * width))
}

fn map(maps: &MapArray) -> SizeOf<'_> {
    let (offsets, entries) = (maps.value_offsets(), structs(maps.entries()));
    Box::new(move |rows| entries(between(offsets, &rows)))
}

fn structs(structs: &StructArray) -> SizeOf<'_> {
    let fields = RowSizes::of(structs.columns().iter());
    Box::new(move |rows| fields.sum(rows))
}

fn union(union: &UnionArray) -> SizeOf<'_> {
    let children: Vec<_> = (0..=i8::MAX)
        .map(|id| {
            let is_there = match union.data_type() {
                DataType::Union(fields, _) => fields.iter().any(|(known, _)| known == id),
                _ => false,
            };
            is_there.then(|| size_of(union.child(id).as_ref()))
        })
        .collect();
    each(move |row| {
        let at = union.value_offset(row);
        let child = usize::try_from(union.type_id(row)).ok();
        let child = child.and_then(|id| children.get(id)?.as_ref());
        child.map_or(NULL, |size| size(at..at + 1))
    })
}

fn dictionary<K: ArrowDictionaryKeyType>(values: &DictionaryArray<K>) -> SizeOf<'_> {
    let value = size_of(values.values().as_ref());
    each(move |row| values.key(row).map_or(0, |key| value(key..key + 1)))
}

fn runs<R: RunEndIndexType>(runs: &RunArray<R>) -> SizeOf<'_> {
    let value = size_of(runs.values().as_ref());
    each(move |row| {
        let at = runs.get_physical_index(row);
        value(at..at + 1)
    })
}
