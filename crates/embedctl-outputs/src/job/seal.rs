//! Checksums of a job's own files. These files decide where a run resumes and which files may be removed, so a
//! changed one must not be trusted.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::hash;

/// The key of the sum, in the same object.
const SUM: &str = "sum";

/// `value` as an object, with the SHA-256 of all of it in it.
///
/// # Errors
/// Only on an internal error.
pub(crate) fn sealed(value: &impl Serialize) -> Result<Value> {
    let mut value = encode(value)?;
    let sum = sum(&value);
    if let Some(object) = value.as_object_mut() {
        object.insert(SUM.to_owned(), sum.into());
    }
    Ok(value)
}

/// The sealed value; `None` if it has changed since.
pub(super) fn opened<T: DeserializeOwned>(mut value: Value) -> Option<T> {
    let found = value.as_object_mut()?.shift_remove(SUM)?;
    (found == sum(&value)).then_some(())?;
    serde_json::from_value(value).ok()
}

fn sum(value: &Value) -> String {
    hash::of(value.to_string())
}

pub(super) fn encode(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Error::internal(format!("writing JSON: {error}")))
}
