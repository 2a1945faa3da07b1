//! The fingerprint of a run: the identity of its vectors, and the options that decide its rows and columns.
//!
//! Two runs with the same fingerprint may write into one output.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;
use crate::identity::{self, Difference, Fields, VectorIdentity, flatten};

/// Key of the inputs' names.
pub const INPUT_NAMES: &str = "inputs";

/// Key of the inputs' sizes. A complete output is compared by it; a resumed run compares the records that it reads.
pub const INPUT_SIZES: &str = "input_sizes";

/// Whether the difference is one of the inputs, and not of what is made of them.
#[must_use]
pub fn is_of_inputs(difference: &Difference) -> bool {
    let key = difference.key.split('.').next();
    matches!(key, Some(INPUT_NAMES | INPUT_SIZES))
}

/// Keys and values as they are stored: its hash is that of the run that wrote them, whatever it knew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(Map<String, Value>);

impl Fingerprint {
    /// The fingerprint of vectors of this identity, to which a run's options are added.
    #[must_use]
    pub fn new(identity: &VectorIdentity) -> Self {
        match serde_json::to_value(identity) {
            Ok(Value::Object(keys)) => Self(keys),
            _ => Self::default(),
        }
    }

    /// Adds a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// A key's value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The identity of the vectors. Where it is damaged, it differs from every other.
    #[must_use]
    pub fn identity(&self) -> VectorIdentity {
        VectorIdentity::deserialize(Value::Object(self.0.clone())).unwrap_or_default()
    }

    /// The fields in which the fingerprint of a run differs from this one of an earlier run, but for those of the
    /// options in `except`. Fields of the identity that the run does not know yet do not differ.
    #[must_use]
    pub fn differences(&self, now: &Self, except: &[&str]) -> Vec<Difference> {
        let then = self.identity();
        let identity = now.identity().or_as(&then);
        identity::differences(&[self.fields(&then, except), now.fields(&identity, except)])
    }

    /// The fields of `identity`, and of the options but for those in `except`.
    fn fields(&self, identity: &VectorIdentity, except: &[&str]) -> Fields {
        let own = Self::new(identity).0;
        let keys = self.0.iter();
        let options =
            keys.filter(|(key, _)| !own.contains_key(*key) && !except.contains(&key.as_str()));
        let options = options.map(|(key, value)| (key.clone(), value.clone()));
        let mut fields = flatten(&Value::Object(options.collect()));
        fields.extend(identity.fields());
        fields
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

    fn differences(then: &Fingerprint, now: &Fingerprint, except: &[&str]) -> Vec<String> {
        let found = then.differences(now, except);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn differences_name_the_keys() {
        let old = fingerprint(&[("a", 1.into()), ("b", "x".into()), ("gone", true.into())]);
        let new = fingerprint(&[("b", "y".into()), ("a", 1.into()), ("new", 2.into())]);
        assert_eq!(
            differences(&old, &new, &["new"]),
            ["b (\"x\" then, \"y\" now)", "gone (true then, none now)"]
        );
        assert_ne!(old.hash(), new.hash());
        let files = |hash: &str| fingerprint(&[("model", json!({"a.json": "0", "b.json": hash}))]);
        assert_eq!(
            differences(&files("1"), &files("2"), &[]),
            ["model.files.b.json (\"1\" then, \"2\" now)"]
        );
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let one = fingerprint(&[("a", 1.into()), ("b", 2.into())]);
        let two = fingerprint(&[("b", 2.into()), ("a", 1.into())]);
        assert_eq!(one.hash(), two.hash());
        assert!(one.differences(&two, &[]).is_empty());
    }

    #[test]
    fn damaged_keys_of_the_identity_differ() {
        let damaged = fingerprint(&[("max_length", "long".into()), ("prompt", "p".into())]);
        let whole = fingerprint(&[("max_length", 9.into()), ("prompt", "p".into())]);
        let found = damaged.differences(&whole, &[]);
        assert!(found.iter().any(|one| one.key == "max_length"), "{found:?}");
    }
}
