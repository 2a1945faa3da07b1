//! Qwen 2 and Qwen 3.

use super::common::layer_types;
use super::llama::LLAMA;
use super::llama_like::{LlamaLike, windows_of};
use super::{KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("qwen2", MODEL, |settings| {
        QWEN2.read_with_own_code(settings)
    }),
    KnownType::new("qwen3", MODEL, |settings| {
        QWEN3.read_with_own_code(settings)
    }),
    // Of Perplexity's repositories, which looks both ways in any case.
    KnownType::new("bidirectional_pplx_qwen3", MODEL, |settings| {
        let both_ways = LlamaLike {
            causal: false,
            ..QWEN3
        };
        both_ways.read_with_own_code(settings)
    })
    .own_code(),
];

const QWEN2: LlamaLike = LlamaLike {
    inner: 22016,
    positions: 32768,
    key_value_heads: Some(32),
    query_bias: true,
    reads_attention_bias: false,
    reads_mlp_bias: false,
    windows: Some(|settings, layers| {
        let window = window(settings)?;
        let first = settings.count_or_zero("max_window_layers", 28)?;
        let sliding = layer_types(settings, layers, |layer| window.is_some() && layer >= first)?;
        windows_of(settings, window, sliding)
    }),
    ..LLAMA
};

pub(super) const QWEN3: LlamaLike = LlamaLike {
    head_size: Some(128),
    query_bias: false,
    reads_attention_bias: true,
    head_norm: true,
    ..QWEN2
};

/// The window, where it is switched on.
pub(super) fn window(settings: &ConfigSettings) -> Supported<Option<usize>> {
    let window = settings.count("sliding_window", 4096)?;
    let stated = settings.value("sliding_window").is_some() || !settings.states("sliding_window");
    Ok((settings.flag("use_sliding_window", false)? && stated).then_some(window))
}
