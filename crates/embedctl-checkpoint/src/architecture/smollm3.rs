//! SmolLM3: Llama, some of whose layers have no positions.

use super::common::{layer_types, look_ways};
use super::llama::LLAMA;
use super::llama_like::{LlamaLike, windows_of};
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
    settings.value("max_window_layers");
    let window = settings.optional_count("sliding_window")?;
    // The switch acts by the default of `layer_types` alone.
    let switched = settings.flag("use_sliding_window", false)? && window.is_some();
    let sliding = layer_types(settings, all.layers.len(), |layer| {
        switched && !turned[layer]
    })?;
    let windows = windows_of(settings, window, sliding)?;
    let causal = all.layers.iter().all(|layer| layer.causal);
    look_ways(&mut all, causal, windows);
    for (layer, turned) in all.layers.iter_mut().zip(turned) {
        layer.rotary = layer.rotary.filter(|_| turned);
    }
    Ok(all)
}
