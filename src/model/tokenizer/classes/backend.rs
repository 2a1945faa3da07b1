//! What every class does after its own steps: tokens are added, flagged and put around a text.

use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence as Normalizers};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer};

use super::Result;
use super::special::{named_in, text_of};
use crate::model::tokenizer::arguments::{Added, Arguments, Special};
use crate::model::tokenizer::registry::Class;

/// A tokenizer under construction: the reference's `TokenizersBackend`, with the tokens it knows by name.
pub struct Backend {
    pub tokenizer: Tokenizer,
    /// Special tokens by name: [`NAMED`] first, then the model's own.
    pub(super) names: Vec<(String, Option<Special>)>,
    pub(super) extra: Vec<Special>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    pub(super) updates_template: bool,
}

pub(super) fn template(single: &str, special: Vec<(String, u32)>) -> Result<PostProcessorWrapper> {
    let built = TemplateProcessing::builder()
        .try_single(single)?
        .special_tokens(special)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(built.into())
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
    pub(super) fn update_template(&mut self) -> Result<()> {
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
    pub(super) fn finish(&mut self, class: Class, arguments: &Arguments) -> Result<()> {
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
                let lower = NormalizerWrapper::from(Lowercase);
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
