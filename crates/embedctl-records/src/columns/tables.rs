//! Columns whose types a table has, or another run.

use std::sync::Arc;

use super::InputColumns;
use crate::cells::{Basis, Builder, KeptColumn};
use crate::fields::KeepType;
use crate::fit;
use crate::record::JSON_COLUMN;
use crate::texts::is_text;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use embedctl_common::error::Cause;
use embedctl_common::setting::{ID_TYPE, KEEP};

impl InputColumns {
    /// Takes the types of a table's columns (in the order of the kept ones; `None` where it lacks one), or
    /// checks that they can follow the types that are decided already.
    ///
    /// # Errors
    /// The reason for which the table's column cannot stand in this one, and the remedy.
    pub fn adopt(
        &mut self,
        id: Option<&FieldRef>,
        found: &[Option<FieldRef>],
    ) -> Result<(), Cause> {
        if let Some(id) = id {
            self.adopt_id(id)?;
            self.inferred = None;
        }
        for (column, found) in self.kept.iter_mut().zip(found) {
            let Some(found) = found else { continue };
            let (name, from) = (&column.name, found.data_type());
            match column.kind {
                Some((kind, Basis::Declared)) => {
                    if !fit::takes(kind, from) {
                        return Err(Cause::of(format!(
                            "the column `{name}` has the type {from}, which `{KEEP} {name}:{kind}` does not take"
                        ))
                        .with(format!(
                            "leave the type out (`{KEEP} {name}`), and it is kept as it is"
                        )));
                    }
                }
                _ if self.fixed => {
                    let field = column.field();
                    let to = field.data_type();
                    if !fit::follows(from, to) || is_json(&field) != is_json(found) {
                        return Err(Cause::of(format!(
                            "the column `{name}` has the type {from}, but what was read before made it {to}"
                        ))
                        .with(format!(
                            "give it one type for all inputs, for example `{KEEP} {name}:string`"
                        )));
                    }
                }
                _ => {
                    let field = found.as_ref().clone().with_name(name).with_nullable(true);
                    let field = field.with_data_type(fit::of_several(from));
                    column.kind = lines_kind(&field).map(|kind| (kind, Basis::Values));
                    column.field = Some(Arc::new(field));
                    column.builder = Builder::new(column.kind.map(|kind| kind.0));
                }
            }
        }
        self.fixed = true;
        self.renew();
        Ok(())
    }

    /// Takes the type of a table's ids, unless one is named, or checks that they can follow.
    fn adopt_id(&mut self, found: &FieldRef) -> Result<(), Cause> {
        let (_, basis) = self.id.kind.unwrap_or((KeepType::String, Basis::Values));
        let kind = id_type(found.data_type());
        if basis == Basis::Declared {
            return Ok(());
        }
        let now = self.id.field();
        if self.fixed {
            // Of strings, integers are their digits.
            let are_digits = *now.data_type() == DataType::Utf8 && kind.is_integer();
            if *now.data_type() == kind || are_digits || *found.data_type() == DataType::Null {
                return Ok(());
            }
            return Err(Cause::of(format!(
                "its ids have the type {kind}, but those that were read before have the type {}",
                now.data_type()
            ))
            .with(format!("give all ids one type, such as `{ID_TYPE} string`")));
        }
        let field = found
            .as_ref()
            .clone()
            .with_name(&self.id.name)
            .with_nullable(true);
        let field = field.with_data_type(kind);
        // Ids of lines cannot stand beside those of any other type.
        let kind = lines_kind(&field).filter(|_| *field.data_type() != DataType::UInt64);
        self.id.kind = kind.map(|kind| (kind, Basis::Values));
        self.id.builder = Builder::new(Some(kind.unwrap_or(KeepType::String)));
        self.id.field = Some(Arc::new(field));
        Ok(())
    }

    /// Takes the types of another run, in a schema as [`InputColumns::schema`] gives it.
    ///
    /// # Errors
    /// If the options have not made that schema.
    pub fn go_on(&mut self, schema: &Schema) -> Result<(), Cause> {
        let places = self.places.fields().count();
        let id = schema.fields().first().cloned();
        let kept = schema.fields().iter().skip(1);
        let kept = kept.take(schema.fields().len().saturating_sub(1 + places));
        self.expand(
            kept.clone().map(|field| field.name().as_str()),
            &mut Vec::new(),
        )?;
        self.adopt(id.as_ref(), &kept.cloned().map(Some).collect::<Vec<_>>())
    }

    /// Fails where records of lines cannot fill a column that a table has decided.
    ///
    /// # Errors
    /// The reason and the remedy.
    pub fn check_lines(&self) -> Result<(), Cause> {
        let alien = |column: &&KeptColumn| column.kind.is_none() && column.field.is_some();
        if self.id.kind.is_none() {
            return Err(Cause::of(format!(
                "ids have the type {} in what was read before, which lines cannot hold",
                self.id.field().data_type()
            ))
            .with(format!(
                "use `{ID_TYPE} string`, or embed this input on its own"
            )));
        }
        match self.kept.iter().find(alien) {
            None => Ok(()),
            Some(column) => Err(Cause::of(format!(
                "the kept column `{}` has the type {} in what was read before, which lines cannot hold",
                column.name,
                column.field().data_type()
            ))
            .with(format!(
                "use `{KEEP} {}:string`, or embed this input on its own",
                column.name
            ))),
        }
    }
}

/// Whether a column's strings are JSON values as they were written.
#[must_use]
pub fn is_json(field: &Field) -> bool {
    let kind = field.metadata().get(JSON_COLUMN.0);
    kind.is_some_and(|kind| kind == JSON_COLUMN.1)
}

/// How records of lines fill a table's column; `None` where they cannot.
fn lines_kind(field: &Field) -> Option<KeepType> {
    Some(match field.data_type() {
        DataType::Null => return None,
        _ if is_json(field) => KeepType::Json,
        kind if is_text(kind) => KeepType::String,
        DataType::Boolean => KeepType::Bool,
        kind if kind.is_integer() => KeepType::Int,
        DataType::Float64 => KeepType::Float,
        _ => return None,
    })
}

/// The type of ids that a table has in that type: its own, but strings and integers of several widths are of one.
fn id_type(found: &DataType) -> DataType {
    match found {
        DataType::Dictionary(_, values) => id_type(values),
        kind if is_text(kind) => DataType::Utf8,
        kind if kind.is_integer() && *kind != DataType::UInt64 => DataType::Int64,
        kind => kind.clone(),
    }
}
