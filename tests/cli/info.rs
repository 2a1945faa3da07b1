//! `embedctl info`: the facts of a model, and the engine that would run it here.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, SMALL_MODEL, Sandbox, copy_folder, in_repository};

fn json(sandbox: &Sandbox, model: &str) -> Value {
    let run = sandbox.run(&format!("info {model} --json"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    serde_json::from_str(&run.stdout).unwrap()
}

fn model(name: &str) -> String {
    in_repository(name).display().to_string()
}

/// The providers that run a model, and why the others don't.
fn reason<'a>(info: &'a Value, provider: &str) -> &'a Value {
    let providers = info["providers"].as_array().unwrap();
    let fit = providers.iter().find(|fit| fit["provider"] == provider);
    let fit = fit.unwrap();
    assert_eq!(fit["runs"] == true, fit["reason"].is_null(), "{fit}");
    &fit["reason"]
}

#[test]
fn a_table_of_what_a_model_is() {
    let mut run = Sandbox::new().run(&format!(
        "info {}",
        model("fixtures/parity/e5-prompts/model")
    ));
    // The engine differs between machines.
    let (table, providers) = run.stdout.split_once("Runs here\n").unwrap();
    assert!(
        providers.contains("  native        no   the model has no model.safetensors\n"),
        "{run}"
    );
    assert!(
        providers.contains("  rten          yes  onnx/model.onnx"),
        "{run}"
    );
    run.stdout = table.to_owned();
    assert_snapshot!(run);
}

#[test]
fn the_weights_that_a_provider_takes_and_the_rule() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one text\n");
    let model = sandbox.path("model");
    copy_folder(&in_repository("fixtures/parity/family-qwen3/model"), &model);
    let table = || {
        let run = sandbox.run("info model");
        assert_eq!(run.code, Some(0), "{run}");
        let words: Vec<&str> = run.stdout.split_whitespace().collect();
        words.join(" ")
    };
    let rule = "weights: those that --model-file or --weights names; else native takes safetensors, GPUs a graph built from them";
    let (with, file) = (table(), "rten yes onnx/model.onnx");
    assert!(with.contains(rule) && with.contains(file), "{with}");
    fs::remove_dir_all(model.join("onnx")).unwrap();
    let (without, built) = (table(), "rten yes model.safetensors (as a built graph)");
    assert!(without.contains(built), "{without}");
    assert_eq!(
        json(&sandbox, "model")["providers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|fit| fit["provider"] == "rten" && fit["built"] == true)
            .count(),
        1
    );

    let run = sandbox.run("embed texts.txt -m model -o out.npy -p rten -v");
    let told = "graph built from the checkpoint in fp32\n";
    assert!(run.stderr.contains(told), "{run}");
}

#[test]
fn the_json_of_a_transformer() {
    let info = json(&Sandbox::new(), &model(REAL_MODEL));
    for (name, expected) in [
        ("schema", json!(1)),
        ("revision", json!(null)),
        ("architecture", json!("BertModel")),
        ("model_type", json!("bert")),
        // As torch counts them.
        ("parameters", json!(22_713_216)),
        ("dimensions", json!(384)),
        ("max_length", json!(256)),
        ("truncation_side", json!("right")),
        ("pooling", json!(["mean"])),
        ("modules", json!(["normalize"])),
        ("normalized", json!(true)),
        ("prompts", json!({})),
    ] {
        assert_eq!(info[name], expected, "{name}");
    }
    assert_eq!(info["tokenizer"]["class"], "BertTokenizer");
    assert_eq!(info["tokenizer"]["vocabulary"], 30_522);
    let files = info["files"].as_array().unwrap();
    let precision = |path: &str| {
        let file = files.iter().find(|file| file["path"] == path).unwrap();
        let size = fs::metadata(in_repository(REAL_MODEL).join(path))
            .unwrap()
            .len();
        assert_eq!(file["size"], size);
        file["precision"].clone()
    };
    assert_eq!(precision("model.safetensors"), json!(["f16", "i64"]));
    assert_eq!(precision("onnx/model.onnx"), json!(["fp32"]));
    assert_eq!(precision("tokenizer.json"), json!([]));
    assert_eq!(info["provider"], "native");
    assert!(reason(&info, "native").is_null() && reason(&info, "rten").is_null());
}

#[test]
fn a_static_model_and_one_with_later_modules() {
    let sandbox = Sandbox::new();
    let info = json(&sandbox, &model("fixtures/parity/model2vec-half/model"));
    assert_eq!(info["model_type"], "model2vec");
    assert_eq!(info["tokenizer"]["class"], Value::Null);
    assert!(
        reason(&info, "rten")
            .as_str()
            .unwrap()
            .contains("static model")
    );
    let info = json(&sandbox, &model("fixtures/parity/dense-two-layers/model"));
    assert_eq!(info["pooling"], json!(["mean", "max"]));
    assert_eq!(info["modules"], json!(["dense 48 → 36", "dense 36 → 20"]));
    assert_eq!(
        (&info["dimensions"], &info["hidden_width"]),
        (&json!(20), &json!(24))
    );
}

#[test]
fn a_model_of_the_cache_and_one_that_is_not_there() {
    let sandbox = Sandbox::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let place = sandbox.path(".cache/huggingface/hub/models--org--name");
    copy_folder(
        &in_repository(SMALL_MODEL),
        &place.join("snapshots").join(commit),
    );
    fs::create_dir(place.join("refs")).unwrap();
    fs::write(place.join("refs/main"), commit).unwrap();
    let info = json(&sandbox, "org/name");
    assert_eq!(
        (&info["id"], &info["revision"]),
        (&json!("org/name"), &json!(commit))
    );
    assert_eq!(info["dimensions"], 48);

    let run = sandbox.run("info org/other");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("`embedctl download org/other`"),
        "{run}"
    );
}

/// The lines of a table about the kind of a model's numbers, in one line each.
fn lines_of_kinds(name: &str) -> Vec<String> {
    let run = Sandbox::new().run(&format!(
        "info {}",
        model(&format!("fixtures/{name}/model"))
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let (table, _) = run.stdout.split_once("\nFiles\n").unwrap();
    let mut lines: Vec<String> = Vec::new();
    for line in table.lines() {
        match (line.starts_with("   "), lines.last_mut()) {
            (true, Some(last)) => *last = format!("{last} {}", line.trim()),
            _ => lines.push(line.trim().to_owned()),
        }
    }
    let words = ["kind ", "other kinds ", "dimensions "];
    lines.retain(|line| words.iter().any(|word| line.starts_with(word)));
    let single = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.into_iter().map(single).collect()
}

#[test]
fn a_model_of_another_kind_names_it_and_its_columns() {
    for (name, kind, dimensions) in [
        (
            "scores/bert",
            "kind scores (`embedctl score`); columns: score",
            "dimensions 1 (hidden states 32)",
        ),
        (
            "scores/bert-three-labels",
            "kind scores (`embedctl score`); columns: scores of no, maybe, yes, label",
            "dimensions 3 (hidden states 32)",
        ),
        (
            "sparse/distilbert",
            "kind sparse vectors; column: embedding (indices and values)",
            "dimensions 320 (hidden states 16)",
        ),
        (
            "multi/bert-document",
            "kind a vector for each token (late interaction); column: embedding (a list of vectors)",
            "dimensions 8 (hidden states 16)",
        ),
        (
            "heads/bert",
            "other kinds --vectors sparse, --vectors multi",
            "dimensions 32",
        ),
    ] {
        assert_eq!(lines_of_kinds(name), [kind, dimensions], "{name}");
    }
}

#[test]
fn the_json_of_models_of_other_kinds() {
    let keys = [
        "labels",
        "sparse",
        "multi",
        "other_kinds",
        "max_active_dims",
    ];
    for (name, expected) in [
        (
            "scores/bert-three-labels",
            json!({"labels": ["no", "maybe", "yes"]}),
        ),
        ("sparse/distilbert", json!({"sparse": true})),
        (
            "sparse/max-active-dims-of-the-model",
            json!({"sparse": true, "max_active_dims": 9}),
        ),
        ("multi/bert-document", json!({"multi": true})),
        ("heads/bert", json!({"other_kinds": ["sparse", "multi"]})),
    ] {
        let info = json(&Sandbox::new(), &model(&format!("fixtures/{name}/model")));
        let own = keys
            .iter()
            .filter_map(|key| Some((*key, info.get(key)?.clone())));
        let own: serde_json::Map<String, Value> =
            own.map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(Value::Object(own), expected, "{name}");
    }
}

#[test]
fn widths_that_a_model_was_trained_for_are_shown() {
    let sandbox = Sandbox::new();
    let model = sandbox.path("model");
    copy_folder(&in_repository("fixtures/parity/family-qwen3/model"), &model);
    assert!(!sandbox.run("info model").stdout.contains("trained for"));
    let loss = "```json\n{\n    \"matryoshka_dims\": [\n        16,\n        8\n    ]\n}\n```\n";
    sandbox.write("model/README.md", loss);
    let run = sandbox.run("info model");
    assert_eq!(run.code, Some(0), "{run}");
    let words: Vec<&str> = run.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("trained for 8, 16, by the model's files"),
        "{run}"
    );
}
