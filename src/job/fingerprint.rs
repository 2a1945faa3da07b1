//! What decides an output's vectors and columns: its keys, compared by name.
//!
//! Two runs with the same fingerprint may write into one output. Threads, batches, windows and devices are
//! not in it; whatever changes a vector by more than rounding, or a column, is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

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
        let mut keys: Vec<&String> = self.0.keys().collect();
        keys.extend(now.0.keys().filter(|key| !self.0.contains_key(*key)));
        let keys = keys
            .into_iter()
            .filter(|key| !except.contains(&key.as_str()));
        keys.filter(|key| self.0.get(*key) != now.0.get(*key))
            .map(|key| {
                let show = |value: Option<&Value>| match value {
                    None | Some(Value::Null) => "none".to_owned(),
                    Some(Value::String(text)) if text.len() == 64 => text[..12].to_owned(),
                    Some(value) => shorten(&value.to_string()),
                };
                format!(
                    "{key} ({} then, {} now)",
                    show(self.0.get(key)),
                    show(now.0.get(key))
                )
            })
            .collect()
    }

    /// The SHA-256 of all keys and values, as hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut keys: Vec<_> = self.0.iter().collect();
        keys.sort_by_key(|(key, _)| *key);
        let mut hash = Sha256::new();
        for (key, value) in keys {
            hash.update(format!("{key}={value}\n"));
        }
        hex(&hash.finalize())
    }
}

/// Long values are lists of files: their start says enough.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let one = fingerprint(&[("a", 1.into()), ("b", 2.into())]);
        let two = fingerprint(&[("b", 2.into()), ("a", 1.into())]);
        assert_eq!(one.hash(), two.hash());
        assert!(one.differences(&two, &[]).is_empty());
    }
}
