//! Normalizer, pre-tokenizer and model settings that a class brings itself.

use serde_json::{Value, json};
use tokenizers::Tokenizer;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::byte_level::ByteLevel;

use super::Result;
use super::backend::template;
use super::special::text_of;
use super::vocabulary::{Bpe, Model};
use crate::model::tokenizer::arguments::{Arguments, Special};
use crate::model::tokenizer::languages::{MBART, MBART_50};
use crate::model::tokenizer::registry::{Chosen, Class};

/// How Qwen's tokenizers split a text; `{}` is what words consist of beside letters.
fn qwen_split(marks: &str) -> String {
    let letters = if marks.is_empty() {
        r"\p{L}".to_string()
    } else {
        format!(r"[\p{{L}}{marks}]")
    };
    format!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}| ?[^\s\p{{L}}{marks}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
}

/// The tokenizer before tokens are added and the template is set.
#[allow(clippy::too_many_lines)] // one arm a class
pub(super) fn rebuild(
    chosen: &Chosen,
    file: &Tokenizer,
    arguments: &Arguments,
    names: &mut [(String, Option<Special>)],
) -> Result<Tokenizer> {
    let class = chosen.class;
    let model = Model { chosen, file };
    let unknown = text_of(names, "unk_token");
    let unknown = unknown.as_str();
    let flag = |key: &str, default: bool| arguments.flag(key).unwrap_or(default);
    let prefix_space = |default| flag("add_prefix_space", default);
    let always = |default: bool| {
        if prefix_space(default) {
            "always"
        } else {
            "never"
        }
    };
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    let spaces = || replace(json!({"Regex": " {2,}"}), " ");
    let bert = |clean: bool, chinese: bool, accents: Value, lower: bool| {
        json!({"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
               "strip_accents": accents, "lowercase": lower})
    };
    let bert_pre = json!({"type": "BertPreTokenizer"});
    let quotes = || {
        [
            normalizer(replace(json!({"String": "``"}), "\"")),
            normalizer(replace(json!({"String": "''"}), "\"")),
        ]
    };
    let accents = || ["NFKD", "StripAccents"].map(|kind| normalizer(json!({"type": kind})));
    let lowercase = || normalizer(json!({"type": "Lowercase"}));
    let (model, pre) = match class {
        Class::Backend | Class::ConvBert | Class::Fnet | Class::Parakeet => {
            unreachable!("these keep the file")
        }
        Class::Bert
        | Class::DistilBert
        | Class::Dpr
        | Class::DprReader
        | Class::Mpnet
        | Class::Splinter
        | Class::Funnel => {
            // DPR's classes take the setting and forget it.
            let lower =
                matches!(class, Class::Dpr | Class::DprReader) || flag("do_lower_case", true);
            let clean = class != Class::Funnel || flag("clean_text", true);
            let strip = arguments.get("strip_accents").cloned().unwrap_or_default();
            steps.push(normalizer(bert(
                clean,
                flag("tokenize_chinese_chars", true),
                strip,
                lower,
            )));
            // Funnel's setting of another prefix is for decoding alone.
            (model.word_piece(unknown, "##")?, bert_pre)
        }
        Class::Roberta | Class::Gpt2 | Class::CodeGen | Class::Deberta => (
            model.bpe(Bpe::default())?,
            byte_level(prefix_space(false), true),
        ),
        Class::Blenderbot => (
            model.bpe(Bpe::default())?,
            byte_level(prefix_space(true), true),
        ),
        Class::GptNeoX => {
            steps.push(normalizer(json!({"type": "NFC"})));
            (
                model.bpe(Bpe::default())?,
                byte_level(prefix_space(false), true),
            )
        }
        Class::Cohere => {
            steps.push(normalizer(json!({"type": "NFC"})));
            let digits = json!({"type": "Digits", "individual_digits": true});
            (
                model.bpe(Bpe::default())?,
                sequence(vec![digits, byte_level(prefix_space(false), true)]),
            )
        }
        Class::Qwen2 | Class::Qwen3_5 => {
            steps.push(normalizer(json!({"type": "NFC"})));
            let marks = if class == Class::Qwen2 { "" } else { r"\p{M}" };
            let split = json!({"type": "Split", "pattern": {"Regex": qwen_split(marks)},
                               "behavior": "Isolated", "invert": false});
            (
                model.bpe(Bpe::default())?,
                sequence(vec![split, byte_level(prefix_space(false), false)]),
            )
        }
        Class::Clip => {
            steps.push(normalizer(json!({"type": "NFC"})));
            steps.push(normalizer(replace(json!({"Regex": r"\s+"}), " ")));
            steps.push(lowercase());
            let split = json!({"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex":
                r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"}});
            let settings = Bpe {
                unknown: Some(unknown),
                suffix: Some("</w>"),
                ..Bpe::default()
            };
            (
                model.bpe(settings)?,
                sequence(vec![split, byte_level(false, true)]),
            )
        }
        Class::Herbert | Class::OpenAiGpt => {
            steps.push(normalizer(if class == Class::Herbert {
                bert(true, true, false.into(), false)
            } else {
                bert(true, true, Value::Null, true)
            }));
            let settings = Bpe {
                unknown: Some(unknown),
                suffix: Some("</w>"),
                ..Bpe::default()
            };
            (model.bpe(settings)?, bert_pre)
        }
        Class::Llama | Class::CodeLlama => {
            let prefix = prefix_space(true);
            let settings = Bpe {
                unknown: (class == Class::CodeLlama).then_some(unknown),
                fuse: true,
                bytes: true,
                ..Bpe::default()
            };
            // The newer Llama marks the first word of a text only.
            let first = class == Class::CodeLlama || !legacy(arguments);
            let scheme = match (prefix, first) {
                (false, _) => "never",
                (true, true) => "first",
                (true, false) => "always",
            };
            (model.bpe(settings)?, metaspace(scheme, false))
        }
        Class::Gemma | Class::Siglip2 => {
            steps.push(normalizer(replace(json!({"String": " "}), "▁")));
            let split = json!({"type": "Split", "pattern": {"String": " "},
                               "behavior": "MergedWithPrevious", "invert": false});
            let settings = Bpe {
                unknown: Some(unknown),
                fuse: true,
                bytes: true,
                ..Bpe::default()
            };
            (model.bpe(settings)?, split)
        }
        Class::Reformer | Class::Nllb => {
            if let Some(table) = table(file) {
                steps.extend([table, normalizer(spaces())]);
            }
            let settings = Bpe {
                unknown: Some(unknown),
                fuse: true,
                ..Bpe::default()
            };
            (model.bpe(settings)?, metaspace("always", true))
        }
        Class::Tipsv2 => {
            if flag("do_lower_case", true) {
                steps.push(lowercase());
            }
            steps.extend(table(file));
            let settings = Bpe {
                fuse: true,
                bytes: true,
                ..Bpe::default()
            };
            (model.bpe(settings)?, at_spaces("always"))
        }
        Class::XlmRoberta => {
            steps.extend(table(file));
            (model.unigram(3)?, at_spaces(always(true)))
        }
        Class::Camembert => {
            steps.extend(table(file));
            let place = model
                .vocabulary()?
                .iter()
                .position(|(text, _)| text == unknown);
            (model.unigram(place.unwrap_or(0))?, at_spaces(always(true)))
        }
        Class::T5 | Class::VideoPrism => {
            steps.extend(table(file));
            (model.unigram(2)?, at_spaces("always"))
        }
        Class::Lasr => {
            steps.extend(table(file));
            (model.unigram(3)?, at_spaces("always"))
        }
        Class::MBart => (model.unigram(3)?, at_spaces("always")),
        Class::MBart50 => {
            steps.extend(table(file));
            steps.push(normalizer(spaces()));
            let known = |code: &str| {
                model
                    .vocabulary()
                    .map(|all| all.iter().any(|(text, _)| text == code))
            };
            let mut languages = MBART
                .split_ascii_whitespace()
                .chain(MBART_50.split_ascii_whitespace());
            if !languages.any(|code| known(code) == Ok(true)) {
                return Err("has no languages in its vocabulary, where MBart50Tokenizer would make up another one".into());
            }
            (model.unigram(3)?, metaspace("always", true))
        }
        Class::Xglm => {
            steps.extend(table(file));
            steps.push(normalizer(spaces()));
            (model.unigram(3)?, metaspace(always(true), true))
        }
        Class::Barthez => {
            steps.extend(cleaned());
            (model.unigram(3)?, metaspace(always(true), true))
        }
        Class::DebertaV2 => {
            if flag("do_lower_case", false) {
                steps.push(lowercase());
            }
            steps.extend(cleaned());
            let given = arguments.number("unk_id").unwrap_or(1.0) as usize;
            let place = model.scored(unknown, 0)?.unwrap_or(given);
            let scheme = if prefix_space(true) {
                "always"
            } else {
                "first"
            };
            let mut parts = Vec::new();
            if flag("split_by_punct", false) {
                parts.push(json!({"type": "Punctuation", "behavior": "Isolated"}));
            }
            parts.push(metaspace(scheme, true));
            (model.unigram(place)?, sequence(parts))
        }
        Class::BigBird => {
            steps.push(normalizer(
                json!({"type": "Strip", "strip_left": false, "strip_right": false}),
            ));
            steps.push(normalizer(replace(json!({"Regex": " {2,}"}), "▁")));
            let place = model.scored(unknown, 0)?.unwrap_or(100);
            (model.unigram(place)?, metaspace(always(true), true))
        }
        Class::Albert => {
            steps.extend(quotes());
            if !flag("keep_accents", false) {
                steps.extend(accents());
            }
            if flag("do_lower_case", true) {
                steps.push(lowercase());
            }
            steps.extend(table(file));
            (model.unigram(1)?, at_spaces(always(true)))
        }
        Class::RemBert => {
            steps.extend(quotes());
            steps.push(normalizer(spaces()));
            if !flag("keep_accents", true) {
                steps.extend(accents());
            }
            if flag("do_lower_case", false) {
                steps.push(lowercase());
            }
            steps.extend(table(file));
            (model.unigram(2)?, metaspace(always(true), true))
        }
        Class::XlNet => {
            steps.extend(quotes());
            steps.extend(accents());
            if flag("do_lower_case", false) {
                steps.push(lowercase());
            }
            steps.extend(table(file));
            let place = arguments.number("unk_id").unwrap_or(0.0) as usize;
            (model.unigram(place)?, at_spaces("always"))
        }
        Class::Pegasus => {
            match table(file) {
                Some(table) => steps.push(table),
                None => steps.push(normalizer(replace(json!({"Regex": r"\n"}), " "))),
            }
            steps.push(normalizer(spaces()));
            let place = model.scored(unknown, 1)?.ok_or_else(|| {
                format!("has no token '{unknown}' of score 0, which PegasusTokenizer looks for")
            })?;
            (model.unigram(place)?, metaspace("always", true))
        }
    };
    let mut tokenizer = Tokenizer::new(model);
    if !steps.is_empty() {
        let all = if steps.len() == 1 {
            steps.remove(0)
        } else {
            Normalizers::new(steps).into()
        };
        tokenizer
            .with_normalizer(Some(all))
            .map_err(|error| error.to_string())?;
    }
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer(pre)));
    if class == Class::CodeGen {
        tokenizer.with_post_processor(Some(ByteLevel::new(true, false, true)));
    }
    if class == Class::Albert {
        let id = |name: &str| {
            let text = text_of(names, name);
            tokenizer.token_to_id(&text).ok_or_else(|| {
                format!("has no token '{text}', which AlbertTokenizer puts around a text")
            })
        };
        let special = vec![("[CLS]", id("cls_token")?), ("[SEP]", id("sep_token")?)];
        let special = special
            .into_iter()
            .map(|(text, id)| (text.to_string(), id))
            .collect();
        let template = template("[CLS]:0 $A:0 [SEP]:0", special)?;
        tokenizer.with_post_processor(Some(template));
    }
    Ok(tokenizer)
}

/// The normalizer that DeBERTa v2 and Barthez share, but for lower-casing.
fn cleaned() -> [NormalizerWrapper; 3] {
    [
        normalizer(replace(json!({"Regex": r"\s{2,}|[\n\r\t]"}), " ")),
        normalizer(json!({"type": "NFC"})),
        normalizer(json!({"type": "Strip", "strip_left": false, "strip_right": true})),
    ]
}

/// Llama's `legacy`, whose default is false; any other value counts as Python would count it.
fn legacy(arguments: &Arguments) -> bool {
    match arguments.get("legacy") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(legacy)) => *legacy,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn normalizer(value: Value) -> NormalizerWrapper {
    serde_json::from_value(value).expect("a normalizer as the crate writes it")
}

fn pre_tokenizer(value: Value) -> PreTokenizerWrapper {
    serde_json::from_value(value).expect("a pre-tokenizer as the crate writes it")
}

fn replace(pattern: Value, by: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": by})
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

fn byte_level(prefix: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": use_regex})
}

fn sequence(list: Vec<Value>) -> Value {
    json!({"type": "Sequence", "pretokenizers": list})
}

/// Words at white space, each with SentencePiece's mark before it.
fn at_spaces(scheme: &str) -> Value {
    sequence(vec![
        json!({"type": "WhitespaceSplit"}),
        metaspace(scheme, true),
    ])
}

/// SentencePiece's table of characters, the one step of a file's normalizer that classes keep.
fn table(file: &Tokenizer) -> Option<NormalizerWrapper> {
    let is_table = |one: &&NormalizerWrapper| matches!(one, NormalizerWrapper::Precompiled(_));
    match file.get_normalizer()? {
        NormalizerWrapper::Sequence(all) => all.as_ref().iter().find(is_table),
        one => Some(one).filter(is_table),
    }
    .cloned()
}
