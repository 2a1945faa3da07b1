//! LUKE: RoBERTa with entities, which texts alone do not have.

use super::bert_like::{BASE_SIZES, both_ways_with_types};
use super::roberta::padding;
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("luke", &["luke"], luke).always_masked()];

fn luke(settings: &ConfigSettings) -> Supported<Architecture> {
    for unread in [
        "entity_vocab_size",
        "entity_emb_size",
        "use_entity_aware_attention",
        "bert_model_name",
        // The class has no decoder, whatever this says.
        "is_decoder",
    ] {
        settings.value(unread);
    }
    let padding = padding(settings)?;
    both_ways_with_types(settings, &names::BERT, BASE_SIZES, Some(padding))
}
