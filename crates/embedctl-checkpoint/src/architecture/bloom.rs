//! BLOOM: `ALiBi`, a norm of the embeddings, and query, key and value of each head in one product.

use serde_json::json;

use super::common::{base, epsilon, is_mask_causal, look_ways, no_windows};
use super::gpt2::PREFIXES;
use super::{Architecture, KnownType, PositionBias};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

pub(super) const TYPES: &[KnownType] = &[KnownType::new("bloom", PREFIXES, bloom).named(NAMES)];

const NAMES: &[(&str, &str)] = &[
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
];

static BLOOM: TensorNames = TensorNames {
    word: &["word_embeddings"],
    embedding_norm: &["word_embeddings_layernorm"],
    layer: &["h.{}."],
    query_key_value: &[&["self_attention.query_key_value"]],
    attention_output: &[&["self_attention.dense"]],
    attention_norms: NormNames::before(&["input_layernorm"]),
    up: &[&["mlp.dense_h_to_4h"]],
    down: &[&["mlp.dense_4h_to_h"]],
    feed_forward_norms: NormNames::before(&["post_attention_layernorm"]),
    final_norm: &["ln_f"],
    ..BASE
};

fn bloom(settings: &ConfigSettings) -> Supported<Architecture> {
    let hidden = settings.count("hidden_size", 64)?;
    let mut all = base(
        settings,
        &BLOOM,
        settings.count("n_embed", hidden)?,
        settings.count_or_zero("n_layer", 2)?,
        settings.count("n_head", 8)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_epsilon", 1e-5)?;
    all.final_norm = true;
    all.embeddings.norm = Some(all.norm);
    all.attention.rows.fused_by_head = true;
    all.feed_forward.width = 4 * all.hidden;
    all.feed_forward.activation = Activation::GeluTanh;
    let normed = "apply_residual_connection_post_layernorm";
    settings.pinned(normed, &[json!(false)])?;
    // The class then sums the products of a distributed checkpoint without their biases.
    let parts = settings.count("pretraining_tp", 1)?;
    if settings.flag("slow_but_exact", false)? && parts > 1 {
        if !all.hidden.is_multiple_of(parts) {
            return Err(settings.unknown("pretraining_tp"));
        }
        (all.attention.output_bias, all.feed_forward.down_bias) = (false, false);
    }
    // Settings of training, and of masks in general.
    for unread in [
        "skip_bias_add",
        "skip_bias_add_qkv",
        "attention_softmax_in_fp32",
        "masked_softmax_fusion",
        "bias_dropout_fusion",
        "offset_alibi",
        "seq_length",
        "unk_token_id",
        "layer_types",
        "sliding_window",
    ] {
        settings.value(unread);
    }
    look_ways(&mut all, is_mask_causal(settings)?, no_windows());
    // The class adds the slope times the key's own position: of later keys that is more, not less.
    let causal = all.layers.iter().all(|layer| layer.causal);
    all.attention.position_bias = Some(match causal {
        true => PositionBias::Slopes,
        false => PositionBias::Rising,
    });
    Ok(all)
}
