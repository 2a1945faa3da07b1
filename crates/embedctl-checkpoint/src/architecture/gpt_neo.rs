//! GPT-Neo: scores are not divided, and every other layer has a window.

use serde_json::{Value, json};

use super::common::base;
use super::gpt2::{GPT, PREFIXES, both};
use super::{Architecture, KnownType};
use crate::names::TensorNames;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gpt_neo", PREFIXES, gpt_neo).named(NAMES)];

const NAMES: &[(&str, &str)] = &[
    ("num_attention_heads", "num_heads"),
    ("num_hidden_layers", "num_layers"),
];

static GPT_NEO: TensorNames = TensorNames {
    query_key_value: &[&[
        "attn.attention.q_proj",
        "attn.attention.k_proj",
        "attn.attention.v_proj",
    ]],
    attention_output: &[&["attn.attention.out_proj"]],
    up: &[&["mlp.c_fc"]],
    down: &[&["mlp.c_proj"]],
    ..GPT
};

fn gpt_neo(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &GPT_NEO,
        settings.count("hidden_size", 2048)?,
        settings.count_or_zero("num_layers", 24)?,
        settings.count("num_heads", 16)?,
    )?;
    all.attention.input_bias = false;
    all.attention.scale = 1.0;
    let positions = settings.count("max_position_embeddings", 2048)?;
    let inner = settings.count("intermediate_size", 4 * all.hidden)?;
    // Of training, written by the class, and of a mask that it adds to its own causal one.
    for unread in [
        "attention_layers",
        "resid_dropout",
        "embed_dropout",
        "is_causal",
    ] {
        settings.value(unread);
    }
    let unknown = || settings.unknown("attention_types");
    let window = settings.count("window_size", 256)?;
    let types = match settings.value("attention_types") {
        None => json!([[["global", "local"], 12]]),
        Some(types) => types.clone(),
    };
    let mut kinds: Vec<Value> = Vec::new();
    for item in types.as_array().ok_or_else(unknown)? {
        let of = item[0].as_array().ok_or_else(unknown)?;
        let times = item[1].as_u64().filter(|times| *times <= 4096);
        for _ in 0..times.ok_or_else(unknown)? {
            kinds.extend(of.iter().cloned());
        }
    }
    if kinds.len() < all.layers.len() {
        return Err(unknown());
    }
    both(settings, &mut all, positions, inner)?;
    for (layer, kind) in all.layers.iter_mut().zip(kinds) {
        layer.causal = true;
        layer.reach = match kind.as_str() {
            Some("global") => None,
            Some("local") => Some(window - 1),
            _ => return Err(unknown()),
        };
    }
    Ok(all)
}
