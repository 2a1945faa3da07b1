//! Tensors of a checkpoint that its network does not take. transformers loads such a checkpoint and names them in a
//! warning: heads are among them, but layers beyond those of config.json as well.

use std::collections::BTreeSet;

use super::architecture::Architecture;
use super::names::{self, Alternatives, Sources, TASK_TYPE};

/// Modules beside the network that most checkpoints have, and buffers that are computed: no word about them.
const USUAL: &[&str] = &[
    "lm_head",
    "cls",
    "classifier",
    "pre_classifier",
    "classification_head",
    "score",
    "pooler",
    "qa_outputs",
    "head",
    "head_norm",
    "vocab_transform",
    "vocab_layer_norm",
    "vocab_projector",
    "lm_predictions",
    "mask_predictions",
    "predictions",
    "discriminator_predictions",
    "generator_predictions",
    "generator_lm_head",
    "sop_classifier",
    "logit_scale",
    // Of a pair of which the encoder alone is run.
    "decoder",
    // Of adapters, which are no part of the network.
    "lora_A",
    "lora_B",
    "text_projection",
];

/// Modules beside the network of one `model_type`: layers of its class's heads, and parts of the class that a text alone
/// does not use.
const OF_TYPES: &[(&str, &str)] = &[
    ("eurobert", "dense"),
    ("luke", "entity_embeddings"),
    ("luke", "entity_predictions"),
];

/// The ends of names of buffers that old versions stored.
const BUFFERS: &[&str] = &[
    "position_ids",
    "token_type_ids",
    "inv_freq",
    "masked_bias",
    "attn.bias",
    "attention.bias",
    "rotary_emb.cos_cached",
    "rotary_emb.sin_cached",
    "num_batches_tracked",
];

/// Names that a note shows.
const SHOWN: usize = 3;

/// What a note says of the tensors `names`, of which those of the network begin with `prefix`; `None` where all are of the
/// network, or usual beside one.
pub(crate) fn words<'a>(
    architecture: &Architecture,
    prefix: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let mut layers = BTreeSet::new();
    let mut others = Vec::new();
    for name in names.filter(|name| !is_beside(architecture, name)) {
        let Some(own) = name.strip_prefix(prefix) else {
            // Another network of the checkpoint, or a head beside this one.
            if !is_usual(architecture, name) {
                others.push(name);
            }
            continue;
        };
        match layer_of(architecture, own) {
            Some(OfLayer::Known(part)) if !is_part(architecture, part) => others.push(name),
            Some(OfLayer::Known(_)) => {}
            Some(OfLayer::Beyond(number)) => {
                layers.insert(number);
            }
            None if is_outer(architecture, own) || is_usual(architecture, own) => {}
            None => others.push(name),
        }
    }
    others.retain(|name| !BUFFERS.iter().any(|buffer| name.ends_with(buffer)));
    let beyond = layers.first().map(|first| {
        format!(
            "layers from number {first} on ({} more than config.json has)",
            layers.len()
        )
    });
    let shown = others.len().min(SHOWN);
    let others = (shown > 0).then(|| {
        let more = match others.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", others[..shown].join(", "))
    });
    let all: Vec<String> = beyond.into_iter().chain(others).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

enum OfLayer<'a> {
    /// A layer of the network, with the name below it.
    Known(&'a str),
    /// The number of another layer.
    Beyond(usize),
}

fn layer_of<'a>(architecture: &Architecture, own: &'a str) -> Option<OfLayer<'a>> {
    let spellings = architecture.weight_sets.iter().flatten();
    let known = spellings.filter_map(|layer| own.strip_prefix(layer.as_str()));
    if let Some(part) = known.min_by_key(|part| part.len()) {
        return Some(OfLayer::Known(part));
    }
    let mut numbers = architecture.names.layer.iter().filter_map(|pattern| {
        let (before, _) = pattern.split_once("{}")?;
        let (number, _) = own.strip_prefix(before)?.split_once('.')?;
        number.parse().ok()
    });
    numbers.next().map(OfLayer::Beyond)
}

/// Whether a name below a layer is that of a tensor that its description has.
fn is_part(architecture: &Architecture, part: &str) -> bool {
    let names = architecture.names;
    let attention = &architecture.attention;
    let feed_forward = &architecture.feed_forward;
    let Some((module, ending)) = part.rsplit_once('.') else {
        return true;
    };
    let of = |sources: Sources| {
        let parts = sources.iter().copied().flatten();
        parts.into_iter().any(|part| names::module(part) == module)
    };
    // A product without a bias takes none from its checkpoint.
    for (sources, biased) in [
        (names.query_key_value, attention.input_bias),
        (names.attention_output, attention.output_bias),
        (names.up, feed_forward.up_bias),
        (names.down, feed_forward.down_bias),
    ] {
        if of(sources) {
            return biased || ending != "bias";
        }
    }
    true
}

/// Whether a name is that of a tensor outside the layers.
fn is_outer(architecture: &Architecture, own: &str) -> bool {
    let names = architecture.names;
    let embeddings = &architecture.embeddings;
    let module = own.rsplit_once('.').map_or(own, |(module, _)| module);
    let one = |alternatives: Alternatives| alternatives.contains(&module);
    let stored = architecture
        .rotary
        .iter()
        .filter_map(|rotary| rotary.stored);
    let projection = names.projection.iter().copied().flatten();
    let relative = architecture.attention.disentangled;
    one(names.word)
        || one(names.embedding_norm) && embeddings.norm.is_some()
        || one(names.final_norm) && architecture.final_norm
        || [
            names.position,
            names.token_type,
            names.relative_bias,
            TASK_TYPE,
        ]
        .contains(&module)
        || relative.is_some_and(|it| it.table == module || it.norm.is_some_and(one))
        || projection.into_iter().any(|part| *part == module)
        || stored.into_iter().any(|stored| stored == module)
}

/// Whether a full name is that of a tensor which stands beside the network's and is computed with it.
fn is_beside(architecture: &Architecture, name: &str) -> bool {
    architecture.latent.is_some() && name.starts_with(names::LATENT)
}

/// Whether a name, with or without the network's prefix, is that of a module which checkpoints of this type have.
fn is_usual(architecture: &Architecture, own: &str) -> bool {
    let (first, _) = own.split_once('.').unwrap_or((own, ""));
    OF_TYPES.contains(&(architecture.model_type.as_str(), first))
        || own.split('.').any(|part| USUAL.contains(&part))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(config: Value, prefix: &str, names: &[&str]) -> Option<String> {
        let architecture = Architecture::parse("config.json".into(), config).unwrap();
        words(&architecture, prefix, names.iter().copied())
    }

    #[test]
    fn layers_beyond_those_of_the_configuration_are_counted() {
        let config = json!({"model_type": "qwen3", "num_hidden_layers": 2});
        let names = [
            "model.embed_tokens.weight",
            "model.layers.0.self_attn.q_proj.weight",
            "model.layers.1.mlp.down_proj.weight",
            "model.layers.2.self_attn.q_proj.weight",
            "model.layers.3.self_attn.q_proj.weight",
            "model.norm.weight",
            "lm_head.weight",
        ];
        let said = said(config, "model.", &names).unwrap();
        assert!(said.contains("number 2 on (2 more"), "{said}");
        assert!(!said.contains("lm_head"), "{said}");
    }

    #[test]
    fn tensors_that_the_network_has_no_place_for_are_named() {
        let config = json!({"model_type": "qwen3", "num_hidden_layers": 1});
        let names = [
            "embed_tokens.weight",
            "layers.0.self_attn.q_proj.weight",
            "layers.0.self_attn.q_proj.bias",
            "norm.weight",
            "linear.weight",
        ];
        let found = said(config, "", &names).unwrap();
        assert_eq!(found, "layers.0.self_attn.q_proj.bias, linear.weight");
    }

    #[test]
    fn parts_of_one_type_are_news_in_another() {
        for (config, name) in [
            (json!({"model_type": "eurobert"}), "dense.weight"),
            (
                json!({"model_type": "luke"}),
                "entity_embeddings.LayerNorm.weight",
            ),
            (
                json!({"model_type": "deberta-v2", "relative_attention": true, "norm_rel_ebd": "layer_norm"}),
                "encoder.LayerNorm.weight",
            ),
            (
                json!({"model_type": "deberta", "relative_attention": true}),
                "encoder.rel_embeddings.weight",
            ),
        ] {
            assert_eq!(said(config, "", &[name]), None, "{name}");
            let bert = said(json!({"model_type": "bert"}), "", &[name]);
            assert_eq!(bert.as_deref(), Some(name));
        }
        // Without relative positions their table has no place.
        let absolute = json!({"model_type": "deberta-v2"});
        assert!(said(absolute, "", &["encoder.rel_embeddings.weight"]).is_some());
    }

    #[test]
    fn what_checkpoints_usually_have_beside_a_network_is_no_news() {
        let config = json!({"model_type": "bert", "num_hidden_layers": 1});
        let names = [
            "bert.embeddings.word_embeddings.weight",
            "bert.embeddings.position_ids",
            "bert.embeddings.LayerNorm.gamma",
            "bert.encoder.layer.0.attention.self.query.bias",
            "bert.encoder.layer.0.output.LayerNorm.beta",
            "bert.pooler.dense.weight",
            "cls.predictions.decoder.weight",
        ];
        assert_eq!(said(config, "bert.", &names), None);
    }
}
