//! Decoders: Llama, Mistral, Qwen and Gemma, causal or not as their settings say.

use serde_json::json;

use super::common::{
    activation, base, epsilon, inverse_root, key_value_heads, layer_types, turn_all, turn_by_type,
};
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind, QueryKeyNorm};
use crate::kernels::Activation;
use crate::names::{self, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("llama", MODEL, |all| decoder(all, Decoder::Llama)),
    KnownType::new("llama_bidirec", MODEL, |all| {
        decoder(all, Decoder::LlamaBidirectional)
    })
    .own_code(),
    KnownType::new("eurobert", MODEL, |all| decoder(all, Decoder::EuroBert)),
    KnownType::new("mistral", MODEL, |all| decoder(all, Decoder::Mistral)),
    KnownType::new("ministral", MODEL, |all| decoder(all, Decoder::Ministral)),
    KnownType::new("qwen2", MODEL, |all| decoder(all, Decoder::Qwen2)),
    KnownType::new("qwen3", MODEL, |all| decoder(all, Decoder::Qwen3)),
    KnownType::new("gemma", MODEL, |all| decoder(all, Decoder::Gemma)),
    KnownType::new("gemma3_text", MODEL, gemma3),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoder {
    Llama,
    LlamaBidirectional,
    EuroBert,
    Mistral,
    Ministral,
    Mixtral,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    Gemma,
    Granite,
    SmolLm3,
    Olmo,
    Olmo2,
}

/// Llama and the decoders that are built like it.
pub(super) fn decoder(settings: &ConfigSettings, kind: Decoder) -> Supported<Architecture> {
    use Decoder::{
        EuroBert, Gemma, Granite, Llama, LlamaBidirectional, Ministral, Mistral, Mixtral, Olmo,
        Olmo2, Qwen2, Qwen3, Qwen3Moe, SmolLm3,
    };
    if kind == LlamaBidirectional {
        // Of the repository's own pooling and training.
        for unread in ["pooling", "temperature"] {
            settings.value(unread);
        }
    }
    let both_ways = matches!(kind, LlamaBidirectional | EuroBert);
    let has_head_norm = matches!(kind, Qwen3 | Qwen3Moe);
    let (hidden, layers, heads, inner, positions) = match kind {
        Llama | LlamaBidirectional | Granite | Olmo | Olmo2 => (4096, 32, 32, 11008, 2048),
        SmolLm3 => (2048, 36, 16, 11008, 32768),
        Qwen3Moe => (2048, 24, 32, 6144, 32768),
        EuroBert => (768, 12, 12, 3072, 8192),
        Mistral | Ministral | Mixtral => (4096, 32, 32, 14336, 4096 * 32),
        Qwen2 | Qwen3 => (4096, 32, 32, 22016, 32768),
        Gemma => (3072, 28, 16, 24576, 8192),
    };
    let head_size = match kind {
        Qwen3 => Some(128),
        Gemma => Some(256),
        _ => None,
    };
    let own_size = settings.optional_count("head_dim")?.or(head_size);
    let mut all = grouped(settings, &names::LLAMA, [hidden, layers, heads], own_size)?;
    let key_value = match kind {
        Llama | LlamaBidirectional | EuroBert | Granite | Olmo | Olmo2 => all.attention.heads,
        SmolLm3 | Qwen3Moe => 4,
        Mistral | Ministral | Mixtral => 8,
        Qwen2 | Qwen3 => 32,
        Gemma => 16,
    };
    key_value_heads(settings, &mut all, key_value)?;
    let offset = if kind == Gemma { 1.0 } else { 0.0 };
    all.norm = NormDescription {
        kind: NormKind::Rms { offset },
        epsilon: epsilon(
            settings,
            "rms_norm_eps",
            if matches!(kind, EuroBert | Olmo2) {
                1e-5
            } else {
                1e-6
            },
        )?,
    };
    all.final_norm = true;
    let bias = match kind {
        Qwen2 | Mistral | Ministral | Mixtral => false,
        _ => settings.flag("attention_bias", false)?,
    };
    (all.attention.input_bias, all.attention.output_bias) = (bias || kind == Qwen2, bias);
    all.attention.query_key_norm = has_head_norm.then_some(QueryKeyNorm {
        norm: all.norm,
        all_heads: false,
    });
    let may_bias = matches!(
        kind,
        Llama | LlamaBidirectional | EuroBert | Granite | SmolLm3
    );
    let bias = may_bias && settings.flag("mlp_bias", false)?;
    let act = if kind == Gemma {
        "gelu_pytorch_tanh"
    } else {
        "silu"
    };
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", inner)?,
        activation: activation(settings, "hidden_act", act)?,
        gated: true,
        up_bias: bias,
        down_bias: bias,
        experts: None,
    };
    if kind == Gemma {
        all.embeddings.scale = root(all.hidden);
        if all.feed_forward.activation == Activation::Gelu {
            all.feed_forward.activation = Activation::GeluTanh; // the class's choice for its first releases
        }
        settings.pinned("use_bidirectional_attention", &[json!(false)])?;
    }
    let causal = !both_ways && settings.flag("is_causal", true)?;
    let count = all.layers.len();
    let window = match kind {
        Llama | LlamaBidirectional | EuroBert | Gemma | Granite | SmolLm3 | Olmo | Olmo2 => None,
        Mixtral => settings.optional_count("sliding_window")?,
        Mistral | Ministral => match settings.value("sliding_window") {
            // Null means none; a setting that is left out means the class's default.
            None if settings.states("sliding_window") => None,
            _ => Some(settings.count("sliding_window", 4096)?),
        },
        Qwen2 | Qwen3 | Qwen3Moe => {
            let window = settings.count("sliding_window", 4096)?;
            let stated =
                settings.value("sliding_window").is_some() || !settings.states("sliding_window");
            (settings.flag("use_sliding_window", false)? && stated).then_some(window)
        }
    };
    let sliding = match kind {
        Llama | LlamaBidirectional | EuroBert | Gemma | Granite | SmolLm3 | Olmo | Olmo2 => {
            vec![false; count]
        }
        Mistral | Mixtral | Qwen3Moe => vec![window.is_some(); count],
        Ministral => layer_types(settings, count, |_| window.is_some())?,
        Qwen2 | Qwen3 => {
            let first = settings.count_or_zero("max_window_layers", 28)?;
            layer_types(settings, count, |layer| window.is_some() && layer >= first)?
        }
    };
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.causal = causal;
        if sliding {
            let window = window.ok_or_else(|| settings.unknown("layer_types"))?;
            layer.reach = Some(if causal { window - 1 } else { window });
        }
    }
    let theta = match kind {
        SmolLm3 => 2e6,
        Mixtral => 1e6,
        _ => 10_000.0,
    };
    turn_all(settings, &mut all, theta, positions)?;
    Ok(all)
}

pub(super) fn gemma3(settings: &ConfigSettings) -> Supported<Architecture> {
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
    settings.pinned("attn_logit_softcapping", &[])?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 9216)?,
        activation: activation(settings, "hidden_activation", "gelu_pytorch_tanh")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    let bidirectional = settings.flag("use_bidirectional_attention", false)?;
    settings.pinned("is_causal", &[json!(true)])?;
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
    // Causal: fewer than `window` back. Both ways: at most half of it, on each side.
    let reach = if bidirectional {
        window / 2
    } else {
        window - 1
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
    for (layer, sliding) in all.layers.iter_mut().zip(sliding) {
        layer.causal = !bidirectional;
        layer.reach = sliding.then_some(reach);
    }
    Ok(all)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
pub(super) fn root(size: usize) -> f32 {
    (size as f64).sqrt() as f32
}

/// The base of a decoder; `defaults` are width, layers and heads.
pub(super) fn grouped(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    defaults: [usize; 3],
    head_size: Option<usize>,
) -> Supported<Architecture> {
    let [hidden, layers, heads] = defaults;
    let hidden = settings.count("hidden_size", hidden)?;
    let layers = settings.count_or_zero("num_hidden_layers", layers)?;
    let heads = settings.count("num_attention_heads", heads)?;
    // A head size of its own frees the heads from dividing the width.
    let divisor = if head_size.is_some() { 1 } else { heads };
    let mut all = base(settings, names, hidden, layers, divisor)?;
    let size = head_size.unwrap_or(hidden / heads);
    if heads.checked_mul(size).is_none_or(|inner| inner > 1 << 24) {
        return Err(settings.unknown("num_attention_heads"));
    }
    all.attention.heads = heads;
    all.attention.head_size = size;
    all.attention.scale = inverse_root(size);
    Ok(all)
}
