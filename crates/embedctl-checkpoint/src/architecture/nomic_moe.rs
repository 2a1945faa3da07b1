//! Nomic embed v2, by its repository's own code, which transformers' class leaves out: experts in every other layer.

use serde_json::json;

use super::common::{activation, base, epsilon, turn_by};
use super::{Architecture, ExpertsDescription, FeedForward};
use crate::names::{ExpertNames, ROTARY_BASE, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

static NOMIC_MOE: TensorNames = TensorNames {
    up: &[&["mlp.fc1"]],
    down: &[&["mlp.fc2"]],
    experts: ExpertNames {
        router: "mlp.router.layer",
        up: &["mlp.experts.mlp.w1"],
        down: "^mlp.experts.mlp.w2",
        bias: "mlp.experts.bias",
    },
    ..ROTARY_BASE
};

pub(super) fn nomic_moe(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &NOMIC_MOE,
        settings.count("n_embd", 768)?,
        settings.count_or_zero("n_layer", 12)?,
        settings.count("n_head", 12)?,
    )?;
    all.own_code = true;
    all.norm.epsilon = epsilon(settings, "layer_norm_epsilon", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count_or_zero("type_vocab_size", 2)?;
    let bias = settings.flag("qkv_proj_bias", true)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    let width = settings.count("n_inner", 3072)?;
    let act = activation(settings, "activation_function", "gelu")?;
    let count = settings.count("num_experts", 8)?;
    let chosen = settings.count("moe_top_k", 2)?;
    if chosen > count {
        return Err(settings.unknown("moe_top_k"));
    }
    all.feed_forward = FeedForward {
        width,
        activation: act,
        gated: false,
        up_bias: settings.flag("mlp_fc1_bias", true)?,
        down_bias: settings.flag("mlp_fc2_bias", true)?,
        experts: Some(ExpertsDescription {
            count,
            chosen,
            normalized: false,
            width,
            gated: false,
            activation: act,
            bias: true,
        }),
    };
    let every = settings.count("moe_every_n_layers", 2)?;
    if every < 2 {
        return Err(settings.unknown("moe_every_n_layers"));
    }
    for (number, layer) in all.layers.iter_mut().enumerate() {
        layer.experts = number % every == 1;
    }
    settings.pinned("ffn_div", &[json!(1), json!(1.0)])?;
    settings.pinned("rotary_emb_fraction", &[json!(1.0), json!(1)])?;
    settings.pinned("scale_attn_weights", &[json!(true)])?;
    settings.pinned("num_shared_experts", &[json!(0)])?;
    for absent in ["rotary_emb_scale_base", "rotary_scaling_factor"] {
        settings.pinned(absent, &[])?;
    }
    for off in [
        "rotary_emb_interleaved",
        "causal",
        "prenorm",
        "use_rms_norm",
        "parallel_block",
        "parallel_block_tied_norm",
        "scale_attn_by_inverse_layer_idx",
        "reorder_and_upcast_attn",
        "moe_normalize_expert_weights",
        "expert_choice_router",
        "shared_experts_all_layers",
    ] {
        settings.pinned(off, &[json!(false)])?;
    }
    // How the layers were computed, and training.
    for unread in [
        "add_pooling_layer",
        "dense_seq_output",
        "fused_bias_fc",
        "fused_dropout_add_ln",
        "use_xentropy",
        "pad_vocab_size_multiple",
        "pad_vocab_to_multiple_of",
        "n_positions",
        "max_trained_positions",
        "moe_impl",
        "moe_resid_pdrop",
        "router_aux_loss_coef",
    ] {
        settings.value(unread);
    }
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rotary_emb_base", 10_000.0)?,
        positions: 2048,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &serde_json::Map::new(), shape)?;
    Ok(all)
}
