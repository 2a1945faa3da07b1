//! The steps of every class after its own: tokens are added, flagged and put around a text.

use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence as Normalizers};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer};

use super::Result;
use super::special::SpecialNames;
use crate::tokenizer::added::{Added, Special};
use crate::tokenizer::arguments::Arguments;
use crate::tokenizer::registry::TokenizerClass;
use embedctl_common::error::Cause;

/// A tokenizer under construction: the reference's `TokenizersBackend`, with the tokens it knows by name.
pub(crate) struct Backend {
    pub tokenizer: Tokenizer,
    pub(super) names: SpecialNames,
    pub(super) extra: Vec<Special>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    pub(super) updates_template: bool,
}

/// The templates of BERT's classes: of a text, and of a pair of texts.
const BERT: (&str, &str) = ("cls:0 $A:0 sep:0", "cls:0 $A:0 sep:0 $B:1 sep:1");

pub(super) fn template(
    single: &str,
    pair: &str,
    special: Vec<(String, u32)>,
) -> Result<PostProcessorWrapper> {
    let built = TemplateProcessing::builder()
        .try_single(single)?
        .try_pair(pair)?
        .special_tokens(special)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(built.into())
}

impl Backend {
    /// All special tokens, named ones first, each once.
    fn special(&self) -> Vec<&Special> {
        let mut all: Vec<&Special> = Vec::new();
        for token in self.names.tokens().chain(&self.extra) {
            if !all.iter().any(|known| known.text() == token.text()) {
                all.push(token);
            }
        }
        all
    }

    /// A token's id; a text that is no token has the unknown token's.
    fn id(&self, text: &str) -> Option<u32> {
        let id = |text: &str| self.tokenizer.token_to_id(text);
        id(text).or_else(|| id(self.names.text("unk_token")))
    }

    /// Ids of all special tokens.
    pub(crate) fn special_ids(&self) -> impl Iterator<Item = u32> {
        self.special()
            .into_iter()
            .filter_map(|token| self.id(token.text()))
    }

    /// Id of the token of that name, where one is named.
    pub(crate) fn named_id(&self, name: &str) -> Option<u32> {
        self.id(self.names.get(name)?.text())
    }

    /// The texts of all named tokens.
    pub(crate) fn named_texts(&self) -> Vec<(String, String)> {
        self.names.texts()
    }

    fn add(&mut self, tokens: Vec<AddedToken>) -> Result<()> {
        self.tokenizer
            .add_tokens(tokens)
            .map(|_| ())
            .map_err(|error| error.to_string().into())
    }

    /// Adds the tokens of the arguments, then special tokens that are not among them.
    pub(super) fn add_tokens(&mut self, arguments: &Arguments) -> Result<()> {
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
        for token in self.names.tokens().chain(&self.extra) {
            if !known.iter().any(|text| text == token.text())
                && !add.iter().any(|one| one.same(token))
            {
                add.push(token.clone());
            }
        }
        let named: Vec<&str> = self.names.tokens().map(Special::text).collect();
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
    pub(super) fn update_template(&mut self) -> Result<()> {
        let has = |wanted: bool, name| wanted && self.names.get(name).is_some();
        let (single, pair) = match (
            has(self.add_bos, "bos_token"),
            has(self.add_eos, "eos_token"),
        ) {
            (false, false) => ("$A:0", "$A:0 $B:1"),
            (true, false) => ("bos:0 $A:0", "bos:0 $A:0 bos:1 $B:1"),
            (false, true) => ("$A:0 eos:0", "$A:0 eos:0 $B:1 eos:1"),
            (true, true) => ("bos:0 $A:0 eos:0", "bos:0 $A:0 eos:0 bos:1 $B:1 eos:1"),
        };
        self.surround(single, pair, &[])
    }

    /// Puts tokens around a text and around a pair of texts: in the templates `single` and `pair` `bos`, `eos`, `cls` and
    /// `sep` stand for the tokens of those names. `ids` are those of others, and of named ones that there are none of.
    fn surround(&mut self, single: &str, pair: &str, ids: &[(&str, u32)]) -> Result<()> {
        let parts = single.split([' ', ':']).chain(pair.split([' ', ':']));
        let mut around: Vec<&str> = parts
            .filter(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
            .collect();
        around.sort_unstable();
        around.dedup();
        let special = (around.into_iter())
            .map(|part| Ok((part.to_owned(), self.around(part, ids)?)))
            .collect::<Result<_>>()?;
        self.tokenizer
            .with_post_processor(Some(template(single, pair, special)?));
        Ok(())
    }

    /// The id of the token that a template calls `part`.
    fn around(&self, part: &str, ids: &[(&str, u32)]) -> Result<u32> {
        let is_named = |part: &str| ["bos", "eos", "cls", "sep"].contains(&part);
        let text = |part: &str| self.names.text(&format!("{part}_token"));
        let own = self.named_id(&format!("{part}_token"));
        let own = own.filter(|_| is_named(part));
        // Of two tokens with the same text (even Python's "None"), the later counts.
        let is_it = |(known, _): &&(&str, u32)| {
            *known == part || is_named(known) && is_named(part) && text(known) == text(part)
        };
        let given = ids.iter().rev().find(is_it).map(|(_, id)| *id);
        own.or(given).ok_or_else(|| {
            Cause::of(format!(
                "has no token '{}' ({part}_token), which its class puts around a text",
                text(part)
            ))
        })
    }

    /// The same at the ends of a text, as RoBERTa's classes do it.
    fn enclose(&mut self, first: &str, last: &str, ids: &[(&str, u32)]) -> Result<()> {
        let [first, last] = [first, last].map(|part| -> Result<_> {
            let text = self.names.text(&format!("{part}_token"));
            // Ends of one text keep an id each, unlike a template's tokens.
            let own: Vec<_> = ids.iter().copied().filter(|id| id.0 == part).collect();
            Ok((text.to_owned(), self.around(part, &own)?))
        });
        let ends = RobertaProcessing::new(last?, first?);
        self.tokenizer.with_post_processor(Some(ends));
        Ok(())
    }

    /// The class's last step, after tokens have been added.
    pub(super) fn finish(&mut self, class: TokenizerClass, arguments: &Arguments) -> Result<()> {
        match class {
            TokenizerClass::Backend
            | TokenizerClass::Fnet
            | TokenizerClass::Parakeet
            | TokenizerClass::Albert
            | TokenizerClass::Barthez
            | TokenizerClass::Blenderbot
            | TokenizerClass::CodeGen
            | TokenizerClass::CodeLlama
            | TokenizerClass::Cohere
            | TokenizerClass::Gemma
            | TokenizerClass::Gpt2
            | TokenizerClass::Llama
            | TokenizerClass::OpenAiGpt
            | TokenizerClass::Qwen3_5
            | TokenizerClass::Reformer
            | TokenizerClass::Tipsv2
            | TokenizerClass::VideoPrism => {}
            TokenizerClass::Bert
            | TokenizerClass::ConvBert
            | TokenizerClass::DistilBert
            | TokenizerClass::Dpr
            | TokenizerClass::DprReader => {
                self.surround(BERT.0, BERT.1, &[("cls", 2), ("sep", 3)])?;
            }
            TokenizerClass::DebertaV2 => {
                self.surround(BERT.0, BERT.1, &[("cls", 0), ("sep", 0)])?;
            }
            TokenizerClass::BigBird | TokenizerClass::RemBert => {
                self.surround(BERT.0, BERT.1, &[])?;
            }
            TokenizerClass::Splinter => self.surround_with_question()?,
            TokenizerClass::Deberta => self.surround("cls $A sep", "cls $A sep sep $B sep", &[])?,
            TokenizerClass::Funnel => {
                self.surround("cls:2 $A:0 sep:0", "cls:2 $A:0 sep:0 $B:1 sep:1", &[])?;
            }
            TokenizerClass::XlNet => {
                self.surround("$A:0 sep:0 cls:2", "$A:0 sep:0 $B:1 sep:1 cls:2", &[])?;
            }
            TokenizerClass::XlmRoberta | TokenizerClass::Camembert => {
                self.surround("bos $A eos", "bos $A eos eos $B eos", &[])?;
            }
            TokenizerClass::T5 | TokenizerClass::Lasr => {
                self.surround("$A eos", "$A eos $B eos", &[])?;
            }
            TokenizerClass::Pegasus => self.surround("$A eos", "$A $B eos", &[])?,
            TokenizerClass::Xglm => {
                self.around("bos", &[])?;
                self.surround("eos $A", "eos $A eos eos $B", &[])?;
            }
            TokenizerClass::Roberta => self.enclose("cls", "sep", &[])?,
            TokenizerClass::Mpnet => self.enclose("cls", "sep", &[("cls", 0), ("sep", 2)])?,
            TokenizerClass::Clip => self.enclose("bos", "eos", &[])?,
            TokenizerClass::Herbert => {
                let [sep, cls] = ["sep_token", "cls_token"].map(|name| self.names.text(name));
                let ends = BertProcessing::new((sep.to_owned(), 2), (cls.to_owned(), 0));
                self.tokenizer.with_post_processor(Some(ends));
            }
            TokenizerClass::GptNeoX => self.update_template()?,
            TokenizerClass::Qwen2 => {
                let special = self.special().into_iter();
                let plain = special.map(|token| AddedToken::from(token.text(), true));
                let plain = plain.collect();
                self.add(plain)?;
            }
            TokenizerClass::Siglip2 => self.lowercase_first()?,
            TokenizerClass::MBart => self.surround_with_language(arguments, "en_XX", true)?,
            TokenizerClass::MBart50 => self.surround_with_language(arguments, "en_XX", false)?,
            TokenizerClass::Nllb => {
                let is_last = arguments.flag("legacy_behaviour") == Some(true);
                self.surround_with_language(arguments, "eng_Latn", is_last)?;
            }
        }
        if matches!(
            class,
            TokenizerClass::Cohere | TokenizerClass::Reformer | TokenizerClass::RemBert
        ) {
            self.add_again()?;
            if self.updates_template {
                self.update_template()?;
            }
        }
        Ok(())
    }

    /// Splinter's question token and a dot stand between the texts of a pair.
    fn surround_with_question(&mut self) -> Result<()> {
        let has = |name| self.names.get(name).is_some();
        if !(has("cls_token") && has("sep_token")) {
            return Ok(());
        }
        match self.named_id("question_token").zip(self.id(".")) {
            Some((question, dot)) => self.surround(
                BERT.0,
                "cls:0 $A:0 question dot sep:0 $B:1 sep:1",
                &[("question", question), ("dot", dot)],
            ),
            None => self.surround(BERT.0, BERT.1, &[]),
        }
    }

    /// Puts the token of the text's language, which `src_lang` names, before the text or behind its end token.
    fn surround_with_language(
        &mut self,
        arguments: &Arguments,
        default: &str,
        is_last: bool,
    ) -> Result<()> {
        // The reference writes an unknown language as the unknown token.
        let language = arguments.string("src_lang").unwrap_or(default);
        let code = self.id(language).ok_or_else(|| {
            format!("has no token '{language}', which its class puts around a text")
        })?;
        let (single, pair) = match is_last {
            true => ("$A eos language", "$A $B eos language"),
            false => ("language $A eos", "language $A $B eos"),
        };
        self.surround(single, pair, &[("language", code)])
    }

    /// Lower-cases texts before all other steps of the normalizer.
    fn lowercase_first(&mut self) -> Result<()> {
        let lower = NormalizerWrapper::from(Lowercase);
        let steps = self.tokenizer.get_normalizer().cloned().into_iter();
        let all = Normalizers::new(std::iter::once(lower).chain(steps).collect());
        self.tokenizer
            .with_normalizer(Some(all))
            .map_err(|error| error.to_string())?;
        Ok(())
    }

    /// The reference's `_post_init`, which few classes call: special tokens once more.
    fn add_again(&mut self) -> Result<()> {
        let tokens = self
            .names
            .tokens()
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
