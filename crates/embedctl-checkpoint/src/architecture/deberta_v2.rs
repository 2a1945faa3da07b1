//! DeBERTa 2 and 3: attention of contents, and of contents with relative positions.

use serde_json::{Value, json};

use super::common::{activation, base, epsilon};
use super::{Architecture, Disentangled, KnownType, LearnedPositions};
use crate::names::{BASE, TensorNames};
use crate::settings::{ConfigSettings, Supported};

pub(super) const TYPES: &[KnownType] =
    &[KnownType::new("deberta-v2", &["deberta"], deberta_v2).always_masked()];

static DEBERTA_V2: TensorNames = TensorNames {
    query_key_value: &[&[
        "attention.self.query_proj",
        "attention.self.key_proj",
        "attention.self.value_proj",
    ]],
    ..BASE
};

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn deberta_v2(settings: &ConfigSettings) -> Supported<Architecture> {
    let mut all = base(
        settings,
        &DEBERTA_V2,
        settings.count("hidden_size", 1536)?,
        settings.count_or_zero("num_hidden_layers", 24)?,
        settings.count("num_attention_heads", 24)?,
    )?;
    settings.pinned("attention_head_size", &[json!(all.attention.head_size)])?;
    settings.pinned("embedding_size", &[json!(all.hidden)])?;
    settings.pinned("conv_kernel_size", &[json!(0)])?;
    // Heads that are not loaded, and how scripts are made.
    for unread in [
        "conv_act",
        "legacy",
        "pooler_hidden_size",
        "pooler_hidden_act",
        "pooler_dropout",
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
    let kinds: String = match settings.value("pos_att_type") {
        None => String::new(),
        Some(Value::String(kinds)) => kinds.to_lowercase(),
        Some(kinds @ Value::Array(_)) => kinds.to_string(),
        Some(_) => return Err(settings.unknown("pos_att_type")),
    };
    let (keys, queries) = (kinds.contains("c2p"), kinds.contains("p2c"));
    let terms = 1 + usize::from(keys) + usize::from(queries);
    all.attention.scale = ((all.attention.head_size * terms) as f64).powf(-0.5) as f32;
    let shared = settings.flag("share_att_key", false)?;
    // -1 stands for none.
    let count = |name, none: usize| {
        let is_none = settings.value(name).and_then(Value::as_i64) == Some(-1);
        if is_none {
            Ok(none)
        } else {
            settings.count_or_zero(name, none)
        }
    };
    let farthest = match count("max_relative_positions", positions)? {
        0 => positions,
        farthest => farthest,
    };
    let buckets = count("position_buckets", 0)?;
    let norm = match settings.word("norm_rel_ebd", "none")? {
        "none" => false,
        "layer_norm" => true,
        _ => return Err(settings.unknown("norm_rel_ebd")),
    };
    if buckets == 1 || (buckets > 0 && farthest <= buckets / 2 + 1) {
        return Err(settings.unknown("position_buckets"));
    }
    if settings.flag("relative_attention", false)? {
        all.attention.disentangled = Some(Disentangled {
            span: if buckets > 0 { buckets } else { farthest },
            farthest: (buckets > 0).then_some(farthest),
            keys: match (keys, shared) {
                (false, _) => None,
                (true, false) => Some(&[&["attention.self.pos_key_proj"]]),
                (true, true) => Some(&[&["attention.self.key_proj"]]),
            },
            keys_biased: true,
            queries: match (queries, shared) {
                (false, _) => None,
                (true, false) => Some(&[&["attention.self.pos_query_proj"]]),
                (true, true) => Some(&[&["attention.self.query_proj"]]),
            },
            table: "encoder.rel_embeddings",
            norm: norm.then_some(&["encoder.LayerNorm"]),
        });
    }
    all.feed_forward.width = settings.count("intermediate_size", 6144)?;
    all.feed_forward.activation = activation(settings, "hidden_act", "gelu")?;
    Ok(all)
}
