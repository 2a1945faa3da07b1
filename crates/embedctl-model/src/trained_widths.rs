//! The widths to which a model's vectors may be cut, where its files name those that it was trained for (Matryoshka
//! representation learning).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::metadata;
use embedctl_common::small_file;

/// A card that is longer is not read.
const MOST_BYTES: u64 = 4 << 20;

/// The list in a card as sentence-transformers writes it, among the parameters of the loss.
const IN_CARD: &str = "\"matryoshka_dims\":";

/// The list in config.json.
const IN_CONFIG: &str = "matryoshka_dimensions";

/// The widths that `folder` names for vectors of `width` components, in ascending order: in config.json, else in its
/// card, README.md. Empty where neither does.
pub(super) fn trained_widths(folder: &Path, width: usize) -> Vec<usize> {
    let config = metadata::read_value(&folder.join("config.json"));
    let stated = config.ok().flatten().map(|config| {
        let list = config[IN_CONFIG].as_array().into_iter().flatten();
        list.filter_map(Value::as_u64)
            .filter_map(|width| usize::try_from(width).ok())
            .collect()
    });
    let of_card = || {
        let card = small_file::read_text(&folder.join("README.md"), MOST_BYTES).ok()?;
        Some(in_card(&card))
    };
    let stated: BTreeSet<usize> = stated
        .filter(|widths: &BTreeSet<usize>| !widths.is_empty())
        .or_else(of_card)
        .unwrap_or_default();
    stated
        .into_iter()
        .filter(|it| (1..=width).contains(it))
        .collect()
}

/// The numbers in the brackets behind the parameter's name.
fn in_card(card: &str) -> BTreeSet<usize> {
    let list = card.split_once(IN_CARD).and_then(|(_, rest)| {
        let (list, _) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
        Some(list)
    });
    let numbers = list.into_iter().flat_map(|list| list.split(','));
    numbers
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn widths_come_from_the_configuration_or_the_card() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let found = || trained_widths(folder.path(), 768);
        assert!(found().is_empty());
        write("config.json", r#"{"hidden_size": 768}"#);
        let card = "# A model\n* Loss: MatryoshkaLoss with these parameters:\n  ```json\n  {\n      \
                    \"matryoshka_dims\": [\n          768,\n          256,\n          64\n      ],\n      \
                    \"n_dims_per_step\": -1\n  }\n";
        write("README.md", card);
        assert_eq!(found(), [64, 256, 768]);
        write(
            "config.json",
            r#"{"matryoshka_dimensions": [32, 1024, 128]}"#,
        );
        assert_eq!(found(), [32, 128]);
        write("config.json", "{}");
        write("README.md", "\"matryoshka_dims\": many");
        assert!(found().is_empty());
    }
}
