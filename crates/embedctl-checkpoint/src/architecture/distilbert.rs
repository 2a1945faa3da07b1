//! DistilBERT: BERT of half as many layers, with names of its own.

use super::common::{activation, base};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("distilbert", &["distilbert"], distilbert).named(NAMES)];

const NAMES: &[(&str, &str)] = &[
    ("hidden_size", "dim"),
    ("num_attention_heads", "n_heads"),
    ("num_hidden_layers", "n_layers"),
];

fn distilbert(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &names::DISTILBERT,
        settings.count("dim", 768)?,
        settings.count_or_zero("n_layers", 6)?,
        settings.count("n_heads", 12)?,
    )?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 512)?,
        after: None,
    });
    all.feed_forward.width = settings.count("hidden_dim", 4 * 768)?;
    all.feed_forward.activation = activation(settings, "activation", "gelu")?;
    Ok(all)
}
