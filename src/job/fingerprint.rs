//! What decides an output's vectors and columns: its keys, compared by name.
//!
//! Two runs with the same fingerprint may write into one output. Threads, batches, windows and devices are
//! not in it; whatever changes a vector by more than rounding, or a column, is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;

/// Keys and values, in the order in which they are shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Map<String, Value>);

impl Fingerprint {
    /// Adds a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// A key's value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The keys in which it differs from `now`, each with what it was and what it is, but for those in
    /// `except`; keys that only one of them has count.
    #[must_use]
    pub fn differences(&self, now: &Self, except: &[&str]) -> Vec<String> {
        let different = differing(&self.0, &now.0);
        let different = different.filter(|key| !except.contains(key));
        let shown = different.flat_map(|key| match (self.0.get(key), now.0.get(key)) {
            // Of a model's files, those that differ.
            (Some(Value::Object(then)), Some(Value::Object(now))) => differing(then, now)
                .map(|inner| difference(&format!("{key}.{inner}"), then.get(inner), now.get(inner)))
                .collect(),
            (then, now) => vec![difference(key, then, now)],
        });
        shown.collect()
    }

    /// The SHA-256 of all keys and values, as hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut keys: Vec<_> = self.0.iter().collect();
        keys.sort_by_key(|(key, _)| *key);
        let mut hash = Hash::default();
        for (key, value) in keys {
            hash.add(format!("{key}={value}\n"));
        }
        hash.hex()
    }
}

/// The keys in which two objects differ.
fn differing<'k>(
    then: &'k Map<String, Value>,
    now: &'k Map<String, Value>,
) -> impl Iterator<Item = &'k str> {
    let added = now.keys().filter(|key| !then.contains_key(*key));
    let keys = then.keys().chain(added).map(String::as_str);
    keys.filter(|key| then.get(*key) != now.get(*key))
}

/// A key with what it was and what it is.
fn difference(key: &str, then: Option<&Value>, now: Option<&Value>) -> String {
    let show = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) if text.len() == 64 => text[..12].to_owned(),
        Some(value) => shorten(&value.to_string()),
    };
    format!("{key} ({} then, {} now)", show(then), show(now))
}

/// Long values are lists of files: their start says enough.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fingerprint(keys: &[(&str, Value)]) -> Fingerprint {
        let mut all = Fingerprint::default();
        for (key, value) in keys {
            all.set(key, value.clone());
        }
        all
    }

    #[test]
    fn differences_name_the_keys() {
        let old = fingerprint(&[("a", 1.into()), ("b", "x".into()), ("gone", true.into())]);
        let new = fingerprint(&[("b", "y".into()), ("a", 1.into()), ("new", 2.into())]);
        assert_eq!(
            old.differences(&new, &["new"]),
            ["b (\"x\" then, \"y\" now)", "gone (true then, none now)"]
        );
        assert_ne!(old.hash(), new.hash());
        let files = |hash: &str| fingerprint(&[("model", json!({"a.json": "0", "b.json": hash}))]);
        assert_eq!(
            files("1").differences(&files("2"), &[]),
            ["model.b.json (\"1\" then, \"2\" now)"]
        );
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let one = fingerprint(&[("a", 1.into()), ("b", 2.into())]);
        let two = fingerprint(&[("b", 2.into()), ("a", 1.into())]);
        assert_eq!(one.hash(), two.hash());
        assert!(one.differences(&two, &[]).is_empty());
    }
}
