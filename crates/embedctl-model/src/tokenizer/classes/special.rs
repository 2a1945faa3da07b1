//! Special tokens that a class knows by name, and those it adds beside them.

use serde_json::Value;
use tokenizers::Tokenizer;

use super::Result;
use crate::tokenizer::added::{Added, Special};
use crate::tokenizer::arguments::{Arguments, NAMED, set};
use crate::tokenizer::languages::{MBART, MBART_50, NLLB};
use crate::tokenizer::registry::TokenizerClass;
use embedctl_common::error::Cause;

/// The class's own defaults for named tokens, in the order of [`NAMED`] (bos, eos, unk, sep, pad, cls, mask); `-` where
/// it has none.
fn defaults(class: TokenizerClass) -> &'static str {
    match class {
        TokenizerClass::Backend | TokenizerClass::Parakeet => "- - - - - - -",
        TokenizerClass::Bert
        | TokenizerClass::ConvBert
        | TokenizerClass::DistilBert
        | TokenizerClass::Dpr
        | TokenizerClass::DprReader
        | TokenizerClass::Splinter => "- - [UNK] [SEP] [PAD] [CLS] [MASK]",
        TokenizerClass::Roberta
        | TokenizerClass::XlmRoberta
        | TokenizerClass::Camembert
        | TokenizerClass::Barthez
        | TokenizerClass::Blenderbot
        | TokenizerClass::MBart
        | TokenizerClass::Nllb => "<s> </s> <unk> </s> <pad> <s> <mask>",
        TokenizerClass::MBart50 => "- </s> <unk> </s> <pad> <s> <mask>",
        TokenizerClass::Xglm => "<s> </s> <unk> </s> <pad> <s> -",
        TokenizerClass::Mpnet => "<s> </s> [UNK] </s> <pad> <s> <mask>",
        TokenizerClass::Albert | TokenizerClass::Fnet | TokenizerClass::RemBert => {
            "[CLS] [SEP] <unk> [SEP] <pad> [CLS] [MASK]"
        }
        TokenizerClass::Deberta | TokenizerClass::DebertaV2 => {
            "[CLS] [SEP] [UNK] [SEP] [PAD] [CLS] [MASK]"
        }
        TokenizerClass::BigBird => "<s> </s> <unk> [SEP] <pad> [CLS] [MASK]",
        TokenizerClass::XlNet | TokenizerClass::Funnel => "<s> </s> <unk> <sep> <pad> <cls> <mask>",
        TokenizerClass::T5 | TokenizerClass::Lasr | TokenizerClass::VideoPrism => {
            "- </s> <unk> - <pad> - -"
        }
        TokenizerClass::Pegasus => "- </s> <unk> - <pad> - <mask_2>",
        TokenizerClass::Gpt2 | TokenizerClass::CodeGen => {
            "<|endoftext|> <|endoftext|> <|endoftext|> - - - -"
        }
        TokenizerClass::GptNeoX => "<|endoftext|> <|endoftext|> <|endoftext|> - <|padding|> - -",
        TokenizerClass::Clip => "<|startoftext|> <|endoftext|> <|endoftext|> - <|endoftext|> - -",
        TokenizerClass::Qwen2 | TokenizerClass::Qwen3_5 => {
            "- <|endoftext|> <|endoftext|> - <|endoftext|> - -"
        }
        TokenizerClass::Llama | TokenizerClass::CodeLlama => "<s> </s> <unk> - - - -",
        TokenizerClass::Gemma | TokenizerClass::Siglip2 => "<bos> <eos> <unk> - <pad> - <mask>",
        TokenizerClass::Cohere => {
            "<BOS_TOKEN> <|END_OF_TURN_TOKEN|> <UNK> <SEP> <PAD> <CLS> <MASK_TOKEN>"
        }
        TokenizerClass::Herbert => "- - <unk> </s> <pad> <s> <mask>",
        TokenizerClass::OpenAiGpt => "- - <unk> - - - -",
        TokenizerClass::Reformer => "- </s> <unk> - - - -",
        TokenizerClass::Tipsv2 => "- - <unk> - <pad> - -",
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
pub(super) struct SpecialNames(Vec<(String, Option<Special>)>);

impl SpecialNames {
    /// All named tokens of a class that is called with `arguments`.
    pub(super) fn of(
        class: TokenizerClass,
        file: &Tokenizer,
        arguments: &Arguments,
    ) -> Result<Self> {
        let mut names = Vec::new();
        for (name, default) in NAMED
            .split_ascii_whitespace()
            .zip(defaults(class).split_ascii_whitespace())
        {
            let default = Some(default).filter(|text| *text != "-");
            let mut token = arguments.named(name, default)?;
            if name == "mask_token"
                && let Some(Special::Text(text)) = &token
            {
                token = mask(class, text).map(Special::Flagged).or(token);
            }
            // Padding set in the file names the token, unless the class passes one on, even `None`.
            let passes = matches!(
                class,
                TokenizerClass::Gpt2
                    | TokenizerClass::CodeGen
                    | TokenizerClass::Qwen2
                    | TokenizerClass::Qwen3_5
            ) || default.is_some();
            if name == "pad_token" && !passes && !arguments.has(name) {
                let baked = file.get_padding();
                token = baked.map(|padding| Special::Text(padding.pad_token.clone()));
            }
            names.push((name.to_string(), token));
        }
        let own: &[(&str, &str)] = match class {
            TokenizerClass::Splinter => &[("question_token", "[QUESTION]")],
            TokenizerClass::CodeLlama => CODE_LLAMA,
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

    /// The texts of all that there are, by name.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let known = |(name, token): &(String, Option<Special>)| {
            Some((name.clone(), token.as_ref()?.text().to_owned()))
        };
        self.0.iter().filter_map(known).collect()
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
fn mask(class: TokenizerClass, text: &str) -> Option<Added> {
    let spaced = Added {
        lstrip: true,
        ..Added::new(text)
    };
    match class {
        TokenizerClass::Mpnet
        | TokenizerClass::BigBird
        | TokenizerClass::MBart
        | TokenizerClass::MBart50
        | TokenizerClass::Barthez
        | TokenizerClass::XlNet => Some(spaced),
        TokenizerClass::Camembert => Some(Added {
            special: true,
            ..spaced
        }),
        TokenizerClass::Nllb => Some(Added {
            normalized: Some(true),
            special: true,
            ..spaced
        }),
        TokenizerClass::Blenderbot => Some(Added {
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
    class: TokenizerClass,
    arguments: &mut Arguments,
    names: &SpecialNames,
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
    let languages = |list: &'static str| texts(list.split_ascii_whitespace());
    Ok(match class {
        TokenizerClass::T5 | TokenizerClass::Lasr | TokenizerClass::VideoPrism => {
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
        TokenizerClass::Pegasus => {
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
        TokenizerClass::Camembert => {
            given.or_else(|| Some(texts(["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"])))
        }
        TokenizerClass::XlNet => given.or_else(|| Some(texts(["<eop>", "<eod>"]))),
        TokenizerClass::MBart => Some(add_missing(languages(MBART), given.unwrap_or_default())),
        TokenizerClass::MBart50 => {
            let mut all = given.unwrap_or_default();
            all.extend(languages(MBART));
            all.extend(languages(MBART_50));
            Some(all)
        }
        TokenizerClass::Nllb
            if arguments
                .get("extra_special_tokens")
                .is_none_or(Value::is_null) =>
        {
            // This class passes its list under the other name.
            arguments.take_list("extra_special_tokens")?;
            Some(given.unwrap_or_else(|| languages(NLLB)))
        }
        TokenizerClass::Xglm => {
            let words = texts((0..7).map(|word| format!("<madeupword{word}>")));
            Some(add_missing(given.unwrap_or_default(), words))
        }
        TokenizerClass::CodeLlama => {
            let mut all = given.unwrap_or_default();
            let own = CODE_LLAMA.iter().filter_map(|(name, _)| names.get(name));
            all.extend(own.cloned());
            Some(all)
        }
        _ => given,
    })
}
