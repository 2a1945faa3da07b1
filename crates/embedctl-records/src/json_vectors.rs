//! Vectors read back from a line of JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::quantize::Dtype;
use crate::vectors::{CUT, RecordedColumns, StoredVector, TakeVector, in_full};
use embedctl_common::error::{Error, Place, Result};

/// A name; borrowed from its line where it holds no escape.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// A sparse vector.
#[derive(Deserialize)]
struct SparseParts {
    indices: Vec<u32>,
    values: Vec<f32>,
}

/// Hands over the vectors of line `number`, counted from 1, of the file called `file`.
///
/// # Errors
/// If the line is not an object, holds a vector that is none, or `take` says so.
pub fn line_vectors(
    line: &[u8],
    number: u64,
    file: &str,
    recorded: &RecordedColumns,
    take: &mut TakeVector<'_>,
) -> Result<()> {
    // Values that were kept may be beyond what a number holds here.
    let object: BTreeMap<FieldName<'_>, &RawValue> =
        serde_json::from_slice(line).map_err(|error| {
            let reason = format!("line {number} is not a JSON object: {error}");
            Error::input(Place::file(file), reason).with_remedy(CUT)
        })?;
    let names = || object.keys().map(|key| key.0.as_ref());
    for (FieldName(column), value) in &object {
        if !recorded.takes(column, names()) {
            continue;
        }
        let own = recorded.column(column);
        let form = own.and_then(|own| own.form.as_ref());
        let dtype = own.and_then(|own| own.dtype).unwrap_or(Dtype::F32);
        let single = || {
            let number = serde_json::from_str::<f32>(value.get()).ok();
            number.filter(|_| own.is_some()).map(|number| vec![number])
        };
        if form.is_some_and(|form| !form.is_one_per_row()) {
            let vectors = serde_json::from_str::<Option<Vec<Vec<f32>>>>(value.get());
            let vectors = vectors.map_err(|error| {
                let reason = format!("line {number} has no list of vectors: {error}");
                Error::input(Place::file(file), reason)
            })?;
            for values in vectors.iter().flatten() {
                take(StoredVector {
                    column,
                    row: number - 1,
                    dtype,
                    values,
                })?;
            }
            continue;
        }
        let list = serde_json::from_str::<Vec<Option<f32>>>(value.get()).ok();
        let whole = |list: &Vec<Option<f32>>| list.iter().copied().collect::<Option<Vec<f32>>>();
        let is_vector = |list: &Vec<Option<f32>>| own.is_some() || list.iter().any(Option::is_some);
        if list
            .as_ref()
            .is_some_and(|it| whole(it).is_none() && is_vector(it))
        {
            let reason = format!("line {number} has a vector with null in the place of a number");
            return Err(Error::input(Place::file(file), reason)
                .with_remedy("write it again, or make the vector null as a whole"));
        }
        let list = list.as_ref().and_then(whole);
        let entries = || {
            let width = own?.width?;
            let SparseParts { indices, values } = serde_json::from_str(value.get()).ok()?;
            in_full(width, indices.into_iter().zip(values))
        };
        let list = list.or_else(entries);
        let Some(values) = list.or_else(single) else {
            continue;
        };
        take(StoredVector {
            column,
            row: number - 1,
            dtype,
            values: &values,
        })?;
    }
    Ok(())
}
