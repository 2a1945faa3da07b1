//! SmolLM3: Llama, some of whose layers have no positions.

use serde_json::json;

use super::llama::LLAMA;
use super::llama_like::LlamaLike;
use super::{Architecture, KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("smollm3", MODEL, smollm3)];

const SMOLLM3: LlamaLike = LlamaLike {
    sizes: [2048, 36, 16],
    positions: 32768,
    key_value_heads: Some(4),
    theta: 2e6,
    ..LLAMA
};

fn smollm3(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = SMOLLM3.read(settings)?;
    settings.pinned("use_sliding_window", &[json!(false)])?;
    settings.value("sliding_window");
    settings.value("max_window_layers");
    settings.value("layer_types"); // windows, which are switched off
    let interval = settings.count("no_rope_layer_interval", 4)?;
    let turned: Vec<bool> = match settings.value("no_rope_layers") {
        None => (1..=all.layers.len())
            .map(|layer| !layer.is_multiple_of(interval))
            .collect(),
        Some(value) => value
            .as_array()
            .filter(|list| list.len() == all.layers.len())
            .and_then(|list| list.iter().map(|one| Some(one.as_u64()? != 0)).collect())
            .ok_or_else(|| settings.unknown("no_rope_layers"))?,
    };
    for (layer, turned) in all.layers.iter_mut().zip(turned) {
        layer.rotary = layer.rotary.filter(|_| turned);
    }
    Ok(all)
}
