//! LFM2: convolutions over a few tokens in most layers, attention in the others.

use super::common::{epsilon, key_value_heads, look, no_windows, turn_all};
use super::llama_like::grouped;
use super::{
    Architecture, FeedForward, KnownType, MODEL, Mixer, NormDescription, NormKind, QueryKeyNorm,
    ShortConvolution,
};
use crate::names::{LLAMA_BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

pub(super) const TYPES: &[KnownType] = &[KnownType::new("lfm2", MODEL, lfm2)];

static LFM2: TensorNames = TensorNames {
    query_key_norm: [&["self_attn.q_layernorm"], &["self_attn.k_layernorm"]],
    attention_output: &[&["self_attn.out_proj"]],
    attention_norms: NormNames::before(&["operator_norm"]),
    up: &[&["feed_forward.w1", "feed_forward.w3"]],
    down: &[&["feed_forward.w2"]],
    feed_forward_norms: NormNames::before(&["ffn_norm"]),
    final_norm: &["embedding_norm"],
    ..LLAMA_BASE
};

fn lfm2(settings: &ConfigSettings) -> Supported<Architecture> {
    let own_size = settings.optional_count("head_dim")?;
    let mut all = grouped(settings, &LFM2, [2560, 32, 32], own_size)?;
    key_value_heads(settings, &mut all, 8)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "norm_eps", 1e-5)?,
    };
    all.final_norm = true;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    all.attention.query_key_norm = Some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    all.convolution = Some(ShortConvolution {
        tokens: settings.count("conv_L_cache", 3)?,
        biased: settings.flag("conv_bias", false)?,
    });
    all.feed_forward = FeedForward {
        width: inner_width(settings)?,
        activation: Activation::Silu,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    turn_all(settings, &mut all, 1e6, 128_000)?;
    look(settings, &mut all, no_windows())?;
    let convolves = convolving_layers(settings, all.layers.len())?;
    for (layer, convolves) in all.layers.iter_mut().zip(convolves) {
        if convolves {
            (layer.mixer, layer.rotary) = (Mixer::Convolution, None);
        }
    }
    Ok(all)
}

/// Two thirds of the stated width, rounded up to a multiple, unless that is switched off.
fn inner_width(settings: &ConfigSettings) -> Supported<usize> {
    let stated = settings.count("intermediate_size", 12_288)?;
    let stated = settings.count("block_ff_dim", stated)?;
    let multiple = settings.count("block_multiple_of", 256)?;
    let factor = settings.positive("block_ffn_dim_multiplier", 1.0)?;
    let is_rounded = settings.value("block_ffn_dim_multiplier").is_some()
        || !settings.states("block_ffn_dim_multiplier");
    if !settings.flag("block_auto_adjust_ff_dim", true)? {
        return Ok(stated);
    }
    let width = 2 * stated / 3;
    if !is_rounded {
        return Ok(width);
    }
    // The class multiplies in double precision and drops the fraction.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let width = (width as f64 * factor) as usize;
    let width = width.checked_next_multiple_of(multiple);
    let width = width.filter(|width| *width > 0 && *width <= 1 << 24);
    width.ok_or_else(|| settings.unknown("block_ffn_dim_multiplier"))
}

/// The layers with a convolution: by `layer_types`, else all but those of `full_attn_idxs`.
fn convolving_layers(settings: &ConfigSettings, layers: usize) -> Supported<Vec<bool>> {
    let attending = settings.value("full_attn_idxs");
    if let Some(types) = settings.value("layer_types") {
        let types = types.as_array().filter(|types| types.len() == layers);
        let kind = |kind: &serde_json::Value| match kind.as_str()? {
            "conv" => Some(true),
            "full_attention" => Some(false),
            _ => None,
        };
        let kinds = types.and_then(|types| types.iter().map(kind).collect());
        return kinds.ok_or_else(|| settings.unknown("layer_types"));
    }
    let Some(attending) = attending else {
        return Ok(vec![false; layers]);
    };
    let number = |value: &serde_json::Value| usize::try_from(value.as_u64()?).ok();
    let numbers = attending.as_array();
    let numbers: Option<Vec<usize>> = numbers.and_then(|list| list.iter().map(number).collect());
    let numbers = numbers.ok_or_else(|| settings.unknown("full_attn_idxs"))?;
    Ok((0..layers).map(|layer| !numbers.contains(&layer)).collect())
}
