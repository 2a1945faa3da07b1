//! GTE by transformers' class: an encoder with rotary positions.

use super::KnownType;
use super::bert_like::BASE_SIZES;
use super::rotary_bert::RotaryBert;
use crate::names;

pub(super) const TYPES: &[KnownType] = &[
    // transformers takes `new` off GTE's names as well.
    KnownType::new("gte", &["gte", "new"], |settings| GTE.read(settings)),
];

const GTE: RotaryBert = RotaryBert {
    names: &names::ROTARY_BERT,
    sizes: BASE_SIZES,
    epsilon: 1e-12,
    types: 1,
    may_lack_types: true,
    bias: true,
    activation: "gelu",
    gated: true,
    theta: 160_000.0,
    positions: 8192,
};
