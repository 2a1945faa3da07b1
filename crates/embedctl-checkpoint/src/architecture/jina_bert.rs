//! Jina embeddings v2, by their repositories' own code: BERT with `ALiBi` and, in most, a gate.

use serde_json::json;

use super::common::{activation, base, epsilon};
use super::{Architecture, PositionBias, QueryKeyNorm};
use crate::names::{BASE, NormNames, TensorNames};
use crate::settings::{ConfigSettings, Supported};
use embedctl_common::Activation;

static GATED: TensorNames = TensorNames {
    up: &[&["mlp.gated_layers"]],
    down: &[&["mlp.wo"]],
    feed_forward_norms: NormNames::sum(&["mlp.layernorm"]),
    ..BASE
};

/// Of the code that also norms queries and keys.
static NORMED: TensorNames = TensorNames {
    query_key_norm: [
        &["attention.self.layer_norm_q"],
        &["attention.self.layer_norm_k"],
    ],
    attention_norms: NormNames {
        with_input: &["attention.output.LayerNorm"],
        ..NormNames::sum(&["layer_norm_1"])
    },
    up: &[
        &["mlp.up_layer"],
        &["mlp.up_gated_layer#1", "mlp.up_gated_layer#0"],
    ],
    down: &[&["mlp.down_layer"]],
    feed_forward_norms: NormNames::sum(&["layer_norm_2"]),
    ..BASE
};

pub(super) fn jina_bert(settings: &ConfigSettings) -> Supported<Architecture> {
    // The one setting by which the two codes differ: which of them is to be run.
    let code = settings
        .value("auto_map")
        .and_then(|map| map["AutoModel"].as_str());
    let normed = code.is_some_and(|code| code.contains("-qk-post-norm--"));
    let kind = settings.word(
        "feed_forward_type",
        if normed { "geglu" } else { "original" },
    )?;
    let (gated, act) = match kind {
        "geglu" => (true, Activation::Gelu),
        "reglu" => (true, Activation::Relu),
        _ => (false, activation(settings, "hidden_act", "gelu")?),
    };
    settings.value("hidden_act"); // not of a gate
    let names = match (normed, gated) {
        (true, _) => &NORMED,
        (false, true) => &GATED,
        (false, false) => &crate::names::BERT,
    };
    let mut all = base(
        settings,
        names,
        settings.count("hidden_size", 768)?,
        settings.count_or_zero("num_hidden_layers", 12)?,
        settings.count("num_attention_heads", 12)?,
    )?;
    all.norm.epsilon = epsilon(settings, "layer_norm_eps", 1e-12)?;
    all.embeddings.norm = Some(all.norm);
    all.embeddings.types = settings.count("type_vocab_size", 2)?;
    all.own_code = true;
    all.attention.position_bias = Some(PositionBias::Slopes);
    all.attention.query_key_norm = normed.then_some(QueryKeyNorm {
        norm: all.norm,
        all_heads: true,
    });
    settings.pinned("is_decoder", &[json!(false)])?;
    settings.pinned("add_cross_attention", &[json!(false)])?;
    // Lengths of training, and pooling that modules.json says as well.
    for unread in ["max_position_embeddings", "emb_pooler", "model_max_length"] {
        settings.value(unread);
    }
    all.feed_forward.width = settings.count("intermediate_size", 3072)?;
    all.feed_forward.activation = act;
    all.feed_forward.gated = gated;
    all.feed_forward.up_bias = !gated && !normed;
    Ok(all)
}
