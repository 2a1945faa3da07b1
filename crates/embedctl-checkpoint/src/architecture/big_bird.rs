//! BigBird as far as its attention is full: everywhere, or, where it is block-sparse, in rows that are too short for that.

use serde_json::json;

use super::bert_like::look_as_decoder;
use super::common::{activation, base, epsilon, is_mask_causal, root};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("big_bird", &["bert"], big_bird).always_masked()];

fn big_bird(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &names::BERT,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 4096)?,
        after: None,
    });
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    if settings.flag("rescale_embeddings", false)? {
        all.embeddings.scale = root(all.hidden);
    }
    all.attention.input_bias = settings.flag("use_bias", true)?;
    let block = settings.count("block_size", 64)?;
    let random = settings.count_or_zero("num_random_blocks", 3)?;
    all.longest = match settings.word("attention_type", "block_sparse")? {
        "original_full" => None,
        // The class looks at random blocks in longer rows.
        "block_sparse" => Some((5 + 2 * random) * block),
        _ => return Err(settings.unknown("attention_type")),
    };
    look_as_decoder(settings, &mut all, is_mask_causal)?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    all.feed_forward.width = settings.count("intermediate_size", 3072)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu_new")?;
    Ok(all)
}
