//! The names of a model's scores.

use serde_json::Value;

/// The labels of a config.json as transformers reads them: `id2label` by number, else as many as `num_labels` says, else
/// two.
pub(crate) fn labels(config: &Value) -> Vec<String> {
    let count = config["num_labels"].as_u64();
    let named = config["id2label"].as_object().map(|named| {
        let mut named: Vec<(u64, String)> = named
            .iter()
            .filter_map(|(number, label)| {
                let label = label
                    .as_str()
                    .map_or_else(|| label.to_string(), str::to_owned);
                Some((number.trim().parse().ok()?, label))
            })
            .collect();
        named.sort();
        named
    });
    match (named, count) {
        (Some(named), count) if count.is_none_or(|count| count == named.len() as u64) => {
            named.into_iter().map(|(_, label)| label).collect()
        }
        (_, count) => (0..count.unwrap_or(2).min(MOST))
            .map(|number| format!("LABEL_{number}"))
            .collect(),
    }
}

/// Labels at most: no classifier has more.
const MOST: u64 = 1 << 17;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_named_by_number() {
        for (config, expected) in [
            (json!({}), &["LABEL_0", "LABEL_1"][..]),
            (json!({"num_labels": 1}), &["LABEL_0"]),
            (
                json!({"id2label": {"10": "c", "2": "b", "0": "a"}}),
                &["a", "b", "c"],
            ),
            (json!({"id2label": {"0": "a"}, "num_labels": 1}), &["a"]),
            (
                json!({"id2label": {"0": "a"}, "num_labels": 2}),
                &["LABEL_0", "LABEL_1"],
            ),
            (json!({"id2label": {"0": 7, "1": "b"}}), &["7", "b"]),
        ] {
            assert_eq!(labels(&config), expected, "{config}");
        }
    }
}
