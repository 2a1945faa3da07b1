//! Gemma 2: scores bent by `tanh`, windows in every other layer.

use super::common::{
    activation, epsilon, is_mask_causal, key_value_heads, layer_types, look_ways, root, turn_all,
};
use super::llama_like::grouped;
use super::{Architecture, BOTH_WAYS, FeedForward, KnownType, MODEL, NormDescription, NormKind};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("gemma2", MODEL, gemma2)];

#[allow(clippy::cast_possible_truncation)]
fn gemma2(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?.unwrap_or(256);
    let mut all = grouped(settings, &names::GEMMA3, [2304, 26, 8], Some(size))?;
    key_value_heads(settings, &mut all, 4)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 1.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-6)?,
    };
    all.final_norm = true;
    all.embeddings.scale = root(all.hidden);
    all.attention.scale = settings
        .positive("query_pre_attn_scalar", 256.0)?
        .powf(-0.5) as f32;
    let bias = settings.flag("attention_bias", false)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    let given = settings.value("attn_logit_softcapping").is_some();
    let capped = given || !settings.states("attn_logit_softcapping");
    let cap = settings.positive("attn_logit_softcapping", 50.0)? as f32;
    all.attention.softcap = capped.then_some(cap);
    // Of the first releases.
    settings.value("hidden_act");
    settings.value("sliding_window_size");
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 9216)?,
        activation: activation(settings, "hidden_activation", "gelu_pytorch_tanh")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    // The class gives it to kernels of attention that make no mask, and on processors it takes none of them.
    let unheard = settings.flag(BOTH_WAYS, false)? && is_mask_causal(settings)?;
    if unheard {
        all.ignored.push(BOTH_WAYS.into());
    }
    let sliding = layer_types(settings, all.layers.len(), |layer| layer % 2 == 0)?;
    let window = settings.count("sliding_window", 4096)?;
    let is_null = settings.value("sliding_window").is_none() && settings.states("sliding_window");
    if sliding.contains(&true) && is_null {
        return Err(settings.unknown("sliding_window"));
    }
    let windows = sliding.into_iter().map(|sliding| sliding.then_some(window));
    look_ways(&mut all, is_mask_causal(settings)?, windows);
    turn_all(settings, &mut all, 10_000.0, 8192)?;
    Ok(all)
}
