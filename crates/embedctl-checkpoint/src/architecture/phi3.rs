//! Phi-3 and Phi-4-mini: Llama with fused products, rotary positions for a part of each head, and other frequencies for
//! long rows.

use serde_json::json;

use super::common::{activation, epsilon, key_value_heads, look, rope_parameters, turn_by};
use super::llama_like::grouped;
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind};
use crate::names::{LLAMA_BASE, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("phi3", MODEL, phi3)];

static PHI3: TensorNames = TensorNames {
    query_key_value: &[&["self_attn.qkv_proj"]],
    up: &[&["mlp.gate_up_proj"]],
    ..LLAMA_BASE
};

fn phi3(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?;
    let mut all = grouped(settings, &PHI3, [3072, 32, 32], size)?;
    let heads = all.attention.heads;
    key_value_heads(settings, &mut all, heads)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-5)?,
    };
    all.final_norm = true;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    // Written by the first releases, read by no class.
    settings.pinned("attention_bias", &[json!(false)])?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 8192)?,
        activation: activation(settings, "hidden_act", "silu")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    let window = settings.optional_count("sliding_window")?;
    look(settings, &mut all, std::iter::repeat(window))?;
    let positions = settings.count("max_position_embeddings", 4096)?;
    let trained = settings.count("original_max_position_embeddings", 4096)?;
    let mut parameters = rope_parameters(settings)?;
    if let Some(part) = settings.value("partial_rotary_factor") {
        let stated = parameters.entry("partial_rotary_factor");
        stated.or_insert_with(|| part.clone());
    }
    let kind = ["rope_type", "type"]
        .into_iter()
        .find_map(|name| parameters.get(name)?.as_str().map(str::to_owned));
    if kind.is_some_and(|kind| ["longrope", "su", "yarn"].contains(&kind.as_str())) {
        // The class reads all three names as one scaling, and the trained length from outside its parameters.
        parameters.remove("type");
        parameters.insert("rope_type".into(), json!("longrope"));
        parameters.insert("original_max_position_embeddings".into(), json!(trained));
    }
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rope_theta", 10_000.0)?,
        positions,
        partial: true,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &parameters, shape)?;
    Ok(all)
}
