use std::collections::BTreeSet;

use super::*;

pub(super) fn read(value: Value) -> Result<Architecture, Unsupported> {
    Architecture::parse("config.json".into(), value)
}

pub(super) fn refusal(value: Value) -> String {
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
pub(super) fn types() -> BTreeSet<String> {
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
fn jinas_table_of_tokens_has_rows_for_a_multiple() {
    let config = json!({
        "model_type": "xlm-roberta", "position_embedding_type": "rotary", "vocab_size": 90, "pad_vocab_size_multiple": 8,
    });
    let rows = read(config).unwrap().embeddings.vocabulary;
    assert_eq!(rows, Some(96));
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

#[test]
fn t5s_activation_and_gate_are_those_that_stand_beside_their_name() {
    let of = |extra: Value| {
        let mut config = json!({"model_type": "t5"});
        config
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let read = read(config).unwrap().feed_forward;
        (read.gated, read.activation)
    };
    use embedctl_common::Activation::{Gelu, GeluTanh, Relu, Silu};
    let gated = "gated-gelu";
    assert_eq!(of(json!({})), (false, Relu));
    assert_eq!(of(json!({"feed_forward_proj": gated})), (true, GeluTanh));
    let own = json!({"feed_forward_proj": gated, "dense_act_fn": "gelu", "is_gated_act": false});
    assert_eq!(of(own), (false, Gelu));
    assert_eq!(
        of(json!({"dense_act_fn": "silu", "is_gated_act": true})),
        (true, Silu)
    );
    assert_eq!(
        of(json!({"feed_forward_proj": gated, "is_gated_act": null})),
        (false, GeluTanh)
    );
    assert!(refusal(json!({"model_type": "t5", "dense_act_fn": null})).contains("dense_act_fn"));
}

#[test]
fn small_differences_of_classes_are_those_of_the_reference() {
    use embedctl_common::Activation::{Gelu, GeluTanh};
    let mixtral = read(json!({"model_type": "mixtral"})).unwrap();
    assert_eq!(mixtral.norm.epsilon, 1e-5);
    for (name, own) in [
        ("gelu", GeluTanh),
        ("gelu_python", Gelu),
        ("gelu_new", GeluTanh),
    ] {
        let gemma = read(json!({"model_type": "gemma", "hidden_act": name})).unwrap();
        assert_eq!(gemma.feed_forward.activation, own, "{name}");
    }
    let biases = |exact: bool, parts: usize| {
        let config =
            json!({"model_type": "bloom", "slow_but_exact": exact, "pretraining_tp": parts});
        let all = read(config).unwrap();
        (
            all.attention.input_bias && all.feed_forward.up_bias,
            all.attention.output_bias,
            all.feed_forward.down_bias,
        )
    };
    assert_eq!(biases(true, 2), (true, false, false));
    for (exact, parts) in [(true, 1), (false, 2)] {
        assert_eq!(biases(exact, parts), (true, true, true));
    }
}

#[test]
fn general_names_of_settings_are_those_of_the_class() {
    for (kind, general, own, value) in [
        ("bloom", "num_attention_heads", "n_head", 4),
        ("gpt2", "hidden_size", "n_embd", 384),
        ("gpt2", "max_position_embeddings", "n_positions", 64),
        ("gptj", "num_hidden_layers", "n_layer", 2),
        ("gpt_neo", "num_attention_heads", "num_heads", 4),
        ("distilbert", "num_hidden_layers", "n_layers", 2),
        ("t5", "hidden_size", "d_model", 64),
        ("umt5", "head_dim", "d_kv", 16),
    ] {
        let by_own = read(json!({"model_type": kind, own: value})).unwrap();
        assert_ne!(by_own, read(json!({"model_type": kind})).unwrap(), "{kind}");
        let by_general = read(json!({"model_type": kind, general: value})).unwrap();
        assert_eq!(by_general, by_own, "{kind}");
        let both = json!({"model_type": kind, general: value, own: value});
        assert_eq!(read(both).unwrap(), by_own, "{kind}");
        let apart = json!({"model_type": kind, general: value, own: 2 * value});
        assert!(refusal(apart).contains(general), "{kind}");
    }
}
