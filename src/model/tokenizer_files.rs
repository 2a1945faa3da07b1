//! The tokenizer as the reference builds it: `tokenizer.json`, rewritten where other files go before it.
//!
//! Truncation and padding baked into `tokenizer.json` are dropped (embedctl cuts and pads itself); their
//! sides count where `tokenizer_config.json` names none.

use std::collections::BTreeSet;
use std::path::Path;

use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Sequence};
use tokenizers::utils::truncation::TruncationDirection;
use tokenizers::{Tokenizer, TruncationParams};

use super::config::Side;
use super::metadata::{self, SentenceConfig, SpecialTokensMap, TokenizerConfig, TransformerConfig};
use super::tokenizer_class;
use crate::error::{Error, Result};

/// A tokenizer and what its files say about it.
pub(super) struct TokenizerFiles {
    /// Without truncation and padding.
    pub tokenizer: Tokenizer,
    pub truncation_side: Side,
    /// Id of the padding token.
    pub padding: u32,
    /// `model_max_length`, where it is a real limit.
    pub max_length: Option<usize>,
    /// Ids that the reference counts as special.
    pub special_ids: BTreeSet<u32>,
    /// Whether the repository brings a chat template.
    pub chat_template: Option<String>,
}

/// Reads the tokenizer in `folder`, the Transformer's own.
pub(super) fn read(
    folder: &Path,
    transformer: &TransformerConfig,
    sentence: &SentenceConfig,
) -> Result<TokenizerFiles> {
    let file = folder.join("tokenizer.json");
    if !file.exists() {
        return Err(Error::model(
            file.display(),
            "is missing, and embedctl reads no other kind of tokenizer; make it once with Python: \
             transformers.AutoTokenizer.from_pretrained('MODEL').save_pretrained('FOLDER')",
        ));
    }
    let refuse = |reason: String| Error::model(file.display(), reason);
    let mut tokenizer = metadata::tokenizer(&file).map_err(refuse)?;
    let config_file = folder.join("tokenizer_config.json");
    let config: TokenizerConfig = metadata::read(&config_file)?.unwrap_or_default();

    tokenizer_class::rebuild(&mut tokenizer, &config, transformer).map_err(refuse)?;
    if sentence.do_lower_case == Some(true) {
        lower_case(&mut tokenizer).map_err(refuse)?;
    }

    let extra = sentence.processor_kwargs.as_ref();
    let side = |named: Option<&String>| -> Result<Option<Side>> {
        match named.map(String::as_str) {
            None => Ok(None),
            Some("left") => Ok(Some(Side::Left)),
            Some("right") => Ok(Some(Side::Right)),
            Some(other) => Err(Error::model(
                config_file.display(),
                format!("names the side '{other}'; it must be left or right"),
            )),
        }
    };
    let truncation_side = side(
        extra
            .and_then(|e| e.truncation_side.as_ref())
            .or(config.truncation_side.as_ref()),
    )?
    .or_else(|| {
        tokenizer
            .get_truncation()
            .map(|baked| match baked.direction {
                TruncationDirection::Left => Side::Left,
                TruncationDirection::Right => Side::Right,
            })
    })
    .unwrap_or(Side::Right);
    let padding = padding_id(folder, &tokenizer, &config, transformer)?;
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(None::<TruncationParams>)
        .map_err(|error| Error::model(file.display(), error.to_string()))?;

    let template = folder.join("chat_template.jinja");
    let chat_template = if config
        .chat_template
        .as_ref()
        .is_some_and(|template| !template.is_null())
    {
        Some(config_file.display().to_string())
    } else {
        template.exists().then(|| template.display().to_string())
    };
    Ok(TokenizerFiles {
        special_ids: special_ids(&tokenizer, &config),
        max_length: config.model_max_length.and_then(real_limit),
        truncation_side,
        padding,
        chat_template,
        tokenizer,
    })
}

/// A length as files write it: `1e30` and its like mean that there is no limit.
pub(super) fn real_limit(written: f64) -> Option<usize> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (1.0..1e9).contains(&written).then_some(written as usize)
}

/// `do_lower_case` of `sentence_bert_config.json`: a lower-casing normalizer before all others, unless one
/// is there.
fn lower_case(tokenizer: &mut Tokenizer) -> Result<(), String> {
    let lowercase = NormalizerWrapper::from(Lowercase);
    let parts = match tokenizer.get_normalizer() {
        Some(NormalizerWrapper::Lowercase(_)) => return Ok(()),
        Some(NormalizerWrapper::Sequence(all))
            if all
                .as_ref()
                .iter()
                .any(|one| matches!(one, NormalizerWrapper::Lowercase(_))) =>
        {
            return Ok(());
        }
        Some(NormalizerWrapper::Sequence(all)) => {
            let mut parts = vec![lowercase];
            parts.extend_from_slice(all.as_ref());
            parts
        }
        Some(other) => vec![lowercase, other.clone()],
        None => vec![lowercase],
    };
    tokenizer
        .with_normalizer(Some(Sequence::new(parts)))
        .map(|_| ())
        .map_err(|error| error.to_string())
}

fn padding_id(
    folder: &Path,
    tokenizer: &Tokenizer,
    config: &TokenizerConfig,
    transformer: &TransformerConfig,
) -> Result<u32> {
    let map: SpecialTokensMap =
        metadata::read(&folder.join("special_tokens_map.json"))?.unwrap_or_default();
    let named = [config.pad_token.as_ref(), map.pad_token.as_ref()];
    let by_name = named
        .into_iter()
        .flatten()
        .find_map(|token| tokenizer.token_to_id(token.content()));
    let id = by_name
        .or_else(|| tokenizer.get_padding().map(|baked| baked.pad_id))
        .or_else(|| transformer.pad_id())
        // Masked positions need some valid id; the end token is what such models are padded with.
        .or_else(|| {
            config
                .eos_token
                .as_ref()
                .and_then(|token| tokenizer.token_to_id(token.content()))
        });
    Ok(id.unwrap_or(0))
}

fn special_ids(tokenizer: &Tokenizer, config: &TokenizerConfig) -> BTreeSet<u32> {
    let named = [
        &config.bos_token,
        &config.eos_token,
        &config.unk_token,
        &config.sep_token,
        &config.pad_token,
        &config.cls_token,
        &config.mask_token,
    ];
    let named = named
        .into_iter()
        .flatten()
        .chain(config.additional_special_tokens.iter().flatten());
    let mut ids: BTreeSet<u32> = named
        .filter_map(|token| tokenizer.token_to_id(token.content()))
        .collect();
    if ids.is_empty() {
        let added = tokenizer.get_added_tokens_decoder();
        ids.extend(
            added
                .iter()
                .filter(|(_, token)| token.special)
                .map(|(&id, _)| id),
        );
    }
    ids
}
