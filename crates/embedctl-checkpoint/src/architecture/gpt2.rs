//! GPT-2, whose products are stored transposed.

use serde_json::json;

use super::common::{activation, base, epsilon, look, no_windows};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const PREFIXES: &[&str] = &["transformer"];

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gpt2", PREFIXES, gpt2).named(NAMES)];

/// The general names of GPT-2's settings.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("hidden_size", "n_embd"),
    ("max_position_embeddings", "n_positions"),
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
];

static GPT2: TensorNames = GPT;

/// The names of GPT-2, most of which GPT-Neo has too.
pub(super) const GPT: TensorNames = TensorNames {
    word: &["wte"],
    position: "wpe",
    layer: &["h.{}."],
    query_key_value: &[&["^attn.c_attn"]],
    attention_output: &[&["^attn.c_proj"]],
    attention_norms: NormNames::before(&["ln_1"]),
    up: &[&["^mlp.c_fc"]],
    down: &[&["^mlp.c_proj"]],
    feed_forward_norms: NormNames::before(&["ln_2"]),
    final_norm: &["ln_f"],
    ..BASE
};

fn gpt2(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &GPT2,
        settings.count("n_embd", 768)?,
        settings.count_or_zero("n_layer", 12)?,
        settings.count("n_head", 12)?,
    )?;
    let positions = settings.count("n_positions", 1024)?;
    let inner = settings.count("n_inner", 4 * all.hidden)?;
    settings.pinned("scale_attn_weights", &[json!(true)])?;
    settings.pinned("scale_attn_by_inverse_layer_idx", &[json!(false)])?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    for unread in ["reorder_and_upcast_attn", "n_ctx"] {
        settings.value(unread); // how it is computed; of the first releases
    }
    both(settings, &mut all, positions, inner)?;
    look(settings, &mut all, no_windows())?;
    Ok(all)
}

/// The part that GPT-2 and GPT-Neo share.
pub(super) fn both(
    settings: &ConfigSettings,
    all: &mut Architecture,
    positions: usize,
    inner: usize,
) -> Supported<()> {
    all.norm.epsilon = epsilon(settings, "layer_norm_epsilon", 1e-5)?;
    all.final_norm = true;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: positions,
        after: None,
    });
    all.embeddings.word_types = true;
    all.feed_forward.width = inner;
    all.feed_forward.activation = activation(settings, "activation_function", "gelu_new")?;
    Ok(())
}
