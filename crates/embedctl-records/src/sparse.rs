//! Sparse vectors in columns: structures of indices and values, or maps from terms to weights.

use std::sync::Arc;

use crate::json_values::push;
use arrow::array::{
    ArrayRef, Float32Array, ListArray, MapArray, StringArray, StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::WINDOW;
use embedctl_vectors::{Numbers, RowForm, RowVector};

/// The parts of a structure, by their names.
pub(crate) const PARTS: [&str; 2] = ["indices", "values"];

/// The form of a column of sparse vectors.
#[derive(Debug, Clone)]
pub struct SparseColumn {
    /// The terms by their indices, where vectors are maps from terms to weights.
    pub terms: Option<Arc<[String]>>,
}

/// The fields of a structure.
fn parts() -> Fields {
    let list = |name: &str, item: DataType| {
        let item = Arc::new(Field::new_list_field(item, false));
        Field::new(name, DataType::List(item), false)
    };
    let [indices, values] = PARTS;
    Fields::from(vec![
        list(indices, DataType::UInt32),
        list(values, DataType::Float32),
    ])
}

/// The entries of a map.
fn map_entries() -> FieldRef {
    let parts = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Float32, false),
    ]);
    Arc::new(Field::new("key_value", DataType::Struct(parts), false))
}

impl SparseColumn {
    /// That of rows of `form`; `None` where their vectors are not sparse.
    #[must_use]
    pub fn of(form: &RowForm) -> Option<Self> {
        let terms = form.terms()?.names().cloned();
        Some(Self { terms })
    }

    /// Its type.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        match self.terms {
            Some(_) => DataType::Map(map_entries(), false),
            None => DataType::Struct(parts()),
        }
    }

    /// The term of an index.
    fn term(terms: &[String], index: u32) -> Result<&str> {
        let term = terms.get(index as usize).map(String::as_str);
        term.ok_or_else(|| Error::internal(format!("a weight of the unknown term {index}")))
    }

    /// The vectors as a column; those that `nulls` marks are null.
    ///
    /// # Errors
    /// If there are more entries than Arrow counts, or vectors are given in full.
    pub fn array(&self, rows: Numbers, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let entries = rows.into_entries();
        let (indices, values, ends) =
            entries.ok_or_else(|| Error::internal("vectors in full for sparse ones"))?;
        let failed =
            |error: ArrowError| Error::internal(format!("sparse vectors as a column: {error}"));
        if i32::try_from(values.len()).is_err() {
            return Err(Error::usage(
                "the sparse vectors of a window hold more entries than Arrow counts in a list",
            )
            .with_remedy(format!("choose a smaller {WINDOW}")));
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let lengths = starts.zip(&ends).map(|(start, end)| end - start);
        let offsets = OffsetBuffer::from_lengths(lengths);
        let values: ArrayRef = Arc::new(Float32Array::from(values));
        let Some(terms) = &self.terms else {
            let fields = parts();
            let list = |field: &FieldRef, items: ArrayRef| -> Result<ArrayRef> {
                let DataType::List(item) = field.data_type() else {
                    return Err(Error::internal("a part that is no list"));
                };
                let list = ListArray::try_new(Arc::clone(item), offsets.clone(), items, None);
                Ok(Arc::new(list.map_err(failed)?))
            };
            let indices = list(&fields[0], Arc::new(UInt32Array::from(indices)))?;
            let values = list(&fields[1], values)?;
            let array = StructArray::try_new(fields, vec![indices, values], nulls);
            return Ok(Arc::new(array.map_err(failed)?));
        };
        let names = indices.iter().map(|&index| Self::term(terms, index));
        let names = names.collect::<Result<Vec<_>>>()?;
        let entries = map_entries();
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(Error::internal("entries without parts"));
        };
        let parts: Vec<ArrayRef> = vec![Arc::new(StringArray::from(names)), values];
        let parts = StructArray::try_new(fields.clone(), parts, None).map_err(failed)?;
        let map = MapArray::try_new(entries, offsets, parts, nulls, false);
        Ok(Arc::new(map.map_err(failed)?))
    }

    /// Appends a vector in JSON.
    ///
    /// # Errors
    /// If a term is unknown.
    pub fn push_json(&self, row: RowVector<'_>, out: &mut Vec<u8>) -> Result<()> {
        let comma = |place: usize, out: &mut Vec<u8>| {
            if place > 0 {
                out.push(b',');
            }
        };
        if let Some(terms) = &self.terms {
            out.push(b'{');
            for (place, (index, value)) in row.entries().enumerate() {
                comma(place, out);
                push(out, Self::term(terms, index)?);
                out.push(b':');
                push(out, &value);
            }
            out.push(b'}');
            return Ok(());
        }
        out.extend_from_slice(b"{\"indices\":[");
        for (place, (index, _)) in row.entries().enumerate() {
            comma(place, out);
            push(out, &index);
        }
        out.extend_from_slice(b"],\"values\":[");
        for (place, (_, value)) in row.entries().enumerate() {
            comma(place, out);
            push(out, &value);
        }
        out.extend_from_slice(b"]}");
        Ok(())
    }
}
