//! Special tokens that a class knows by name, and those it adds beside them.

use serde_json::Value;
use tokenizers::Tokenizer;

use super::Result;
use crate::model::tokenizer::arguments::{Added, Arguments, NAMED, Special};
use crate::model::tokenizer::languages::{MBART, MBART_50, NLLB};
use crate::model::tokenizer::registry::Class;

const BERT: &[(&str, &str)] = &[
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
const ROBERTA: &[(&str, &str)] = &[
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("sep_token", "</s>"),
    ("cls_token", "<s>"),
    ("unk_token", "<unk>"),
    ("pad_token", "<pad>"),
    ("mask_token", "<mask>"),
];
const T5: &[(&str, &str)] = &[
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
    ("pad_token", "<pad>"),
];
const END_OF_TEXT: &[(&str, &str)] = &[
    ("unk_token", "<|endoftext|>"),
    ("bos_token", "<|endoftext|>"),
    ("eos_token", "<|endoftext|>"),
];

/// The class's own defaults for named tokens.
fn defaults(class: Class) -> &'static [(&'static str, &'static str)] {
    match class {
        Class::Backend | Class::Parakeet => &[],
        Class::Bert
        | Class::ConvBert
        | Class::DistilBert
        | Class::Dpr
        | Class::DprReader
        | Class::Splinter => BERT,
        Class::Roberta
        | Class::XlmRoberta
        | Class::Camembert
        | Class::Barthez
        | Class::Blenderbot
        | Class::MBart
        | Class::Nllb => ROBERTA,
        Class::MBart50 => &[
            ("eos_token", "</s>"),
            ("sep_token", "</s>"),
            ("cls_token", "<s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        Class::Xglm => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("sep_token", "</s>"),
            ("cls_token", "<s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
        ],
        Class::Mpnet => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("sep_token", "</s>"),
            ("cls_token", "<s>"),
            ("unk_token", "[UNK]"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        Class::Albert | Class::Fnet | Class::RemBert => &[
            ("bos_token", "[CLS]"),
            ("eos_token", "[SEP]"),
            ("unk_token", "<unk>"),
            ("sep_token", "[SEP]"),
            ("pad_token", "<pad>"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        Class::Deberta | Class::DebertaV2 => &[
            ("bos_token", "[CLS]"),
            ("eos_token", "[SEP]"),
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        Class::BigBird => &[
            ("unk_token", "<unk>"),
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("pad_token", "<pad>"),
            ("sep_token", "[SEP]"),
            ("mask_token", "[MASK]"),
            ("cls_token", "[CLS]"),
        ],
        Class::XlNet => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("sep_token", "<sep>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<cls>"),
            ("mask_token", "<mask>"),
        ],
        Class::Funnel => &[
            ("unk_token", "<unk>"),
            ("sep_token", "<sep>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<cls>"),
            ("mask_token", "<mask>"),
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
        ],
        Class::T5 | Class::Lasr | Class::VideoPrism => T5,
        Class::Pegasus => &[
            ("pad_token", "<pad>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("mask_token", "<mask_2>"),
        ],
        Class::Gpt2 | Class::CodeGen => END_OF_TEXT,
        Class::GptNeoX => &[
            ("unk_token", "<|endoftext|>"),
            ("bos_token", "<|endoftext|>"),
            ("eos_token", "<|endoftext|>"),
            ("pad_token", "<|padding|>"),
        ],
        Class::Clip => &[
            ("unk_token", "<|endoftext|>"),
            ("bos_token", "<|startoftext|>"),
            ("eos_token", "<|endoftext|>"),
            ("pad_token", "<|endoftext|>"),
        ],
        Class::Qwen2 | Class::Qwen3_5 => &[
            ("unk_token", "<|endoftext|>"),
            ("eos_token", "<|endoftext|>"),
            ("pad_token", "<|endoftext|>"),
        ],
        Class::Llama | Class::CodeLlama => &[
            ("unk_token", "<unk>"),
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
        ],
        Class::Gemma | Class::Siglip2 => &[
            ("unk_token", "<unk>"),
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        Class::Cohere => &[
            ("unk_token", "<UNK>"),
            ("bos_token", "<BOS_TOKEN>"),
            ("eos_token", "<|END_OF_TURN_TOKEN|>"),
            ("pad_token", "<PAD>"),
            ("cls_token", "<CLS>"),
            ("sep_token", "<SEP>"),
            ("mask_token", "<MASK_TOKEN>"),
        ],
        Class::Herbert => &[
            ("cls_token", "<s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
            ("sep_token", "</s>"),
        ],
        Class::OpenAiGpt => &[("unk_token", "<unk>")],
        Class::Reformer => &[("eos_token", "</s>"), ("unk_token", "<unk>")],
        Class::Tipsv2 => &[("unk_token", "<unk>"), ("pad_token", "<pad>")],
    }
}

/// All named tokens, those of the class's own names behind the usual ones.
pub(super) fn names(
    class: Class,
    file: &Tokenizer,
    arguments: &Arguments,
) -> Result<Vec<(String, Option<Special>)>> {
    let mut names = Vec::new();
    for name in NAMED {
        let default = defaults(class).iter().find(|(key, _)| *key == name);
        let mut token = arguments.named(name, default.map(|(_, text)| *text))?;
        if name == "mask_token"
            && let Some(Special::Text(text)) = &token
        {
            token = mask(class, text).map(Special::Flagged).or(token);
        }
        // Padding that is set in the file names the token, unless the class passes one on, be it none.
        let passes = matches!(
            class,
            Class::Gpt2 | Class::CodeGen | Class::Qwen2 | Class::Qwen3_5
        ) || default.is_some();
        if name == "pad_token" && !passes && !arguments.has(name) {
            let baked = file.get_padding();
            token = baked.map(|padding| Special::Text(padding.pad_token.clone()));
        }
        names.push((name.to_string(), token));
    }
    let own: &[(&str, &str)] = match class {
        Class::Splinter => &[("question_token", "[QUESTION]")],
        Class::CodeLlama => &[
            ("prefix_token", "▁<PRE>"),
            ("middle_token", "▁<MID>"),
            ("suffix_token", "▁<SUF>"),
            ("eot_token", "▁<EOT>"),
            ("fill_token", "<FILL_ME>"),
        ],
        _ => &[],
    };
    for (name, text) in own {
        names.push(((*name).to_string(), Some(Special::Text((*text).into()))));
    }
    for (name, token) in &arguments.own_names {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = Some(token.clone()),
            None => names.push((name.clone(), Some(token.clone()))),
        }
    }
    Ok(names)
}

/// The mask token as some classes flag it.
fn mask(class: Class, text: &str) -> Option<Added> {
    let plain = Added::new(text);
    let spaced = Added {
        lstrip: true,
        ..plain.clone()
    };
    match class {
        Class::Mpnet
        | Class::BigBird
        | Class::MBart
        | Class::MBart50
        | Class::Barthez
        | Class::XlNet => Some(spaced),
        Class::Camembert => Some(Added {
            special: true,
            ..spaced
        }),
        Class::Nllb => Some(Added {
            normalized: Some(true),
            special: true,
            ..spaced
        }),
        Class::Blenderbot => Some(Added {
            normalized: Some(false),
            ..spaced
        }),
        _ => None,
    }
}

fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<Special> {
    list.into_iter()
        .map(|text| Special::Text(text.to_string()))
        .collect()
}

/// The special tokens that the class adds beside the named ones, where `extra_special_tokens` says
/// nothing.
pub(super) fn extra(
    class: Class,
    arguments: &mut Arguments,
    names: &[(String, Option<Special>)],
) -> Result<Option<Vec<Special>>> {
    let key = "additional_special_tokens";
    let given = arguments.take_list(key)?;
    let numbered =
        |list: Vec<String>| -> Vec<Special> { list.into_iter().map(Special::Text).collect() };
    let add_missing = |mut all: Vec<Special>, more: Vec<Special>| {
        for token in more {
            if !all.iter().any(|known| known.text() == token.text()) {
                all.push(token);
            }
        }
        all
    };
    let count = |name: &str, default: f64| arguments.number(name).unwrap_or(default) as usize;
    Ok(match class {
        Class::T5 | Class::Lasr | Class::VideoPrism => {
            let ids = count("extra_ids", 100.0);
            let ours = numbered((0..ids).map(|id| format!("<extra_id_{id}>")).collect());
            match given {
                None => Some(ours),
                Some(mut all) => {
                    let has = all
                        .iter()
                        .filter(|one| one.text().contains("<extra_id_"))
                        .count();
                    if has == 0 {
                        all.extend(ours);
                    } else if ids > 0 && ids != has {
                        return Err(format!(
                            "has extra_ids {ids}, but {key} lists {has} of them; make them equal"
                        ));
                    }
                    Some(all)
                }
            }
        }
        Class::Pegasus => {
            let mask = match arguments.get("mask_token_sent") {
                Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                _ => Some("<mask_1>".to_string()),
            };
            let listed = given
                .iter()
                .flatten()
                .any(|one| mask.as_deref() == Some(one.text()));
            let mut all = if listed {
                Vec::new()
            } else {
                numbered(mask.into_iter().collect())
            };
            all.extend(numbered(
                (2..count("offset", 103.0))
                    .map(|id| format!("<unk_{id}>"))
                    .collect(),
            ));
            Some(all)
        }
        Class::Camembert => {
            given.or_else(|| Some(texts(["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"])))
        }
        Class::XlNet => given.or_else(|| Some(texts(["<eop>", "<eod>"]))),
        Class::MBart => Some(add_missing(
            texts(MBART.split_ascii_whitespace()),
            given.unwrap_or_default(),
        )),
        Class::MBart50 => {
            let mut all = given.unwrap_or_default();
            all.extend(texts(MBART.split_ascii_whitespace()));
            all.extend(texts(MBART_50.split_ascii_whitespace()));
            Some(all)
        }
        Class::Nllb
            if arguments
                .get("extra_special_tokens")
                .is_none_or(Value::is_null) =>
        {
            // This class passes its list under the other name.
            arguments.take_list("extra_special_tokens")?;
            Some(given.unwrap_or_else(|| texts(NLLB.split_ascii_whitespace())))
        }
        Class::Xglm => {
            let words = numbered((0..7).map(|word| format!("<madeupword{word}>")).collect());
            Some(add_missing(given.unwrap_or_default(), words))
        }
        Class::CodeLlama => {
            let mut all = given.unwrap_or_default();
            let own = [
                "prefix_token",
                "middle_token",
                "suffix_token",
                "eot_token",
                "fill_token",
            ];
            for (_, token) in names
                .iter()
                .filter(|(name, _)| own.contains(&name.as_str()))
            {
                all.extend(token.clone());
            }
            Some(all)
        }
        _ => given,
    })
}

/// A named token's text; Python writes one that is missing as `None`.
pub(super) fn text_of(names: &[(String, Option<Special>)], name: &str) -> String {
    names
        .iter()
        .find(|(known, _)| known == name)
        .and_then(|(_, token)| token.as_ref())
        .map_or("None", Special::text)
        .to_string()
}

pub(super) fn named_in(names: &[(String, Option<Special>)], name: &str) -> bool {
    names
        .iter()
        .any(|(known, token)| known == name && token.is_some())
}
