//! Settings that several architectures share: sizes, norms, windows and rotary frequencies.

use serde_json::{Map, Value, json};

use super::{
    Architecture, AttentionDescription, Embeddings, FeedForward, Layer, MAX_LAYERS, Mixer,
    NormDescription, NormKind, QueryKeyRows, SCALING,
};
use crate::names::TensorNames;
use crate::rotary::{Rotary, RotarySets, RotaryShape};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

/// The part that most descriptions share; each architecture fills in the rest.
pub(super) fn base(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    hidden: usize,
    layers: usize,
    heads: usize,
) -> Supported<Architecture> {
    if !hidden.is_multiple_of(heads) {
        return Err(settings.refuse(format!(
            "{heads} attention heads do not divide the width {hidden}"
        )));
    }
    let head_size = hidden / heads;
    if layers > MAX_LAYERS {
        return Err(settings.refuse(format!(
            "the model has {layers} layers; the native engine supports at most {MAX_LAYERS}"
        )));
    }
    Ok(Architecture {
        model_type: String::new(),
        ignored: Vec::new(),
        hidden,
        embeddings: Embeddings {
            vocabulary: settings.optional_count("vocab_size")?,
            width: hidden,
            scale: 1.0,
            positions: None,
            types: 0,
            word_types: false,
            tasks: 0,
            norm: None,
            projected: false,
        },
        norm: NormDescription {
            kind: NormKind::Layer { bias: true },
            epsilon: 1e-12,
        },
        attention: AttentionDescription {
            heads,
            key_value_heads: heads,
            head_size,
            scale: inverse_root(head_size),
            input_bias: true,
            output_bias: true,
            query_key_norm: None,
            position_bias: None,
            disentangled: None,
            softcap: None,
            rows: QueryKeyRows::default(),
            gated: false,
        },
        convolution: None,
        delta_rule: None,
        feed_forward: FeedForward {
            width: 0,
            activation: Activation::Gelu,
            gated: false,
            up_bias: true,
            down_bias: true,
            experts: None,
        },
        layers: (0..layers)
            .map(|index| Layer {
                weights: index,
                causal: false,
                reach: None,
                rotary: None,
                first_norm: true,
                experts: false,
                mixer: Mixer::Attention,
            })
            .collect(),
        weight_sets: (0..layers)
            .map(|index| {
                let number = index.to_string();
                names
                    .layer
                    .iter()
                    .map(|name| name.replace("{}", &number))
                    .collect()
            })
            .collect(),
        rotary: Vec::new(),
        final_norm: false,
        parallel: false,
        branch_scale: 1.0,
        longest: None,
        own_code: false,
        tasks: None,
        latent: None,
        names,
        base_names: &[],
    })
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
pub(super) fn root(size: usize) -> f32 {
    (size as f64).sqrt() as f32
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
pub(super) fn inverse_root(size: usize) -> f32 {
    (size as f64).powf(-0.5) as f32
}

#[allow(clippy::cast_possible_truncation)]
pub(super) fn epsilon(
    settings: &ConfigSettings,
    name: &'static str,
    default: f64,
) -> Supported<f32> {
    Ok(settings.positive(name, default)? as f32)
}

pub(super) fn activation(
    settings: &ConfigSettings,
    name: &'static str,
    default: &str,
) -> Supported<Activation> {
    activation_named(settings.word(name, default)?).ok_or_else(|| settings.unknown(name))
}

/// The activation by the name that transformers has for it.
#[must_use]
pub fn activation_named(name: &str) -> Option<Activation> {
    Some(match name {
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_python_tanh" | "gelu_fast" | "gelu_accurate" => {
            Activation::GeluTanh
        }
        "quick_gelu" => Activation::QuickGelu,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        "tanh" => Activation::Tanh,
        _ => return None,
    })
}

pub(super) fn key_value_heads(
    settings: &ConfigSettings,
    all: &mut Architecture,
    default: usize,
) -> Supported<()> {
    let heads = match settings.value("num_key_value_heads") {
        // Null means as many as query heads.
        None if settings.states("num_key_value_heads") => all.attention.heads,
        _ => settings.count("num_key_value_heads", default)?,
    };
    if !all.attention.heads.is_multiple_of(heads) {
        return Err(settings.unknown("num_key_value_heads"));
    }
    all.attention.key_value_heads = heads;
    Ok(())
}

/// How far a decoder's layers see, by the window of each (`None`: over all tokens): the token itself and those before it,
/// or, where `is_causal` is false, as many to each side as the window has tokens.
pub(super) fn look(
    settings: &ConfigSettings,
    all: &mut Architecture,
    windows: impl IntoIterator<Item = Option<usize>>,
) -> Supported<()> {
    let causal = is_causal(settings)?;
    look_ways(all, causal, windows);
    Ok(())
}

/// Whether a decoder is causal, of a class whose mask is left out where nothing is padded.
///
/// # Errors
/// If the setting is null: that is no for the mask, and nothing for attention without one.
pub(super) fn is_causal(settings: &ConfigSettings) -> Supported<bool> {
    let stated = settings.value("is_causal").is_some();
    if settings.states("is_causal") && !stated {
        return Err(settings.refuse(
            "the setting \"is_causal\": null has no one meaning for this type: transformers' class looks back alone in a \
             batch without padding, and both ways in one with padding; write false to look both ways in any batch, or remove \
             the setting to look back alone",
        ));
    }
    settings.flag("is_causal", true)
}

/// The same of a class that looks where its mask says, in every batch: null is no.
pub(super) fn is_mask_causal(settings: &ConfigSettings) -> Supported<bool> {
    settings.flag("is_causal", !settings.states("is_causal"))
}

/// The same where the class decides whether it is causal.
pub(super) fn look_ways(
    all: &mut Architecture,
    causal: bool,
    windows: impl IntoIterator<Item = Option<usize>>,
) {
    for (layer, window) in all.layers.iter_mut().zip(windows) {
        layer.causal = causal;
        // A causal window counts the token itself.
        layer.reach = window.map(|window| window.saturating_sub(usize::from(causal)));
    }
}

/// The windows of layers that have none.
pub(super) fn no_windows() -> impl Iterator<Item = Option<usize>> {
    std::iter::repeat(None)
}

/// The layers with a limited attention window: by `layer_types`, else by the class's pattern.
pub(super) fn layer_types(
    settings: &ConfigSettings,
    layers: usize,
    default: impl Fn(usize) -> bool,
) -> Supported<Vec<bool>> {
    let Some(value) = settings.value("layer_types") else {
        return Ok((0..layers).map(default).collect());
    };
    let unknown = || settings.unknown("layer_types");
    let types = value
        .as_array()
        .filter(|types| types.len() == layers)
        .ok_or_else(unknown)?;
    types
        .iter()
        .map(|kind| match kind.as_str() {
            Some("full_attention" | "attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            _ => Err(unknown()),
        })
        .collect()
}

/// One set of frequencies for all layers.
pub(super) fn turn_all(
    settings: &ConfigSettings,
    all: &mut Architecture,
    theta: f64,
    positions: usize,
) -> Supported<()> {
    let positions = settings.count("max_position_embeddings", positions)?;
    let theta = settings.positive("rope_theta", theta)?;
    let shape = RotaryShape {
        head_size: all.attention.head_size,
        theta,
        positions,
        partial: false,
        own_ntk: false,
    };
    turn_by(settings, all, &rope_parameters(settings)?, shape)
}

/// One set of frequencies for all layers, by `parameters`.
pub(super) fn turn_by(
    settings: &ConfigSettings,
    all: &mut Architecture,
    parameters: &Map<String, Value>,
    shape: RotaryShape,
) -> Supported<()> {
    let set = add_rotary(all, Rotary::read(settings, parameters, shape, false)?);
    all.layers
        .iter_mut()
        .for_each(|layer| layer.rotary = Some(set));
    Ok(())
}

/// Adds frequencies; the number of those for short rows.
fn add_rotary(all: &mut Architecture, sets: RotarySets) -> usize {
    let RotarySets {
        mut short,
        long,
        longest,
        unread,
    } = sets;
    for name in unread {
        if !all.ignored.iter().any(|ignored| ignored == name) {
            all.ignored.push(name.into());
        }
    }
    let number = all.rotary.len();
    short.beyond = long.as_ref().map(|(limit, _)| (*limit, number + 1));
    all.rotary.push(short);
    all.rotary.extend(long.map(|(_, long)| long));
    all.longest = all.longest.into_iter().chain(longest).min();
    number
}

/// One set of frequencies for layers with full attention, one for layers with a window. `thetas` gives, for each, the
/// setting of its base outside its parameters, with the default.
pub(super) fn turn_by_type(
    settings: &ConfigSettings,
    all: &mut Architecture,
    sliding: &[bool],
    thetas: [(&'static str, f64); 2],
    scaled_both: bool,
    positions: usize,
) -> Supported<()> {
    let kinds = ["full_attention", "sliding_attention"];
    let given = match settings.value("rope_parameters") {
        None => Map::new(),
        Some(Value::Object(given)) if given.keys().all(|key| kinds.contains(&key.as_str())) => {
            given.clone()
        }
        Some(_) => return Err(settings.unknown("rope_parameters")),
    };
    let scaling = match settings.value("rope_scaling") {
        None => Map::new(),
        Some(Value::Object(scaling)) => scaling.clone(),
        Some(_) => return Err(settings.unknown("rope_scaling")),
    };
    let mut sets = [0; 2];
    for (index, (kind, (theta, default))) in kinds.into_iter().zip(thetas).enumerate() {
        let mut parameters = match given.get(kind) {
            // Without any parameters the class begins with those of no scaling.
            None if settings.value("rope_parameters").is_none() => {
                Map::from_iter([("rope_type".to_owned(), json!("default"))])
            }
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(parameters)) => parameters.clone(),
            Some(_) => return Err(settings.unknown("rope_parameters")),
        };
        if index == 0 || scaled_both {
            parameters.extend(scaling.clone());
        }
        if drop_unheard_scaling(&mut parameters) && !all.ignored.iter().any(|it| it == SCALING) {
            all.ignored.push(SCALING.into());
        }
        // The class asks for it beside the types of layers.
        if parameters.remove("truncate") == Some(json!(false)) {
            all.ignored.push("truncate".into());
        }
        let shape = RotaryShape {
            head_size: all.attention.head_size,
            theta: settings.positive(theta, default)?,
            positions,
            partial: false,
            own_ntk: false,
        };
        sets[index] = add_rotary(all, Rotary::read(settings, &parameters, shape, true)?);
    }
    for (layer, &sliding) in all.layers.iter_mut().zip(sliding) {
        layer.rotary = Some(sets[usize::from(sliding)]);
    }
    Ok(())
}

/// Drops a scaling that has the older name of its kind, `type`, behind a `rope_type` of none: the class then reads no more
/// of it than the base. Whether there was one.
fn drop_unheard_scaling(parameters: &mut Map<String, Value>) -> bool {
    let none = json!("default");
    let unheard = |kind: &Value| *kind != none && !kind.is_null();
    let is_dropped =
        parameters.get("rope_type") == Some(&none) && parameters.get("type").is_some_and(unheard);
    if is_dropped {
        parameters.retain(|name, _| matches!(name.as_str(), "rope_type" | "rope_theta"));
    }
    is_dropped
}

/// `rope_scaling` where it says anything, else `rope_parameters`.
pub(super) fn rope_parameters(settings: &ConfigSettings) -> Supported<Map<String, Value>> {
    let mut found = Map::new();
    for name in ["rope_parameters", "rope_scaling"] {
        match settings.value(name) {
            None => {}
            Some(Value::Object(parameters)) if parameters.values().any(Value::is_object) => {
                return Err(settings.unknown(name));
            }
            Some(Value::Object(parameters)) if !parameters.is_empty() => {
                found.clone_from(parameters);
            }
            Some(Value::Object(_)) => {}
            Some(_) => return Err(settings.unknown(name)),
        }
    }
    Ok(found)
}
