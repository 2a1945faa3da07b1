//! Mixtral: Mistral with experts in each layer.

use super::llama_like::LlamaLike;
use super::mistral::MISTRAL;
use super::{Architecture, ExpertsDescription, KnownType, MODEL};
use crate::names::{ExpertNames, LLAMA_BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("mixtral", MODEL, mixtral)];

static MIXTRAL: TensorNames = TensorNames {
    experts: ExpertNames {
        router: "block_sparse_moe.gate",
        up: &[
            "block_sparse_moe.experts.{}.w1",
            "block_sparse_moe.experts.{}.w3",
        ],
        down: "block_sparse_moe.experts.{}.w2",
        bias: "",
    },
    ..LLAMA_BASE
};

const LAYERS: LlamaLike = LlamaLike {
    epsilon: 1e-5,
    theta: 1e6,
    windows: Some(|settings, layers| Ok(vec![settings.optional_count("sliding_window")?; layers])),
    ..MISTRAL
};

fn mixtral(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = LAYERS.read(settings)?;
    all.names = &MIXTRAL;
    // Shares of the router, for training.
    for unread in [
        "output_router_logits",
        "router_aux_loss_coef",
        "router_jitter_noise",
    ] {
        settings.value(unread);
    }
    let count = settings.count("num_local_experts", 8)?;
    let count = settings.count("num_experts", count)?;
    let chosen = settings.count("num_experts_per_tok", 2)?;
    if chosen > count {
        return Err(settings.unknown("num_experts_per_tok"));
    }
    all.feed_forward.experts = Some(ExpertsDescription {
        count,
        chosen,
        normalized: true,
        width: all.feed_forward.width,
        gated: true,
        activation: all.feed_forward.activation,
        bias: false,
    });
    all.layers.iter_mut().for_each(|layer| layer.experts = true);
    Ok(all)
}
