//! Mistral, and Ministral, some of whose layers have a window.

use super::common::layer_types;
use super::llama::LLAMA;
use super::llama_like::{LlamaLike, windows_of};
use super::{KnownType, MODEL};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("mistral", MODEL, |settings| {
        MISTRAL.read_with_own_code(settings)
    }),
    KnownType::new("ministral", MODEL, |settings| MINISTRAL.read(settings)),
];

pub(super) const MISTRAL: LlamaLike = LlamaLike {
    inner: 14336,
    positions: 4096 * 32,
    key_value_heads: Some(8),
    reads_attention_bias: false,
    reads_mlp_bias: false,
    windows: Some(|settings, layers| Ok(vec![window(settings)?; layers])),
    ..LLAMA
};

const MINISTRAL: LlamaLike = LlamaLike {
    windows: Some(|settings, layers| {
        let window = window(settings)?;
        let sliding = layer_types(settings, layers, |_| window.is_some())?;
        windows_of(settings, window, sliding)
    }),
    ..MISTRAL
};

fn window(settings: &ConfigSettings) -> Supported<Option<usize>> {
    Ok(match settings.value("sliding_window") {
        // Null means none; a setting that is left out means the class's default.
        None if settings.states("sliding_window") => None,
        _ => Some(settings.count("sliding_window", 4096)?),
    })
}
