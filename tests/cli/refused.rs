//! Models without weights that can be run here: why, and what helps.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};

/// A small model with both kinds of weights, as `model`.
fn model() -> Sandbox {
    let sandbox = Sandbox::new();
    let case = in_repository("fixtures/parity/bare-encoder/model");
    copy_folder(&case, &sandbox.path("model"));
    sandbox.write("in.txt", "some words\n");
    sandbox
}

fn set(sandbox: &Sandbox, key: &str, value: Value) {
    let file = sandbox.path("model/config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config[key] = value;
    fs::write(file, config.to_string()).unwrap();
}

fn without_onnx(sandbox: &Sandbox) {
    fs::remove_dir_all(sandbox.path("model/onnx")).unwrap();
}

fn says(sandbox: &Sandbox, provider: &str, words: &[&str], others: &[&str]) -> Run {
    let line = format!("embed in.txt -m ./model -o out.npy --force {provider}");
    let run = sandbox.run(&line);
    assert_eq!(run.code, Some(1), "{run}");
    for words in words {
        assert!(run.stderr.contains(words), "{words}: {run}");
    }
    for words in others.iter().chain(&["it config.json", "please report"]) {
        assert!(!run.stderr.contains(words), "{words}: {run}");
    }
    run
}

#[test]
fn weights_that_are_a_pickle_are_to_be_saved_as_safetensors() {
    let sandbox = model();
    without_onnx(&sandbox);
    let file = |name: &str| sandbox.path("model").join(name);
    fs::rename(file("model.safetensors"), file("pytorch_model.bin")).unwrap();
    let words = [
        "only pytorch_model.bin",
        "save_pretrained",
        "optimum-cli export",
    ];
    says(&sandbox, "", &words, &[]);
    says(&sandbox, "-p native", &words, &[]);
    // Saved anew, they could not be run either.
    set(&sandbox, "hidden_act", json!("xielu"));
    for provider in ["", "-p native"] {
        let words = ["\"hidden_act\": \"xielu\"", "optimum-cli export"];
        says(&sandbox, provider, &words, &["save_pretrained"]);
    }
}

/// An operator that OpenVINO lacks is named; its functions and source files are for those who ask for details.
#[test]
fn an_operator_that_a_provider_lacks_is_named() {
    let test = "an_operator_that_a_provider_lacks_is_named";
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let mut providers = list.split(',');
    let library = providers.find_map(|one| one.trim().strip_prefix("openvino:"));
    let Some(library) = library else {
        let _: Option<()> = crate::support::skip(test, "providers", "EMBEDCTL_TEST_PROVIDERS");
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "a\n");
    let model = in_repository("fixtures/parity/graph-opset-23-encoder/model");
    let line = format!("in.txt -o none.parquet --provider openvino --ort-lib {library} -m");
    for (more, is_told) in [("", false), ("-v", true)] {
        let arguments = format!("embed {line} {} {more}", model.display());
        let run = sandbox.run(&arguments);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr.contains("it lacks the operator `Attention`"),
            "{run}"
        );
        assert_eq!(run.stderr.contains("BasicBackend"), is_told, "{run}");
        let error = run.stderr.lines().find(|line| line.starts_with("error: "));
        assert!(error.is_some_and(|line| line.len() < 300), "{run}");
    }
}

#[test]
fn a_setting_that_is_not_supported_is_said_in_a_sentence() {
    let sandbox = model();
    set(&sandbox, "hidden_act", json!("xielu"));
    let reason = "it has settings that the native engine does not run (config.json: the setting \"hidden_act\": \"xielu\"";
    // The ONNX file is here.
    let other = "another provider runs its ONNX file, ./model/onnx/model.onnx";
    says(&sandbox, "-p native", &[reason, other], &[]);
    without_onnx(&sandbox);
    let words = [reason, "optimum-cli export", "onnx-community"];
    says(&sandbox, "", &words, &[]);
    says(&sandbox, "-p native", &words, &["another provider runs"]);
}

#[test]
fn a_type_that_is_not_known_names_those_that_are() {
    let sandbox = model();
    set(&sandbox, "model_type", json!("unheard-of"));
    let words = ["unheard-of", "modernbert", "qwen3", "xlm-roberta"];
    says(&sandbox, "-p native", &words, &[]);
    without_onnx(&sandbox);
    says(&sandbox, "", &words, &[]);
}

#[test]
fn settings_that_no_class_reads_are_named_with_details_alone() {
    let sandbox = model();
    let embed = |more: &str| {
        let run = sandbox.run(&format!("embed in.txt -m ./model -p native --force {more}"));
        assert_eq!(run.code, Some(0), "{run}");
        run.stderr
    };
    embed("-o plain.npy");
    set(&sandbox, "matryoshka_dimensions", json!([8, 4]));
    set(&sandbox, "pack_qkv", json!(true));
    assert!(!embed("-o other.npy").contains("matryoshka_dimensions"));
    let told = embed("-o other.npy -v");
    assert!(told.contains("matryoshka_dimensions, pack_qkv"), "{told}");
    let [plain, other] =
        ["plain.npy", "other.npy"].map(|name| fs::read(sandbox.path(name)).unwrap());
    assert!(plain == other);
}
