//! OPT: learned positions from the third row of their table on, and norms before or behind each half of a layer.

use serde_json::json;

use super::common::{activation, base, look, no_windows};
use super::{Architecture, KnownType, LearnedPositions, MODEL};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("opt", MODEL, opt)];

const OPT: TensorNames = TensorNames {
    word: &["decoder.embed_tokens"],
    position: "decoder.embed_positions",
    layer: &["decoder.layers.{}."],
    query_key_value: &[&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]],
    attention_output: &[&["self_attn.out_proj"]],
    attention_norms: NormNames::before(&["self_attn_layer_norm"]),
    up: &[&["fc1"]],
    down: &[&["fc2"]],
    feed_forward_norms: NormNames::before(&["final_layer_norm"]),
    final_norm: &["decoder.final_layer_norm"],
    ..BASE
};

static NORMED_BEFORE: TensorNames = OPT;

static NORMED_BEHIND: TensorNames = TensorNames {
    attention_norms: NormNames::sum(&["self_attn_layer_norm"]),
    feed_forward_norms: NormNames::sum(&["final_layer_norm"]),
    ..OPT
};

/// Rows of the table of positions that no text uses.
const UNUSED: usize = 2;

fn opt(settings: &ConfigSettings) -> Supported<Architecture> {
    let before = settings.flag("do_layer_norm_before", true)?;
    let mut all = base(
        settings,
        if before {
            &NORMED_BEFORE
        } else {
            &NORMED_BEHIND
        },
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    // opt-350m alone has narrower tokens, and projects its states to their width.
    settings.pinned("word_embed_proj_dim", &[json!(all.hidden)])?;
    settings.pinned("layer_norm_elementwise_affine", &[json!(true)])?;
    for unread in ["layerdrop", "prefix"] {
        settings.value(unread); // of training and of prompts
    }
    all.norm.epsilon = 1e-5;
    all.final_norm = before && !settings.flag("_remove_final_layer_norm", false)?;
    all.embeddings.positions = Some(LearnedPositions {
        first: UNUSED,
        count: settings.count("max_position_embeddings", 2048)? + UNUSED,
        after: None,
    });
    let bias = settings.flag("enable_bias", true)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    (all.feed_forward.up_bias, all.feed_forward.down_bias) = (bias, bias);
    all.feed_forward.width = settings.count("ffn_dim", 3072)?;
    all.feed_forward.activation = activation(settings, "activation_function", "relu")?;
    look(settings, &mut all, no_windows())?;
    Ok(all)
}
