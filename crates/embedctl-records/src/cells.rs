//! Kept values: from their spelling in a record to cells, and the columns that gather them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fields::KeepType;
use crate::fit;
use crate::json::{self, JsonType};
use crate::json_values::push;
use crate::record::JSON_COLUMN;
use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use embedctl_common::error::{Cause, Result};
use embedctl_common::setting::KEEP;

/// A value of the `id` column or of a kept one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    String(Cow<'a, str>),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A JSON value as it is written.
    Json(&'a str),
}

impl Cell<'_> {
    /// Appends it in JSON.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::String(text) => push(out, text.as_ref()),
            Self::Int(number) => push(out, number),
            Self::Float(number) => push(out, number),
            Self::Bool(value) => push(out, value),
            Self::Json(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }

    /// Bytes that a column needs to hold it, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::String(text) => text.len(),
            Self::Json(raw) => raw.len(),
            Self::Null | Self::Int(_) | Self::Float(_) | Self::Bool(_) => 8,
        }
    }
}

/// Why a kept column has its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// `--keep NAME:TYPE` says so.
    Declared,
    /// The values of the first window say so.
    Values,
    /// There was no value in the first window.
    Nulls,
}

/// The type that a column needs for `values`, as they are written: of numbers, int unless one has a
/// fraction or an exponent; else the type of the first value. `None` without any value.
pub(crate) fn decide<'a>(values: impl Iterator<Item = &'a str>) -> Option<KeepType> {
    let mut kinds = values
        .map(json::kind)
        .filter(|&kind| kind != JsonType::Null);
    Some(match kinds.next()? {
        JsonType::Integer if kinds.all(|kind| kind != JsonType::Float) => KeepType::Int,
        first => natural(first),
    })
}

/// The type that holds values of one kind.
fn natural(kind: JsonType) -> KeepType {
    match kind {
        JsonType::Null | JsonType::String => KeepType::String,
        JsonType::Bool => KeepType::Bool,
        JsonType::Integer | JsonType::Float => KeepType::Float,
        JsonType::Array | JsonType::Object => KeepType::Json,
    }
}

/// The value `raw` of the field `name` for a column of type `kind`.
///
/// # Errors
/// If it is of another type: the reason, with the type that would do.
pub(crate) fn convert<'a>(
    name: &str,
    kind: KeepType,
    basis: Basis,
    raw: Option<&'a str>,
) -> Result<Cell<'a>, Cause> {
    let Some(raw) = raw else {
        return Ok(Cell::Null);
    };
    let mismatch = || Err(mismatch(name, kind, basis, raw));
    match (kind, json::kind(raw)) {
        (_, JsonType::Null) => Ok(Cell::Null),
        (KeepType::Json, _) => Ok(Cell::Json(raw)),
        (KeepType::String, JsonType::String) => {
            json::string(raw).map(Cell::String).map_err(|error| {
                Cause::of(format!(
                    "the kept field `{name}` holds an escape that is not a character ({error})"
                ))
                .with(format!("`{KEEP} {name}:json` keeps it as it is written"))
            })
        }
        (KeepType::String, JsonType::Integer | JsonType::Float | JsonType::Bool)
            if basis == Basis::Declared =>
        {
            Ok(Cell::String(Cow::Borrowed(raw)))
        }
        (KeepType::Int, JsonType::Integer) => raw.parse().map(Cell::Int).or_else(|_| mismatch()),
        // No float was requested here, so no digits may be lost.
        (KeepType::Float, JsonType::Integer)
            if basis != Basis::Declared
                && !raw
                    .parse()
                    .is_ok_and(|whole: i128| whole as f64 as i128 == whole) =>
        {
            mismatch()
        }
        (KeepType::Float, JsonType::Integer | JsonType::Float) => match raw.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Cell::Float(number)),
            _ => mismatch(),
        },
        (KeepType::Bool, JsonType::Bool) => Ok(Cell::Bool(raw == "true")),
        _ => mismatch(),
    }
}

/// The plain text of a field for a column of type `kind`: nothing is null, but in a string.
///
/// # Errors
/// If it is not of that type.
pub(crate) fn of_text<'a>(name: &str, kind: KeepType, text: &'a str) -> Result<Cell<'a>, Cause> {
    let number = text.trim();
    let cell = match kind {
        KeepType::String => return Ok(Cell::String(Cow::Borrowed(text))),
        _ if number.is_empty() => return Ok(Cell::Null),
        KeepType::Int => number.parse().ok().map(Cell::Int),
        KeepType::Float => {
            let finite = number
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite());
            finite.map(Cell::Float)
        }
        KeepType::Bool if number.eq_ignore_ascii_case("true") => Some(Cell::Bool(true)),
        KeepType::Bool if number.eq_ignore_ascii_case("false") => Some(Cell::Bool(false)),
        KeepType::Bool => None,
        KeepType::Json => serde_json::from_str::<serde::de::IgnoredAny>(text)
            .is_ok()
            .then_some(Cell::Json(text)),
    };
    cell.ok_or_else(|| {
        let excerpt = json::excerpt(text);
        Cause::of(format!(
            "the kept field `{name}` is not of type {kind} ({excerpt})"
        ))
        .with(format!("mend it, or use `{KEEP} {name}:string`"))
    })
}

fn mismatch(name: &str, kind: KeepType, basis: Basis, raw: &str) -> Cause {
    let found = json::kind(raw);
    let numeric = matches!(found, JsonType::Integer | JsonType::Float);
    let what = match kind {
        KeepType::Int if found == JsonType::Integer => "beyond 64 bits".to_owned(),
        KeepType::Float if numeric => "beyond a 64-bit float".to_owned(),
        _ => found.to_string(),
    };
    let remedy = match (found, basis) {
        (JsonType::Array | JsonType::Object, _) => KeepType::Json,
        (JsonType::Integer, Basis::Nulls) => KeepType::Int,
        (_, Basis::Nulls) => natural(found),
        (JsonType::Float, _) if kind == KeepType::Int => KeepType::Float,
        _ => KeepType::String,
    };
    let but = match basis {
        Basis::Declared => format!("`{KEEP} {name}:{kind}` does not accept it"),
        Basis::Values => format!("the first records made it a column of type {kind}"),
        Basis::Nulls => {
            format!("the first records had no value in this column, so its type became {kind}")
        }
    };
    let excerpt = json::excerpt(raw);
    Cause::of(format!(
        "the kept field `{name}` is {what} ({excerpt}), but {but}"
    ))
    .with(format!("use `{KEEP} {name}:{remedy}`"))
}

/// A kept column.
pub(crate) struct KeptColumn {
    pub name: String,
    /// How records of lines are read; `None`: the first window has not decided yet.
    pub kind: Option<(KeepType, Basis)>,
    /// As a table has it.
    pub field: Option<FieldRef>,
    pub builder: Builder,
}

/// Gathers values of one type; or of none yet, as they are written.
pub(crate) enum Builder {
    String(StringBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Bool(BooleanBuilder),
    Undecided(Vec<Option<Box<str>>>),
}

impl Builder {
    /// Without room, which would be for thousands of values in each of the columns, however many there are.
    pub(crate) fn new(kind: Option<KeepType>) -> Self {
        match kind {
            None => Self::Undecided(Vec::new()),
            Some(KeepType::String | KeepType::Json) => {
                Self::String(StringBuilder::with_capacity(0, 0))
            }
            Some(KeepType::Int) => Self::Int(Int64Builder::with_capacity(0)),
            Some(KeepType::Float) => Self::Float(Float64Builder::with_capacity(0)),
            Some(KeepType::Bool) => Self::Bool(BooleanBuilder::with_capacity(0)),
        }
    }

    /// How many values were pushed.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::String(builder) => builder.len(),
            Self::Int(builder) => builder.len(),
            Self::Float(builder) => builder.len(),
            Self::Bool(builder) => builder.len(),
            Self::Undecided(values) => values.len(),
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::String(_) | Self::Undecided(_) => DataType::Utf8,
            Self::Int(_) => DataType::Int64,
            Self::Float(_) => DataType::Float64,
            Self::Bool(_) => DataType::Boolean,
        }
    }

    /// Appends a cell of this column's type, or null.
    pub(crate) fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Self::String(builder), Cell::String(text)) => builder.append_value(text),
            (Self::String(builder), Cell::Json(raw)) => builder.append_value(raw),
            (Self::Int(builder), Cell::Int(number)) => builder.append_value(*number),
            (Self::Float(builder), Cell::Float(number)) => builder.append_value(*number),
            (Self::Bool(builder), Cell::Bool(value)) => builder.append_value(*value),
            (Self::Undecided(values), Cell::Json(raw)) => values.push(Some((*raw).into())),
            (Self::String(builder), Cell::Null) => builder.append_null(),
            (Self::Int(builder), Cell::Null) => builder.append_null(),
            (Self::Float(builder), Cell::Null) => builder.append_null(),
            (Self::Bool(builder), Cell::Null) => builder.append_null(),
            (Self::Undecided(values), Cell::Null) => values.push(None),
            (_, cell) => unreachable!("{cell:?} was made for another column"),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::String(builder) => Arc::new(builder.finish()),
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Bool(builder) => Arc::new(builder.finish()),
            // Only a window without any row closes while types are undecided.
            Self::Undecided(_) => Arc::new(StringBuilder::new().finish()),
        }
    }
}

impl KeptColumn {
    /// Without any row.
    pub(crate) fn new(name: &str, kind: Option<(KeepType, Basis)>) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            field: None,
            builder: Builder::new(kind.map(|kind| kind.0)),
        }
    }

    /// Its name and type.
    pub(crate) fn field(&self) -> FieldRef {
        if let Some(field) = &self.field {
            return Arc::clone(field);
        }
        let field = Field::new(&self.name, self.builder.data_type(), true);
        Arc::new(if matches!(self.kind, Some((KeepType::Json, _))) {
            let (key, value) = JSON_COLUMN;
            field.with_metadata([(key.to_owned(), value.to_owned())])
        } else {
            field
        })
    }

    /// The cell for a value as it is written.
    ///
    /// # Errors
    /// The reason for which the value cannot stand in this column.
    pub(crate) fn cell<'a>(&self, raw: Option<&'a str>) -> Result<Cell<'a>, Cause> {
        let name = &self.name;
        let Some((kind, basis)) = self.kind else {
            return Ok(raw.map_or(Cell::Null, Cell::Json));
        };
        let cell = convert(name, kind, basis, raw)?;
        match (&cell, &self.field) {
            (Cell::Int(number), Some(field)) if !fit::holds(field.data_type(), *number) => {
                let to = field.data_type();
                Err(Cause::of(format!(
                    "the kept field `{name}` ({number}) does not fit into {to}, the type of what was read before"
                ))
                .with(format!("use `{KEEP} {name}:int`")))
            }
            _ => Ok(cell),
        }
    }

    /// The cell for a field of plain text.
    ///
    /// # Errors
    /// As [`KeptColumn::cell`].
    pub(crate) fn text_cell<'a>(&self, text: &'a str) -> Result<Cell<'a>, Cause> {
        let kind = self.kind.map_or(KeepType::String, |(kind, _)| kind);
        of_text(&self.name, kind, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Cell<'_> {
        Cell::String(Cow::Borrowed(text))
    }

    #[test]
    fn the_first_values_decide() {
        for (values, expected) in [
            (vec![], None),
            (vec!["null", "null"], None),
            (vec!["null", "1", "-2"], Some(KeepType::Int)),
            (vec!["1", "2.5"], Some(KeepType::Float)),
            (vec!["2.5", "1"], Some(KeepType::Float)),
            (vec!["1", "\"a\"", "1e2"], Some(KeepType::Float)),
            (vec!["\"a\"", "1"], Some(KeepType::String)),
            (vec!["true", "\"a\""], Some(KeepType::Bool)),
            (vec!["null", "[]", "1"], Some(KeepType::Json)),
            (vec!["{}"], Some(KeepType::Json)),
        ] {
            assert_eq!(decide(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn values_become_cells() {
        for (kind, raw, expected) in [
            (KeepType::String, r#""a\u00e9""#, text("aé")),
            (KeepType::String, "007.50", text("007.50")),
            (
                KeepType::String,
                "12345678901234567890123",
                text("12345678901234567890123"),
            ),
            (KeepType::String, "false", text("false")),
            (KeepType::Int, "-9223372036854775808", Cell::Int(i64::MIN)),
            (KeepType::Int, "-0", Cell::Int(0)),
            (KeepType::Float, "3", Cell::Float(3.0)),
            (
                KeepType::Float,
                "9007199254740993",
                Cell::Float(9_007_199_254_740_992.0),
            ),
            (KeepType::Float, "-1.5E-3", Cell::Float(-0.0015)),
            (KeepType::Bool, "true", Cell::Bool(true)),
            (
                KeepType::Json,
                r#"{ "a" : 1.0 }"#,
                Cell::Json(r#"{ "a" : 1.0 }"#),
            ),
            (KeepType::Json, "1.0", Cell::Json("1.0")),
        ] {
            assert_eq!(convert("x", kind, Basis::Declared, Some(raw)), Ok(expected));
            assert_eq!(
                convert("x", kind, Basis::Declared, Some("null")),
                Ok(Cell::Null)
            );
            assert_eq!(convert("x", kind, Basis::Declared, None), Ok(Cell::Null));
        }
    }

    #[test]
    fn a_mismatch_names_the_type_that_would_do() {
        let (declared, values, nulls) = (Basis::Declared, Basis::Values, Basis::Nulls);
        for (kind, basis, raw, remedy) in [
            (KeepType::Int, declared, "1.5", "x:float"),
            (KeepType::Int, declared, "9223372036854775808", "x:string"),
            (KeepType::Int, values, "\"1\"", "x:string"),
            (KeepType::Int, values, "[1]", "x:json"),
            (KeepType::Float, declared, "1e999", "x:string"),
            (KeepType::Float, declared, "true", "x:string"),
            (KeepType::Float, values, "9007199254740993", "x:string"),
            (KeepType::Bool, values, "0", "x:string"),
            (KeepType::String, declared, "{}", "x:json"),
            (KeepType::String, values, "1", "x:string"),
            (KeepType::String, nulls, "1", "x:int"),
            (KeepType::String, nulls, "1.0", "x:float"),
            (KeepType::String, nulls, "true", "x:bool"),
            (KeepType::String, declared, r#""\ud800""#, "x:json"),
        ] {
            let cause = convert("x", kind, basis, Some(raw)).unwrap_err();
            let advice = cause.remedy.unwrap();
            assert!(advice.contains(&format!("`--keep {remedy}`")), "{advice}");
        }
    }
}
