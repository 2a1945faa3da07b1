//! Why two files' vectors do not mix: the keys of their provenance that differ.

use serde_json::Value;

use super::Inspection;
use crate::identity::{self, Difference, Fields, VectorIdentity, Weight, flatten};

/// The keys that differ between files, those first that decide vectors. A file without a provenance differs in that from
/// one with it.
#[must_use]
pub fn differences(files: &[Inspection]) -> Vec<Difference> {
    let with: Vec<bool> = files.iter().map(|it| it.provenance.is_some()).collect();
    if with.contains(&true) && with.contains(&false) {
        return vec![Difference {
            key: "provenance".to_owned(),
            values: with.into_iter().map(Value::from).collect(),
            decides: true,
        }];
    }
    let made = files.iter().filter_map(|file| file.provenance.as_ref());
    let fields: Vec<Fields> = made.map(fields).collect();
    let mut found = identity::differences(&fields);
    found.sort_by_key(|one| !one.decides);
    found
}

/// The fields of a provenance without its counts. Fields that decide vectors are taken from the identity.
fn fields(made: &Value) -> Fields {
    let mut fields = flatten(made);
    fields.retain(|key, _| Weight::of(key) != Weight::Count);
    let mut identity = VectorIdentity::of_provenance(made).fields();
    identity.retain(|key, _| Weight::of(key) == Weight::Decides);
    fields.extend(identity);
    fields
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
