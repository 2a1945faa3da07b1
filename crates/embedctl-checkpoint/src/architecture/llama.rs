//! Llama, and the class of NVIDIA's repositories that looks both ways.

use super::llama_like::LlamaLike;
use super::{KnownType, MODEL};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("llama", MODEL, |settings| {
        LLAMA.read_with_own_code(settings)
    }),
    KnownType::new("llama_bidirec", MODEL, |settings| {
        // Of the repository's own pooling and training.
        for unread in ["pooling", "temperature"] {
            settings.value(unread);
        }
        let both_ways = LlamaLike {
            causal: false,
            ..LLAMA
        };
        both_ways.read_with_own_code(settings)
    })
    .own_code(),
];

pub(super) const LLAMA: LlamaLike = LlamaLike {
    sizes: [4096, 32, 32],
    inner: 11008,
    positions: 2048,
    head_size: None,
    key_value_heads: None,
    epsilon: 1e-6,
    norm_offset: 0.0,
    activation: "silu",
    theta: 10_000.0,
    query_bias: false,
    reads_attention_bias: true,
    reads_mlp_bias: true,
    head_norm: false,
    causal: true,
    windows: None,
};
