//! The tokenizer that each class of the reference builds from a `tokenizer.json`.
//!
//! In transformers 5 most classes take only the vocabulary, the post-processor and SentencePiece's table of characters
//! from the file; model settings, normalizer, pre-tokenizer and, for many, the special tokens around a text come from
//! the class and its arguments. `TokenizersBackend` and classes without an `__init__` keep the file. Every step here
//! follows its `tokenization_*.py`; the last steps, which add tokens, are in [`Backend`].

mod backend;
mod rebuild;
mod special;
mod steps;
mod vocabulary;

use tokenizers::Tokenizer;

use self::rebuild::rebuild;
use self::special::{SpecialNames, extra};
use super::arguments::Arguments;
use super::registry::{ChosenClass, TokenizerClass};
use embedctl_common::error::Cause;

pub(super) use self::backend::Backend;

type Result<T> = std::result::Result<T, Cause>;

/// Builds the tokenizer of the class `chosen` from `file`.
///
/// # Errors
/// If the file's model is of another kind than the class's, or the class would fail on its arguments.
pub(super) fn build(
    chosen: &ChosenClass,
    file: Tokenizer,
    arguments: &mut Arguments,
) -> Result<Backend> {
    let class = chosen.class;
    let names = SpecialNames::of(class, &file, arguments)?;
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
        let rebuilt = rebuild(chosen, &file, arguments, &names);
        embedctl_rows::vocabulary::free(file);
        (rebuilt?, template)
    };
    let mut backend = Backend {
        tokenizer,
        names,
        extra,
        add_bos: arguments
            .flag("add_bos_token")
            .unwrap_or(class == TokenizerClass::CodeLlama),
        add_eos: arguments.flag("add_eos_token").unwrap_or(false),
        updates_template: false,
    };
    if let Some(template) = template {
        backend.tokenizer.with_post_processor(Some(template));
    }
    backend.updates_template = arguments.has("add_bos_token")
        || arguments.has("add_eos_token")
        || class == TokenizerClass::CodeLlama
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
fn keeps_file(class: TokenizerClass) -> bool {
    matches!(
        class,
        TokenizerClass::Backend
            | TokenizerClass::ConvBert
            | TokenizerClass::Fnet
            | TokenizerClass::Parakeet
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokenizers::models::bpe::BPE;
    use tokenizers::models::unigram::Unigram;

    use super::super::registry::Reason;
    use super::*;

    /// The class's pre-tokenizer, called with these arguments.
    fn words(class: TokenizerClass, arguments: &Value) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let given = arguments.as_object().unwrap();
        let mut arguments = Arguments::read(folder.path(), given, &Vec::new()).unwrap();
        let chosen = ChosenClass {
            class,
            name: "AClass".into(),
            because: Reason::TokenizerConfig,
        };
        let is_bpe = matches!(
            class,
            TokenizerClass::Llama | TokenizerClass::CodeLlama | TokenizerClass::Qwen2
        );
        let file = match is_bpe {
            true => Tokenizer::new(BPE::default()),
            false => {
                let pieces = "<unk> <s> </s> <pad> [CLS] [SEP] [PAD] [UNK] ▁a".split(' ');
                let pieces = pieces.map(|piece| (piece.to_owned(), 0.0)).collect();
                Tokenizer::new(Unigram::from(pieces, Some(0), false).unwrap())
            }
        };
        let built = build(&chosen, file, &mut arguments).unwrap();
        serde_json::to_value(built.tokenizer.get_pre_tokenizer()).unwrap()
    }

    /// As transformers' own classes read it: most take null for false, Llama's for nothing.
    #[test]
    fn add_prefix_space_null_is_what_it_is_to_python() {
        for (class, is_false) in [
            (TokenizerClass::XlmRoberta, true),
            (TokenizerClass::Camembert, true),
            (TokenizerClass::Albert, true),
            (TokenizerClass::BigBird, true),
            (TokenizerClass::RemBert, true),
            (TokenizerClass::Barthez, true),
            (TokenizerClass::Xglm, true),
            (TokenizerClass::DebertaV2, true),
            (TokenizerClass::Llama, false),
            (TokenizerClass::CodeLlama, false),
            (TokenizerClass::Qwen2, true),
        ] {
            let of = |value: Value| words(class, &json!({ "add_prefix_space": value }));
            let (null, off, on) = (of(Value::Null), of(false.into()), of(true.into()));
            assert_ne!(off, on, "{class:?}");
            assert_eq!(null, if is_false { off } else { on }, "{class:?}");
        }
    }
}
