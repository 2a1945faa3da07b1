//! Finding a named column in a table: at the top, or inside of structs (`a.b`).

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

/// The column called `name`: the one of that whole name where there is one, else by its path.
pub(crate) fn find(schema: &Schema, name: &str) -> Option<TableColumn> {
    let named = |fields: &Fields, name: &str| {
        let mut found = fields.iter().filter(|field| field.name() == name);
        found.next().cloned()
    };
    let fields = schema.fields();
    if let Some(field) = named(fields, name) {
        return Some(TableColumn {
            path: vec![name.to_owned()],
            field,
        });
    }
    let mut path: Vec<String> = Vec::new();
    let mut within = fields;
    let mut last: Option<&FieldRef> = None;
    for key in name.split('.') {
        if let Some(field) = last {
            let DataType::Struct(fields) = field.data_type() else {
                return None;
            };
            within = fields;
        }
        last = Some(within.iter().find(|field| field.name() == key)?);
        path.push(key.to_owned());
    }
    last.map(|field| TableColumn {
        path,
        field: Arc::clone(field),
    })
}

/// Whether two columns have this name, so that it is ambiguous.
pub(crate) fn is_ambiguous(schema: &Schema, name: &str) -> bool {
    let named = schema.fields().iter().filter(|field| field.name() == name);
    named.count() > 1
}

impl TableColumn {
    /// Its values in `batch`; null where a struct on the way is.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let missing = || Error::internal(format!("the column {:?} was not read", self.path));
        let (first, rest) = self.path.split_first().ok_or_else(missing)?;
        let mut array = Arc::clone(batch.column_by_name(first).ok_or_else(missing)?);
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
