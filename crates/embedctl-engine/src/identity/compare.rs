//! Comparing identities, and all else that a provenance or a fingerprint tells, field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// Fields by their paths, with dots: `model.files.model.safetensors`. A field that is null is left out.
pub type Fields = BTreeMap<String, Value>;

/// The weight of a difference in a field of a provenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Vectors of the two do not mix.
    Decides,
    /// Vectors mix: names, versions, and what did the work. Engines measure how near they are to each other.
    Harmless,
    /// It is no property of vectors: counts, places, hashes of what was written, speed.
    Count,
}

/// The meaning of fields, with all fields inside them. The first that fits counts; a field that fits none decides vectors, as
/// it may come from a version that knows more.
const WEIGHTS: [(&str, Weight); 18] = [
    ("engine.precision", Weight::Decides),
    ("engine.arithmetic", Weight::Decides),
    ("engine", Weight::Harmless),
    ("tool", Weight::Harmless),
    ("model.id", Weight::Harmless),
    ("model.revision", Weight::Harmless),
    ("model", Weight::Decides),
    ("chunking", Weight::Decides),
    ("text", Weight::Harmless),
    ("vector_columns", Weight::Harmless),
    ("job", Weight::Harmless),
    ("end", Weight::Count),
    ("part", Weight::Count),
    ("profile", Weight::Count),
    ("rows", Weight::Count),
    ("schema", Weight::Count),
    ("sha256", Weight::Count),
    ("tokens", Weight::Count),
];

impl Weight {
    /// The weight of the field at `path`.
    #[must_use]
    pub fn of(path: &str) -> Self {
        Self::in_table(path).unwrap_or(Self::Decides)
    }

    /// The same, where the table has it.
    #[must_use]
    pub fn in_table(path: &str) -> Option<Self> {
        let mut fitting = WEIGHTS.iter().filter(|(name, _)| is_within(path, name));
        fitting.next().map(|(_, weight)| *weight)
    }
}

/// Whether `path` is the field `name`, or one inside it.
#[must_use]
pub fn is_within(path: &str, name: &str) -> bool {
    path.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its path.
    pub key: String,
    /// Its values, in the order of what was compared; `null`: it is absent.
    pub values: Vec<Value>,
    /// Whether it has the weight [`Weight::Decides`].
    pub decides: bool,
}

impl fmt::Display for Difference {
    /// Of an output and a run: `prompt ("" then, "query: " now)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |index: usize| match self.values.get(index) {
            None | Some(Value::Null) => "none".to_owned(),
            // The hash of a file.
            Some(Value::String(text)) if text.len() == 64 => text.chars().take(12).collect(),
            Some(value) => shorten(&value.to_string()),
        };
        write!(f, "{} ({} then, {} now)", self.key, show(0), show(1))
    }
}

/// Differences of an output and a run, in one sentence.
#[must_use]
pub fn listed(differences: &[Difference]) -> String {
    let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
    shown.join(", ")
}

/// Long values are lists of files: their start says enough.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The precision of an engine that names none: single.
const PRECISION: (&str, &str) = ("engine.precision", "fp32");

/// What a field's value says: the native engine names single precision, and others do not.
fn meant<'v>(key: &str, value: &'v Value) -> Option<&'v Value> {
    let is_usual = key == PRECISION.0 && value.as_str().is_none_or(|it| it == PRECISION.1);
    Some(value).filter(|_| !is_usual)
}

/// The fields that do not say the same in all of these, in the order of their paths.
#[must_use]
pub fn differences(all: &[Fields]) -> Vec<Difference> {
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let difference = |key: &String| {
        let values = all.iter().map(|fields| fields.get(key).cloned());
        let values: Vec<Value> = values.map(Option::unwrap_or_default).collect();
        let differs = (values.iter()).any(|value| meant(key, value) != meant(key, &values[0]));
        differs.then(|| Difference {
            key: key.clone(),
            decides: Weight::of(key) == Weight::Decides,
            values,
        })
    };
    keys.into_iter().filter_map(difference).collect()
}

/// The fields of an object. A list of files stands for their hashes, by path.
#[must_use]
pub fn flatten(value: &Value) -> Fields {
    let mut fields = Fields::new();
    add("", value, &mut fields);
    fields
}

fn add(path: &str, value: &Value, fields: &mut Fields) {
    let inside = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, value) in members {
                add(&inside(name), value, fields);
            }
        }
        Value::Array(list) if list.iter().any(|one| one["sha256"].is_string()) => {
            for file in list {
                let path = file["path"].as_str().unwrap_or_default();
                fields.insert(inside(path), file["sha256"].clone());
            }
        }
        other => {
            fields.insert(path.to_owned(), other.clone());
        }
    }
}
