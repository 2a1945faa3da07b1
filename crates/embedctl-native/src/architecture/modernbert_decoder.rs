//! ModernBERT's decoder: ModernBERT with causal attention and products of its own for queries, keys and values.

use serde_json::json;

use super::modernbert::modernbert;
use super::{Architecture, KnownType, MODEL};
use crate::names::{MODERNBERT_BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new(
    "modernbert-decoder",
    MODEL,
    modernbert_decoder,
)];

static MODERNBERT_DECODER: TensorNames = TensorNames {
    query_key_value: &[&["attn.q_proj", "attn.k_proj", "attn.v_proj"]],
    ..MODERNBERT_BASE
};

fn modernbert_decoder(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = modernbert(settings, &MODERNBERT_DECODER)?;
    // Written by the class, which computes it.
    let window = settings.count("local_attention", 128)? / 2;
    settings.pinned("sliding_window", &[json!(window)])?;
    for layer in &mut all.layers {
        layer.causal = true;
        // The window counts the token itself.
        layer.reach = layer.reach.map(|reach| reach.saturating_sub(1));
    }
    Ok(all)
}
