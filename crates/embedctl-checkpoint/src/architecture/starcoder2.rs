//! StarCoder 2: Llama with layer norms, biases and a feed-forward without a gate.

use super::common::{activation, epsilon, key_value_heads, look, turn_all};
use super::llama_like::grouped;
use super::{Architecture, KnownType, MODEL};
use crate::names::{LLAMA_BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("starcoder2", MODEL, starcoder2)];

static STARCODER2: TensorNames = TensorNames {
    up: &[&["mlp.c_fc"]],
    down: &[&["mlp.c_proj"]],
    ..LLAMA_BASE
};

fn starcoder2(settings: &ConfigSettings) -> Supported<Architecture> {
    let size = settings.optional_count("head_dim")?;
    let mut all = grouped(settings, &STARCODER2, [3072, 30, 24], size)?;
    key_value_heads(settings, &mut all, 2)?;
    all.norm.epsilon = epsilon(settings, "norm_epsilon", 1e-5)?;
    all.final_norm = true;
    let bias = settings.flag("use_bias", true)?;
    (all.attention.input_bias, all.attention.output_bias) = (bias, bias);
    (all.feed_forward.up_bias, all.feed_forward.down_bias) = (bias, bias);
    all.feed_forward.width = settings.count("intermediate_size", 12_288)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu_pytorch_tanh")?;
    // Of training, and of the first releases' own code.
    for unread in ["residual_dropout", "mlp_type", "norm_type"] {
        settings.value(unread);
    }
    let window = settings.optional_count("sliding_window")?;
    look(settings, &mut all, std::iter::repeat(window))?;
    turn_all(settings, &mut all, 10_000.0, 4096)?;
    Ok(all)
}
