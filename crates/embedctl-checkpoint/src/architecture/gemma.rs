//! Gemma: Llama with scaled embeddings.

use super::common::{is_causal, root};
use super::llama::LLAMA;
use super::llama_like::LlamaLike;
use super::{Architecture, BOTH_WAYS, KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gemma", MODEL, gemma)];

const GEMMA: LlamaLike = LlamaLike {
    sizes: [3072, 28, 16],
    inner: 24576,
    positions: 8192,
    head_size: Some(256),
    key_value_heads: Some(16),
    norm_offset: 1.0,
    activation: "gelu_pytorch_tanh",
    reads_mlp_bias: false,
    ..LLAMA
};

fn gemma(settings: &ConfigSettings) -> Supported<Architecture> {
    let both_ways = settings.flag(BOTH_WAYS, false)?;
    if both_ways && is_causal(settings)? {
        return Err(settings.refuse(
            "the setting \"use_bidirectional_attention\": true has no one meaning for this type: transformers' class looks \
             both ways in a batch without padding, and back alone in one with padding; add \"is_causal\": false to look \
             both ways in any batch",
        ));
    }
    let mut all = GEMMA.read(settings)?;
    all.embeddings.scale = root(all.hidden);
    if settings.word("hidden_act", "")? == "gelu" {
        all.feed_forward.activation = Activation::GeluTanh; // the class's choice for its first releases
    }
    Ok(all)
}
