//! EuroBERT: Llama that looks both ways.

use super::llama::LLAMA;
use super::llama_like::LlamaLike;
use super::{KnownType, MODEL};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("eurobert", MODEL, |settings| {
    EUROBERT.read(settings)
})];

const EUROBERT: LlamaLike = LlamaLike {
    sizes: [768, 12, 12],
    inner: 3072,
    positions: 8192,
    epsilon: 1e-5,
    causal: false,
    ..LLAMA
};
