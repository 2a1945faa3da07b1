//! CLIP's text tower.

use super::common::{activation, base, epsilon, is_mask_causal};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new(
    "clip_text_model",
    &["text_model"],
    clip_text,
)];

static CLIP_TEXT: TensorNames = TensorNames {
    word: &["embeddings.token_embedding"],
    position: "embeddings.position_embedding",
    layer: &["encoder.layers.{}."],
    query_key_value: &[&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]],
    attention_output: &[&["self_attn.out_proj"]],
    attention_norms: NormNames::before(&["layer_norm1"]),
    up: &[&["mlp.fc1"]],
    down: &[&["mlp.fc2"]],
    feed_forward_norms: NormNames::before(&["layer_norm2"]),
    final_norm: &["final_layer_norm"],
    ..BASE
};

fn clip_text(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &CLIP_TEXT,
        settings.count("hidden_size", 512)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 8)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-5)?;
    all.final_norm = true;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 77)?,
        after: None,
    });
    // Of training, and of a projection that is no part of the hidden states.
    for unread in ["projection_dim", "dropout"] {
        settings.value(unread);
    }
    if !is_mask_causal(settings)? {
        return Err(settings.refuse(
            "the setting \"is_causal\": false has no one meaning: transformers' class looks back alone in a batch without \
             padding, and both ways in one with padding; remove the setting to look back alone, as published models do",
        ));
    }
    all.layers.iter_mut().for_each(|layer| layer.causal = true);
    all.feed_forward.width = settings.count("intermediate_size", 2048)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "quick_gelu")?;
    Ok(all)
}
