//! BERT.

use super::bert_like::{BASE_SIZES, bert_with_types};
use super::jina_bert::jina_bert;
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("bert", &["bert"], bert)];

fn bert(settings: &ConfigSettings) -> Supported<Architecture> {
    // The repository's own class behind this model_type is told by its positions.
    match settings.word("position_embedding_type", "absolute")? {
        "alibi" => jina_bert(settings),
        _ => bert_with_types(settings, &names::BERT, BASE_SIZES, None),
    }
}
