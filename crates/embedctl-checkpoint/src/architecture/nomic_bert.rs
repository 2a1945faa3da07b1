//! NomicBERT by transformers' class: an encoder with rotary positions.

use serde_json::{Value, json};

use super::bert_like::BASE_SIZES;
use super::nomic_moe::nomic_moe;
use super::rotary_bert::RotaryBert;
use super::{Architecture, KnownType};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("nomic_bert", &["nomic_bert"], nomic_bert)];

const NOMIC: RotaryBert = RotaryBert {
    names: &names::ROTARY_BERT,
    sizes: BASE_SIZES,
    epsilon: 1e-12,
    types: 2,
    may_lack_types: false,
    bias: false,
    activation: "silu",
    gated: true,
    theta: 1000.0,
    positions: 2048,
};

fn nomic_bert(settings: &ConfigSettings) -> Supported<Architecture> {
    match settings.count_or_zero("num_experts", 0)? {
        0 => {
            spellings(settings)?;
            NOMIC.read(settings)
        }
        _ => nomic_moe(settings),
    }
}

/// The repository's own code spelled NomicBERT's settings otherwise. transformers' class ignores those spellings and
/// uses its defaults, so their values must equal the defaults.
fn spellings(settings: &ConfigSettings) -> Supported<()> {
    const OFF: &str =
        "rotary_emb_interleaved mlp_fc1_bias mlp_fc2_bias qkv_proj_bias causal prenorm
        use_rms_norm parallel_block parallel_block_tied_norm scale_attn_by_inverse_layer_idx
        reorder_and_upcast_attn";
    // How the layers were computed; no effect on the result.
    const EITHER: &str =
        "dense_seq_output fused_bias_fc fused_dropout_add_ln use_xentropy summary_use_proj";
    let same: [(&'static str, &[Value]); 14] = [
        ("n_embd", &[json!(768)]),
        ("n_head", &[json!(12)]),
        ("n_layer", &[json!(12)]),
        ("n_inner", &[json!(3072)]),
        ("activation_function", &[json!("swiglu")]),
        ("layer_norm_epsilon", &[json!(1e-12)]),
        ("rotary_emb_base", &[json!(1000), json!(1000.0)]),
        ("rotary_emb_fraction", &[json!(1.0), json!(1)]),
        ("rotary_emb_scale_base", &[]),
        ("rotary_scaling_factor", &[]),
        ("scale_attn_weights", &[json!(true)]),
        ("n_positions", &[json!(8192), json!(2048)]),
        ("max_trained_positions", &[json!(2048)]),
        ("pad_vocab_size_multiple", &[json!(1), json!(8), json!(64)]),
    ];
    for (name, values) in same {
        settings.pinned(name, values)?;
    }
    for name in OFF.split_ascii_whitespace() {
        settings.pinned(name, &[json!(false)])?;
    }
    for name in EITHER.split_ascii_whitespace() {
        settings.pinned(name, &[json!(true), json!(false)])?;
    }
    Ok(())
}
