//! Jina embeddings v3 by transformers' class: an encoder with rotary positions.

use super::KnownType;
use super::rotary_bert::RotaryBert;
use crate::names;

pub(super) const TYPES: &[KnownType] = &[KnownType::new(
    "jina_embeddings_v3",
    &["roberta"],
    |settings| JINA.read(settings),
)];

const JINA: RotaryBert = RotaryBert {
    names: &names::JINA,
    sizes: [1024, 24, 16, 4096],
    epsilon: 1e-5,
    types: 1,
    may_lack_types: false,
    bias: true,
    activation: "gelu",
    gated: false,
    theta: 20_000.0,
    positions: 8194,
};
