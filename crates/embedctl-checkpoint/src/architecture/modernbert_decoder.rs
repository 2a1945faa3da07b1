//! ModernBERT's decoder: ModernBERT with causal attention and products of its own for queries, keys and values.

use super::common::look;
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
    let windows: Vec<_> = all.layers.iter().map(|layer| layer.reach).collect();
    look(settings, &mut all, windows)?;
    Ok(all)
}
