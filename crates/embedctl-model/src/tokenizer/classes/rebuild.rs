//! Normalizer, pre-tokenizer and model settings that a class brings itself.

use serde_json::{Value, json};
use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::byte_level::ByteLevel;

use super::Result;
use super::backend::template;
use super::special::SpecialNames;
use super::steps::{
    Step, accents, at_spaces, bert, bert_words, byte_level, clip_split, lowercase, metaspace, nfc,
    plain_quotes, qwen_split, replace_matches, replace_text, sequence, single_spaces,
    single_white_space, strip,
};
use super::vocabulary::{Bpe, VocabularyModel};
use crate::metadata::is_true;
use crate::tokenizer::arguments::Arguments;
use crate::tokenizer::languages::{MBART, MBART_50};
use crate::tokenizer::registry::{ChosenClass, TokenizerClass};
use embedctl_common::error::Cause;
use embedctl_common::word_list::lists;

/// The tokenizer before tokens are added and the template is set.
pub(super) fn rebuild(
    chosen: &ChosenClass,
    file: &Tokenizer,
    arguments: &Arguments,
    names: &SpecialNames,
) -> Result<Tokenizer> {
    let class = ClassArguments {
        class: chosen.class,
        model: VocabularyModel { chosen, file },
        arguments,
        unknown: names.text("unk_token"),
    };
    let mut tokenizer = class.parts()?.assembled()?;
    match chosen.class {
        TokenizerClass::CodeGen => {
            tokenizer.with_post_processor(Some(ByteLevel::new(true, false, true)));
        }
        TokenizerClass::Albert => put_alberts_ends(&mut tokenizer, names)?,
        _ => {}
    }
    Ok(tokenizer)
}

/// Albert's tokens around a text have the ids of the vocabulary, before tokens are added to it.
fn put_alberts_ends(tokenizer: &mut Tokenizer, names: &SpecialNames) -> Result<()> {
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
    Ok(())
}

/// What a class makes its tokenizer of.
struct ClassParts {
    /// Steps of the normalizer.
    steps: Vec<Step>,
    model: ModelWrapper,
    /// The pre-tokenizer.
    words: Value,
}

impl ClassParts {
    fn assembled(self) -> Result<Tokenizer> {
        let mut tokenizer = Tokenizer::new(self.model);
        let mut steps: Vec<NormalizerWrapper> = self.steps.into_iter().flatten().collect();
        let normalizer = match steps.len() {
            0 => None,
            1 => steps.pop(),
            _ => Some(Normalizers::new(steps).into()),
        };
        if normalizer.is_some() {
            tokenizer
                .with_normalizer(normalizer)
                .map_err(|error| error.to_string())?;
        }
        let words: PreTokenizerWrapper =
            serde_json::from_value(self.words).expect("a pre-tokenizer as the crate writes it");
        tokenizer.with_pre_tokenizer(Some(words));
        Ok(tokenizer)
    }
}

/// A class with its arguments and the vocabulary that it is given.
struct ClassArguments<'a> {
    class: TokenizerClass,
    model: VocabularyModel<'a>,
    arguments: &'a Arguments,
    /// The unknown token.
    unknown: &'a str,
}

impl ClassArguments<'_> {
    /// Normalizer, model and pre-tokenizer as the class's own code makes them.
    fn parts(&self) -> Result<ClassParts> {
        match self.class {
            TokenizerClass::Backend
            | TokenizerClass::ConvBert
            | TokenizerClass::Fnet
            | TokenizerClass::Parakeet => unreachable!("these keep the file"),
            TokenizerClass::Bert
            | TokenizerClass::Dpr
            | TokenizerClass::DprReader
            | TokenizerClass::DistilBert
            | TokenizerClass::Mpnet
            | TokenizerClass::Splinter
            | TokenizerClass::Funnel => self.bert(),
            TokenizerClass::Roberta
            | TokenizerClass::Gpt2
            | TokenizerClass::CodeGen
            | TokenizerClass::Deberta => self.byte_bpe(vec![], self.bytes(false)),
            TokenizerClass::Blenderbot => self.byte_bpe(vec![], self.bytes(true)),
            TokenizerClass::GptNeoX => self.byte_bpe(vec![nfc()], self.bytes(false)),
            TokenizerClass::Cohere => {
                let digits = json!({"type": "Digits", "individual_digits": true});
                self.byte_bpe(vec![nfc()], sequence(&[digits, self.bytes(false)]))
            }
            TokenizerClass::Qwen2 => self.qwen(""),
            TokenizerClass::Qwen3_5 => self.qwen(r"\p{M}"),
            TokenizerClass::Clip => self.word_end_bpe(
                vec![nfc(), replace_matches(r"\s+", " "), lowercase()],
                sequence(&[clip_split(), byte_level(false, true)]),
            ),
            TokenizerClass::Herbert => {
                self.word_end_bpe(vec![bert(true, true, false.into(), false)], bert_words())
            }
            TokenizerClass::OpenAiGpt => {
                self.word_end_bpe(vec![bert(true, true, Value::Null, true)], bert_words())
            }
            TokenizerClass::Llama => self.llama(None, !self.flag("legacy", false)),
            TokenizerClass::CodeLlama => self.llama(Some(self.unknown), true),
            TokenizerClass::Gemma | TokenizerClass::Siglip2 => {
                let split = json!({"type": "Split", "pattern": {"String": " "},
                                   "behavior": "MergedWithPrevious", "invert": false});
                let marks = replace_text(" ", "▁");
                self.fused_bpe(vec![marks], (Some(self.unknown), true), split)
            }
            TokenizerClass::Reformer | TokenizerClass::Nllb => {
                let spaces = single_spaces().filter(|_| self.table().is_some());
                let steps = vec![self.table(), spaces];
                let words = metaspace("always", true);
                self.fused_bpe(steps, (Some(self.unknown), false), words)
            }
            TokenizerClass::Tipsv2 => {
                let steps = vec![self.lowercase(true), self.table()];
                self.fused_bpe(steps, (None, true), at_spaces("always"))
            }
            TokenizerClass::T5 | TokenizerClass::VideoPrism => {
                self.unigram(vec![self.table()], 2, at_spaces("always"))
            }
            TokenizerClass::Lasr => self.unigram(vec![self.table()], 3, at_spaces("always")),
            TokenizerClass::MBart => self.unigram(vec![], 3, at_spaces("always")),
            TokenizerClass::MBart50 => self.mbart_50(),
            TokenizerClass::XlmRoberta => {
                self.unigram(vec![self.table()], 3, at_spaces(self.spaced()))
            }
            TokenizerClass::Camembert => {
                let mut entries = self.model.vocabulary()?.iter();
                let unknown = entries.position(|(text, _)| text == self.unknown);
                let words = at_spaces(self.spaced());
                self.unigram(vec![self.table()], unknown.unwrap_or(0), words)
            }
            TokenizerClass::Xglm => {
                let steps = vec![self.table(), single_spaces()];
                self.unigram(steps, 3, metaspace(self.spaced(), true))
            }
            TokenizerClass::Barthez => {
                let steps = vec![single_white_space(), nfc(), strip(false, true)];
                self.unigram(steps, 3, metaspace(self.spaced(), true))
            }
            TokenizerClass::DebertaV2 => self.deberta_v2(),
            TokenizerClass::BigBird => {
                let unknown = self.model.scored(self.unknown, 0)?.unwrap_or(100);
                let steps = vec![strip(false, false), replace_matches(" {2,}", "▁")];
                self.unigram(steps, unknown, metaspace(self.spaced(), true))
            }
            TokenizerClass::Albert => self.albert(),
            TokenizerClass::RemBert => self.rembert(),
            TokenizerClass::XlNet => self.xlnet(),
            TokenizerClass::Pegasus => self.pegasus(),
        }
    }

    /// A switch as Python reads it, to which null is false and no missing key.
    fn flag(&self, key: &str, default: bool) -> bool {
        self.arguments.get(key).map_or(default, is_true)
    }

    fn unknown_id(&self, default: f64) -> usize {
        self.arguments.number("unk_id").unwrap_or(default) as usize
    }

    fn prefix_space(&self, default: bool) -> bool {
        self.flag("add_prefix_space", default)
    }

    /// The words before which Metaspace puts its mark.
    fn spaced(&self) -> &'static str {
        if self.prefix_space(true) {
            "always"
        } else {
            "never"
        }
    }

    fn bytes(&self, prefix_space: bool) -> Value {
        byte_level(self.prefix_space(prefix_space), true)
    }

    fn lowercase(&self, default: bool) -> Step {
        lowercase().filter(|_| self.flag("do_lower_case", default))
    }

    /// SentencePiece's table of characters, the one step of a file's normalizer that classes keep.
    fn table(&self) -> Step {
        let is_table = |one: &&NormalizerWrapper| matches!(one, NormalizerWrapper::Precompiled(_));
        match self.model.file.get_normalizer()? {
            NormalizerWrapper::Sequence(all) => all.as_ref().iter().find(is_table),
            one => Some(one).filter(is_table),
        }
        .cloned()
    }

    fn bpe(&self, steps: Vec<Step>, settings: Bpe<'_>, words: Value) -> Result<ClassParts> {
        let model = self.model.bpe(settings)?;
        Ok(ClassParts {
            steps,
            model,
            words,
        })
    }

    /// BPE over bytes, without an unknown token.
    fn byte_bpe(&self, steps: Vec<Step>, words: Value) -> Result<ClassParts> {
        self.bpe(steps, Bpe::default(), words)
    }

    /// BPE that marks the end of a word.
    fn word_end_bpe(&self, steps: Vec<Step>, words: Value) -> Result<ClassParts> {
        let settings = Bpe {
            unknown: Some(self.unknown),
            suffix: Some("</w>"),
            ..Bpe::default()
        };
        self.bpe(steps, settings, words)
    }

    /// SentencePiece's BPE: unknown characters beside each other are one token, or are written as `bytes`.
    fn fused_bpe(
        &self,
        steps: Vec<Step>,
        (unknown, bytes): (Option<&str>, bool),
        words: Value,
    ) -> Result<ClassParts> {
        let settings = Bpe {
            unknown,
            fuse: true,
            bytes,
            ..Bpe::default()
        };
        self.bpe(steps, settings, words)
    }

    /// A Unigram model whose unknown token has the id `unknown`.
    fn unigram(&self, steps: Vec<Step>, unknown: usize, words: Value) -> Result<ClassParts> {
        let model = self.model.unigram(unknown)?;
        Ok(ClassParts {
            steps,
            model,
            words,
        })
    }

    fn bert(&self) -> Result<ClassParts> {
        // DPR's classes take the setting and forget it.
        let is_dpr = matches!(self.class, TokenizerClass::Dpr | TokenizerClass::DprReader);
        let lower = is_dpr || self.flag("do_lower_case", true);
        // The normalizer takes no other types, so that the reference fails on them.
        for key in ["do_lower_case", "strip_accents", "tokenize_chinese_chars"] {
            let may_be_null = key == "strip_accents";
            let other = self
                .arguments
                .get(key)
                .filter(|value| !(value.is_boolean() || may_be_null && value.is_null()));
            if let Some(other) = other.filter(|_| key != "do_lower_case" || !is_dpr) {
                return Err(format!(
                    "has a class whose {key} is true or false; tokenizer_config.json says {other}"
                )
                .into());
            }
        }
        let clean = self.class != TokenizerClass::Funnel || self.flag("clean_text", true);
        let strip = (self.arguments.get("strip_accents").cloned()).unwrap_or_default();
        if !(strip.is_boolean() || strip.is_null()) {
            let reason = format!(
                "has strip_accents {strip} in its class's arguments (tokenizer_config.json)"
            );
            return Err(Cause::of(reason).with("set it to true, false or null"));
        }
        let chinese = self.flag("tokenize_chinese_chars", true);
        Ok(ClassParts {
            steps: vec![bert(clean, chinese, strip, lower)],
            // Funnel's setting of another prefix is for decoding alone.
            model: self.model.word_piece(self.unknown, "##")?,
            words: bert_words(),
        })
    }

    fn qwen(&self, marks: &str) -> Result<ClassParts> {
        let bytes = byte_level(self.prefix_space(false), false);
        self.byte_bpe(vec![nfc()], sequence(&[qwen_split(marks), bytes]))
    }

    /// `marks_first`: the newer Llama marks the first word of a text only.
    fn llama(&self, unknown: Option<&str>, marks_first: bool) -> Result<ClassParts> {
        // To these classes null says nothing.
        let is_null = (self.arguments.get("add_prefix_space")).is_some_and(Value::is_null);
        let scheme = match (is_null || self.prefix_space(true), marks_first) {
            (false, _) => "never",
            (true, true) => "first",
            (true, false) => "always",
        };
        self.fused_bpe(vec![], (unknown, true), metaspace(scheme, false))
    }

    fn mbart_50(&self) -> Result<ClassParts> {
        let is_language = |text: &str| lists(MBART, text) || lists(MBART_50, text);
        let mut entries = self.model.vocabulary()?.iter();
        if !entries.any(|(text, _)| is_language(text)) {
            return Err("has no languages in its vocabulary, where MBart50Tokenizer would make up another one".into());
        }
        let steps = vec![self.table(), single_spaces()];
        self.unigram(steps, 3, metaspace("always", true))
    }

    fn deberta_v2(&self) -> Result<ClassParts> {
        let scored = self.model.scored(self.unknown, 0)?;
        let unknown = scored.unwrap_or(self.unknown_id(1.0));
        let scheme = if self.prefix_space(true) {
            "always"
        } else {
            "first"
        };
        let mut words = vec![metaspace(scheme, true)];
        if self.flag("split_by_punct", false) {
            words.insert(0, json!({"type": "Punctuation", "behavior": "Isolated"}));
        }
        let lower = self.lowercase(false);
        let steps = vec![lower, single_white_space(), nfc(), strip(false, true)];
        self.unigram(steps, unknown, sequence(&words))
    }

    fn albert(&self) -> Result<ClassParts> {
        let mut steps = Vec::from(plain_quotes());
        steps.extend(accents(self.flag("keep_accents", false)));
        steps.extend([self.lowercase(true), self.table()]);
        self.unigram(steps, 1, at_spaces(self.spaced()))
    }

    fn rembert(&self) -> Result<ClassParts> {
        let mut steps = Vec::from(plain_quotes());
        steps.push(single_spaces());
        steps.extend(accents(self.flag("keep_accents", true)));
        steps.extend([self.lowercase(false), self.table()]);
        self.unigram(steps, 2, metaspace(self.spaced(), true))
    }

    fn xlnet(&self) -> Result<ClassParts> {
        let mut steps = Vec::from(plain_quotes());
        steps.extend(accents(false));
        steps.extend([self.lowercase(false), self.table()]);
        self.unigram(steps, self.unknown_id(0.0), at_spaces("always"))
    }

    fn pegasus(&self) -> Result<ClassParts> {
        let table = self.table().or_else(|| replace_matches(r"\n", " "));
        let unknown = self.unknown;
        let place = self.model.scored(unknown, 1)?.ok_or_else(|| {
            format!("has no token '{unknown}' of score 0, which PegasusTokenizer looks for")
        })?;
        let words = metaspace("always", true);
        self.unigram(vec![table, single_spaces()], place, words)
    }
}
