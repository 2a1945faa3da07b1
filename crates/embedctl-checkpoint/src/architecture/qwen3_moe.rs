//! Qwen3 with experts.

use serde_json::{Value, json};

use super::llama_like::LlamaLike;
use super::qwen::{QWEN3, window};
use super::{Architecture, ExpertsDescription, KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("qwen3_moe", MODEL, qwen3_moe)];

const LAYERS: LlamaLike = LlamaLike {
    sizes: [2048, 24, 32],
    inner: 6144,
    head_size: None,
    key_value_heads: Some(4),
    windows: Some(|settings, layers| Ok(vec![window(settings)?; layers])),
    ..QWEN3
};

fn qwen3_moe(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = LAYERS.read(settings)?;
    // Shares of the router, for training.
    for unread in [
        "output_router_logits",
        "router_aux_loss_coef",
        "max_window_layers",
    ] {
        settings.value(unread);
    }
    // transformers writes the second name.
    settings.value("num_experts");
    let name = if settings.states("num_local_experts") {
        "num_local_experts"
    } else {
        "num_experts"
    };
    let count = settings.count_or_zero(name, 128)?;
    let step = settings.count("decoder_sparse_step", 1)?;
    let dense: Vec<u64> = match settings.value("mlp_only_layers") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_u64).collect(),
        Some(_) => return Err(settings.unknown("mlp_only_layers")),
    };
    if count == 0 {
        return Ok(all);
    }
    let chosen = settings.count("num_experts_per_tok", 8)?;
    if chosen > count {
        return Err(settings.unknown("num_experts_per_tok"));
    }
    settings.pinned("mlp_bias", &[json!(false)])?;
    all.feed_forward.experts = Some(ExpertsDescription {
        count,
        chosen,
        normalized: settings.flag("norm_topk_prob", false)?,
        width: settings.count("moe_intermediate_size", 768)?,
        gated: true,
        activation: all.feed_forward.activation,
        bias: false,
    });
    for (number, layer) in all.layers.iter_mut().enumerate() {
        layer.experts = (number + 1).is_multiple_of(step) && !dense.contains(&(number as u64));
    }
    Ok(all)
}
