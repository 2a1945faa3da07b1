//! RoFormer: BERT with rotary positions, whose pairs are neighbours and whose angles are computed in double precision.

use serde_json::json;

use super::bert_like::look_as_decoder;
use super::common::{activation, base, epsilon, is_mask_causal};
use super::{Architecture, KnownType};
use crate::names;
use crate::rotary::Rotary;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("roformer", &["roformer"], roformer).always_masked()];

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn roformer(settings: &ConfigSettings) -> Supported<Architecture> {
    let hidden = settings.count("hidden_size", 768)?;
    let mut all = base(
        settings,
        &names::BERT,
        hidden,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    let size = all.attention.head_size;
    if !size.is_multiple_of(2) {
        return Err(settings.unknown("num_attention_heads"));
    }
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.width = settings.count("embedding_size", hidden)?;
    all.embeddings.projected = all.embeddings.width != hidden;
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    settings.pinned("rotary_value", &[json!(false)])?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    look_as_decoder(settings, &mut all, is_mask_causal)?;
    settings.value("use_bias"); // of the first releases; every product has one
    all.longest = Some(settings.count("max_position_embeddings", 1536)?);
    let precise: Vec<f64> = (0..size / 2)
        .map(|pair| 1.0 / 10_000_f64.powf((2 * pair) as f64 / size as f64))
        .collect();
    all.rotary = vec![Rotary {
        frequencies: precise.iter().map(|one| *one as f32).collect(),
        precise: Some(precise),
        scale: 1.0,
        stored: Some("encoder.embed_positions"),
        beyond: None,
    }];
    all.layers
        .iter_mut()
        .for_each(|layer| layer.rotary = Some(0));
    all.attention.rows.adjacent_pairs = true;
    all.feed_forward.width = settings.count("intermediate_size", 3072)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}
