//! What each tokenizer class of the reference makes of a `tokenizer.json`.
//!
//! In transformers 5 most classes take only the vocabulary, the post-processor and SentencePiece's table
//! of characters from the file; model settings, normalizer, pre-tokenizer and, for many, the special
//! tokens around a text come from the class and its arguments. `TokenizersBackend` and classes without
//! an `__init__` keep the file. Every step here follows its `tokenization_*.py`; what the class after
//! all does with tokens that are added is in [`Backend`].

use serde_json::{Value, json};
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::byte_level::ByteLevel;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer};

use super::arguments::{Added, Arguments, NAMED, Special};
use super::languages::{MBART, MBART_50, NLLB};
use super::registry::{Chosen, Class};

type Result<T> = std::result::Result<T, String>;

/// A tokenizer under construction: the reference's `TokenizersBackend`, with the tokens it knows by name.
pub(super) struct Backend {
    pub tokenizer: Tokenizer,
    /// Special tokens by name: [`NAMED`] first, then the model's own.
    names: Vec<(String, Option<Special>)>,
    extra: Vec<Special>,
    add_bos: bool,
    add_eos: bool,
    updates_template: bool,
}

/// Builds the tokenizer of the class `chosen` from `file`.
///
/// # Errors
/// If the file's model is of another kind than the class's, or the class would fail on what it is given.
pub(super) fn build(
    chosen: &Chosen,
    file: Tokenizer,
    arguments: &mut Arguments,
) -> Result<Backend> {
    let class = chosen.class;
    let mut names = names(class, &file, arguments)?;
    let additional = extra(class, arguments, &names)?;
    let extra = match arguments.has("extra_special_tokens") {
        true => arguments
            .take_list("extra_special_tokens")?
            .unwrap_or_default(),
        false => additional.unwrap_or_default(),
    };
    let (tokenizer, template) = if keeps_file(class) {
        (file, None)
    } else {
        let template = file.get_post_processor().cloned();
        (rebuild(chosen, &file, arguments, &mut names)?, template)
    };
    let mut backend = Backend {
        tokenizer,
        names,
        extra,
        add_bos: arguments
            .flag("add_bos_token")
            .unwrap_or(class == Class::CodeLlama),
        add_eos: arguments.flag("add_eos_token").unwrap_or(false),
        updates_template: false,
    };
    if let Some(template) = template {
        backend.tokenizer.with_post_processor(Some(template));
    }
    backend.updates_template = arguments.has("add_bos_token")
        || arguments.has("add_eos_token")
        || class == Class::CodeLlama
        || backend.tokenizer.get_post_processor().is_none();
    backend
        .tokenizer
        .set_encode_special_tokens(arguments.flag("split_special_tokens") == Some(true));
    backend.add_tokens(arguments)?;
    if backend.updates_template {
        backend.update_template()?;
    }
    backend.finish(class, arguments)?;
    Ok(backend)
}

/// Classes that leave the file's own tokenizer in place.
fn keeps_file(class: Class) -> bool {
    matches!(
        class,
        Class::Backend | Class::ConvBert | Class::Fnet | Class::Parakeet
    )
}

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
fn names(
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
fn extra(
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

/// A class's model over the file's vocabulary.
struct Model<'a> {
    chosen: &'a Chosen,
    file: &'a Tokenizer,
}

impl Model<'_> {
    fn mismatch(&self, wanted: &str) -> String {
        let found = match self.file.get_model() {
            ModelWrapper::BPE(_) => "BPE",
            ModelWrapper::WordPiece(_) => "WordPiece",
            ModelWrapper::WordLevel(_) => "WordLevel",
            ModelWrapper::Unigram(_) => "Unigram",
        };
        format!(
            "holds a {found} vocabulary, but the class {} ({}) reads it as {wanted}, which gives tokens that mean \
             nothing; name the class that fits in tokenizer_class of tokenizer_config.json (\"TokenizersBackend\" takes \
             the file as it is)",
            self.chosen.name, self.chosen.because
        )
    }

    fn word_piece(&self, unknown: &str, prefix: &str) -> Result<ModelWrapper> {
        let ModelWrapper::WordPiece(model) = self.file.get_model() else {
            return Err(self.mismatch("WordPiece"));
        };
        let mut model = model.clone();
        model.unk_token = unknown.to_string();
        model.continuing_subword_prefix = prefix.to_string();
        model.max_input_chars_per_word = 100;
        Ok(model.into())
    }

    fn bpe(&self, settings: Bpe<'_>) -> Result<ModelWrapper> {
        let ModelWrapper::BPE(model) = self.file.get_model() else {
            return Err(self.mismatch("BPE"));
        };
        let mut model: BPE = model.clone();
        // Merges are joined by the file's prefix when they are read.
        if model
            .continuing_subword_prefix
            .take()
            .is_some_and(|prefix| !prefix.is_empty())
        {
            return Err(self.mismatch("BPE without a prefix for continuing subwords"));
        }
        model.unk_token = settings.unknown.map(Into::into);
        model.end_of_word_suffix = settings.suffix.map(Into::into);
        model.fuse_unk = settings.fuse;
        model.byte_fallback = settings.bytes;
        model.ignore_merges = false;
        model.dropout = None;
        Ok(model.into())
    }

    fn vocabulary(&self) -> Result<&Unigram> {
        match self.file.get_model() {
            ModelWrapper::Unigram(model) => Ok(model),
            _ => Err(self.mismatch("Unigram")),
        }
    }

    /// The place of the unknown token with score 0, from `start` on.
    fn scored(&self, unknown: &str, start: usize) -> Result<Option<usize>> {
        let mut entries = self.vocabulary()?.iter().skip(start);
        let found = entries.position(|(text, score)| text == unknown && *score == 0.0);
        Ok(found.map(|place| place + start))
    }

    fn unigram(&self, unknown: usize) -> Result<ModelWrapper> {
        let entries = self.vocabulary()?.iter().cloned().collect();
        Unigram::from(entries, Some(unknown), false)
            .map(Into::into)
            .map_err(|error| format!("has no token {unknown}, the class's unknown token ({error})"))
    }
}

/// Settings of a BPE model.
#[derive(Default)]
struct Bpe<'a> {
    unknown: Option<&'a str>,
    suffix: Option<&'a str>,
    fuse: bool,
    bytes: bool,
}

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
fn rebuild(
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

fn template(single: &str, special: Vec<(String, u32)>) -> Result<PostProcessorWrapper> {
    let built = TemplateProcessing::builder()
        .try_single(single)?
        .special_tokens(special)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(built.into())
}

/// A named token's text; Python writes one that is missing as `None`.
fn text_of(names: &[(String, Option<Special>)], name: &str) -> String {
    names
        .iter()
        .find(|(known, _)| known == name)
        .and_then(|(_, token)| token.as_ref())
        .map_or("None", Special::text)
        .to_string()
}

impl Backend {
    fn text(&self, name: &str) -> String {
        text_of(&self.names, name)
    }

    /// All special tokens, named ones first, each once.
    fn special(&self) -> Vec<&Special> {
        let mut all: Vec<&Special> = Vec::new();
        let named = self.names.iter().filter_map(|(_, token)| token.as_ref());
        for token in named.chain(&self.extra) {
            if !all.iter().any(|known| known.text() == token.text()) {
                all.push(token);
            }
        }
        all
    }

    /// A token's id; a text that is no token has the unknown token's.
    fn id(&self, text: &str) -> Option<u32> {
        self.tokenizer
            .token_to_id(text)
            .or_else(|| self.tokenizer.token_to_id(&self.text("unk_token")))
    }

    /// Ids of all special tokens.
    pub fn special_ids(&self) -> impl Iterator<Item = u32> {
        self.special()
            .into_iter()
            .filter_map(|token| self.id(token.text()))
    }

    /// Id of the padding token, where one is named.
    pub fn padding_id(&self) -> Option<u32> {
        self.names
            .iter()
            .find(|(name, _)| name == "pad_token")
            .and_then(|(_, token)| self.id(token.as_ref()?.text()))
    }

    /// Id of the end token, where one is named.
    pub fn end_id(&self) -> Option<u32> {
        let (_, token) = self.names.iter().find(|(name, _)| name == "eos_token")?;
        self.id(token.as_ref()?.text())
    }

    fn add(&mut self, tokens: Vec<AddedToken>) -> Result<()> {
        self.tokenizer
            .add_tokens(tokens)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    /// Adds the tokens of the arguments, then special tokens that are not among them.
    fn add_tokens(&mut self, arguments: &Arguments) -> Result<()> {
        let mut add: Vec<Special> = arguments
            .added
            .values()
            .cloned()
            .map(Special::Flagged)
            .collect();
        let mut known: Vec<String> = self
            .tokenizer
            .get_added_tokens_decoder()
            .into_values()
            .map(|token| token.content)
            .collect();
        known.extend(add.iter().map(|token| token.text().to_string()));
        let named = self.names.iter().filter_map(|(_, token)| token.as_ref());
        for token in named.chain(&self.extra) {
            if !known.iter().any(|text| text == token.text())
                && !add.iter().any(|one| one.same(token))
            {
                add.push(token.clone());
            }
        }
        let named: Vec<&str> = self
            .names
            .iter()
            .filter_map(|(_, token)| Some(token.as_ref()?.text()))
            .collect();
        let tokens = add
            .into_iter()
            .map(|token| match token {
                Special::Text(text) => AddedToken::from(text, true),
                Special::Flagged(mut added) => {
                    added.special |= named.contains(&added.content.as_str());
                    added.token()
                }
            })
            .collect();
        self.add(tokens)
    }

    /// The template of `add_bos_token` and `add_eos_token`.
    fn update_template(&mut self) -> Result<()> {
        let mut single = String::new();
        let mut special = Vec::new();
        let mut around = |wanted: bool, name: &str| -> Result<Option<String>> {
            let is_named = self
                .names
                .iter()
                .any(|(known, token)| known == name && token.is_some());
            if !wanted || !is_named {
                return Ok(None);
            }
            let text = self.text(name);
            let id = self
                .id(&text)
                .ok_or_else(|| format!("has no token '{text}' ({name})"))?;
            special.push((text.clone(), id));
            Ok(Some(text))
        };
        if let Some(bos) = around(self.add_bos, "bos_token")? {
            single += &format!("{bos}:0 ");
        }
        single += "$A:0";
        if let Some(eos) = around(self.add_eos, "eos_token")? {
            single += &format!(" {eos}:0");
        }
        self.tokenizer
            .with_post_processor(Some(template(&single, special)?));
        Ok(())
    }

    /// Sets a template of named tokens, `(text in the template, id)`.
    fn set_template(&mut self, single: &str, special: &[(&str, Option<u32>)]) -> Result<()> {
        let special = special
            .iter()
            .map(|(text, id)| {
                let id = id.ok_or_else(|| {
                    format!("has no token '{text}', which its class puts around a text")
                })?;
                Ok(((*text).to_string(), id))
            })
            .collect::<Result<_>>()?;
        self.tokenizer
            .with_post_processor(Some(template(single, special)?));
        Ok(())
    }

    /// What the class does when tokens have been added.
    #[allow(clippy::too_many_lines)] // one arm a class
    fn finish(&mut self, class: Class, arguments: &Arguments) -> Result<()> {
        let [cls, sep, bos, eos] =
            ["cls_token", "sep_token", "bos_token", "eos_token"].map(|name| self.text(name));
        let named = |name: &str| {
            self.names
                .iter()
                .any(|(known, token)| known == name && token.is_some())
        };
        let id = |name: &str| named(name).then(|| self.id(&self.text(name))).flatten();
        let (cls_id, sep_id, bos_id, eos_id) = (
            id("cls_token"),
            id("sep_token"),
            id("bos_token"),
            id("eos_token"),
        );
        let need = |id: Option<u32>, text: &str| {
            id.ok_or_else(|| format!("has no token '{text}', which its class puts around a text"))
        };
        match class {
            Class::Backend
            | Class::Fnet
            | Class::Parakeet
            | Class::Albert
            | Class::Barthez
            | Class::Blenderbot
            | Class::CodeGen
            | Class::CodeLlama
            | Class::Gemma
            | Class::Gpt2
            | Class::Llama
            | Class::OpenAiGpt
            | Class::Qwen3_5
            | Class::Tipsv2
            | Class::VideoPrism => {}
            Class::Bert | Class::ConvBert | Class::DistilBert | Class::Dpr | Class::DprReader => {
                self.set_template(
                    &format!("{cls}:0 $A:0 {sep}:0"),
                    &[(&cls, cls_id.or(Some(2))), (&sep, sep_id.or(Some(3)))],
                )?;
            }
            Class::DebertaV2 => self.set_template(
                &format!("{cls}:0 $A:0 {sep}:0"),
                &[(&cls, cls_id.or(Some(0))), (&sep, sep_id.or(Some(0)))],
            )?,
            Class::BigBird | Class::RemBert => self.set_template(
                &format!("{cls}:0 $A:0 {sep}:0"),
                &[(&cls, cls_id), (&sep, sep_id)],
            )?,
            Class::Deberta => self.set_template(
                &format!("{cls} $A {sep}"),
                &[(&cls, cls_id), (&sep, sep_id)],
            )?,
            Class::Funnel => self.set_template(
                &format!("{cls}:2 $A:0 {sep}:0"),
                &[(&cls, cls_id), (&sep, sep_id)],
            )?,
            Class::XlNet => self.set_template(
                &format!("$A:0 {sep}:0 {cls}:2"),
                &[(&sep, sep_id), (&cls, cls_id)],
            )?,
            Class::Splinter => {
                if named_in(&self.names, "cls_token") && named_in(&self.names, "sep_token") {
                    self.set_template(
                        &format!("{cls}:0 $A:0 {sep}:0"),
                        &[(&cls, cls_id), (&sep, sep_id)],
                    )?;
                }
            }
            Class::XlmRoberta | Class::Camembert => self.set_template(
                &format!("{bos} $A {eos}"),
                &[(&bos, bos_id), (&eos, eos_id)],
            )?,
            Class::T5 | Class::Lasr => self.set_template("$A </s>", &[("</s>", eos_id)])?,
            Class::Pegasus => self.set_template(&format!("$A {eos}"), &[(&eos, eos_id)])?,
            Class::Xglm => {
                self.set_template(&format!("{eos} $A"), &[(&bos, bos_id), (&eos, eos_id)])?;
            }
            Class::Roberta => {
                let ends = RobertaProcessing::new(
                    (sep.clone(), need(sep_id, &sep)?),
                    (cls.clone(), need(cls_id, &cls)?),
                );
                self.tokenizer.with_post_processor(Some(ends));
            }
            Class::Mpnet => {
                let ends =
                    RobertaProcessing::new((sep, sep_id.unwrap_or(2)), (cls, cls_id.unwrap_or(0)));
                self.tokenizer.with_post_processor(Some(ends));
            }
            Class::Clip => {
                let ends = RobertaProcessing::new(
                    (eos.clone(), need(eos_id, &eos)?),
                    (bos.clone(), need(bos_id, &bos)?),
                );
                self.tokenizer.with_post_processor(Some(ends));
            }
            Class::Herbert => {
                let ends = BertProcessing::new((sep, 2), (cls, 0));
                self.tokenizer.with_post_processor(Some(ends));
            }
            Class::GptNeoX => self.update_template()?,
            Class::Qwen2 => {
                let plain = self
                    .special()
                    .into_iter()
                    .map(|token| AddedToken::from(token.text(), true));
                let plain = plain.collect();
                self.add(plain)?;
            }
            Class::Siglip2 => {
                let lower = normalizer(json!({"type": "Lowercase"}));
                let steps = self.tokenizer.get_normalizer().cloned().into_iter();
                let all = Normalizers::new(std::iter::once(lower).chain(steps).collect());
                self.tokenizer
                    .with_normalizer(Some(all))
                    .map_err(|error| error.to_string())?;
            }
            Class::MBart | Class::MBart50 | Class::Nllb => {
                let default = if class == Class::Nllb {
                    "eng_Latn"
                } else {
                    "en_XX"
                };
                let language = arguments.string("src_lang").unwrap_or(default).to_string();
                let code = self.id(&language);
                let after = match class {
                    Class::MBart => true,
                    Class::Nllb => arguments.flag("legacy_behaviour") == Some(true),
                    _ => false,
                };
                // The reference writes an unknown language as the unknown token.
                let language = match (self.tokenizer.token_to_id(&language), class) {
                    (None, Class::MBart | Class::MBart50) => self.text("unk_token"),
                    _ => language,
                };
                let single = if after {
                    format!("$A {eos} {language}")
                } else {
                    format!("{language} $A {eos}")
                };
                self.set_template(&single, &[(&eos, eos_id), (&language, code)])?;
            }
            Class::Cohere | Class::Reformer => {}
        }
        if matches!(class, Class::Cohere | Class::Reformer | Class::RemBert) {
            self.add_again()?;
            if self.updates_template {
                self.update_template()?;
            }
        }
        Ok(())
    }

    /// The reference's `_post_init`, which few classes call: special tokens once more.
    fn add_again(&mut self) -> Result<()> {
        let named = self.names.iter().filter_map(|(_, token)| token.as_ref());
        let tokens = named
            .chain(&self.extra)
            .map(|token| match token {
                Special::Text(text) => AddedToken::from(text.clone(), true).normalized(false),
                Special::Flagged(added) => Added {
                    special: true,
                    ..added.clone()
                }
                .token(),
            })
            .collect();
        self.add(tokens)
    }
}

fn named_in(names: &[(String, Option<Special>)], name: &str) -> bool {
    names
        .iter()
        .any(|(known, token)| known == name && token.is_some())
}
