//! Which way layers look.

use std::collections::BTreeSet;

use super::tests::{read, refusal, types};
use super::*;

/// The types of transformers' classes for which repositories have code of their own that obeys
/// `use_bidirectional_attention`; the documentation has the same.
const OBEYED_BY_OWN_CODE: [&str; 4] = ["qwen2", "qwen3", "mistral", "llama"];

#[test]
fn a_network_that_looks_both_ways_by_its_own_code_does_so() {
    for kind in OBEYED_BY_OWN_CODE {
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
fn a_direction_that_the_reference_does_not_read_is_noted() {
    let mut noted = BTreeSet::new();
    for kind in types() {
        let asked = read(json!({"model_type": kind, BOTH_WAYS: true}));
        let (Ok(plain), Ok(asked)) = (read(json!({"model_type": kind})), asked) else {
            continue; // no defaults, or refused with a remedy
        };
        assert_eq!(plain.note_on_direction(), None, "{kind}");
        // Attention looks both ways as the class has it, or a note says otherwise.
        let looks_back = asked.layers.iter().any(|layer| layer.causal);
        let by_own_code = asked.own_code && !plain.own_code;
        let is_noted = looks_back || by_own_code;
        assert_eq!(asked.note_on_direction().is_some(), is_noted, "{kind}");
        if looks_back {
            let unread = asked.ignored.iter().any(|name| name == BOTH_WAYS);
            assert!(unread && !asked.own_code, "{kind}");
            noted.insert(kind);
        } else if by_own_code {
            assert!(OBEYED_BY_OWN_CODE.contains(&&kind[..]), "{kind}");
        }
    }
    for kind in [
        "bloom",
        "gemma2",
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "granite",
        "lfm2",
        "ministral",
        "ministral3",
        "mixtral",
        "modernbert-decoder",
        "olmo",
        "olmo2",
        "opt",
        "phi",
        "phi3",
        "qwen3_5_text",
        "qwen3_moe",
        "smollm3",
        "starcoder2",
    ] {
        assert!(noted.remove(kind), "{kind}");
    }
    let rest: Vec<_> = noted.iter().collect();
    assert_eq!(
        rest,
        [
            "clip_text_model",
            "qwen2_5_vl_text",
            "qwen2_vl_text",
            "qwen3_vl_text"
        ]
    );
}

#[test]
fn the_documentation_names_the_types_whose_own_code_obeys() {
    let coverage = std::fs::read_to_string("../../docs/coverage.md").unwrap();
    let rows: Vec<&str> = coverage
        .lines()
        .filter(|line| line.contains("with `use_bidir"))
        .collect();
    let [row] = rows[..] else {
        panic!("{rows:?}");
    };
    let (types, _) = row.split_once(" with ").unwrap();
    let named: Vec<&str> = types.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, OBEYED_BY_OWN_CODE);
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

/// Types whose attention is never left without a mask.
const ALWAYS_MASKED: [&str; 7] = [
    "big_bird",
    "deberta",
    "deberta-v2",
    "longformer",
    "luke",
    "mpnet",
    "roformer",
];

#[test]
fn an_encoder_that_is_to_be_causal_is_refused_where_batches_differ() {
    let mut refused = 0;
    for kind in types() {
        let Ok(plain) = read(json!({"model_type": kind})) else {
            continue; // a type that has no defaults
        };
        if plain.own_code || plain.layers.iter().any(|layer| layer.causal) {
            continue;
        }
        for same in [json!(false), Value::Null] {
            let all = read(json!({"model_type": kind, "is_causal": same})).unwrap();
            assert_eq!(all, plain, "{kind}");
        }
        let asked = read(json!({"model_type": kind, "is_causal": true}));
        if ALWAYS_MASKED.contains(&&kind[..]) {
            assert_eq!(asked.unwrap().layers, plain.layers, "{kind}");
            continue;
        }
        let reason = asked.unwrap_err().reason;
        assert!(reason.contains("no one meaning"), "{kind}: {reason}");
        refused += 1;
    }
    assert!(refused >= 15, "{refused}");
    let decoder = json!({"model_type": "bert", "is_decoder": true, "is_causal": true});
    assert!(
        read(decoder)
            .unwrap()
            .layers
            .iter()
            .all(|layer| layer.causal)
    );
}

#[test]
fn null_is_no_direction_but_for_classes_that_always_mask() {
    for kind in types() {
        let with = |causal: Value| read(json!({"model_type": kind, "is_causal": causal}));
        let Ok(plain) = read(json!({"model_type": kind})) else {
            continue;
        };
        if !plain.layers.iter().any(|layer| layer.causal) || kind == "gpt_neo" {
            continue;
        }
        match &kind[..] {
            "gemma2" | "gptj" | "bloom" => {
                assert_eq!(with(Value::Null), with(json!(false)), "{kind}");
            }
            _ => {
                let reason = with(Value::Null).unwrap_err().reason;
                assert!(reason.contains("no one meaning"), "{kind}: {reason}");
            }
        }
    }
    for kind in ["roformer", "big_bird"] {
        let config = json!({"model_type": kind, "is_decoder": true, "is_causal": null});
        let all = read(config).unwrap();
        assert!(all.layers.iter().all(|layer| !layer.causal), "{kind}");
    }
    let decoder = json!({"model_type": "bert", "is_decoder": true, "is_causal": null});
    assert!(refusal(decoder).contains("no one meaning"));
}
