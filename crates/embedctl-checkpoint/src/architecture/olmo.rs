//! OLMo: Llama with norms that have no weights; OLMo 2: with norms of branches' outputs and of whole queries and keys.

use super::llama::LLAMA;
use super::llama_like::LlamaLike;
use super::{Architecture, KnownType, MODEL, NormDescription, NormKind, QueryKeyNorm};
use crate::names::{LLAMA_BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("olmo", MODEL, olmo),
    KnownType::new("olmo2", MODEL, olmo2),
];

static OLMO2: TensorNames = TensorNames {
    attention_norms: NormNames::after(&["post_attention_layernorm"]),
    feed_forward_norms: NormNames::after(&["post_feedforward_layernorm"]),
    ..LLAMA_BASE
};

const OLMO: LlamaLike = LlamaLike {
    reads_mlp_bias: false,
    ..LLAMA
};

const OLMO2_LAYERS: LlamaLike = LlamaLike {
    epsilon: 1e-5,
    ..OLMO
};

fn olmo(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = OLMO.read(settings)?;
    settings.pinned("clip_qkv", &[])?;
    all.norm = NormDescription {
        kind: NormKind::Plain,
        epsilon: 1e-5,
    };
    Ok(all)
}

fn olmo2(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = OLMO2_LAYERS.read(settings)?;
    all.names = &OLMO2;
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: true,
    });
    Ok(all)
}
