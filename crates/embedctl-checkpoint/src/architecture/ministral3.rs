//! Ministral 3: Mistral with `yarn`, whose queries grow with their position beyond the trained length.

use serde_json::{Value, json};

use super::common::{activation, epsilon, key_value_heads, look, rope_parameters, turn_by};
use super::llama_like::grouped;
use super::{Architecture, FeedForward, KnownType, MODEL, NormDescription, NormKind};
use crate::names;
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("ministral3", MODEL, ministral3)];

fn ministral3(settings: &ConfigSettings) -> Supported<Architecture> {
    // Null means the width's share of a head.
    let size = match settings.value("head_dim") {
        None if settings.states("head_dim") => None,
        _ => Some(settings.count("head_dim", 128)?),
    };
    let mut all = grouped(settings, &names::LLAMA, [4096, 34, 32], size)?;
    key_value_heads(settings, &mut all, 8)?;
    all.norm = NormDescription {
        kind: NormKind::Rms { offset: 0.0 },
        epsilon: epsilon(settings, "rms_norm_eps", 1e-5)?,
    };
    all.final_norm = true;
    (all.attention.input_bias, all.attention.output_bias) = (false, false);
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 14_336)?,
        activation: activation(settings, "hidden_act", "silu")?,
        gated: true,
        up_bias: false,
        down_bias: false,
        experts: None,
    };
    let window = settings.optional_count("sliding_window")?;
    look(settings, &mut all, std::iter::repeat(window))?;
    let positions = settings.count("max_position_embeddings", 262_144)?;
    let mut parameters = rope_parameters(settings)?;
    if parameters.is_empty() {
        let defaults = json!({
            "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1,
        });
        parameters.extend(defaults.as_object().cloned().unwrap_or_default());
    }
    let trained = parameters.get("original_max_position_embeddings");
    let inner: Vec<Value> = trained.cloned().into_iter().collect();
    settings.pinned("original_max_position_embeddings", &inner)?;
    let trained = trained.and_then(Value::as_u64);
    let grows = parameters.remove("llama_4_scaling_beta");
    let grows = grows.and_then(|beta| beta.as_f64());
    parameters.remove("max_position_embeddings"); // the same as outside
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta: settings.positive("rope_theta", 10_000.0)?,
        positions,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, &mut all, &parameters, shape)?;
    if grows.is_some_and(|beta| beta != 0.0) {
        // Up to here the factor of queries is 1.
        let trained = trained.ok_or_else(|| settings.unknown("rope_parameters"))?;
        all.longest = usize::try_from(trained).ok();
    }
    Ok(all)
}
