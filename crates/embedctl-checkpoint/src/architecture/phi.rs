//! Phi-1 and Phi-2: attention and feed-forward of one norm, and rotary positions for half of each head.

use serde_json::json;

use super::common::{
    activation, epsilon, key_value_heads, look, no_windows, rope_parameters, turn_by,
};
use super::llama_like::grouped;
use super::{Architecture, KnownType, MODEL, QueryKeyNorm};
use crate::names::{LLAMA_BASE, NormNames, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("phi", MODEL, phi)];

static PHI: TensorNames = TensorNames {
    query_key_norm: [&["self_attn.q_layernorm"], &["self_attn.k_layernorm"]],
    attention_output: &[&["self_attn.dense"]],
    up: &[&["mlp.fc1"]],
    down: &[&["mlp.fc2"]],
    feed_forward_norms: NormNames::before(&["input_layernorm"]),
    final_norm: &["final_layernorm"],
    ..LLAMA_BASE
};

fn phi(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?;
    let mut all = grouped(settings, &PHI, [2048, 24, 32], size)?;
    let heads = all.attention.heads;
    key_value_heads(settings, &mut all, heads)?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-5)?;
    all.final_norm = true;
    all.parallel = true;
    let normed = settings.flag("qk_layernorm", false)?;
    all.attention.query_key_norm = normed.then_some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    all.feed_forward.width = settings.count("intermediate_size", 8192)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu_new")?;
    look(settings, &mut all, no_windows())?;
    let part = settings.positive("partial_rotary_factor", 0.5)?;
    let mut parameters = rope_parameters(settings)?;
    parameters
        .entry("partial_rotary_factor")
        .or_insert_with(|| json!(part));
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rope_theta", 10_000.0)?,
        positions: settings.count("max_position_embeddings", 2048)?,
        partial: true,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &parameters, shape)?;
    Ok(all)
}
