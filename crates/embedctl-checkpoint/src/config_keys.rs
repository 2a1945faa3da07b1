//! The keys of config.json that transformers' classes read. The list is made from their own source
//! (`fixtures/architectures/config_keys.py`) and bears its date.

use embedctl_common::word_list;

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

/// The mark behind a key whose default is not to be off.
const NOT_OFF: char = '!';

/// The keys that the class for `model_type` reads, its own before those of all classes, and whether each is off, nothing
/// or zero where it is left out.
fn with_defaults(model_type: &str) -> impl Iterator<Item = (&'static str, bool)> {
    let lines = [line(model_type), line("*")].into_iter().flatten();
    let keys = lines.flat_map(|keys| keys.split(' '));
    keys.map(|key| match key.strip_suffix(NOT_OFF) {
        Some(key) => (key, false),
        None => (key, true),
    })
}

/// The keys that the class for `model_type` reads.
#[cfg(test)]
pub(crate) fn of(model_type: &str) -> impl Iterator<Item = &'static str> {
    with_defaults(model_type).map(|(key, _)| key)
}

/// Keys that the base of all classes converts for some. A class that reads them has them in its own line.
const OF_SOME: &str = "layer_types rope_parameters rope_scaling rope_theta sliding_window";

/// Whether the class for `model_type` reads the key `name`. A class that the list lacks may read any.
pub(crate) fn reads(model_type: &str, name: &str) -> bool {
    let Some(own) = line(model_type) else {
        return true;
    };
    match word_list::lists(OF_SOME, name) {
        true => own
            .split(' ')
            .any(|key| key.trim_end_matches(NOT_OFF) == name),
        false => with_defaults(model_type).any(|(key, _)| key == name),
    }
}

/// Whether to switch the key `name` off is to leave it out, for the class for `model_type`. What a class does not read
/// may be left out, and a class that the list lacks says nothing of its defaults.
pub(crate) fn is_off_by_default(model_type: &str, name: &str) -> bool {
    let mut keys = with_defaults(model_type);
    keys.find(|(key, _)| *key == name)
        .is_none_or(|(_, is_off)| is_off || !lists(model_type))
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
            ("bert", "is_causal", true),
            ("modernbert", "is_causal", false),
            ("lfm2", "num_heads", false),
            ("qwen3", "partial_rotary_factor", true),
            ("bert", "partial_rotary_factor", false),
            ("qwen3", "model_name", false),
            ("bert", "embedding_dim", false),
            ("gte", "pack_qkv", false),
            ("gte", "layer_norm_type", false),
            ("gte", "rope_parameters", true),
            ("qwen3", "use_sliding_window", true),
            ("bert", "use_sliding_window", false),
            // Read by the base of all classes.
            ("bert", "quantization_config", true),
            // Converted by the base for some.
            ("bert", "sliding_window", false),
            ("bert", "rope_theta", false),
            ("llama", "sliding_window", false),
            ("llama", "rope_theta", true),
            ("smollm3", "sliding_window", true),
            ("modernbert", "sliding_window", true),
            ("a type that nobody knows", "matryoshka_dimensions", true),
        ] {
            assert_eq!(reads(kind, name), read, "{kind}: {name}");
        }
    }

    #[test]
    fn a_switch_is_off_by_default_where_its_class_says_so() {
        for (kind, name, is_off) in [
            ("modernbert-decoder", "is_causal", false),
            ("qwen3", "use_sliding_window", true),
            ("lfm2", "block_auto_adjust_ff_dim", false),
            ("bert", "is_decoder", true),
            ("bert", "num_hidden_layers", false),
            ("bert", "a_switch_that_nobody_reads", true),
            // The class's own default counts before that of all classes.
            ("qwen3", "sliding_window", false),
            ("llama", "sliding_window", true),
            ("a type that nobody knows", "is_causal", true),
        ] {
            assert_eq!(is_off_by_default(kind, name), is_off, "{kind}: {name}");
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
