//! Columns before the first row, and their schema.

use std::sync::Arc;

use super::InputColumns;
use super::ids::InferredIds;
use crate::cells::{Basis, KeptColumn};
use crate::fields::{IdType, KeepType};
use crate::options::{ID, InputOptions};
use crate::places::PlaceColumns;
use arrow::datatypes::{Fields, Schema, SchemaRef};

impl InputColumns {
    /// Columns without any row.
    pub fn new(options: &InputOptions, places: PlaceColumns) -> Self {
        let text = match options.text_template {
            None => Some(options.text_field.clone()),
            Some(_) => None,
        };
        let kept: Vec<KeptColumn> = options
            .kept()
            .map(|keep| {
                let kind = keep.kind.map(|kind| (kind, Basis::Declared));
                KeptColumn::new(
                    &keep.name,
                    kind.or_else(|| of_text(text.as_deref(), &keep.name)),
                )
            })
            .collect();
        let id = KeptColumn::new(
            ID,
            Some(match options.id_type {
                IdType::Kept => (KeepType::String, Basis::Values),
                IdType::String => (KeepType::String, Basis::Declared),
                IdType::Int => (KeepType::Int, Basis::Declared),
            }),
        );
        let mut columns = Self {
            id,
            known: kept.iter().map(|column| column.name.clone()).collect(),
            kept,
            text,
            id_field: options.id_field.clone(),
            found_ids: false,
            inferred: options.infers_ids().then(InferredIds::default),
            infers_ids: options.infers_ids(),
            fixed: false,
            all: options.keeps_all(),
            places,
            schema: Arc::new(Schema::empty()),
        };
        if columns.known.contains(ID) || columns.places.has(ID) {
            columns.rename_ids();
        }
        columns.renew();
        columns
    }

    /// Leaves the name `id` to a kept field: the column of ids is called as the field that they are read from.
    pub(super) fn rename_ids(&mut self) {
        let mut name = self.id_field.clone().unwrap_or_default();
        while self.known.contains(&name) || self.places.has(&name) || name == ID {
            name.push('_');
        }
        self.id.field = self
            .id
            .field
            .take()
            .map(|field| Arc::new(field.as_ref().clone().with_name(&name)));
        self.id.name = name;
    }

    /// Makes the schema anew.
    pub(super) fn renew(&mut self) {
        self.schema = schema(&self.id, &self.kept, &self.places);
    }
}

fn schema(id: &KeptColumn, kept: &[KeptColumn], places: &PlaceColumns) -> SchemaRef {
    let fields = std::iter::once(id)
        .chain(kept)
        .map(KeptColumn::field)
        .chain(places.fields());
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

/// A text is a string whatever the records hold.
pub(super) fn of_text(text: Option<&str>, name: &str) -> Option<(KeepType, Basis)> {
    (text == Some(name)).then_some((KeepType::String, Basis::Values))
}
