//! Vectors of every form, read back from columns of Arrow's, and what a file hands over of them.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use crate::quantize::Dtype;
use crate::sparse::PARTS;
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, ListArray, MapArray, RecordBatch, StructArray,
};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Schema, UInt8Type, UInt32Type,
};
use embedctl_common::error::{Error, Place, Result};
use embedctl_vectors::{Forms, Numbers, RowForm, RowParts, RowVector, RowVectors, Terms};

/// A vector of a file.
#[derive(Debug, Clone, Copy)]
pub struct StoredVector<'a> {
    /// Its column; empty in a format without names.
    pub column: &'a str,
    /// The number of its row in the file, from 0; of a matrix that of its line, where a row may have several lines.
    pub row: u64,
    /// The type of its elements in the file: float32 (also for float64), float16, int8 or uint8.
    pub dtype: Dtype,
    /// Its elements.
    pub values: &'a [f32],
}

/// Takes vectors, row by row: all of a row, whatever columns they are of, before those of the next one. An error ends the
/// reading.
pub type TakeVector<'a> = dyn FnMut(StoredVector<'_>) -> Result<()> + 'a;

/// Takes the vectors of a row, with its index among the rows that were asked for.
pub type TakeRow<'a> = dyn FnMut(usize, RowParts<'_>) + 'a;

/// The remedy for a file that is cut short.
pub const CUT: &str = "copy or make it again";

/// The widest sparse vectors that are read back: a wider claim is damage.
const MOST_SPARSE_WIDTH: usize = 1 << 24;

/// A column of vectors as a provenance describes it.
#[derive(Debug, Clone)]
pub struct RecordedColumn {
    /// Its name.
    pub name: String,
    /// The type of its elements, for a format that does not say so itself.
    pub dtype: Option<Dtype>,
    /// The form of its vectors, without sizes; `None` if they are not read back.
    pub form: Option<RowForm>,
    /// The width of a vector in full, where the provenance has it.
    pub width: Option<usize>,
}

/// The columns of vectors as a provenance describes them, of every form.
#[derive(Debug, Clone, Default)]
pub struct RecordedColumns {
    /// One after another.
    pub columns: Vec<RecordedColumn>,
}

impl RecordedColumns {
    /// The column of that name, if the provenance has it.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&RecordedColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The form of the vectors in the column of that name: dense if the provenance does not have it.
    #[must_use]
    pub fn form(&self, name: &str) -> Option<RowForm> {
        match self.column(name) {
            Some(column) => column.form.clone(),
            None => Some(RowForm::Dense(vec![0])),
        }
    }

    /// The width in full of the vectors in the column of that name; 0 if the provenance does not have it.
    #[must_use]
    pub fn width(&self, name: &str) -> usize {
        let column = self.column(name);
        column.and_then(|column| column.width).unwrap_or(0)
    }

    /// Whether a column of `all` is to be read.
    pub fn takes<'n>(&self, name: &str, mut all: impl Iterator<Item = &'n str>) -> bool {
        let named = |name: &str| self.column(name).is_some();
        named(name) || !all.any(named)
    }
}

/// A sparse vector in full; `None` where it has an index that `width` does not reach, or is wider than any.
pub fn in_full(width: usize, entries: impl IntoIterator<Item = (u32, f32)>) -> Option<Vec<f32>> {
    let mut full = vec![0.0; Some(width).filter(|width| *width <= MOST_SPARSE_WIDTH)?];
    for (index, value) in entries {
        *full.get_mut(index as usize)? = value;
    }
    Some(full)
}

/// Whether a column of this type may hold vectors of that form.
fn holds(data: &DataType, form: &RowForm) -> bool {
    match form {
        RowForm::Dense(_) | RowForm::Scores(_) => element(data).is_some(),
        RowForm::Sparse(_) => is_sparse(data),
        RowForm::Tokens(_) => of_tokens(data).is_some(),
    }
}

/// Whether a column holds sparse vectors, as embedctl writes them.
fn is_sparse(data: &DataType) -> bool {
    let DataType::Struct(parts) = data else {
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
fn of_tokens(data: &DataType) -> Option<&DataType> {
    match data {
        DataType::List(item) => Some(item.data_type())
            .filter(|vector| matches!(vector, DataType::FixedSizeList(..)))
            .filter(|vector| element(vector).is_some()),
        _ => None,
    }
}

/// The columns of vectors.
#[must_use]
pub fn vectors_in(schema: &Schema, recorded: &RecordedColumns) -> Vec<usize> {
    let lists = || {
        (schema.fields().iter().enumerate()).filter(|(_, it)| {
            let is_named = || recorded.column(it.name()).is_some();
            let Some(form) = recorded.form(it.name()) else {
                return false;
            };
            // A number is one where its column is named as that of numbers.
            let is_number = form.is_dense() && !is_list(it.data_type());
            holds(it.data_type(), &form) && (!is_number || is_named())
        })
    };
    let names = || lists().map(|(_, field)| field.name().as_str());
    let vectors = lists().filter(|(_, field)| recorded.takes(field.name(), names()));
    vectors.map(|(index, _)| index).collect()
}

/// The places of these columns in `schema`; `None` where it lacks one, or it holds other vectors than such of float32 or
/// float16.
#[must_use]
pub fn places(wanted: &Forms, schema: &Schema) -> Option<Vec<usize>> {
    let place = |(form, name, width): (&RowForm, &str, usize)| {
        let (index, field) = schema.column_with_name(name)?;
        let holds = match (form, field.data_type()) {
            (_, column) if form.maps().is_some() => matches!(column, DataType::Map(..)),
            (RowForm::Dense(_) | RowForm::Scores(_), column) => is_float(column, width),
            (RowForm::Sparse(_), column) => is_sparse(column),
            (RowForm::Tokens(_), DataType::List(vector)) => is_float(vector.data_type(), width),
            (RowForm::Tokens(_), _) => false,
        };
        holds.then_some(index)
    };
    wanted.columns().map(place).collect()
}

/// Whether a column holds lists of floats, or floats, which may have that length.
fn is_float(data: &DataType, width: usize) -> bool {
    let fits = match data {
        DataType::FixedSizeList(_, length) => usize::try_from(*length) == Ok(width),
        _ => true,
    };
    fits && matches!(element(data), Some(Dtype::F32 | Dtype::F16))
}

/// A column of vectors of a batch, to be read row by row.
enum ArrowVectors<'a> {
    /// A row has a vector, or a number.
    Lists(Vectors<'a>, Dtype),
    /// A row has indices and values.
    Sparse(&'a StructArray),
    /// A row has a map from terms to weights.
    Maps(&'a MapArray, Terms),
    /// A row has a vector for each token.
    OfTokens(&'a ListArray, Vectors<'a>, Dtype),
}

impl<'a> ArrowVectors<'a> {
    /// `None` if its type is none of vectors of this form.
    fn of(column: &'a ArrayRef, form: &RowForm) -> Option<Self> {
        match (form, form.maps()) {
            (_, Some(terms)) => Some(Self::Maps(column.as_map_opt()?, terms.clone())),
            (RowForm::Sparse(_), None) => column.as_struct_opt().map(Self::Sparse),
            (RowForm::Tokens(_), None) => {
                let lists = column.as_list_opt::<i32>()?;
                let dtype = element(lists.values().data_type())?;
                Some(Self::OfTokens(lists, Vectors::of(lists.values()), dtype))
            }
            (RowForm::Dense(_) | RowForm::Scores(_), None) => {
                let dtype = element(column.data_type())?;
                Some(Self::Lists(Vectors::of(column), dtype))
            }
        }
    }

    /// Hands the vectors of a row to `take`; there are none where it is null. `first` is the number of the batch's first row,
    /// and `width` that of a sparse vector in full.
    fn read(
        &self,
        row: usize,
        (column, first, width): (&str, u64, usize),
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
        let refuse = |why: &str| {
            let reason = format!("row {} has {why}", first + row as u64);
            Err(Error::input(Place::file("the output"), reason)
                .with_remedy("write it again, or make the row null as a whole"))
        };
        let of_numbers = "a vector with null in the place of a number";
        match self {
            Self::Lists(vectors, _) if vectors.is_partly_null(row) => refuse(of_numbers),
            Self::Lists(vectors, dtype) => match vectors.get(row) {
                Some(values) => hand(*dtype, values),
                None => Ok(()),
            },
            Self::Sparse(parts) => match entries(parts, row, |row| in_full(width, row.entries())) {
                Some(Some(values)) => hand(Dtype::F32, &values),
                Some(None) => refuse("a sparse vector with an index beyond its width"),
                None => Ok(()),
            },
            // Such columns are chosen by their form alone.
            Self::Maps(..) => Ok(()),
            Self::OfTokens(lists, vectors, dtype) => {
                let own = token_places(lists, row).into_iter().flatten();
                if own.clone().any(|place| vectors.is_partly_null(place)) {
                    return refuse(of_numbers);
                }
                let mut own = own.filter_map(|place| vectors.get(place));
                own.try_for_each(|values| hand(*dtype, values))
            }
        }
    }

    /// Appends the vectors of a row to `out`, which holds `width` numbers of it then, or so wide vectors; `None` where it has
    /// none, or others.
    fn push(&self, row: usize, width: usize, out: &mut Numbers) -> Option<()> {
        match self {
            Self::Lists(vectors, _) => {
                let vector = vectors.get(row).filter(|it| it.len() == width)?;
                out.values_mut().extend(vector);
            }
            Self::Sparse(parts) => entries(parts, row, |own| {
                let indices = own.indices()?;
                let is_whole = indices.len() == own.values().len()
                    && indices.is_sorted_by(|one, next| one < next)
                    && indices.last().is_none_or(|last| (*last as usize) < width);
                is_whole.then(|| out.push(own))
            })??,
            Self::Maps(maps, terms) => {
                let entries = maps.is_valid(row).then(|| maps.value(row))?;
                let names = entries.column(0).as_string_opt::<i32>()?;
                let values = entries.column(1).as_primitive_opt::<Float32Type>()?;
                let mut found = Vec::with_capacity(names.len());
                for (place, value) in values.values().iter().enumerate() {
                    found.push((terms.index_of(names.value(place))?, *value));
                }
                found.sort_unstable_by_key(|(index, _)| *index);
                let is_whole = found.is_sorted_by(|(one, _), (next, _)| one < next)
                    && found
                        .last()
                        .is_none_or(|(last, _)| (*last as usize) < width);
                is_whole.then(|| out.push_entries(found))?;
            }
            Self::OfTokens(lists, vectors, _) => {
                let own = token_places(lists, row)?.map(|place| vectors.get(place));
                let own = own.collect::<Option<Vec<&[f32]>>>()?;
                let is_whole = own.iter().all(|one| one.len() == width);
                is_whole.then(|| out.push_values(&own.concat()))?;
            }
        }
        Some(())
    }
}

/// The vectors of a column that `column_of` made; `None` where it holds others.
#[must_use]
pub fn rows_of(column: &ArrayRef) -> Option<Numbers> {
    let width = |vector: &DataType| match vector {
        DataType::FixedSizeList(_, width) => usize::try_from(*width).ok(),
        _ => None,
    };
    let form = match column.data_type() {
        DataType::List(vector) => RowForm::Tokens(width(vector.data_type())?),
        // How wide they are in full is not told here.
        parts if is_sparse(parts) => RowForm::Sparse(Terms::new(usize::MAX)),
        vector => RowForm::Dense(vec![width(vector)?]),
    };
    let vectors = ArrowVectors::of(column, &form)?;
    let mut rows = form.no_rows();
    for row in 0..column.len() {
        vectors.push(row, form.width(), &mut rows)?;
    }
    Some(rows)
}

/// What `take` makes of the entries of a row; `None` where it is null, or its parts are none of a sparse vector.
fn entries<T>(parts: &StructArray, row: usize, take: impl FnOnce(RowVector<'_>) -> T) -> Option<T> {
    if parts.is_null(row) {
        return None;
    }
    let list = |part: usize| Some(parts.column(part).as_list_opt::<i32>()?.value(row));
    let (indices, values) = (list(0)?, list(1)?);
    if indices.null_count() + values.null_count() > 0 {
        return None;
    }
    let indices = indices.as_primitive_opt::<UInt32Type>()?.values();
    let values = values.as_primitive_opt::<Float32Type>()?.values();
    Some(take(RowVector::of_entries(indices, values)))
}

/// The places of a row's vectors among all; `None` where it is null.
fn token_places(lists: &ListArray, row: usize) -> Option<Range<usize>> {
    let place = |at: usize| usize::try_from(*lists.value_offsets().get(at)?).ok();
    lists.is_valid(row).then_some(place(row)?..place(row + 1)?)
}

/// Hands the vectors of a batch to `take`, row by row: those of all columns before those of the next row. `rows` counts the
/// rows of the file so far.
///
/// # Errors
/// If a vector has null in the place of a number or an index beyond its width, or `take` says so.
pub fn of_batch(
    batch: &RecordBatch,
    recorded: &RecordedColumns,
    rows: &mut u64,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    let columns = vectors_in(batch.schema_ref(), recorded).into_iter();
    let columns = columns.filter_map(|index| {
        let name = batch.schema_ref().field(index).name().as_str();
        let column = ArrowVectors::of(batch.column(index), &recorded.form(name)?)?;
        Some((name, recorded.width(name), column))
    });
    let columns: Vec<_> = columns.collect();
    for row in 0..batch.num_rows() {
        for (name, width, column) in &columns {
            column.read(row, (name, *rows, *width), take)?;
        }
    }
    *rows += batch.num_rows() as u64;
    Ok(())
}

/// The vectors of all forms in a batch that has their columns.
pub struct BatchRows<'a> {
    /// The columns of each form, with the widths of their vectors.
    forms: Vec<Vec<(ArrowVectors<'a>, usize)>>,
    none: RowVectors,
}

impl<'a> BatchRows<'a> {
    /// Those of `batch`; columns that it lacks have no rows.
    #[must_use]
    pub fn of(batch: &'a RecordBatch, wanted: &Forms) -> Self {
        let forms = wanted.each().map(|(form, columns)| {
            let columns = columns.filter_map(|(name, width)| {
                let column = batch.column_by_name(name)?;
                Some((ArrowVectors::of(column, form)?, width))
            });
            columns.collect()
        });
        Self {
            forms: forms.collect(),
            none: wanted.no_rows(),
        }
    }

    /// Hands over the vectors of the first `count` rows, the first of which has the index `first`; a row without some is
    /// passed over.
    pub fn hand_over(&self, count: usize, first: usize, take: &mut TakeRow<'_>) {
        for row in 0..count {
            if let Some(vectors) = self.get(row) {
                take(first + row, vectors.get(0));
            }
        }
    }

    /// The vectors of a row, alone; `None` where it has none, or one of them is not of its form.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<RowVectors> {
        let mut out = self.none.same();
        for (columns, out) in self.forms.iter().zip(out.parts_mut()) {
            for (column, width) in columns {
                column.push(row, *width, out)?;
            }
            (out.len() == 1).then_some(())?;
        }
        Some(out)
    }
}

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
struct Vectors<'a> {
    lists: &'a ArrayRef,
    places: ListPlaces<'a>,
    values: Float32Array,
}

/// Where the numbers of each row stand.
enum ListPlaces<'a> {
    /// So many for each row.
    Fixed(usize),
    /// By where each row begins.
    Offsets(&'a [i32]),
    LargeOffsets(&'a [i64]),
}

impl<'a> Vectors<'a> {
    /// The vectors of a column whose type [`element`] knows.
    fn of(lists: &'a ArrayRef) -> Self {
        let (values, places) = match lists.data_type() {
            DataType::FixedSizeList(_, width) => {
                let width = usize::try_from(*width).unwrap_or(0);
                let values = lists.as_fixed_size_list().values();
                (values, ListPlaces::Fixed(width))
            }
            DataType::List(_) => {
                let lists = lists.as_list::<i32>();
                (lists.values(), ListPlaces::Offsets(lists.value_offsets()))
            }
            DataType::LargeList(_) => {
                let lists = lists.as_list::<i64>();
                let offsets = lists.value_offsets();
                (lists.values(), ListPlaces::LargeOffsets(offsets))
            }
            _ => (lists, ListPlaces::Fixed(1)),
        };
        let values = match values.data_type() {
            // Many at a time, as a processor converts them.
            DataType::Float16 => {
                let halves = values.as_primitive::<Float16Type>();
                let mut numbers = vec![0.0; halves.len()];
                halves.values().convert_to_f32_slice(&mut numbers);
                Float32Array::new(numbers.into(), halves.nulls().cloned())
            }
            DataType::Float64 => values.as_primitive::<Float64Type>().unary(|it| it as f32),
            DataType::Int8 => values.as_primitive::<Int8Type>().unary(f32::from),
            DataType::UInt8 => values.as_primitive::<UInt8Type>().unary(f32::from),
            _ => values.as_primitive().clone(),
        };
        Self {
            lists,
            places,
            values,
        }
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
        Some(match self.places {
            ListPlaces::Fixed(width) => row * width..(row + 1) * width,
            ListPlaces::Offsets(offsets) => {
                let place = |at: usize| usize::try_from(offsets[at]).ok();
                place(row)?..place(row + 1)?
            }
            ListPlaces::LargeOffsets(offsets) => {
                let place = |at: usize| usize::try_from(offsets[at]).ok();
                place(row)?..place(row + 1)?
            }
        })
    }
}
