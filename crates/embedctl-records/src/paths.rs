//! Finding wanted fields in a JSON object in one pass, without building anything for the others.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json;

/// The values of the wanted fields of one object, as they are written.
#[derive(Debug)]
pub(crate) struct PathValues<'a> {
    // Two of each field: the value under its whole name at the top, and the value at its path.
    slots: Vec<Option<&'a str>>,
}

impl<'a> PathValues<'a> {
    /// The value of the field that was given as number `index`; `None` where it is missing.
    pub(crate) fn get(&self, index: usize) -> Option<&'a str> {
        self.slots[2 * index].or(self.slots[2 * index + 1])
    }
}

/// Which fields are wanted: a tree of their keys.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    roots: Nodes,
    fields: usize,
}

#[derive(Debug)]
struct Node {
    key: String,
    slots: Vec<usize>,
    children: Nodes,
}

impl Paths {
    /// Wants fields by name. `a.b` is the key `a.b` at the top where there is one, else `b` inside `a`.
    pub(crate) fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut paths = Self::default();
        for name in names {
            let slot = 2 * paths.fields;
            paths.fields += 1;
            Node::find_or_insert(&mut paths.roots, name)
                .slots
                .push(slot);
            if let Some((first, rest)) = name.split_once('.') {
                let mut node = Node::find_or_insert(&mut paths.roots, first);
                for key in rest.split('.') {
                    node = Node::find_or_insert(&mut node.children, key);
                }
                node.slots.push(slot + 1);
            }
        }
        paths
    }

    /// How many fields are wanted.
    pub(crate) fn len(&self) -> usize {
        self.fields
    }

    /// Wants one more field: the key `name` at the top.
    pub(crate) fn add(&mut self, name: &str) {
        let slot = 2 * self.fields;
        self.fields += 1;
        Node::find_or_insert(&mut self.roots, name).slots.push(slot);
    }

    /// A record of which the fields of these numbers have one value, and the others none.
    pub(crate) fn with<'a>(&self, numbers: &[usize], value: &'a str) -> PathValues<'a> {
        let mut slots = vec![None; 2 * self.fields];
        for number in numbers {
            slots[2 * number] = Some(value);
        }
        PathValues { slots }
    }

    /// The wanted fields of `object`, one JSON object. Of keys given twice the last one counts.
    pub(crate) fn find<'a>(&self, object: &'a str) -> serde_json::Result<PathValues<'a>> {
        let mut slots = vec![None; 2 * self.fields];
        let mut json = serde_json::Deserializer::from_str(object);
        Object {
            nodes: &self.roots,
            slots: &mut slots,
        }
        .deserialize(&mut json)?;
        json.end()?;
        Ok(PathValues { slots })
    }
}

/// Nodes beside each other: a record may have a hundred thousand keys.
#[derive(Debug, Default)]
struct Nodes {
    all: Vec<Node>,
    places: HashMap<String, usize>,
}

/// So many nodes are compared one by one, which is faster than a hash.
const FEW: usize = 16;

impl Nodes {
    fn place(&self, key: &str) -> Option<usize> {
        match self.all.len() {
            0..=FEW => self.all.iter().position(|node| node.key == key),
            _ => self.places.get(key).copied(),
        }
    }

    fn get(&self, key: &str) -> Option<&Node> {
        self.place(key).map(|index| &self.all[index])
    }
}

impl Node {
    /// The node of `key` among `nodes`, made if need be.
    fn find_or_insert<'n>(nodes: &'n mut Nodes, key: &str) -> &'n mut Self {
        let index = nodes.place(key).unwrap_or_else(|| {
            nodes.places.insert(key.to_owned(), nodes.all.len());
            nodes.all.push(Self {
                key: key.to_owned(),
                slots: Vec::new(),
                children: Nodes::default(),
            });
            nodes.all.len() - 1
        });
        &mut nodes.all[index]
    }

    /// Takes the value that stands under this node's key, instead of any before it.
    fn take<'a>(&self, raw: &'a str, slots: &mut [Option<&'a str>]) -> serde_json::Result<()> {
        for &slot in &self.slots {
            slots[slot] = Some(raw);
        }
        for child in &self.children.all {
            child.forget(slots);
        }
        if !self.children.all.is_empty() && raw.starts_with('{') {
            Object {
                nodes: &self.children,
                slots,
            }
            .deserialize(&mut serde_json::Deserializer::from_str(raw))?;
        }
        Ok(())
    }

    fn forget(&self, slots: &mut [Option<&str>]) {
        for &slot in &self.slots {
            slots[slot] = None;
        }
        for child in &self.children.all {
            child.forget(slots);
        }
    }
}

/// Reads one object and takes the values of `nodes`.
struct Object<'n, 's, 'a> {
    nodes: &'n Nodes,
    slots: &'s mut [Option<&'a str>],
}

impl<'a> DeserializeSeed<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(node) = map.next_key_seed(PathKey(self.nodes))? {
            match node {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(node) => {
                    let raw = map.next_value::<&'a RawValue>()?.get();
                    node.take(raw, self.slots)
                        .map_err(|error| M::Error::custom(json::message(&error)))?;
                }
            }
        }
        Ok(())
    }
}

/// Finds the node of a key.
struct PathKey<'n>(&'n Nodes);

impl<'n, 'a> DeserializeSeed<'a> for PathKey<'n> {
    type Value = Option<&'n Node>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for PathKey<'n> {
    type Value = Option<&'n Node>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.get(key))
    }
}

/// The keys of `object` in their order, each once. What stands under them is read as no value, so that it may be of
/// any size and depth, as for [`Paths::find`].
pub(crate) fn keys(object: &str) -> serde_json::Result<Vec<String>> {
    struct Keys;
    impl<'a> Visitor<'a> for Keys {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a JSON object")
        }

        fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Vec<String>, M::Error> {
            let mut seen = HashSet::new();
            let mut keys = Vec::new();
            while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
                if seen.insert(key.clone()) {
                    keys.push(key);
                }
            }
            Ok(keys)
        }
    }
    let mut json = serde_json::Deserializer::from_str(object);
    let keys = json.deserialize_map(Keys)?;
    json.end()?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn find<'a>(names: &[&str], object: &'a str) -> Vec<Option<&'a str>> {
        let values = Paths::new(names.iter().copied()).find(object).unwrap();
        (0..names.len()).map(|index| values.get(index)).collect()
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let object =
            r#" {"x": [1, {"text": 2}], "text" :  "a\nb" , "id": 1e400, "o": { "k" : 1 } } "#;
        assert_eq!(
            find(&["text", "id", "o", "none", "text"], object),
            [
                Some(r#""a\nb""#),
                Some("1e400"),
                Some(r#"{ "k" : 1 }"#),
                None,
                Some(r#""a\nb""#)
            ]
        );
    }

    #[test]
    fn fields_nest() {
        let object = r#"{"a":{"b":{"c":1,"x":2},"d":null},"e":[{"f":1}],"g":1}"#;
        assert_eq!(
            find(
                &["a.b.c", "a.d", "a.b", "e.f", "e.0", "g.h", "a..b"],
                object
            ),
            [
                Some("1"),
                Some("null"),
                Some(r#"{"c":1,"x":2}"#),
                None,
                None,
                None,
                None
            ]
        );
    }

    #[test]
    fn a_whole_name_at_the_top_comes_before_a_path() {
        for object in [r#"{"a.b":1,"a":{"b":2}}"#, r#"{"a":{"b":2},"a.b":1}"#] {
            assert_eq!(find(&["a.b"], object), [Some("1")]);
        }
        assert_eq!(
            find(&["a.b"], r#"{"a.b":null,"a":{"b":2}}"#),
            [Some("null")]
        );
        assert_eq!(find(&["a.b.c"], r#"{"a":{"b.c":1}}"#), [None]);
        assert_eq!(find(&["."], r#"{"":{"":1}}"#), [Some("1")]);
    }

    #[test]
    fn of_keys_given_twice_the_last_counts() {
        assert_eq!(find(&["a"], r#"{"a":1,"a":2}"#), [Some("2")]);
        assert_eq!(find(&["a.b"], r#"{"a":{"b":1},"a":{"c":2}}"#), [None]);
        assert_eq!(find(&["a.b.c"], r#"{"a":{"b":{"c":1}},"a":3}"#), [None]);
    }

    #[test]
    fn keys_may_be_escaped() {
        assert_eq!(
            find(&["text", "é"], r#"{"te\u0078t":1,"\u00e9":2}"#),
            [Some("1"), Some("2")]
        );
    }

    #[test]
    fn fields_that_are_not_wanted_must_be_json_too() {
        let paths = Paths::new(["a", "b.c"]);
        for object in [
            "",
            "{",
            r#"{"a":1"#,
            r#"{"x":}"#,
            r#"{"x":tru}"#,
            r#"{"x":01}"#,
            r#"{"x":1}}"#,
            r#"{"x":1} {}"#,
            r#"{"x":1,}"#,
            r"{'x':1}",
            "{\"x\":\"a\tb\"}",
            r#"{"x":"\q"}"#,
            r#"{"x":NaN}"#,
            r#"{"b":{"\ud800":1}}"#,
            "[]",
        ] {
            assert!(paths.find(object).is_err(), "{object}");
        }
        let deep = format!(r#"{{"x":{}{},"a":1}}"#, "[".repeat(5000), "]".repeat(5000));
        assert_eq!(paths.find(&deep).unwrap().get(0), Some("1"));
    }

    /// JSON values with few keys, so that they meet and nest.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            let key = prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("\"\\\u{e9}")];
            let entries = prop::collection::vec((key, inner.clone()), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::from),
                entries.prop_map(|entries| entries.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_whole_parse_gives(a in values(), b in values()) {
            let object = serde_json::json!({"x": a, "a": b, "b": {"a": a, "b": b}});
            let written = serde_json::to_string_pretty(&object).unwrap();
            let names = ["a", "a.b", "a.a.b", "b.a", "b.b.a", "x.\"\\\u{e9}", "c"];
            let paths = Paths::new(names);
            let values = paths.find(&written).unwrap();
            let object: Value = serde_json::from_str(&written).unwrap();
            for (index, name) in names.iter().enumerate() {
                let expected = name.split('.').try_fold(&object, |value, key| value.get(key));
                let found = values.get(index).map(|raw| serde_json::from_str(raw).unwrap());
                prop_assert_eq!(found.as_ref(), expected, "{}", name);
            }
        }
    }
}
