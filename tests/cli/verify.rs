//! `embedctl verify-model`: vectors of the reference, and vectors that are not.

use std::fs;

use serde_json::Value;

use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};

const CASE: &str = "fixtures/parity/bert-cls";

fn verify(sandbox: &Sandbox, model: &str, arguments: &[&str]) -> Run {
    let mut command = sandbox.command(["verify-model"]);
    command.arg(in_repository(model).join("model"));
    command.args(["--provider", "rten"]).args(arguments);
    sandbox.finish(&mut command)
}

/// The reference's vectors with their texts beside them, as `reference.npy` and `reference.jsonl`.
fn reference() -> Sandbox {
    let sandbox = Sandbox::new();
    let case = in_repository(CASE);
    fs::copy(case.join("expected.npy"), sandbox.path("reference.npy")).unwrap();
    fs::copy(case.join("texts.jsonl"), sandbox.path("reference.jsonl")).unwrap();
    sandbox
}

#[test]
fn the_references_vectors_are_ours() {
    let sandbox = reference();
    let run = verify(&sandbox, CASE, &["--against", "reference.npy"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("least cosine 1.0000000"), "{run}");
    assert!(run.stdout.contains("its token ids: ["), "{run}");
    let run = verify(&sandbox, CASE, &["--against", "reference.npy", "--json"]);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["equal"], true, "{run}");
    let lines = fs::read_to_string(sandbox.path("reference.jsonl")).unwrap();
    assert_eq!(answer["compared"]["cosine"]["texts"], lines.lines().count());
}

#[test]
fn another_prompt_is_found_with_its_text() {
    let sandbox = reference();
    let run = verify(
        &sandbox,
        CASE,
        &["--against", "reference.npy", "--prompt", "query: "],
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("is below 0.9999"), "{run}");
    assert!(run.stdout.contains("least similar: text "), "{run}");
    // A looser bound can be asked for.
    let accepted = [
        "--against",
        "reference.npy",
        "--prompt",
        "query: ",
        "--min-cosine",
        "0",
    ];
    assert_eq!(verify(&sandbox, CASE, &accepted).code, Some(0));
}

#[test]
fn what_cannot_be_compared_says_why() {
    let sandbox = reference();
    sandbox.write("two.txt", "a\nb\n");
    sandbox.write("alone.npy", "");
    let refused = |arguments: &[&str], words: &str| {
        let run = verify(&sandbox, CASE, arguments);
        assert!(matches!(run.code, Some(1 | 2)), "{run}");
        assert!(run.stderr.contains(words), "{run}");
        assert_eq!(run.stdout, "");
    };
    refused(&["--against", "alone.npy"], "name the texts with --texts");
    refused(&["--against", "none.npy", "--texts", "two.txt"], "none.npy");
    refused(
        &["--against", "reference.npy", "--texts", "two.txt"],
        "there are fewer texts",
    );
    refused(
        &["--against", "reference.npy", "--dimensions", "8"],
        "but this model's have 8",
    );
    refused(
        &["--against", "reference.npy", "--dimensions", "8,16"],
        "--dimensions names several; compare one at a time (--dimensions 8)",
    );
}

/// An output of several widths has a column for each.
#[test]
fn one_of_several_widths_is_compared() {
    let sandbox = Sandbox::new();
    let model = in_repository(CASE).join("model");
    let model = model.display();
    sandbox.write("two.txt", "one\ntwo\n");
    for format in ["parquet", "arrow", "jsonl"] {
        let line = format!("embed two.txt -m {model} -p rten --dimensions 8,16 -o w.{format}");
        assert_eq!(sandbox.run(&line).code, Some(0));
        for width in [8, 16] {
            let line = format!(
                "verify-model {model} -p rten --against w.{format} --texts two.txt --dimensions {width}"
            );
            let run = sandbox.run(&line);
            assert_eq!(run.code, Some(0), "{run}");
            assert!(run.stdout.contains(&format!("{width} dimensions")), "{run}");
        }
        let line = format!("verify-model {model} -p rten --against w.{format} --texts two.txt");
        let run = sandbox.run(&line);
        assert_eq!(run.code, Some(1), "{run}");
        let words = [
            "holds vectors of 8 and 16 components",
            "compare one of them: --dimensions 8",
        ];
        assert!(
            words.iter().all(|words| run.stderr.contains(words)),
            "{run}"
        );
    }
}

/// Vectors that sentence-transformers has computed in bfloat16 (`fixtures/parity/bfloat16.py`).
#[test]
fn vectors_in_bfloat16_are_recognised() {
    for (case, passes) in [
        ("family-llama-lasttoken", false),
        ("family-modernbert", true),
    ] {
        for provider in ["native", "rten"] {
            let sandbox = Sandbox::new();
            let folder = in_repository("fixtures/parity").join(case);
            copy_folder(&folder.join("model"), &sandbox.path("model"));
            fs::copy(folder.join("bfloat16.npy"), sandbox.path("theirs.npy")).unwrap();
            fs::copy(folder.join("texts.jsonl"), sandbox.path("theirs.jsonl")).unwrap();
            let verify = |more: &str| {
                let line =
                    format!("verify-model ./model --against theirs.npy -p {provider} {more}");
                sandbox.run(&line)
            };
            let says = |run: &Run, passes: bool, words: &[&str]| {
                assert_eq!(run.code, Some(i32::from(!passes)), "{case}: {run}");
                for words in words {
                    assert!(run.stderr.contains(words), "{case}: {words}: {run}");
                }
                assert!(
                    !run.stderr.contains("compare the token ids"),
                    "{case}: {run}"
                );
            };
            let recipe = ["in bfloat16", r#"model_kwargs={"dtype": "float32"}"#];
            says(&verify(""), passes, &recipe);
            says(&verify("--min-cosine 0.999999"), false, &recipe);
            says(&verify("--min-cosine 0.9"), true, &recipe);
            // The files that ask for it are believed.
            let config = sandbox.path("model/config.json");
            let mut settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
            settings["dtype"] = "bfloat16".into();
            fs::write(&config, settings.to_string()).unwrap();
            let asked = "computes this model in bfloat16, by its own files";
            says(&verify(""), passes, &[asked]);
            settings["dtype"] = "float32".into();
            fs::write(&config, settings.to_string()).unwrap();
            let own = r#"{"model_args": {"dtype": "bfloat16"}}"#;
            sandbox.write("model/sentence_bert_config.json", own);
            says(&verify(""), passes, &[asked]);
            let answer: Value = serde_json::from_str(&verify("--json").stdout).unwrap();
            assert_eq!(answer["compared"]["rounding"], true, "{answer}");
        }
    }
}

#[test]
fn a_reference_with_nan_is_named_as_that() {
    let sandbox = reference();
    let mut bytes = fs::read(sandbox.path("reference.npy")).unwrap();
    for value in [f32::NAN, f32::INFINITY] {
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&value.to_le_bytes());
        sandbox.write("reference.npy", &bytes);
        let run = verify(&sandbox, CASE, &["--against", "reference.npy"]);
        assert_eq!(run.code, Some(1), "{run}");
        let lines = fs::read_to_string(sandbox.path("reference.jsonl")).unwrap();
        let last = format!("NaN or infinity in vector {}", lines.lines().count());
        assert!(run.stderr.contains(&last), "{run}");
        assert!(!run.stderr.contains("token ids"), "{run}");
    }
}

#[test]
fn a_matrix_column_by_column_says_how_to_save_it() {
    let sandbox = reference();
    let bytes = fs::read(sandbox.path("reference.npy")).unwrap();
    let place = bytes.windows(5).position(|word| word == b"False").unwrap();
    let turned = [&bytes[..place], b"True ", &bytes[place + 5..]].concat();
    sandbox.write("reference.npy", turned);
    let run = verify(&sandbox, CASE, &["--against", "reference.npy"]);
    let whole = "numpy.save(path, numpy.ascontiguousarray(array))";
    assert!(run.stderr.contains(whole), "{run}");
}
