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
        (rebuild(chosen, &file, arguments, &names)?, template)
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
