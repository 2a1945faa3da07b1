//! Qwen3.5's text model: gated delta rules in most layers, attention with a gate behind it in the others. Rotary positions
//! in sections (mrope) are plain ones, since a text's tokens have the same position in time, height and width.

use serde_json::{Map, Value, json};

use super::common::{
    activation, epsilon, key_value_heads, look, no_windows, rope_parameters, turn_by,
};
use super::llama_like::grouped;
use super::{
    Architecture, DeltaRule, FeedForward, KnownType, MAX_HEAD, MODEL, Mixer, NormDescription,
    NormKind, QueryKeyNorm,
};
use crate::names;
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("qwen3_5_text", MODEL, qwen3_5)];

fn qwen3_5(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.count("head_dim", 256)?;
    let mut all = grouped(settings, &names::LLAMA, [4096, 32, 16], Some(size))?;
    key_value_heads(settings, &mut all, 4)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 1.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-6)?,
    };
    all.final_norm = true;
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    all.attention.gated = true;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 12_288)?,
        activation: activation(settings, "hidden_act", "silu")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    all.delta_rule = Some(delta_rule(settings, &all)?);
    look(settings, &mut all, no_windows())?;
    turn(settings, &mut all)?;
    let ruled = ruled_layers(settings, all.layers.len())?;
    for (layer, ruled) in all.layers.iter_mut().zip(ruled) {
        if ruled {
            // A state comes from earlier tokens, whatever the settings say of attention.
            (layer.mixer, layer.causal, layer.rotary) = (Mixer::DeltaRule, true, None);
        }
    }
    Ok(all)
}

fn delta_rule(settings: &ConfigSettings, all: &Architecture) -> Supported<DeltaRule> {
    let rule = DeltaRule {
        key_heads: settings.count("linear_num_key_heads", 16)?,
        value_heads: settings.count("linear_num_value_heads", 32)?,
        key_size: settings.count("linear_key_head_dim", 128)?,
        value_size: settings.count("linear_value_head_dim", 128)?,
        tokens: settings.count("linear_conv_kernel_dim", 4)?,
        activation: all.feed_forward.activation,
        norm: NormDescription {
            kind: NormKind::Rms { offset: 0.0 },
            epsilon: all.norm.epsilon,
        },
    };
    if !rule.value_heads.is_multiple_of(rule.key_heads) {
        return Err(settings.unknown("linear_num_value_heads"));
    }
    for (name, size) in [
        ("linear_key_head_dim", rule.key_size),
        ("linear_value_head_dim", rule.value_size),
    ] {
        if size > MAX_HEAD {
            return Err(settings.unknown(name));
        }
    }
    if rule.input_width() > 1 << 24 || rule.tokens > 1 << 10 {
        return Err(settings.refuse("the sizes of linear attention are larger than any model's"));
    }
    Ok(rule)
}

/// The layers with a delta rule: by `layer_types`, else all but every fourth, or as `full_attention_interval` says.
fn ruled_layers(settings: &ConfigSettings, layers: usize) -> Supported<Vec<bool>> {
    let interval = settings.count("full_attention_interval", 4)?;
    let Some(types) = settings.value("layer_types") else {
        return Ok((1..=layers).map(|layer| layer % interval != 0).collect());
    };
    let types = types.as_array().filter(|types| types.len() == layers);
    let kind = |kind: &Value| match kind.as_str()? {
        "linear_attention" => Some(true),
        "full_attention" => Some(false),
        _ => None,
    };
    let kinds = types.and_then(|types| types.iter().map(kind).collect());
    kinds.ok_or_else(|| settings.unknown("layer_types"))
}

/// Positions in sections, as those of a text, for a quarter of each head where the settings say nothing else.
fn turn(settings: &ConfigSettings, all: &mut Architecture) -> Supported<()> {
    // Null is no part, and the default is for a setting that is left out.
    let default = match settings.states("partial_rotary_factor") {
        true => 1.0,
        false => 0.25,
    };
    let part = settings.positive("partial_rotary_factor", default)?;
    let given = rope_parameters(settings)?.into_iter();
    let mut parameters: Map<String, Value> = given
        .filter(|(name, _)| !matches!(name.as_str(), "mrope_section" | "mrope_interleaved"))
        .collect();
    parameters
        .entry("partial_rotary_factor")
        .or_insert_with(|| json!(part));
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rope_theta", 10_000.0)?,
        positions: settings.count("max_position_embeddings", 32_768)?,
        partial: true,
        own_ntk: false,
    };
    turn_by(settings, all, &parameters, shape)
}
