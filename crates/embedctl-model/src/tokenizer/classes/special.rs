//! Special tokens that a class knows by name, and those it adds beside them.

use serde_json::Value;
use tokenizers::Tokenizer;

use super::Result;
use crate::tokenizer::added::{Added, Special};
use crate::tokenizer::arguments::{Arguments, NAMED, set};
use crate::tokenizer::languages::{MBART, MBART_50, NLLB};
use crate::tokenizer::registry::Class;
use embedctl_common::error::Cause;
use embedctl_common::word_list::words;

/// The class's own defaults for named tokens, in the order of [`NAMED`] (bos, eos, unk, sep, pad, cls, mask); `-` where
/// it has none.
fn defaults(class: Class) -> &'static str {
    match class {
        Class::Backend | Class::Parakeet => "- - - - - - -",
        Class::Bert
        | Class::ConvBert
        | Class::DistilBert
        | Class::Dpr
        | Class::DprReader
        | Class::Splinter => "- - [UNK] [SEP] [PAD] [CLS] [MASK]",
        Class::Roberta
        | Class::XlmRoberta
        | Class::Camembert
        | Class::Barthez
        | Class::Blenderbot
        | Class::MBart
        | Class::Nllb => "<s> </s> <unk> </s> <pad> <s> <mask>",
        Class::MBart50 => "- </s> <unk> </s> <pad> <s> <mask>",
        Class::Xglm => "<s> </s> <unk> </s> <pad> <s> -",
        Class::Mpnet => "<s> </s> [UNK] </s> <pad> <s> <mask>",
        Class::Albert | Class::Fnet | Class::RemBert => {
            "[CLS] [SEP] <unk> [SEP] <pad> [CLS] [MASK]"
        }
        Class::Deberta | Class::DebertaV2 => "[CLS] [SEP] [UNK] [SEP] [PAD] [CLS] [MASK]",
        Class::BigBird => "<s> </s> <unk> [SEP] <pad> [CLS] [MASK]",
        Class::XlNet | Class::Funnel => "<s> </s> <unk> <sep> <pad> <cls> <mask>",
        Class::T5 | Class::Lasr | Class::VideoPrism => "- </s> <unk> - <pad> - -",
        Class::Pegasus => "- </s> <unk> - <pad> - <mask_2>",
        Class::Gpt2 | Class::CodeGen => "<|endoftext|> <|endoftext|> <|endoftext|> - - - -",
        Class::GptNeoX => "<|endoftext|> <|endoftext|> <|endoftext|> - <|padding|> - -",
        Class::Clip => "<|startoftext|> <|endoftext|> <|endoftext|> - <|endoftext|> - -",
        Class::Qwen2 | Class::Qwen3_5 => "- <|endoftext|> <|endoftext|> - <|endoftext|> - -",
        Class::Llama | Class::CodeLlama => "<s> </s> <unk> - - - -",
        Class::Gemma | Class::Siglip2 => "<bos> <eos> <unk> - <pad> - <mask>",
        Class::Cohere => "<BOS_TOKEN> <|END_OF_TURN_TOKEN|> <UNK> <SEP> <PAD> <CLS> <MASK_TOKEN>",
        Class::Herbert => "- - <unk> </s> <pad> <s> <mask>",
        Class::OpenAiGpt => "- - <unk> - - - -",
        Class::Reformer => "- </s> <unk> - - - -",
        Class::Tipsv2 => "- - <unk> - <pad> - -",
    }
}

/// Tokens under names of CodeLlama's own.
const CODE_LLAMA: &[(&str, &str)] = &[
    ("prefix_token", "▁<PRE>"),
    ("middle_token", "▁<MID>"),
    ("suffix_token", "▁<SUF>"),
    ("eot_token", "▁<EOT>"),
    ("fill_token", "<FILL_ME>"),
];

/// Special tokens by name: [`NAMED`] first, then the model's own.
pub(super) struct Names(Vec<(String, Option<Special>)>);

impl Names {
    /// All named tokens of a class that is called with `arguments`.
    pub(super) fn of(class: Class, file: &Tokenizer, arguments: &Arguments) -> Result<Self> {
        let mut names = Vec::new();
        for (name, default) in words(NAMED).zip(words(defaults(class))) {
            let default = Some(default).filter(|text| *text != "-");
            let mut token = arguments.named(name, default)?;
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
            Class::CodeLlama => CODE_LLAMA,
            _ => &[],
        };
        let own = own
            .iter()
            .map(|(name, text)| ((*name).to_string(), Special::Text((*text).into())));
        for (name, token) in own.chain(arguments.own_names.iter().cloned()) {
            set(&mut names, name, Some(token));
        }
        Ok(Self(names))
    }

    /// The token of that name, where there is one.
    pub(super) fn get(&self, name: &str) -> Option<&Special> {
        let mut names = self.0.iter();
        names.find(|(known, _)| known == name)?.1.as_ref()
    }

    /// Its text; Python writes one that is missing as `None`.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).map_or("None", Special::text)
    }

    /// All that there are, in their order.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Special> {
        self.0.iter().filter_map(|(_, token)| token.as_ref())
    }
}

/// The mask token as some classes flag it.
fn mask(class: Class, text: &str) -> Option<Added> {
    let spaced = Added {
        lstrip: true,
        ..Added::new(text)
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

fn texts(list: impl IntoIterator<Item = impl Into<String>>) -> Vec<Special> {
    let list = list.into_iter();
    list.map(|text| Special::Text(text.into())).collect()
}

/// The special tokens that the class adds beside the named ones, where `extra_special_tokens` says
/// nothing.
pub(super) fn extra(
    class: Class,
    arguments: &mut Arguments,
    names: &Names,
) -> Result<Option<Vec<Special>>> {
    let key = "additional_special_tokens";
    let given = arguments.take_list(key)?;
    let add_missing = |mut all: Vec<Special>, more: Vec<Special>| {
        for token in more {
            if !all.iter().any(|known| known.text() == token.text()) {
                all.push(token);
            }
        }
        all
    };
    let count = |name: &str, default: f64| arguments.number(name).unwrap_or(default) as usize;
    let languages = |list: &'static str| texts(words(list));
    Ok(match class {
        Class::T5 | Class::Lasr | Class::VideoPrism => {
            let ids = count("extra_ids", 100.0);
            let ours = texts((0..ids).map(|id| format!("<extra_id_{id}>")));
            let Some(mut all) = given else {
                return Ok(Some(ours));
            };
            let is_one = |one: &&Special| one.text().contains("<extra_id_");
            let has = all.iter().filter(is_one).count();
            if has == 0 {
                all.extend(ours);
            } else if ids > 0 && ids != has {
                let reason = format!("has extra_ids {ids}, but {key} lists {has} of them");
                return Err(Cause::of(reason).with("make them equal"));
            }
            Some(all)
        }
        Class::Pegasus => {
            let mask = match arguments.get("mask_token_sent") {
                Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                _ => Some("<mask_1>".to_string()),
            };
            let mut listed = given.iter().flatten();
            let listed = listed.any(|one| mask.as_deref() == Some(one.text()));
            let numbered = (2..count("offset", 103.0)).map(|id| format!("<unk_{id}>"));
            Some(texts(mask.filter(|_| !listed).into_iter().chain(numbered)))
        }
        Class::Camembert => {
            given.or_else(|| Some(texts(["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"])))
        }
        Class::XlNet => given.or_else(|| Some(texts(["<eop>", "<eod>"]))),
        Class::MBart => Some(add_missing(languages(MBART), given.unwrap_or_default())),
        Class::MBart50 => {
            let mut all = given.unwrap_or_default();
            all.extend(languages(MBART));
            all.extend(languages(MBART_50));
            Some(all)
        }
        Class::Nllb
            if arguments
                .get("extra_special_tokens")
                .is_none_or(Value::is_null) =>
        {
            // This class passes its list under the other name.
            arguments.take_list("extra_special_tokens")?;
            Some(given.unwrap_or_else(|| languages(NLLB)))
        }
        Class::Xglm => {
            let words = texts((0..7).map(|word| format!("<madeupword{word}>")));
            Some(add_missing(given.unwrap_or_default(), words))
        }
        Class::CodeLlama => {
            let mut all = given.unwrap_or_default();
            let own = CODE_LLAMA.iter().filter_map(|(name, _)| names.get(name));
            all.extend(own.cloned());
            Some(all)
        }
        _ => given,
    })
}
