//! The keys of config.json that transformers' classes read. The list is made from their own source
//! (`fixtures/architectures/config_keys.py`) and bears its date.

const LIST: &str = include_str!("config_keys.txt");

/// The keys in the line of `kind`; `*` is the line of those that all classes read.
fn line(kind: &str) -> Option<&'static str> {
    let mut lines = LIST.lines().filter_map(|line| line.split_once(' '));
    lines
        .find(|(first, _)| *first == kind)
        .map(|(_, keys)| keys)
}

/// Whether the list has the class for `model_type`.
pub(crate) fn lists(model_type: &str) -> bool {
    line(model_type).is_some()
}

/// The keys that the class for `model_type` reads.
pub(crate) fn of(model_type: &str) -> impl Iterator<Item = &'static str> {
    let lines = [line("*"), line(model_type)].into_iter().flatten();
    lines.flat_map(|keys| keys.split(' '))
}

/// Whether the class for `model_type` reads the key `name`. A class that the list lacks may read any.
pub(crate) fn reads(model_type: &str, name: &str) -> bool {
    !lists(model_type) || of(model_type).any(|key| key == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_by_the_classes_that_the_list_names() {
        for (kind, name, read) in [
            ("bert", "layer_norm_eps", true),
            ("bert", "is_decoder", true),
            ("bert", "matryoshka_dimensions", false),
            ("bert", "layer_norm", false),
            ("gte", "pack_qkv", false),
            ("gte", "layer_norm_type", false),
            ("gte", "rope_parameters", true),
            ("qwen3", "use_sliding_window", true),
            ("bert", "use_sliding_window", false),
            // Read by code that all classes share.
            ("bert", "quantization_config", true),
            ("a type that nobody knows", "matryoshka_dimensions", true),
        ] {
            assert_eq!(reads(kind, name), read, "{kind}: {name}");
        }
    }

    #[test]
    fn the_list_is_dated_and_each_type_stands_there_once() {
        assert!(LIST.starts_with('#') && LIST.contains("transformers 5."));
        let mut kinds = std::collections::BTreeSet::new();
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            assert!(kinds.insert(line.split(' ').next()), "{line}");
            assert!(!line.contains("  ") && !line.ends_with(' '), "{line}");
        }
        assert!(kinds.len() > 100 && lists("*"));
    }
}
