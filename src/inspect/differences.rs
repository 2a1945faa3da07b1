//! Why two files' vectors do not mix: the keys of their provenance that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::Inspection;
use crate::word_list::{lists, words};

/// What says nothing about a vector: counts, hashes of what was written, speed.
const COUNTS: &str = "rows tokens sha256 profile part schema";

/// What differs between files whose vectors mix all the same: names, versions, what did the work. How near
/// engines are to each other is measured when they run.
const HARMLESS: &str = "tool model.id model.revision engine job text vector_columns";

/// Of these, what decides vectors all the same.
const GRAVE: &str = "engine.precision engine.arithmetic";

/// A key that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its name, with dots: `model.files.model.safetensors`.
    pub key: String,
    /// What it is in each file, in their order; `null`: nothing.
    pub values: Vec<Value>,
    /// Whether vectors of the two do not mix.
    pub decides: bool,
}

/// The keys that differ between files, those first that decide vectors. What has no provenance differs in
/// that.
#[must_use]
pub fn differences(files: &[Inspection]) -> Vec<Difference> {
    let keys: Vec<BTreeMap<String, Value>> = files
        .iter()
        .map(|file| match &file.provenance {
            Some(provenance) => {
                let mut keys = BTreeMap::new();
                flatten("", provenance, &mut keys);
                keys
            }
            None => BTreeMap::from([("provenance".to_owned(), Value::Null)]),
        })
        .collect();
    let without = files.iter().any(|file| file.provenance.is_none());
    let with = files.iter().any(|file| file.provenance.is_some());
    if without && with {
        return vec![Difference {
            key: "provenance".to_owned(),
            values: files
                .iter()
                .map(|file| file.provenance.is_some().into())
                .collect(),
            decides: true,
        }];
    }
    let names: BTreeSet<&String> = keys.iter().flat_map(BTreeMap::keys).collect();
    let mut found: Vec<Difference> = names
        .into_iter()
        .filter_map(|name| {
            let values = keys.iter().map(|keys| keys.get(name).cloned());
            let values: Vec<Value> = values.map(Option::unwrap_or_default).collect();
            let differs = values.iter().any(|value| *value != values[0]);
            differs.then(|| Difference {
                key: name.clone(),
                decides: decides(name),
                values,
            })
        })
        .collect();
    found.sort_by_key(|one| !one.decides);
    found
}

fn decides(key: &str) -> bool {
    let is = |list: &str| {
        words(list).any(|name| {
            key.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    is(GRAVE) || !is(HARMLESS)
}

fn flatten(prefix: &str, value: &Value, keys: &mut BTreeMap<String, Value>) {
    let inside = |name: &str| match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}.{name}"),
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if !(prefix.is_empty() && lists(COUNTS, name)) {
                    flatten(&inside(name), value, keys);
                }
            }
        }
        // A model's files, by path; their hashes say it all.
        Value::Array(list) if list.iter().any(|one| one["sha256"].is_string()) => {
            for file in list {
                let path = file["path"].as_str().unwrap_or_default();
                keys.insert(inside(path), file["sha256"].clone());
            }
        }
        other => {
            keys.insert(prefix.to_owned(), other.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Readable;
    use serde_json::json;

    fn file(provenance: Option<Value>) -> Inspection {
        Inspection {
            path: "a.parquet".into(),
            file: Readable::file("Cargo.toml".as_ref()).unwrap(),
            format: "parquet",
            bytes: 1,
            columns: Vec::new(),
            provenance,
            belongs: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn made(prompt: &str, hash: &str, provider: &str, rows: u64) -> Value {
        json!({
            "schema": 1,
            "model": {"id": "org/name", "files": [{"path": "model.safetensors", "sha256": hash}]},
            "prompt": prompt,
            "engine": {"provider": provider, "precision": "fp32"},
            "rows": {"embedded": rows},
        })
    }

    fn keys(one: Value, other: Value) -> Vec<(String, bool)> {
        let found = differences(&[file(Some(one)), file(Some(other))]);
        found
            .into_iter()
            .map(|one| (one.key, one.decides))
            .collect()
    }

    #[test]
    fn what_differs_is_named_and_what_decides_comes_first() {
        let one = made("", "aa", "native", 3);
        assert_eq!(keys(one.clone(), made("", "aa", "native", 4)), []);
        assert_eq!(
            keys(one.clone(), made("query: ", "bb", "cuda", 3)),
            [
                ("model.files.model.safetensors".to_owned(), true),
                ("prompt".to_owned(), true),
                ("engine.provider".to_owned(), false),
            ]
        );
        let mut int8 = one.clone();
        int8["engine"]["precision"] = "int8".into();
        assert_eq!(
            keys(one, int8.clone()),
            [("engine.precision".to_owned(), true)]
        );
        let mut newer = int8.clone();
        newer["engine"]["arithmetic"] = 2.into();
        assert_eq!(keys(int8, newer), [("engine.arithmetic".to_owned(), true)]);
    }

    #[test]
    fn a_file_without_provenance_mixes_with_none_that_has_one() {
        let found = differences(&[file(None), file(Some(made("", "aa", "cpu", 1)))]);
        assert_eq!((found.len(), found[0].decides), (1, true));
        assert_eq!(differences(&[file(None), file(None)]), []);
    }
}
