//! ModernBERT: rotary positions, a norm in front of each half, and windows of attention.

use serde_json::json;

use super::common::{activation, base, epsilon, layer_types, turn_by_type};
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind};
use crate::names::{self, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("modernbert", MODEL, |settings| {
    modernbert(settings, &names::MODERNBERT)
})];

/// ModernBERT with these names.
pub(super) fn modernbert(
    settings: &ConfigSettings,
    names: &'static TensorNames,
) -> Supported<Architecture> {
    let mut all = base(
        settings,
        names,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 22)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm = NormDescription {
        kind: NormKind::Layer {
            bias: settings.flag("norm_bias", false)?,
        },
        epsilon: epsilon(settings, "norm_eps", 1e-5)?,
    };
    all.embeddings.norm = Some(all.norm);
    all.final_norm = true;
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    let bias = settings.flag("mlp_bias", false)?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 1152)?,
        activation: activation(settings, "hidden_activation", "gelu")?,
        gated: true,
        up_bias: bias,
        down_bias: bias,
        experts: None,
    };
    let every = settings.count("global_attn_every_n_layers", 3)?;
    let sliding = layer_types(settings, all.layers.len(), |layer| layer % every != 0)?;
    let reach = settings.count("local_attention", 128)? / 2;
    // Set by the class, or another statement of `local_attention`.
    settings.pinned("sliding_window", &[json!(reach)])?;
    settings.value("rope_theta"); // the class takes a base for each type of layers
    let positions = settings.count("max_position_embeddings", 8192)?;
    turn_by_type(
        settings,
        &mut all,
        &sliding,
        [
            ("global_rope_theta", 160_000.0),
            ("local_rope_theta", 10_000.0),
        ],
        true,
        positions,
    )?;
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.reach = sliding.then_some(reach);
    }
    if let Some(layer) = all.layers.first_mut() {
        layer.first_norm = false;
    }
    Ok(all)
}
