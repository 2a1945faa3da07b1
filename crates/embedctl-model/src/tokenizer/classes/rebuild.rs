//! Normalizer, pre-tokenizer and model settings that a class brings itself.

use serde_json::{Value, json};
use tokenizers::Tokenizer;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::byte_level::ByteLevel;

use super::Result;
use super::backend::template;
use super::special::SpecialNames;
use super::vocabulary::{Bpe, VocabularyModel};
use crate::metadata::is_true;
use crate::tokenizer::arguments::Arguments;
use crate::tokenizer::languages::{MBART, MBART_50};
use crate::tokenizer::registry::{ChosenClass, TokenizerClass};
use embedctl_common::error::Cause;
use embedctl_common::word_list::lists;

/// How Qwen's tokenizers split a text; `marks` are a word's characters beside letters.
fn qwen_split(marks: &str) -> Value {
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

const CLIP_SPLIT: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// The tokenizer before tokens are added and the template is set.
#[allow(clippy::too_many_lines)] // one arm a class
pub(super) fn rebuild(
    chosen: &ChosenClass,
    file: &Tokenizer,
    arguments: &Arguments,
    names: &SpecialNames,
) -> Result<Tokenizer> {
    let class = chosen.class;
    let model = VocabularyModel { chosen, file };
    let unknown = names.text("unk_token");
    let flag = |key: &str, default: bool| match arguments.get(key) {
        None | Some(Value::Null) => default,
        Some(value) => is_true(value),
    };
    let number = |key: &str, default: f64| arguments.number(key).unwrap_or(default) as usize;
    let prefix_space = |default| flag("add_prefix_space", default);
    let spaced = || {
        if prefix_space(true) {
            "always"
        } else {
            "never"
        }
    };

    // Models over the file's vocabulary.
    let plain = || model.bpe(Bpe::default());
    let ended = || {
        model.bpe(Bpe {
            unknown: Some(unknown),
            suffix: Some("</w>"),
            ..Bpe::default()
        })
    };
    let fused = |unknown, bytes| {
        model.bpe(Bpe {
            unknown,
            fuse: true,
            bytes,
            ..Bpe::default()
        })
    };

    // Steps of a normalizer; none where an argument or the file says so.
    let when = |condition: bool, step: Value| condition.then(|| normalizer(step));
    let step = |step: Value| when(true, step);
    let table = || table(file);
    let nfc = || step(json!({"type": "NFC"}));
    let lowercase = |default| {
        let lower = arguments.get("do_lower_case").map_or(default, is_true);
        when(lower, json!({"type": "Lowercase"}))
    };
    let spaces = || step(replace(json!({"Regex": " {2,}"}), " "));
    let quotes = |quotes: &str| step(replace(json!({"String": quotes}), "\""));
    let accents = |kept: bool, kind: &str| when(!kept, json!({"type": kind}));
    let strip = |left: bool, right: bool| {
        step(json!({"type": "Strip", "strip_left": left, "strip_right": right}))
    };
    // The normalizer of DeBERTa v2 and Barthez, except for lower-casing.
    let cleaned = || step(replace(json!({"Regex": r"\s{2,}|[\n\r\t]"}), " "));
    let bert = |clean: bool, chinese: bool, accents: Value, lower: bool| {
        step(
            json!({"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese,
            "strip_accents": accents, "lowercase": lower}),
        )
    };
    let bert_pre = || json!({"type": "BertPreTokenizer"});

    let (steps, model, pre) = match class {
        TokenizerClass::Backend
        | TokenizerClass::ConvBert
        | TokenizerClass::Fnet
        | TokenizerClass::Parakeet => {
            unreachable!("these keep the file")
        }
        TokenizerClass::Bert
        | TokenizerClass::DistilBert
        | TokenizerClass::Dpr
        | TokenizerClass::DprReader
        | TokenizerClass::Mpnet
        | TokenizerClass::Splinter
        | TokenizerClass::Funnel => {
            // DPR's classes take the setting and forget it.
            let forgets = matches!(class, TokenizerClass::Dpr | TokenizerClass::DprReader);
            let lower = forgets || flag("do_lower_case", true);
            // The normalizer takes no other types, so that the reference fails on them.
            for key in ["do_lower_case", "strip_accents", "tokenize_chinese_chars"] {
                let may_be_null = key == "strip_accents";
                let other = arguments
                    .get(key)
                    .filter(|value| !(value.is_boolean() || may_be_null && value.is_null()));
                if let Some(other) = other.filter(|_| key != "do_lower_case" || !forgets) {
                    return Err(format!(
                        "has a class whose {key} is true or false; tokenizer_config.json says {other}"
                    )
                    .into());
                }
            }
            let clean = class != TokenizerClass::Funnel || flag("clean_text", true);
            let strip = arguments.get("strip_accents").cloned().unwrap_or_default();
            if !(strip.is_boolean() || strip.is_null()) {
                let reason = format!(
                    "has strip_accents {strip} in its class's arguments (tokenizer_config.json)"
                );
                return Err(Cause::of(reason).with("set it to true, false or null"));
            }
            let chinese = flag("tokenize_chinese_chars", true);
            // Funnel's setting of another prefix is for decoding alone.
            (
                vec![bert(clean, chinese, strip, lower)],
                model.word_piece(unknown, "##")?,
                bert_pre(),
            )
        }
        TokenizerClass::Roberta
        | TokenizerClass::Gpt2
        | TokenizerClass::CodeGen
        | TokenizerClass::Deberta => (vec![], plain()?, byte_level(prefix_space(false), true)),
        TokenizerClass::Blenderbot => (vec![], plain()?, byte_level(prefix_space(true), true)),
        TokenizerClass::GptNeoX => (vec![nfc()], plain()?, byte_level(prefix_space(false), true)),
        TokenizerClass::Cohere => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            let pre = [digits, byte_level(prefix_space(false), true)];
            (vec![nfc()], plain()?, sequence(&pre))
        }
        TokenizerClass::Qwen2 | TokenizerClass::Qwen3_5 => {
            let marks = if class == TokenizerClass::Qwen2 {
                ""
            } else {
                r"\p{M}"
            };
            let pre = [qwen_split(marks), byte_level(prefix_space(false), false)];
            (vec![nfc()], plain()?, sequence(&pre))
        }
        TokenizerClass::Clip => {
            let split = json!({"type": "Split", "behavior": "Removed", "invert": true,
                "pattern": {"Regex": CLIP_SPLIT}});
            let space = step(replace(json!({"Regex": r"\s+"}), " "));
            let steps = vec![nfc(), space, step(json!({"type": "Lowercase"}))];
            (steps, ended()?, sequence(&[split, byte_level(false, true)]))
        }
        TokenizerClass::Herbert => (
            vec![bert(true, true, false.into(), false)],
            ended()?,
            bert_pre(),
        ),
        TokenizerClass::OpenAiGpt => (
            vec![bert(true, true, Value::Null, true)],
            ended()?,
            bert_pre(),
        ),
        TokenizerClass::Llama | TokenizerClass::CodeLlama => {
            let code = class == TokenizerClass::CodeLlama;
            // The newer Llama marks the first word of a text only.
            let scheme = match (prefix_space(true), code || !legacy(arguments)) {
                (false, _) => "never",
                (true, true) => "first",
                (true, false) => "always",
            };
            (
                vec![],
                fused(code.then_some(unknown), true)?,
                metaspace(scheme, false),
            )
        }
        TokenizerClass::Gemma | TokenizerClass::Siglip2 => {
            let split = json!({"type": "Split", "pattern": {"String": " "},
                               "behavior": "MergedWithPrevious", "invert": false});
            let marks = step(replace(json!({"String": " "}), "▁"));
            (vec![marks], fused(Some(unknown), true)?, split)
        }
        TokenizerClass::Reformer | TokenizerClass::Nllb => {
            let table = table();
            let spaces = spaces().filter(|_| table.is_some());
            (
                vec![table, spaces],
                fused(Some(unknown), false)?,
                metaspace("always", true),
            )
        }
        TokenizerClass::Tipsv2 => (
            vec![lowercase(true), table()],
            fused(None, true)?,
            at_spaces("always"),
        ),
        TokenizerClass::XlmRoberta => (vec![table()], model.unigram(3)?, at_spaces(spaced())),
        TokenizerClass::Camembert => {
            let mut entries = model.vocabulary()?.iter();
            let place = entries.position(|(text, _)| text == unknown);
            let model = model.unigram(place.unwrap_or(0))?;
            (vec![table()], model, at_spaces(spaced()))
        }
        TokenizerClass::T5 | TokenizerClass::VideoPrism => {
            (vec![table()], model.unigram(2)?, at_spaces("always"))
        }
        TokenizerClass::Lasr => (vec![table()], model.unigram(3)?, at_spaces("always")),
        TokenizerClass::MBart => (vec![], model.unigram(3)?, at_spaces("always")),
        TokenizerClass::MBart50 => {
            let languages = |text: &str| lists(MBART, text) || lists(MBART_50, text);
            if !model.vocabulary()?.iter().any(|(text, _)| languages(text)) {
                return Err("has no languages in its vocabulary, where MBart50Tokenizer would make up another one".into());
            }
            (
                vec![table(), spaces()],
                model.unigram(3)?,
                metaspace("always", true),
            )
        }
        TokenizerClass::Xglm => (
            vec![table(), spaces()],
            model.unigram(3)?,
            metaspace(spaced(), true),
        ),
        TokenizerClass::Barthez => (
            vec![cleaned(), nfc(), strip(false, true)],
            model.unigram(3)?,
            metaspace(spaced(), true),
        ),
        TokenizerClass::DebertaV2 => {
            let place = model.scored(unknown, 0)?.unwrap_or(number("unk_id", 1.0));
            let scheme = if prefix_space(true) {
                "always"
            } else {
                "first"
            };
            let mut parts = vec![metaspace(scheme, true)];
            if flag("split_by_punct", false) {
                parts.insert(0, json!({"type": "Punctuation", "behavior": "Isolated"}));
            }
            let steps = vec![lowercase(false), cleaned(), nfc(), strip(false, true)];
            (steps, model.unigram(place)?, sequence(&parts))
        }
        TokenizerClass::BigBird => {
            let spaces = step(replace(json!({"Regex": " {2,}"}), "▁"));
            let place = model.scored(unknown, 0)?.unwrap_or(100);
            (
                vec![strip(false, false), spaces],
                model.unigram(place)?,
                metaspace(spaced(), true),
            )
        }
        TokenizerClass::Albert => {
            let kept = flag("keep_accents", false);
            let steps = vec![
                quotes("``"),
                quotes("''"),
                accents(kept, "NFKD"),
                accents(kept, "StripAccents"),
                lowercase(true),
                table(),
            ];
            (steps, model.unigram(1)?, at_spaces(spaced()))
        }
        TokenizerClass::RemBert => {
            let kept = flag("keep_accents", true);
            let steps = vec![
                quotes("``"),
                quotes("''"),
                spaces(),
                accents(kept, "NFKD"),
                accents(kept, "StripAccents"),
                lowercase(false),
                table(),
            ];
            (steps, model.unigram(2)?, metaspace(spaced(), true))
        }
        TokenizerClass::XlNet => {
            let steps = vec![
                quotes("``"),
                quotes("''"),
                accents(false, "NFKD"),
                accents(false, "StripAccents"),
                lowercase(false),
                table(),
            ];
            (
                steps,
                model.unigram(number("unk_id", 0.0))?,
                at_spaces("always"),
            )
        }
        TokenizerClass::Pegasus => {
            let lines = || step(replace(json!({"Regex": r"\n"}), " "));
            let place = model.scored(unknown, 1)?.ok_or_else(|| {
                format!("has no token '{unknown}' of score 0, which PegasusTokenizer looks for")
            })?;
            (
                vec![table().or_else(lines), spaces()],
                model.unigram(place)?,
                metaspace("always", true),
            )
        }
    };
    let mut tokenizer = Tokenizer::new(model);
    let mut steps: Vec<NormalizerWrapper> = steps.into_iter().flatten().collect();
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
    let pre: PreTokenizerWrapper =
        serde_json::from_value(pre).expect("a pre-tokenizer as the crate writes it");
    tokenizer.with_pre_tokenizer(Some(pre));
    if class == TokenizerClass::CodeGen {
        tokenizer.with_post_processor(Some(ByteLevel::new(true, false, true)));
    }
    if class == TokenizerClass::Albert {
        let id = |name: &str| {
            let text = names.text(name);
            tokenizer.token_to_id(text).ok_or_else(|| {
                format!("has no token '{text}', which AlbertTokenizer puts around a text")
            })
        };
        let special = vec![
            ("[CLS]".to_owned(), id("cls_token")?),
            ("[SEP]".to_owned(), id("sep_token")?),
        ];
        let template = template(
            "[CLS]:0 $A:0 [SEP]:0",
            "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special,
        )?;
        tokenizer.with_post_processor(Some(template));
    }
    Ok(tokenizer)
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

fn replace(pattern: Value, by: &str) -> Value {
    json!({"type": "Replace", "pattern": pattern, "content": by})
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

fn byte_level(prefix: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": use_regex})
}

fn sequence(list: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": list})
}

/// Words at white space, each with SentencePiece's mark before it.
fn at_spaces(scheme: &str) -> Value {
    sequence(&[json!({"type": "WhitespaceSplit"}), metaspace(scheme, true)])
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
