//! Settings that are ignored, and those that never are.

use super::tests::{read, refusal, types};
use super::*;
use crate::config_keys;

#[test]
fn what_no_class_reads_is_ignored_and_said() {
    let mut ignoring = 0;
    for kind in types() {
        let Ok(known) = read(json!({"model_type": kind})) else {
            continue; // a type that has no defaults
        };
        assert!(known.ignored.is_empty(), "{kind}");
        let config = json!({
            "model_type": kind, "invented_dimensions": [8, 4], "sandwich_norm": true, "invented_packing": "all",
            "unheard_of": {"a": 1}, "nothing": null, "off": false,
        });
        let own = KNOWN
            .iter()
            .copied()
            .flatten()
            .any(|it| it.model_type == kind && it.own_code);
        if own || !config_keys::lists(&kind) {
            assert!(
                refusal(config).contains("\"invented_dimensions\""),
                "{kind}"
            );
            continue;
        }
        let ignored = [
            "invented_dimensions",
            "sandwich_norm",
            "invented_packing",
            "unheard_of",
        ];
        assert_eq!(read(config).unwrap().ignored, ignored, "{kind}");
        ignoring += 1;
    }
    assert!(ignoring >= 20, "{ignoring}");
}

#[test]
fn keys_of_code_around_the_network_are_ignored() {
    for (kind, key) in [
        ("lfm2", "num_heads"),
        ("qwen3", "model_name"),
        ("bert", "embedding_dim"),
        ("bert", "projection_dim"),
        ("roberta", "hidden_dim"),
        ("bert", "embed_dim"),
        ("bert", "num_channels"),
        ("xlm-roberta", "num_features"),
        ("bert", "text"),
        ("llama", "token"),
        ("bert", "message"),
        ("qwen3", "base_model_name_or_path"),
        ("mistral", "first_k_dense_replace"),
        ("bert", "modality_config"),
        ("bert", "partial_rotary_factor"),
        ("bert", "original_max_position_embeddings"),
    ] {
        let read = read(json!({"model_type": kind, key: 3})).unwrap();
        assert_eq!(read.ignored, [key], "{kind}");
    }
}

#[test]
fn keys_of_parts_that_a_network_lacks_are_ignored() {
    let full = json!(["full_attention", "full_attention"]);
    for (kind, key, value, named) in [
        ("bert", "initializer_factor", json!(1.0), false),
        ("xlm-roberta", "init_std", json!(0.02), false),
        ("bert", "sliding_window", json!(4096), true),
        ("llama", "sliding_window", json!(4096), true),
        ("bloom", "sliding_window", json!(4096), false),
        ("distilbert", "rope_theta", json!(1e4), true),
        (
            "gpt2",
            "rope_scaling",
            json!({"type": "linear", "factor": 2.0}),
            true,
        ),
        ("modernbert", "rope_theta", json!(1e4), false),
        ("ministral3", "rope_theta", json!(1e4), false),
        ("bert", "layer_types", full.clone(), false),
        ("qwen3_5_text", "layer_types", full.clone(), false),
        ("llama", "layer_types", full, false),
        ("t5", "is_causal", json!(false), false),
        ("gemma3_text", "layer_norm_eps", json!(1e-6), false),
        ("qwen2_5_vl_text", "window_size", json!(112), false),
    ] {
        let two = if kind == "t5" {
            "num_layers"
        } else {
            "num_hidden_layers"
        };
        let mut config = json!({"model_type": kind, two: 2});
        let plain = read(config.clone());
        config[key] = value;
        let all = read(config).unwrap();
        assert_eq!(
            all.ignored,
            if named { vec![key] } else { vec![] },
            "{kind}"
        );
        if kind != "qwen3_5_text" {
            let plain = plain.unwrap();
            assert_eq!(
                (all.layers, all.rotary),
                (plain.layers, plain.rotary),
                "{kind}: {key}"
            );
        }
    }
    // What a class reads, and what older classes read.
    for (kind, key, value) in [
        ("modernbert", "sliding_window", json!(5)),
        (
            "llama",
            "layer_types",
            json!(["sliding_attention", "full_attention"]),
        ),
        ("bert", "position_embedding_type", json!("relative_key")),
    ] {
        let refused = refusal(json!({"model_type": kind, "num_hidden_layers": 2, key: value}));
        assert!(refused.contains(key), "{refused}");
    }
}

/// config.json of each kind of a repository's own code.
fn own_code() -> Vec<Value> {
    let jina = json!({"model_type": "xlm-roberta", "position_embedding_type": "rotary"});
    let nvembed = std::fs::read("../../fixtures/architectures/nvembed/config.json").unwrap();
    let mut all = vec![jina, serde_json::from_slice(&nvembed).unwrap()];
    for kind in [
        "bidirectional_pplx_qwen3",
        "new",
        "llama_bidirec",
        "neobert",
    ] {
        all.push(json!({"model_type": kind}));
    }
    all
}

#[test]
fn code_of_a_repositorys_own_reads_no_keys_of_code_around_it() {
    for config in own_code() {
        let plain = read(config.clone()).unwrap();
        assert!(plain.own_code && plain.ignored.is_empty(), "{config}");
        for key in [
            "model_name",
            "embedding_dim",
            "projection_dim",
            "hidden_dim",
            "embed_dim",
            "num_channels",
            "num_features",
            "text",
            "token",
            "message",
            "base_model_name_or_path",
            "first_k_dense_replace",
            "modality_config",
        ] {
            let mut config = config.clone();
            config[key] = json!(3);
            let all = read(config).unwrap();
            assert_eq!(all.ignored, [key], "{}", all.model_type);
        }
        let mut config = config;
        config["invented"] = json!(3);
        assert!(refusal(config).contains("\"invented\""));
    }
}

#[test]
fn what_the_class_reads_is_never_ignored() {
    for kind in types() {
        for name in config_keys::of(&kind).filter(|name| config_keys::reads(&kind, name)) {
            let mut config = json!({"model_type": kind});
            // A value that no setting can have.
            config[name] = json!({"odd": [-1]});
            if let Ok(all) = read(config) {
                assert!(all.ignored.is_empty(), "{kind}: {name}");
            }
        }
    }
}
