//! Normalizers and pre-tokenizers, written as a `tokenizer.json` writes them.

use serde_json::{Value, json};
use tokenizers::normalizers::NormalizerWrapper;

/// A step of a normalizer; `None` where an argument or the file leaves it out.
pub(super) type Step = Option<NormalizerWrapper>;

pub(super) fn step(value: Value) -> Step {
    Some(serde_json::from_value(value).expect("a normalizer as the crate writes it"))
}

pub(super) fn nfc() -> Step {
    step(json!({"type": "NFC"}))
}

pub(super) fn lowercase() -> Step {
    step(json!({"type": "Lowercase"}))
}

pub(super) fn strip(left: bool, right: bool) -> Step {
    step(json!({"type": "Strip", "strip_left": left, "strip_right": right}))
}

/// Removes accents from a text, unless they are kept.
pub(super) fn accents(kept: bool) -> [Step; 2] {
    ["NFKD", "StripAccents"].map(|kind| step(json!({"type": kind})).filter(|_| !kept))
}

/// Replaces a text.
pub(super) fn replace_text(text: &str, by: &str) -> Step {
    replace(&json!({"String": text}), by)
}

/// Replaces the matches of a regular expression.
pub(super) fn replace_matches(pattern: &str, by: &str) -> Step {
    replace(&json!({"Regex": pattern}), by)
}

fn replace(pattern: &Value, by: &str) -> Step {
    step(json!({"type": "Replace", "pattern": pattern, "content": by}))
}

/// Several spaces become one.
pub(super) fn single_spaces() -> Step {
    replace_matches(" {2,}", " ")
}

/// LaTeX's quotes become plain ones.
pub(super) fn plain_quotes() -> [Step; 2] {
    ["``", "''"].map(|quotes| replace_text(quotes, "\""))
}

/// White space of several characters, line breaks and tabs become a space, as DeBERTa v2 and Barthez have it.
pub(super) fn single_white_space() -> Step {
    replace_matches(r"\s{2,}|[\n\r\t]", " ")
}

pub(super) fn bert(clean: bool, chinese: bool, accents: Value, lower: bool) -> Step {
    step(
        json!({"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
        "strip_accents": accents, "lowercase": lower}),
    )
}

pub(super) fn bert_words() -> Value {
    json!({"type": "BertPreTokenizer"})
}

pub(super) fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

pub(super) fn byte_level(prefix: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": use_regex})
}

pub(super) fn sequence(list: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": list})
}

/// Words at white space, each with SentencePiece's mark before it.
pub(super) fn at_spaces(scheme: &str) -> Value {
    sequence(&[json!({"type": "WhitespaceSplit"}), metaspace(scheme, true)])
}

/// How Qwen's tokenizers split a text; `marks` are a word's characters beside letters.
pub(super) fn qwen_split(marks: &str) -> Value {
    let letters = if marks.is_empty() {
        r"\p{L}".to_string()
    } else {
        format!(r"[\p{{L}}{marks}]")
    };
    let pattern = format!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}| ?[^\s\p{{L}}{marks}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    );
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

/// How CLIP's tokenizer finds words.
pub(super) fn clip_split() -> Value {
    let words = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";
    json!({"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex": words}})
}
