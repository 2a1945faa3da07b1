//! GPT-2, whose products are stored transposed, and GPT-Neo, whose scores are not divided and every other layer of which
//! has a window.

use serde_json::{Value, json};

use super::common::{activation, base, epsilon};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

const PREFIXES: &[&str] = &["transformer"];

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("gpt2", PREFIXES, gpt2),
    KnownType::new("gpt_neo", PREFIXES, gpt_neo),
];

static GPT2: TensorNames = GPT;

const GPT: TensorNames = TensorNames {
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
    Ok(all)
}

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
    for unread in ["attention_layers", "resid_dropout", "embed_dropout"] {
        settings.value(unread); // of training, and written by the class
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
        layer.reach = match kind.as_str() {
            Some("global") => None,
            Some("local") => Some(window - 1),
            _ => return Err(unknown()),
        };
    }
    Ok(all)
}

fn both(
    settings: &ConfigSettings,
    all: &mut Architecture,
    positions: usize,
    inner: usize,
) -> Supported<()> {
    all.norm.epsilon = epsilon(settings, "layer_norm_epsilon", 1e-5)?;
    all.final_norm = true;
    all.embeddings.positions = Some(LearnedPositions {
        count: positions,
        after: None,
    });
    settings.pinned("is_causal", &[json!(true)])?;
    all.layers.iter_mut().for_each(|layer| layer.causal = true);
    all.feed_forward.width = inner;
    all.feed_forward.activation = activation(settings, "activation_function", "gelu_new")?;
    Ok(())
}
