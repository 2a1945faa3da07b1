//! DeBERTa, the first version: query, key and value of each head in one product, with biases of their own, and relative
//! positions without buckets.

use serde_json::{Value, json};

use super::common::{activation, base, epsilon};
use super::{Architecture, Disentangled, KnownType, LearnedPositions};
use crate::names::{BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("deberta", &["deberta"], deberta).always_masked()];

static DEBERTA: TensorNames = TensorNames {
    query_key_value: &[&["attention.self.in_proj"]],
    query_value_bias: Some(["attention.self.q_bias", "attention.self.v_bias"]),
    ..BASE
};

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn deberta(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &DEBERTA,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    settings.pinned("embedding_size", &[json!(all.hidden)])?;
    settings.pinned("talking_head", &[json!(false)])?;
    // Heads that are not loaded, and how scripts are made.
    for unread in [
        "legacy",
        "pooler_hidden_size",
        "pooler_hidden_act",
        "pooler_dropout",
        "padding_idx",
        "cls_dropout",
    ] {
        settings.value(unread);
    }
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-7)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count_or_zero("type_vocab_size", 0)?;
    let positions = settings.count("max_position_embeddings", 512)?;
    let learned = settings.flag("position_biased_input", true)?;
    all.embeddings.positions = learned.then_some(LearnedPositions {
        first: 0,
        count: positions,
        after: None,
    });
    // The bias is read beside the product.
    all.attention.input_bias = false;
    all.attention.rows.fused_by_head = true;
    let unknown = || settings.unknown("pos_att_type");
    let kinds: Vec<String> = match settings.value("pos_att_type") {
        None => Vec::new(),
        Some(Value::String(kinds)) => kinds
            .split('|')
            .map(|kind| kind.trim().to_lowercase())
            .collect(),
        Some(Value::Array(kinds)) => {
            let kinds = kinds
                .iter()
                .map(|kind| kind.as_str().map(ToOwned::to_owned));
            kinds.collect::<Option<_>>().ok_or_else(unknown)?
        }
        Some(_) => return Err(unknown()),
    };
    if kinds.iter().any(|kind| kind != "c2p" && kind != "p2c") {
        return Err(unknown());
    }
    let has = |name: &str| kinds.iter().any(|kind| kind == name);
    let terms = 1 + kinds.len();
    all.attention.scale = ((all.attention.head_size * terms) as f64).powf(-0.5) as f32;
    // -1 stands for none.
    let farthest = match settings.value("max_relative_positions").map(Value::as_i64) {
        Some(Some(..=0)) | None => positions,
        Some(_) => settings.count("max_relative_positions", positions)?,
    };
    if settings.flag("relative_attention", false)? {
        all.attention.disentangled = Some(Disentangled {
            span: farthest,
            farthest: None,
            keys: has("c2p").then_some(&[&["attention.self.pos_proj"]]),
            keys_biased: false,
            queries: has("p2c").then_some(&[&["attention.self.pos_q_proj"]]),
            table: "encoder.rel_embeddings",
            norm: None,
        });
    }
    all.feed_forward.width = settings.count("intermediate_size", 3072)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}
