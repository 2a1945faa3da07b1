//! The encoders of T5, mT5 and UMT5.

use serde_json::json;

use super::common::{activation, activation_named, base, epsilon};
use super::{Architecture, KnownType, NormDescription, NormKind, PositionBias};
use crate::names::{T5, T5_BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

/// Encoders alone keep their names; a checkpoint of both halves has them too.
const PREFIXES: &[&str] = &["transformer"];

pub(super) const TYPES: &[KnownType] = &[
    KnownType::new("t5", PREFIXES, |all| {
        t5(all, [512, 6, 8, 2048], "relu", false)
    })
    .encoder_of_pair()
    .named(NAMES),
    KnownType::new("mt5", PREFIXES, |all| {
        t5(all, [512, 8, 6, 1024], "gated-gelu", false)
    })
    .encoder_of_pair()
    .named(NAMES),
    KnownType::new("umt5", PREFIXES, |all| {
        t5(all, [512, 8, 6, 1024], "gated-gelu", true)
    })
    .encoder_of_pair()
    .named(NAMES),
];

const NAMES: &[(&str, &str)] = &[
    ("hidden_size", "d_model"),
    ("num_attention_heads", "num_heads"),
    ("num_hidden_layers", "num_layers"),
    ("head_dim", "d_kv"),
];

static UMT5: TensorNames = TensorNames {
    relative_bias: "layer.0.SelfAttention.relative_attention_bias",
    ..T5_BASE
};

/// `defaults` are width, layers, heads and inner width; `own_tables`: each layer has a bias of its own.
fn t5(
    settings: &ConfigSettings,
    defaults: [usize; 4],
    feed_forward: &str,
    own_tables: bool,
) -> Supported<Architecture> {
    let [hidden, layers, heads, inner] = defaults;
    settings.pinned("is_encoder_decoder", &[json!(true), json!(false)])?;
    settings.pinned("is_decoder", &[json!(false)])?;
    // The decoder, training and generation.
    for unread in [
        "num_decoder_layers",
        "dropout_rate",
        "n_positions",
        "scale_decoder_outputs",
        "scalable_attention",
    ] {
        settings.value(unread);
    }
    let heads = settings.count("num_heads", heads)?;
    // Heads do not have to divide the width.
    let mut all = base(
        settings,
        if own_tables { &UMT5 } else { &T5 },
        settings.count("d_model", hidden)?,
        settings.count_or_zero("num_layers", layers)?,
        1,
    )?;
    all.attention.heads = heads;
    all.attention.key_value_heads = heads;
    all.attention.head_size = settings.count("d_kv", 64)?;
    if heads * all.attention.head_size > 1 << 24 {
        return Err(settings.unknown("num_heads"));
    }
    all.attention.scale = 1.0;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "layer_norm_epsilon", 1e-6)?,
    };
    all.final_norm = true;
    let rows = settings.count("relative_attention_num_buckets", 32)?;
    let reach = settings.count("relative_attention_max_distance", 128)?;
    if rows < 4 || reach <= rows / 4 {
        return Err(settings.unknown("relative_attention_num_buckets"));
    }
    all.attention.position_bias = Some(PositionBias::Buckets {
        rows,
        count: rows,
        reach,
        of_each_layer: own_tables,
    });
    let word = settings.word("feed_forward_proj", feed_forward)?;
    let (gated, name) = match word.split_once('-') {
        Some(("gated", name)) => (true, name),
        None => (false, word),
        Some(_) => return Err(settings.unknown("feed_forward_proj")),
    };
    // What is written beside `feed_forward_proj` is set behind it. Null is no gate, and no activation.
    let gated = settings.flag("is_gated_act", gated && !settings.states("is_gated_act"))?;
    let own = settings.value("dense_act_fn").is_some();
    if settings.states("dense_act_fn") && !own {
        return Err(settings.unknown("dense_act_fn"));
    }
    all.feed_forward.activation = match word {
        _ if own => activation(settings, "dense_act_fn", "")?,
        "gated-gelu" => Activation::GeluTanh,
        _ => activation_named(name).ok_or_else(|| settings.unknown("feed_forward_proj"))?,
    };
    all.feed_forward.width = settings.count("d_ff", inner)?;
    all.feed_forward.gated = gated;
    (all.feed_forward.up_bias, all.feed_forward.down_bias) = (false, false);
    Ok(all)
}
