//! XLM-RoBERTa-XL: RoBERTa with norms of inputs.

use serde_json::json;

use super::bert_like::look_as_decoder;
use super::common::{activation, base, epsilon, is_causal};
use super::{Architecture, KnownType, LearnedPositions};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] = &[KnownType::new(
    "xlm-roberta-xl",
    &["roberta"],
    xlm_roberta_xl,
)];

static XLM_ROBERTA_XL: TensorNames = TensorNames {
    attention_norms: NormNames::before(&["attention.self_attn_layer_norm"]),
    feed_forward_norms: NormNames::before(&["LayerNorm"]),
    final_norm: &["encoder.LayerNorm"],
    ..BASE
};

fn xlm_roberta_xl(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &XLM_ROBERTA_XL,
        settings.count("hidden_size", 2560)?,
        settings.count_or_zero("num_hidden_layers", 36)?,
        settings.count("num_attention_heads", 32)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-5)?;
    all.final_norm = true;
    let padding = settings.count_or_zero("pad_token_id", 1)?;
    all.embeddings.positions = Some(LearnedPositions {
        first: 0,
        count: settings.count("max_position_embeddings", 514)?,
        after: u32::try_from(padding).ok(),
    });
    all.embeddings.types = settings.count("type_vocab_size", 1)?;
    settings.pinned("position_embedding_type", &[json!("absolute")])?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    look_as_decoder(settings, &mut all, is_causal)?;
    all.feed_forward.width = settings.count("intermediate_size", 10240)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}
