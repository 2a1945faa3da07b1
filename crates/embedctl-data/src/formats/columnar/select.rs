//! Finding a named column in a table: at the top, or inside of structs (`a.b`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use embedctl_common::error::{Error, Result};

/// A column of a table, or a field of one that holds structs.
#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    /// Its names from the top.
    pub path: Vec<String>,
    pub field: FieldRef,
}

/// A table's columns at the top by their names: there may be a million of them.
pub(crate) struct ColumnNames<'a> {
    fields: &'a Fields,
    /// The first of each name, and whether there are more.
    places: HashMap<&'a str, (usize, bool)>,
}

impl<'a> ColumnNames<'a> {
    /// Of a table of that schema.
    pub(crate) fn of(schema: &'a Schema) -> Self {
        let fields = schema.fields();
        let mut places = HashMap::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let entry = places.entry(field.name().as_str());
            entry
                .and_modify(|(_, several)| *several = true)
                .or_insert((index, false));
        }
        Self { fields, places }
    }

    fn get(&self, name: &str) -> Option<&'a FieldRef> {
        self.place(name).map(|index| &self.fields[index])
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).map(|(index, _)| *index)
    }

    /// Whether two columns have this name, so that it is ambiguous.
    pub(crate) fn is_ambiguous(&self, name: &str) -> bool {
        self.places.get(name).is_some_and(|(_, several)| *several)
    }
}

/// The column called `name`: the one of that whole name where there is one, else by its path.
pub(crate) fn find(names: &ColumnNames<'_>, name: &str) -> Option<TableColumn> {
    if let Some(field) = names.get(name) {
        return Some(TableColumn {
            path: vec![name.to_owned()],
            field: Arc::clone(field),
        });
    }
    let mut keys = name.split('.');
    let first = keys.next()?;
    let mut path = vec![first.to_owned()];
    let mut last = names.get(first)?;
    for key in keys {
        let DataType::Struct(fields) = last.data_type() else {
            return None;
        };
        last = fields.iter().find(|field| field.name() == key)?;
        path.push(key.to_owned());
    }
    Some(TableColumn {
        path,
        field: Arc::clone(last),
    })
}

impl TableColumn {
    /// Its values in `batch`, whose columns have these `names`; null where a struct on the way is.
    pub(crate) fn values(&self, batch: &RecordBatch, names: &ColumnNames<'_>) -> Result<ArrayRef> {
        let missing = || Error::internal(format!("the column {:?} was not read", self.path));
        let (first, rest) = self.path.split_first().ok_or_else(missing)?;
        let mut array = Arc::clone(batch.column(names.place(first).ok_or_else(missing)?));
        for key in rest {
            let parent = array.as_struct_opt().ok_or_else(missing)?;
            let child = parent.column_by_name(key).ok_or_else(missing)?;
            // A column of nulls alone has no bits for them.
            if parent.nulls().is_none() || *child.data_type() == DataType::Null {
                array = Arc::clone(child);
                continue;
            }
            let nulls = NullBuffer::union(parent.nulls(), child.nulls());
            let inside = child.to_data().into_builder().nulls(nulls).build();
            let inside = inside.map_err(|error| Error::internal(error.to_string()))?;
            array = make_array(inside);
        }
        Ok(array)
    }
}
