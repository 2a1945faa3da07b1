//! NeoBERT, by its repository's own code.

use serde_json::json;

use super::common::{base, epsilon, turn_by};
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind};
use crate::names::{BASE, NormNames, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

pub(super) const TYPES: &[KnownType] = &[KnownType::new("neobert", MODEL, neobert).own_code()];

static NEOBERT: TensorNames = TensorNames {
    word: &["encoder"],
    layer: &["transformer_encoder.{}."],
    query_key_value: &[&["qkv"]],
    attention_output: &[&["wo"]],
    attention_norms: NormNames::before(&["attention_norm"]),
    up: &[&["ffn.w12"]],
    down: &[&["ffn.w3"]],
    feed_forward_norms: NormNames::before(&["ffn_norm"]),
    final_norm: &["layer_norm"],
    ..BASE
};

fn neobert(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &NEOBERT,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 28)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "norm_eps", 1e-6)?,
    };
    all.final_norm = true;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    all.attention.rows.adjacent_pairs = true;
    all.attention.rows.fused_by_head = true;
    // Two thirds of what is stated, up to a multiple of 8.
    let stated = settings.count("intermediate_size", 3072)?;
    if stated < 2 {
        return Err(settings.unknown("intermediate_size"));
    }
    all.feed_forward = FeedForward {
        width: (2 * stated / 3).next_multiple_of(8),
        activation: Activation::Silu,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    for unread in [
        "embedding_init_range",
        "decoder_init_range",
        "classifier_init_range",
        "kwargs",
        "pretrained_model_name_or_path",
        "trust_remote_code",
        "max_position_embeddings",
    ] {
        settings.value(unread);
    }
    settings.pinned("hidden_act", &[json!("swiglu"), json!("SwiGLU")])?;
    settings.pinned("dim_head", &[json!(all.attention.head_size)])?;
    settings.pinned("rope", &[json!(true)])?;
    let positions = settings.count("max_length", 1024)?;
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: 10_000.0,
        positions,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &serde_json::Map::new(), shape)?;
    // The code computes no angles beyond them.
    all.longest = Some(positions);
    Ok(all)
}
