//! Gemma 3's text model, which looks both ways where its settings say so (EmbeddingGemma).

use serde_json::json;

use super::common::{
    activation, epsilon, is_causal, key_value_heads, layer_types, look_ways, root, turn_by_type,
};
use super::llama_like::grouped;
use super::{
    Architecture, BOTH_WAYS, FeedForward, KnownType, MODEL, NormDescription, NormKind, QueryKeyNorm,
};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gemma3_text", MODEL, gemma3)];

fn gemma3(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?.unwrap_or(256);
    let mut all = grouped(settings, &names::GEMMA3, [2304, 26, 8], Some(size))?;
    key_value_heads(settings, &mut all, 4)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 1.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-6)?,
    };
    all.final_norm = true;
    all.embeddings.scale = root(all.hidden);
    #[allow(clippy::cast_possible_truncation)]
    let scale = settings
        .positive("query_pre_attn_scalar", 256.0)?
        .powf(-0.5) as f32;
    all.attention.scale = scale;
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    settings.value("attn_logit_softcapping"); // kept by the class, and given to no attention
    settings.value("layer_norm_eps"); // of images
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 9216)?,
        activation: activation(settings, "hidden_activation", "gelu_pytorch_tanh")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    let bidirectional = settings.flag(BOTH_WAYS, false)?;
    let is_causal = is_causal(settings)?;
    let causal = is_causal && !bidirectional;
    let pattern = settings.count("sliding_window_pattern", 6)?;
    settings.pinned("_sliding_window_pattern", &[json!(pattern)])?;
    let sliding = layer_types(settings, all.layers.len(), |layer| {
        (layer + 1) % pattern != 0
    })?;
    let window = settings.count("sliding_window", 4096)?;
    if sliding.contains(&true)
        && settings.value("sliding_window").is_none()
        && settings.states("sliding_window")
    {
        return Err(settings.unknown("sliding_window"));
    }
    // The class halves the window of a model that looks both ways. The layers' mask has it to each side where `is_causal`
    // is false, and less than it else.
    let window = match (bidirectional, is_causal) {
        (true, true) => window / 2,
        (true, false) => window / 2 + 1,
        (false, _) => window,
    };
    let positions = settings.count("max_position_embeddings", 131_072)?;
    turn_by_type(
        settings,
        &mut all,
        &sliding,
        [
            ("rope_theta", 1_000_000.0),
            ("rope_local_base_freq", 10_000.0),
        ],
        false,
        positions,
    )?;
    let windows = sliding.into_iter().map(|sliding| sliding.then_some(window));
    look_ways(&mut all, causal, windows);
    Ok(all)
}
