//! LUKE: RoBERTa with entities, which texts alone do not have.

use super::roberta::roberta;
use super::{Architecture, KnownType};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("luke", &["luke"], luke)];

fn luke(settings: &ConfigSettings) -> Supported<Architecture> {
    for unread in [
        "entity_vocab_size",
        "entity_emb_size",
        "use_entity_aware_attention",
        "bert_model_name",
    ] {
        settings.value(unread);
    }
    roberta(settings)
}
