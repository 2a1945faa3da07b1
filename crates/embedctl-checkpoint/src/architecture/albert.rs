//! ALBERT: BERT, whose layers share sets of weights, and whose embeddings are projected.

use serde_json::json;

use super::common::{activation, base, epsilon};
use super::{Architecture, KnownType, Layer, LearnedPositions, MAX_LAYERS};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("albert", &["albert"], albert)];

fn albert(settings: &ConfigSettings) -> Supported<Architecture> {
    let layers = settings.count_or_zero("num_hidden_layers", 12)?;
    let groups = settings.count("num_hidden_groups", 1)?;
    let inner = settings.count("inner_group_num", 1)?;
    if groups > layers.max(1) || groups * inner > MAX_LAYERS || layers * inner > MAX_LAYERS {
        return Err(settings.unknown("num_hidden_groups"));
    }
    let mut all = base(
        settings,
        &names::ALBERT,
        settings.count("hidden_size", 4096)?,
        layers,
        settings.count("num_attention_heads", 64)?,
    )?;
    all.embeddings.width = settings.count("embedding_size", 128)?;
    all.embeddings.projected = true;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: None,
    });
    settings.pinned("position_embedding_type", &[json!("absolute")])?;
    all.feed_forward.width = settings.count("intermediate_size", 16384)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu_new")?;
    let plain = all.layers.first().cloned();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    let group = |layer: usize| (layer as f64 / (layers as f64 / groups as f64)) as usize;
    all.layers = (0..layers)
        .flat_map(|layer| (0..inner).map(move |place| (layer, place)))
        .filter_map(|(layer, place)| {
            Some(Layer {
                weights: group(layer) * inner + place,
                ..plain.clone()?
            })
        })
        .collect();
    all.weight_sets = (0..groups * inner)
        .map(|set| {
            let name = format!("{}.albert_layers.{}", set / inner, set % inner);
            names::ALBERT
                .layer
                .iter()
                .map(|layer| layer.replace("{}", &name))
                .collect()
        })
        .collect();
    Ok(all)
}
