//! GPT-NeoX and Pythia: attention and feed-forward of the same input, and rotary positions for a part of each head.

use serde_json::{Value, json};

use super::common::{activation, base, epsilon, look, no_windows, rope_parameters, turn_by};
use super::{Architecture, KnownType};
use crate::names::{BASE, NormNames, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gpt_neox", &["gpt_neox"], gpt_neox)];

static GPT_NEOX: TensorNames = TensorNames {
    word: &["embed_in"],
    layer: &["layers.{}."],
    query_key_value: &[&["attention.query_key_value"]],
    attention_output: &[&["attention.dense"]],
    attention_norms: NormNames::before(&["input_layernorm"]),
    up: &[&["mlp.dense_h_to_4h"]],
    down: &[&["mlp.dense_4h_to_h"]],
    feed_forward_norms: NormNames::before(&["post_attention_layernorm"]),
    final_norm: &["final_layer_norm"],
    ..BASE
};

fn gpt_neox(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &GPT_NEOX,
        settings.count("hidden_size", 6144)?,
        settings.count_or_zero("num_hidden_layers", 44)?,
        settings.count("num_attention_heads", 64)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-5)?;
    all.final_norm = true;
    all.parallel = settings.flag("use_parallel_residual", true)?;
    let bias = settings.flag("attention_bias", true)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    all.attention.rows.fused_by_head = true;
    all.feed_forward.width = settings.count("intermediate_size", 24_576)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    settings.pinned("head_dim", &[json!(all.attention.head_size)])?;
    settings.value("is_decoder"); // read by a head alone
    look(settings, &mut all, no_windows())?;
    // The class takes what stands outside the rotary parameters by its own names alone.
    let theta = settings.positive("rotary_emb_base", 10_000.0)?;
    let part = settings.positive("rotary_pct", 0.25)?;
    for (unread, same) in [("rope_theta", theta), ("partial_rotary_factor", part)] {
        let stated = settings.value(unread).and_then(Value::as_f64);
        if stated.is_some_and(|stated| stated.to_bits() != same.to_bits()) {
            all.ignored.push(unread.into());
        }
    }
    let mut parameters = rope_parameters(settings)?;
    parameters
        .entry("partial_rotary_factor")
        .or_insert_with(|| json!(part));
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta,
        positions: settings.count("max_position_embeddings", 2048)?,
        partial: true,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &parameters, shape)?;
    Ok(all)
}
