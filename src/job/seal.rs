//! Sums over what a job writes of itself. These files say where a run goes on and what may be removed: one in which
//! a digit has changed must not be believed.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::hash;

/// The key of the sum, beside what it is over.
const SUM: &str = "sum";

/// `value` as an object, with the SHA-256 of all of it in it.
///
/// # Errors
/// Only of a kind that a defect of ours has.
pub(crate) fn sealed(value: &impl Serialize) -> Result<Value> {
    let mut value = encode(value)?;
    let sum = sum(&value);
    if let Some(object) = value.as_object_mut() {
        object.insert(SUM.to_owned(), sum.into());
    }
    Ok(value)
}

/// What was sealed; `None` if it is not as it was then.
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
