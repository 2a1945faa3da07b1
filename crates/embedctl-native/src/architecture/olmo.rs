//! OLMo: Llama with norms that have no weights; OLMo 2: with norms of branches' outputs and of whole queries and keys.

use super::decoders::{Decoder, decoder};
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

fn olmo(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = decoder(settings, Decoder::Olmo)?;
    settings.pinned("clip_qkv", &[])?;
    all.norm = NormDescription {
        kind: NormKind::Plain,
        epsilon: 1e-5,
    };
    Ok(all)
}

fn olmo2(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = decoder(settings, Decoder::Olmo2)?;
    all.names = &OLMO2;
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: true,
    });
    Ok(all)
}
