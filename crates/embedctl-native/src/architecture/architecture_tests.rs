use std::collections::BTreeSet;

use super::*;
use crate::config_keys;

fn read(value: Value) -> Result<Architecture, Unsupported> {
    Architecture::parse("config.json".into(), value)
}

fn refusal(value: Value) -> String {
    read(value).expect_err("this should be refused").to_string()
}

#[test]
fn a_setting_that_is_not_understood_is_refused_by_its_name() {
    for (setting, value) in [
        ("model_type", json!("perceiver")),
        ("hidden_act", json!("xielu")),
        ("position_embedding_type", json!("relative_key")),
        ("add_cross_attention", json!(true)),
        ("is_encoder_decoder", json!(true)),
        ("quantization_config", json!({"bits": 4})),
        ("per_layer_config", json!({"0": {"hidden_size": 8}})),
        ("num_attention_heads", json!(-3)),
        ("hidden_size", json!("many")),
        ("layer_norm_eps", json!(0)),
    ] {
        let mut config = json!({"model_type": "bert", "hidden_size": 32, "num_attention_heads": 4});
        config[setting] = value;
        let refused = refusal(config);
        assert!(refused.contains(&format!("\"{setting}\"")), "{refused}");
    }
}

/// The `model_type`s of the cases, which are all that the engine knows.
fn types() -> BTreeSet<String> {
    let cases = std::fs::read_dir("../../fixtures/architectures").unwrap();
    let configs =
        cases.filter_map(|case| std::fs::read(case.unwrap().path().join("config.json")).ok());
    let types = configs.map(|config| {
        let config: Value = serde_json::from_slice(&config).unwrap();
        config["model_type"].as_str().unwrap().to_owned()
    });
    types.collect()
}

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
fn a_network_that_looks_both_ways_by_its_own_code_does_so() {
    for kind in ["qwen3", "mistral", "llama", "qwen2"] {
        let config = json!({"model_type": kind, "use_bidirectional_attention": true, "num_hidden_layers": 2});
        let both = read(config).unwrap();
        assert!(
            both.own_code && both.layers.iter().all(|layer| !layer.causal),
            "{kind}"
        );
        let config = json!({"model_type": kind, "use_bidirectional_attention": false, "num_hidden_layers": 2});
        let causal = read(config).unwrap();
        assert!(
            !causal.own_code && causal.layers.iter().all(|layer| layer.causal),
            "{kind}"
        );
    }
}

#[test]
fn a_switch_that_the_reference_obeys_in_some_batches_alone_is_refused_with_what_helps() {
    let gemma = json!({"model_type": "gemma", "use_bidirectional_attention": true});
    let refused = refusal(gemma.clone());
    assert!(refused.contains("\"is_causal\": false"), "{refused}");
    let mut both_ways = gemma;
    both_ways["is_causal"] = json!(false);
    let both_ways = read(both_ways).unwrap();
    assert!(!both_ways.own_code && both_ways.layers.iter().all(|layer| !layer.causal));
    let refused = refusal(json!({"model_type": "clip_text_model", "is_causal": false}));
    assert!(refused.contains("remove the setting"), "{refused}");
}

#[test]
fn a_switch_without_effect_in_the_reference_has_none_here() {
    let name = "use_bidirectional_attention";
    let gemma2 = read(json!({"model_type": "gemma2", name: true})).unwrap();
    assert!(gemma2.layers.iter().all(|layer| layer.causal));
    assert_eq!(gemma2.ignored, [name]);
    let both_ways = read(json!({"model_type": "gemma2", name: true, "is_causal": false})).unwrap();
    assert!(both_ways.layers.iter().all(|layer| !layer.causal) && both_ways.ignored.is_empty());
}

#[test]
fn decoders_of_encoders_classes_look_back_unless_their_mask_is_told_not_to() {
    for kind in ["bert", "roformer", "big_bird", "xlm-roberta-xl"] {
        let config = json!({"model_type": kind, "is_decoder": true});
        let all = read(config.clone()).unwrap();
        assert!(all.layers.iter().all(|layer| layer.causal), "{kind}");
        let mut both_ways = config;
        both_ways["is_causal"] = json!(false);
        let all = read(both_ways).unwrap();
        assert!(all.layers.iter().all(|layer| !layer.causal), "{kind}");
    }
}

#[test]
fn qwen3_5s_layers_are_those_that_its_settings_name() {
    let mixers = |config: Value| -> Vec<bool> {
        let mut config = config;
        config["model_type"] = json!("qwen3_5_text");
        let layers = read(config).unwrap().layers;
        let ruled = layers.iter().map(|layer| layer.mixer == Mixer::DeltaRule);
        ruled.collect()
    };
    let few = |extra: Value| {
        let mut config = json!({"num_hidden_layers": 4});
        if let Some(extra) = extra.as_object() {
            config.as_object_mut().unwrap().extend(extra.clone());
        }
        mixers(config)
    };
    assert_eq!(few(json!({})), [true, true, true, false]);
    assert_eq!(
        few(json!({"full_attention_interval": 2})),
        [true, false, true, false]
    );
    let types = json!([
        "full_attention",
        "linear_attention",
        "full_attention",
        "full_attention"
    ]);
    assert_eq!(
        few(json!({"layer_types": types, "full_attention_interval": 2})),
        [false, true, false, false]
    );
    for (name, value) in [
        ("layer_types", json!(["sliding_attention"])),
        ("linear_num_value_heads", json!(7)),
        ("linear_key_head_dim", json!(100_000)),
    ] {
        let mut config = json!({"model_type": "qwen3_5_text", "num_hidden_layers": 1});
        config[name] = value;
        let refused = refusal(config);
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn what_the_class_reads_is_never_ignored() {
    for kind in types() {
        for name in config_keys::of(&kind) {
            let mut config = json!({"model_type": kind});
            // A value that no setting can have.
            config[name] = json!({"odd": [-1]});
            if let Ok(all) = read(config) {
                assert!(all.ignored.is_empty(), "{kind}: {name}");
            }
        }
    }
}

#[test]
fn a_type_that_is_not_known_is_refused_with_all_that_are() {
    for kind in known_types() {
        let said = read(json!({"model_type": kind}))
            .err()
            .map(|it| it.to_string());
        assert!(
            !said.is_some_and(|said| said.contains("not one that")),
            "{kind}"
        );
    }
    assert!(
        types()
            .iter()
            .all(|kind| known_types().contains(&kind.as_str()))
    );
    for config in [json!({"model_type": "unheard-of"}), json!({})] {
        let refused = refusal(config);
        assert!(refused.contains("\"model_type\""), "{refused}");
        assert!(
            known_types().iter().all(|kind| refused.contains(kind)),
            "{refused}"
        );
    }
}

#[test]
fn a_rotary_setting_that_is_not_understood_is_refused_by_its_name() {
    let qwen = |rope: Value| json!({"model_type": "qwen3", "rope_parameters": rope});
    for (name, rope) in [
        ("rope_type", json!({"rope_type": "proportional"})),
        ("short_factor", json!({"rope_type": "longrope"})),
        ("type", json!({"type": "mystery", "factor": 2.0})),
        ("factor", json!({"rope_type": "linear"})),
        ("factor", json!({"rope_type": "linear", "factor": -1})),
        (
            "partial_rotary_factor",
            json!({"rope_type": "default", "partial_rotary_factor": 0.5}),
        ),
        (
            "mrope_section",
            json!({"rope_type": "default", "mrope_section": [1, 2]}),
        ),
    ] {
        let refused = refusal(qwen(rope));
        assert!(refused.contains(&format!("\"{name}\"")), "{refused}");
    }
    assert!(read(qwen(json!({"rope_type": "default", "rope_theta": 5000}))).is_ok());
}

#[test]
fn what_says_nothing_about_hidden_states_is_passed_over() {
    let config = json!({
        "model_type": "bert", "_name_or_path": "x", "architectures": ["BertForMaskedLM"], "torch_dtype": "float16",
        "transformers_version": "4.12.3", "gradient_checkpointing": true, "hidden_dropout_prob": 0.3, "use_cache": true,
        "id2label": {"0": "no"}, "classifier_dropout": 0.1, "pruned_heads": {}, "position_embedding_type": "absolute",
    });
    let all = read(config).unwrap();
    assert_eq!(
        (all.hidden, all.layers.len(), all.attention.heads),
        (768, 12, 12)
    );
}

#[test]
fn defaults_are_those_of_the_models_class() {
    let qwen3 = read(json!({"model_type": "qwen3"})).unwrap();
    assert_eq!(
        (
            qwen3.hidden,
            qwen3.attention.head_size,
            qwen3.attention.key_value_heads
        ),
        (4096, 128, 32)
    );
    // Mistral has a window unless its configuration says null.
    let mistral = read(json!({"model_type": "mistral"})).unwrap();
    assert_eq!(mistral.layers[0].reach, Some(4095));
    let mistral = read(json!({"model_type": "mistral", "sliding_window": null})).unwrap();
    assert_eq!(mistral.layers[0].reach, None);
    // EmbeddingGemma: half a window to each side.
    let gemma = read(json!({
        "model_type": "gemma3_text", "use_bidirectional_attention": true, "sliding_window": 512,
    }))
    .unwrap();
    assert_eq!(
        (gemma.layers[0].reach, gemma.layers[0].causal),
        (Some(256), false)
    );
    assert_eq!(gemma.layers[5].reach, None);
    let roberta = read(json!({"model_type": "xlm-roberta"})).unwrap();
    assert_eq!(roberta.embeddings.positions.unwrap().after, Some(1));
}

/// Settings as published models state them; nothing in them may be left over.
#[test]
fn published_configurations_are_understood() {
    let lines = std::fs::read_to_string("../../fixtures/architectures/published.jsonl").unwrap();
    for line in lines.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let read = read(line["config"].take());
        assert!(read.is_ok(), "{}: {}", line["model"], read.unwrap_err());
    }
}

#[test]
fn the_repositorys_own_code_is_told_from_transformers_class() {
    let own = |config: Value| read(config).unwrap().own_code;
    assert!(own(
        json!({"model_type": "bert", "position_embedding_type": "alibi"})
    ));
    assert!(own(json!({"model_type": "new"})));
    assert!(own(json!({"model_type": "nomic_bert", "num_experts": 8})));
    assert!(!own(json!({"model_type": "nomic_bert"})));
    assert!(!own(json!({"model_type": "bert"})));
}

#[test]
fn tasks_without_trained_adapters_are_refused_with_what_helps() {
    let own = |adapters: Value| {
        let mut own = json!({"model_type": "xlm-roberta", "position_embedding_type": "rotary"});
        own["lora_adaptations"] = json!(["a", "b"]);
        own["load_trained_adapters"] = adapters;
        own
    };
    let tasks = read(own(json!(true))).unwrap().tasks.unwrap();
    assert_eq!((tasks.names.len(), tasks.scale), (2, 0.25));
    let refused = refusal(own(json!(false)));
    assert!(refused.contains("remove lora_adaptations"), "{refused}");
    let mut twice = own(json!(true));
    twice["lora_adaptations"] = json!(["a", "a"]);
    assert!(refusal(twice).contains("lora_adaptations"));
}

#[test]
fn a_known_type_that_is_not_run_says_why() {
    for (model_type, reason) in refused::REFUSED {
        let refused = refusal(json!({"model_type": model_type}));
        assert!(
            refused.contains(reason) && refused.contains("ONNX export"),
            "{refused}"
        );
        let all = KNOWN.iter().copied().flatten();
        assert!(all.clone().all(|known| known.model_type != *model_type));
    }
}

/// `EMBEDCTL_UPDATE_DOCS=1` writes the table.
#[test]
fn the_table_of_the_documentation_is_that_of_the_code() {
    const FILE: &str = "../../docs/models.md";
    let text = std::fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once("<!-- table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let wanted = format!("{before}<!-- table -->\n{}<!-- end -->{after}", table());
    if std::env::var_os("EMBEDCTL_UPDATE_DOCS").is_some() {
        std::fs::write(FILE, wanted).unwrap();
    } else {
        assert!(
            text == wanted,
            "{FILE} is not up to date: run this test with EMBEDCTL_UPDATE_DOCS=1"
        );
    }
}

#[test]
fn nomics_own_settings_must_say_what_the_class_takes_for_granted() {
    let own = json!({
        "model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": 3072, "rotary_emb_base": 1000,
        "activation_function": "swiglu", "use_flash_attn": true, "vocab_size": 30528, "rotary_scaling_factor": null,
    });
    assert!(read(own.clone()).is_ok());
    let mut other = own;
    other["rotary_emb_base"] = json!(10000);
    assert!(refusal(other).contains("rotary_emb_base"));
}
