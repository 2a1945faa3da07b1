//! GPT-J: attention and feed-forward of one norm, and rotary positions of neighbouring channels.

use serde_json::{Map, json};

use super::common::{activation, base, epsilon, is_mask_causal, look_ways, no_windows, turn_by};
use super::gpt2::{GPT, NAMES, PREFIXES};
use super::{Architecture, KnownType};
use crate::names::{NormNames, TensorNames};
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gptj", PREFIXES, gptj).named(NAMES)];

static GPTJ: TensorNames = TensorNames {
    query_key_value: &[&["attn.q_proj", "attn.k_proj", "attn.v_proj"]],
    attention_output: &[&["attn.out_proj"]],
    up: &[&["mlp.fc_in"]],
    down: &[&["mlp.fc_out"]],
    feed_forward_norms: NormNames::before(&["ln_1"]),
    ..GPT
};

#[allow(clippy::cast_precision_loss)]
fn gptj(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &GPTJ,
        settings.count("n_embd", 4096)?,
        settings.count_or_zero("n_layer", 28)?,
        settings.count("n_head", 16)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_epsilon", 1e-5)?;
    all.final_norm = true;
    all.parallel = true;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    all.attention.rows.adjacent_pairs = true;
    all.feed_forward.width = settings.count("n_inner", 4 * all.hidden)?;
    all.feed_forward.activation = activation(settings, "activation_function", "gelu_new")?;
    all.embeddings.word_types = true;
    look_ways(&mut all, is_mask_causal(settings)?, no_windows());
    let positions = settings.count("n_positions", 2048)?;
    // Written by the first releases.
    for unread in ["n_ctx", "scale_attn_weights", "rotary"] {
        settings.value(unread);
    }
    let size = all.attention.head_size;
    let turned = settings.count("rotary_dim", 64)?;
    if turned > size || turned % 2 == 1 {
        return Err(settings.unknown("rotary_dim"));
    }
    let part = turned as f64 / size as f64;
    let parameters = Map::from_iter([("partial_rotary_factor".to_owned(), json!(part))]);
    let shape = RotaryShape {
        head_size: size,
        theta: 10_000.0,
        positions,
        partial: true,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &parameters, shape)?;
    // The class computes no angles beyond them.
    all.longest = Some(positions);
    Ok(all)
}
