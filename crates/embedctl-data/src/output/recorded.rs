//! What a provenance says of each kind of vectors that a row has: columns, type, form and ranges.

use serde_json::Value;

use crate::vectors::columns_by_kind;
use crate::writing::encoding::BESIDE;
use crate::writing::forms::recorded_form;
use embedctl_records::quantize::{Dtype, Ranges};
use embedctl_records::vectors::RecordedColumn;
use embedctl_vectors::RowForm;

/// A kind of vectors.
#[derive(Debug, Clone)]
pub struct RecordedKind {
    /// Its columns; empty where the provenance names none, as those of old versions do.
    pub columns: Vec<String>,
    /// The type of components.
    pub dtype: Dtype,
    /// The form, without sizes; `None` for maps from terms to weights, which are read back where the terms are known.
    pub form: Option<RowForm>,
    /// The width of its vectors, where there is one.
    pub width: Option<usize>,
    /// The ranges that divide the components of each column into steps, as many as there are columns.
    pub ranges: Vec<Option<Ranges>>,
}

/// The kinds of vectors that the provenance describes, in the order of their columns.
#[must_use]
pub fn recorded_kinds(made: &Value) -> Vec<RecordedKind> {
    let beside = made[BESIDE].as_array().into_iter().flatten();
    let own = std::iter::once(made).chain(beside);
    let columns = columns_by_kind(made);
    own.zip(columns)
        .map(|(made, columns)| kind(made, &columns))
        .collect()
}

fn kind(made: &Value, columns: &[RecordedColumn]) -> RecordedKind {
    let dtype = made["dtype"].as_str().and_then(|name| name.parse().ok());
    let ranges = |name: &str| {
        let ranges = &made["calibration"]["ranges"][name];
        serde_json::from_value::<Ranges>(ranges.clone()).ok()
    };
    RecordedKind {
        ranges: columns.iter().map(|column| ranges(&column.name)).collect(),
        columns: columns.iter().map(|column| column.name.clone()).collect(),
        dtype: dtype.unwrap_or_default(),
        form: recorded_form(made),
        width: made["dimensions"]
            .as_u64()
            .and_then(|width| width.try_into().ok()),
    }
}
