//! Granite: Llama with factors of embeddings, scores and branches.

use super::llama::LLAMA;
use super::{Architecture, KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("granite", MODEL, granite)];

#[allow(clippy::cast_possible_truncation)]
fn granite(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = LLAMA.read(settings)?;
    settings.value("logits_scaling"); // of a head that is not loaded
    all.embeddings.scale = settings.positive("embedding_multiplier", 1.0)? as f32;
    all.attention.scale = settings.positive("attention_multiplier", 1.0)? as f32;
    all.branch_scale = settings.positive("residual_multiplier", 1.0)? as f32;
    Ok(all)
}
