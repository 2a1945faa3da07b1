//! Rotary settings.

use super::tests::{read, refusal};
use super::*;

/// The types whose classes turn a head by the rules of transformers, and nothing else.
const TURNED_WHOLE: [&str; 19] = [
    "eurobert",
    "gemma",
    "gemma2",
    "gemma3_text",
    "granite",
    "gte",
    "jina_embeddings_v3",
    "lfm2",
    "llama",
    "ministral",
    "mistral",
    "mixtral",
    "modernbert",
    "modernbert-decoder",
    "nomic_bert",
    "olmo2",
    "qwen2",
    "qwen3",
    "smollm3",
];

#[test]
fn rotary_settings_that_no_default_reads_are_ignored_and_said() {
    let names = ["original_max_position_embeddings", "partial_rotary_factor"];
    let others = [
        "olmo",
        "starcoder2",
        "qwen3_moe",
        "qwen3_vl_text",
        "new",
        "neobert",
    ];
    for kind in TURNED_WHOLE.into_iter().chain(others) {
        let plain = read(json!({"model_type": kind})).unwrap();
        let config = json!({"model_type": kind, names[0]: 512, names[1]: 0.5});
        let all = read(config).unwrap();
        assert_eq!(all.ignored, names, "{kind}");
        assert_eq!(all.rotary, plain.rotary, "{kind}");
        // A part that is the whole says nothing.
        let all = read(json!({"model_type": kind, names[1]: 1.0})).unwrap();
        assert!(all.ignored.is_empty(), "{kind}");
    }
    let inner = json!({"rope_type": "default", names[0]: 512, names[1]: 0.5});
    let all = read(json!({"model_type": "qwen3", "rope_parameters": inner})).unwrap();
    assert_eq!(all.ignored, names);
    // Where the class reads the part, it acts.
    for kind in ["phi", "phi3", "qwen3_5_text"] {
        let half = read(json!({"model_type": kind, names[1]: 0.5})).unwrap();
        let whole = read(json!({"model_type": kind, names[1]: 1.0})).unwrap();
        let [half, whole] = [half, whole].map(|all| all.rotary[0].frequencies.len());
        assert_eq!(2 * half, whole, "{kind}");
    }
}

#[test]
fn the_trained_length_outside_rope_parameters_goes_before_theirs() {
    let name = "original_max_position_embeddings";
    for scaling in [
        json!({"rope_type": "yarn", "factor": 4.0}),
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}),
    ] {
        for kind in ["llama", "qwen3", "gte"] {
            let with = |inner: usize, outer: Option<usize>| {
                let mut config = json!({"model_type": kind, "rope_parameters": scaling});
                config["rope_parameters"][name] = json!(inner);
                if let Some(outer) = outer {
                    config[name] = json!(outer);
                }
                let all = read(config).unwrap();
                assert!(all.ignored.is_empty());
                all.rotary
            };
            assert_eq!(with(4096, Some(512)), with(512, None), "{kind}");
            assert_ne!(with(4096, None), with(512, None), "{kind}");
            // A part of a head is turned by these scalings, which the class cannot do.
            let config = json!({"model_type": kind, "rope_parameters": scaling, "partial_rotary_factor": 0.5});
            assert!(
                refusal(config).contains("\"partial_rotary_factor\""),
                "{kind}"
            );
        }
    }
    // For each type of layers the class takes the length from the parameters alone.
    let config = json!({
        "model_type": "gemma3_text", name: 512,
        "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}},
    });
    assert!(refusal(config).contains(name));
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
            json!({"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}),
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
fn an_older_scaling_that_the_class_overwrites_has_no_effect_and_is_noted() {
    let old = json!({"type": "linear", "factor": 4.0});
    for kind in ["modernbert", "modernbert-decoder", "gemma3_text"] {
        let plain = read(json!({"model_type": kind})).unwrap();
        let all = read(json!({"model_type": kind, "rope_scaling": old})).unwrap();
        assert_eq!(all.rotary, plain.rotary, "{kind}");
        let note = all.note_on_scaling().unwrap();
        assert!(note.contains("not stretched") && plain.note_on_scaling().is_none());
        // By its name of today, and where the parameters of each type of layers state no kind, it acts.
        let new = json!({"rope_type": "linear", "factor": 4.0});
        let named = read(json!({"model_type": kind, "rope_scaling": new})).unwrap();
        assert_ne!(named.rotary, plain.rotary, "{kind}");
        let given = json!({"full_attention": {}, "sliding_attention": {}});
        let config = json!({"model_type": kind, "rope_parameters": given, "rope_scaling": old});
        let given = read(config).unwrap();
        assert_eq!(given.rotary, named.rotary, "{kind}");
        assert!(named.note_on_scaling().is_none() && given.note_on_scaling().is_none());
    }
    // Elsewhere both names are read.
    let llama = |kind: &str| {
        let scaling = json!({kind: "linear", "factor": 4.0});
        read(json!({"model_type": "llama", "rope_scaling": scaling})).unwrap()
    };
    assert_eq!(llama("type"), llama("rope_type"));
}

#[test]
fn yarn_of_one_type_of_layers_does_not_hear_truncate() {
    let with = |truncate: Value| {
        let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "truncate": truncate});
        read(json!({"model_type": "gemma3_text", "rope_parameters": {"full_attention": yarn}}))
            .unwrap()
    };
    let (yes, no) = (with(json!(true)), with(json!(false)));
    assert_eq!(yes.rotary, no.rotary);
    assert!(yes.ignored.is_empty() && no.ignored == ["truncate"]);
}

#[test]
fn gpt_neox_reads_its_own_names_outside_of_rotary_parameters() {
    let read_with = |extra: Value| {
        let mut config = json!({"model_type": "gpt_neox"});
        let extra = extra.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(extra);
        read(config).unwrap()
    };
    let plain = read_with(json!({}));
    let unread = read_with(json!({"rope_theta": 100.0, "partial_rotary_factor": 0.5}));
    assert_eq!(unread.rotary, plain.rotary);
    assert_eq!(unread.ignored, ["rope_theta", "partial_rotary_factor"]);
    let own = read_with(json!({"rotary_emb_base": 100, "rotary_pct": 0.5}));
    let inner = json!({"rope_theta": 100.0, "partial_rotary_factor": 0.5});
    let inner = read_with(json!({"rope_parameters": inner}));
    assert_eq!(own.rotary, inner.rotary);
    assert_ne!(own.rotary, plain.rotary);
}

#[test]
fn qwen3_5_turns_a_whole_head_where_the_part_is_null() {
    let pairs = |config: Value| read(config).unwrap().rotary[0].frequencies.len();
    let quarter = pairs(json!({"model_type": "qwen3_5_text"}));
    let whole = pairs(json!({"model_type": "qwen3_5_text", "partial_rotary_factor": null}));
    assert_eq!(4 * quarter, whole);
}

#[test]
fn smollm3s_windows_are_those_of_its_layer_types() {
    let reaches = |types: Value, switched: bool| {
        let config = json!({
            "model_type": "smollm3", "num_hidden_layers": 4, "sliding_window": 8, "use_sliding_window": switched,
            "layer_types": types,
        });
        let layers = read(config).unwrap().layers;
        layers.iter().map(|layer| layer.reach).collect::<Vec<_>>()
    };
    let (full, sliding) = ("full_attention", "sliding_attention");
    for switched in [false, true] {
        let named = reaches(json!([sliding, full, full, sliding]), switched);
        assert_eq!(named, [Some(7), None, None, Some(7)]);
    }
    assert_eq!(reaches(Value::Null, false), [None; 4]);
    // Layers without positions.
    assert_eq!(reaches(Value::Null, true), [None, None, None, Some(7)]);
}
