//! The text parts of Qwen2-VL, Qwen2.5-VL and Qwen3-VL. A text's tokens have the same position in time, height and width,
//! so rotary positions in sections (mrope) are plain ones.

use serde_json::{Map, Value, json};

use super::common::{
    activation, epsilon, key_value_heads, layer_types, look, no_windows, rope_parameters, turn_by,
};
use super::llama_like::grouped;
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind, QueryKeyNorm};
use crate::names;
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("qwen2_vl_text", MODEL, qwen2_vl),
    KnownType::new("qwen2_5_vl_text", MODEL, qwen2_vl),
    KnownType::new("qwen3_vl_text", MODEL, qwen3_vl),
];

/// Ids of tokens in whose place images stand, which a text alone does not have.
const OF_IMAGES: [&str; 6] = [
    "window_size",
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "vision_token_id",
];

fn qwen2_vl(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = text_part(settings, [8192, 80, 64, 29_568, 8], None, 1e-5)?;
    (all.attention.input_bias, all.attention.output_bias) = (true, false);
    let window = settings.count("sliding_window", 4096)?;
    let stated = settings.value("sliding_window").is_some() || !settings.states("sliding_window");
    let slides = settings.flag("use_sliding_window", false)? && stated;
    let first = settings.count_or_zero("max_window_layers", 80)?;
    let sliding = layer_types(settings, all.layers.len(), |layer| slides && layer >= first)?;
    if sliding.contains(&true) && !slides {
        return Err(settings.unknown("layer_types"));
    }
    let windows = sliding.into_iter().map(|sliding| sliding.then_some(window));
    look(settings, &mut all, windows)?;
    turn(settings, &mut all, 1e6, 32_768)?;
    Ok(all)
}

fn qwen3_vl(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?.unwrap_or(128);
    let mut all = text_part(settings, [4096, 32, 32, 22_016, 32], Some(size), 1e-6)?;
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    turn(settings, &mut all, 500_000.0, 128_000)?;
    Ok(all)
}

/// What the three have in common; `defaults` are width, layers, heads, inner width, and heads of keys.
fn text_part(
    settings: &ConfigSettings,
    [hidden, layers, heads, inner, key_value]: [usize; 5],
    head_size: Option<usize>,
    rms_epsilon: f64,
) -> Supported<Architecture> {
    for unread in OF_IMAGES {
        settings.value(unread);
    }
    let mut all = grouped(settings, &names::LLAMA, [hidden, layers, heads], head_size)?;
    key_value_heads(settings, &mut all, key_value)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "rms_norm_eps", rms_epsilon)?,
    };
    all.final_norm = true;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", inner)?,
        activation: activation(settings, "hidden_act", "silu")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    look(settings, &mut all, no_windows())?;
    Ok(all)
}

/// Positions in sections, as those of a text.
fn turn(
    settings: &ConfigSettings,
    all: &mut Architecture,
    theta: f64,
    positions: usize,
) -> Supported<()> {
    let parameters = rope_parameters(settings)?
        .into_iter()
        .filter_map(|(name, value)| match (name.as_str(), value.as_str()) {
            ("mrope_section" | "mrope_interleaved", _) => None,
            ("rope_type" | "type", Some("mrope")) => Some((name, json!("default"))),
            _ => Some((name, value)),
        });
    let parameters: Map<String, Value> = parameters.collect();
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rope_theta", theta)?,
        positions: settings.count("max_position_embeddings", positions)?,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, all, &parameters, shape)
}
