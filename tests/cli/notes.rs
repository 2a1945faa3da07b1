//! What a run says once at its end: choices that were made for the user, and what may surprise.

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};

fn embed(sandbox: &Sandbox, model: &str, line: &str) -> Run {
    let mut command = sandbox.embed_command(&format!("{line} -p rten"));
    sandbox.finish(command.arg("--model").arg(in_repository(model)))
}

fn notes(run: &Run) -> Vec<&str> {
    assert_eq!(run.code, Some(0), "{run}");
    let notes = run
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("note: "));
    notes
        .filter(|note| !note.contains("rten ran the model"))
        .collect()
}

#[test]
fn prompts_that_are_applied_or_not_are_told_once() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let with_default = "fixtures/parity/e5-prompts/model";
    let run = embed(&sandbox, with_default, "a.txt -o a.npy");
    assert_eq!(
        notes(&run),
        [
            "the model's default prompt document (\"passage: \") is put before every text; --prompt-name takes another, \
          --prompt '' none"
        ],
        "{run}"
    );
    for chosen in [
        "--prompt-name query",
        "--prompt-name document",
        "--task query",
    ] {
        let run = embed(
            &sandbox,
            with_default,
            &format!("a.txt -o a.npy --force {chosen}"),
        );
        assert!(
            !notes(&run).iter().any(|note| note.contains("prompt")),
            "{run}"
        );
    }
    let mut command = sandbox.embed_command("a.txt -o a.npy --force -p rten --prompt");
    let run = sandbox.finish(
        command
            .arg("")
            .arg("--model")
            .arg(in_repository(with_default)),
    );
    assert!(notes(&run).is_empty(), "{run}");
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
    let prompts = r#"{"prompts": {"query": "Instruct: Given a question, find what answers it\nQuery: ", "document": ""}}"#;
    sandbox.write("model/config_sentence_transformers.json", prompts);
    let run = sandbox.embed("a.txt -o b.npy --model ./model");
    assert_eq!(
        notes(&run),
        [
            "no prompt is put before the texts; --prompt-name takes one of the model's: query (\"Instruct: Given a \
          question, find what an…\")"
        ],
        "{run}"
    );
    // A model without prompts is no matter.
    let run = sandbox.embed("a.txt -o c.npy");
    assert!(notes(&run).is_empty(), "{run}");
}

#[test]
fn vectors_that_are_cut_and_not_scaled_again_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let run = sandbox.embed("a.txt -o a.npy --dimensions 16");
    assert_eq!(
        notes(&run),
        [
            "vectors of 16 components are the first of vectors of length 1, and shorter than that; --normalize true \
          scales them to length 1"
        ],
        "{run}"
    );
    for line in [
        "--dimensions 16 --normalize true",
        "--dimensions 16 --normalize false",
        "--dimensions 48",
    ] {
        let run = sandbox.embed(&format!("a.txt -o a.npy --force {line}"));
        assert!(notes(&run).is_empty(), "{line}: {run}");
    }
}

#[test]
fn ranges_of_few_vectors_are_told() {
    let sandbox = Sandbox::new();
    let texts = |count: usize| -> String { (0..count).map(|id| format!("text {id}\n")).collect() };
    sandbox.write("few.txt", texts(99));
    sandbox.write("enough.txt", texts(100));
    sandbox.embed("few.txt -o few.npy");
    sandbox.embed("enough.txt -o enough.parquet");
    let run = sandbox.embed("few.txt -o a.npy --dtype int8 --calibration few.npy");
    let [note] = notes(&run)[..] else {
        panic!("{run}")
    };
    assert!(
        note.starts_with("--calibration: the ranges of int8 come from 99 vectors"),
        "{run}"
    );
    let run = sandbox.embed("few.txt -o b.npy --dtype int8 --calibration enough.parquet");
    assert!(notes(&run).is_empty(), "{run}");
}

#[test]
fn vectors_of_zeros_are_told_with_the_first_place() {
    let sandbox = Sandbox::new();
    // A static model has no vector for words that it does not know, and none for an empty text.
    sandbox.write(
        "a.jsonl",
        "{\"text\": \"a dog\"}\n{\"text\": \"\"}\n{\"text\": \"\"}\n",
    );
    let mut command = sandbox.command(["embed", "a.jsonl", "-o", "a.npy", "--model"]);
    let run = sandbox.finish(command.arg(in_repository("fixtures/parity/static-normalized/model")));
    let found = notes(&run);
    assert!(
        found.contains(
            &"2 vectors are all zeros and have no cosine with any other (the first is a.jsonl:2)"
        ),
        "{run}"
    );
}

#[test]
fn an_input_without_records_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("empty.txt", "");
    let run = sandbox.embed("empty.txt -o a.parquet");
    assert_eq!(
        notes(&run),
        ["there is no record in empty.txt; the output has no rows"],
        "{run}"
    );
}

#[test]
fn a_model_of_another_command_names_that_command() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        "{\"id\": \"1\", \"text\": \"one\", \"query\": \"two\"}\n",
    );
    let classifier = "fixtures/scores/bert/model";
    let mut command = sandbox.command(["embed", "-p", "native", "-m"]);
    command
        .arg(in_repository(classifier))
        .args(["a.jsonl", "-o", "a.npy"]);
    let run = sandbox.finish(&mut command);
    let told = notes(&run);
    let has = |note: &&str| note.contains("`embedctl score` gives its");
    assert!(told.iter().any(has), "{run}");
    let mut command = sandbox.command(["score", "-p", "native", "-m"]);
    command
        .arg(in_repository(SMALL_MODEL))
        .args(["a.jsonl", "-o", "s.jsonl"]);
    let run = sandbox.finish(&mut command);
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("run it with `embedctl embed`"), "{run}");
}

#[test]
fn a_variable_that_is_no_setting_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\n");
    let mut command = sandbox.embed_command("a.txt -o a.npy");
    let run = sandbox.finish(command.env("EMBEDCTL_BATCH_SISE", "8"));
    assert_eq!(run.code, Some(0), "{run}");
    let told = "the environment variable EMBEDCTL_BATCH_SISE is not a setting";
    assert!(run.stderr.contains(told), "{run}");
    for (name, meant) in [
        ("EMBEDCTL_MODLE", "; did you mean EMBEDCTL_MODEL?\n"),
        ("EMBEDCTL_OFFLINE", "; the option is --offline\n"),
        ("EMBEDCTL_THREADS", "; the option is --threads\n"),
        ("EMBEDCTL_GPU", "\n"),
    ] {
        let mut command = sandbox.embed_command("a.txt -o a.npy --force");
        let run = sandbox.finish(command.env(name, "1"));
        let told = format!("{name} is not a setting{meant}");
        assert!(run.stderr.contains(&told), "{run}");
    }
}

#[test]
fn a_longer_input_is_embedded_by_reuse() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\nthree\n");
    let line = "a.txt -f jsonl --keep text --part-rows 2 -o old/";
    assert_eq!(sandbox.embed(line).code, Some(0));
    sandbox.write("a.txt", "one\ntwo\nthree\nfour\n");
    let run = sandbox.embed(&format!("{line} --resume"));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("`-o NEW/ --reuse old/`"), "{run}");
    // The remedy, to the letter.
    let run = sandbox.embed("a.txt -f jsonl --keep text --part-rows 2 -o NEW/ --reuse old/");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains("3 vectors copied from an earlier output"),
        "{run}"
    );
}
