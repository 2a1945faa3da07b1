//! Longformer without global attention, as the reference runs it where nobody marks tokens: each token sees a window.

use super::common::{activation, base, epsilon};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("longformer", &["longformer"], longformer).always_masked()];

fn longformer(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &names::BERT,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    let padding = settings.count_or_zero("pad_token_id", 1)?;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: u32::try_from(padding).ok(),
    });
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    let unknown = || settings.unknown("attention_window");
    let one = |value: &serde_json::Value| {
        let window = value
            .as_u64()
            .filter(|window| *window > 0 && window % 2 == 0);
        window.and_then(|window| usize::try_from(window / 2).ok())
    };
    let layers = all.layers.len();
    let reaches: Vec<usize> = match settings.value("attention_window") {
        None => vec![256; layers],
        Some(serde_json::Value::Array(list)) if list.len() == layers => {
            let all: Option<Vec<usize>> = list.iter().map(one).collect();
            all.ok_or_else(unknown)?
        }
        Some(value) => vec![one(value).ok_or_else(unknown)?; layers],
    };
    for (layer, reach) in all.layers.iter_mut().zip(reaches) {
        layer.reach = Some(reach);
    }
    // Written by the class; the result is the same.
    for unread in ["onnx_export", "ignore_attention_mask", "attention_mode"] {
        settings.value(unread);
    }
    all.feed_forward.width = settings.count("intermediate_size", 3072)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}
