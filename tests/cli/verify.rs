//! `embedctl verify-model`: vectors of the reference, and vectors that are not.

use std::fs;

use crate::sandbox::{Run, Sandbox, in_repository};

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
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
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
    // Whoever finds that good enough can say so.
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
        "and this model's have 8",
    );
}
