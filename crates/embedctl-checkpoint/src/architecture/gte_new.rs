//! GTE by its repository's own code (`new`), which transformers' class `gte` does not load: `gte-multilingual-base`,
//! `gte-*-v1.5`, `stella_en_400M_v5`. The reference is that code.

use serde_json::json;

use super::common::{activation, base, epsilon, rope_parameters, turn_by};
use super::{Architecture, FeedForward, KnownType, LearnedPositions};
use crate::names;
use crate::rotary::RotaryShape;
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new("new", &["new"], gte_new).own_code()];

/// Settings of the repository's code at the values that are known here. transformers' class `gte` reads none of them.
fn stated_defaults(settings: &ConfigSettings) -> Supported<()> {
    settings.pinned("layer_norm_type", &[json!("layer_norm")])?;
    settings.pinned("logn_attention_scale", &[json!(false)])?;
    settings.value("matryoshka_dimensions"); // widths to cut vectors to
    // How the products are computed; no effect on the result.
    for unread in ["pack_qkv", "logn_attention_clip1"] {
        settings.value(unread);
    }
    Ok(())
}

fn gte_new(settings: &ConfigSettings) -> Supported<Architecture> {
    stated_defaults(settings)?;
    let mut all = base(
        settings,
        &names::ROTARY_BERT,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count_or_zero("type_vocab_size", 1)?;
    all.feed_forward = FeedForward {
        width: settings.count("intermediate_size", 3072)?,
        activation: activation(settings, "hidden_act", "gelu")?,
        gated: true,
        up_bias: false,
        down_bias: true,
        experts: None,
    };
    let positions = settings.count("max_position_embeddings", 2048)?;
    let theta = settings.positive("rope_theta", 10_000.0)?;
    match settings.word("position_embedding_type", "rope")? {
        "rope" => {
            let parameters = rope_parameters(settings)?;
            let kind = parameters.get("type").or(parameters.get("rope_type"));
            if !parameters.is_empty() && kind != Some(&json!("ntk")) {
                return Err(settings.unknown("rope_scaling"));
            }
            let shape = RotaryShape {
                head_size: all.attention.head_size,
                theta,
                positions,
                partial: false,
                own_ntk: true,
            };
            turn_by(settings, &mut all, &parameters, shape)?;
        }
        "absolute" => {
            rope_parameters(settings)?;
            all.embeddings.positions = Some(LearnedPositions {
                first: 0,
                count: positions,
                after: None,
            });
        }
        _ => return Err(settings.unknown("position_embedding_type")),
    }
    Ok(all)
}
