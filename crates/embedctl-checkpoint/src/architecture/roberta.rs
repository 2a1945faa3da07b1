//! RoBERTa, XLM-RoBERTa and CamemBERT: BERT, whose positions are counted behind the padding id.

use super::bert_like::{BASE_SIZES, bert_with_types};
use super::jina_lora::jina_lora;
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("roberta", &["roberta"], roberta),
    KnownType::new("xlm-roberta", &["roberta"], |settings| {
        // The repository's own class behind this model_type is told by its positions.
        match settings.word("position_embedding_type", "absolute")? {
            "rotary" => jina_lora(settings),
            _ => roberta(settings),
        }
    }),
    KnownType::new("camembert", &["roberta"], roberta),
];

fn roberta(settings: &ConfigSettings) -> Supported<Architecture> {
    let padding = padding(settings)?;
    bert_with_types(settings, &names::BERT, BASE_SIZES, Some(padding))
}

/// The padding id, behind which positions are counted.
pub(super) fn padding(settings: &ConfigSettings) -> Supported<u32> {
    Ok(match settings.value("pad_token_id") {
        None => 1,
        Some(value) => value
            .as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .ok_or_else(|| settings.unknown("pad_token_id"))?,
    })
}
