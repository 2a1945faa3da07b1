//! Encoders that are built like BERT: learned positions, and norms of sums.

use serde_json::json;

use super::common::{activation, base, epsilon, is_causal};
use super::{Architecture, LearnedPositions};
use crate::names::TensorNames;
use crate::settings::{ConfigSettings, Supported};

/// Defaults of the width, the number of layers and of heads, and the feed-forward's width.
pub(super) const BASE_SIZES: [usize; 4] = [768, 12, 12, 3072];

/// An encoder without token types. Positions are counted behind the padding id `after`, where there is one.
pub(super) fn bert_like(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    sizes: [usize; 4],
    after: Option<u32>,
) -> Supported<Architecture> {
    let [hidden, layers, heads, inner] = sizes;
    let mut all = base(
        settings,
        names,
        settings.count("hidden_size", hidden)?,
        settings.count_or_zero("num_hidden_layers", layers)?,
        settings.count("num_attention_heads", heads)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after,
    });
    all.feed_forward.width = settings.count("intermediate_size", inner)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}

/// The same with token types, and causal where the settings make it a decoder.
pub(super) fn bert_with_types(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    sizes: [usize; 4],
    after: Option<u32>,
) -> Supported<Architecture> {
    let mut all = both_ways_with_types(settings, names, sizes, after)?;
    look_as_decoder(settings, &mut all, is_causal)?;
    Ok(all)
}

/// Layers look both ways, or back alone where the settings make the network a decoder. `is_causal` reads whether a decoder
/// is causal: a decoder's mask alone asks for it.
pub(super) fn look_as_decoder(
    settings: &ConfigSettings,
    all: &mut Architecture,
    is_causal: fn(&ConfigSettings) -> Supported<bool>,
) -> Supported<()> {
    settings.value("is_causal");
    if settings.flag("is_decoder", false)? && is_causal(settings)? {
        all.layers.iter_mut().for_each(|layer| layer.causal = true);
    }
    Ok(())
}

/// The same of a class that has no decoder.
pub(super) fn both_ways_with_types(
    settings: &ConfigSettings,
    names: &'static TensorNames,
    sizes: [usize; 4],
    after: Option<u32>,
) -> Supported<Architecture> {
    let mut all = bert_like(settings, names, sizes, after)?;
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    settings.pinned("position_embedding_type", &[json!("absolute")])?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    Ok(all)
}
