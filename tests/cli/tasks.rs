//! `--task` of models with adapters for tasks in their checkpoint: vectors, identities and refusals.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};
use crate::support::npy::{Matrix, apart};

/// A model in the form of jina-embeddings-v3.
const CASE: &str = "fixtures/parity/tasks-in-the-checkpoint";

const TASKS: [&str; 3] = ["retrieval.query", "retrieval.passage", "text-matching"];

fn case() -> PathBuf {
    in_repository(CASE)
}

/// Embeds the case's texts with the model in `model`.
fn embed(sandbox: &Sandbox, model: &Path, out: &str, more: &str) -> Run {
    let (model, texts) = (model.display(), case().join("texts.jsonl"));
    sandbox.run(&format!(
        "embed {} -m {model} -o {out} --threads 1 {more}",
        texts.display()
    ))
}

/// The largest difference of the vectors from those of a task, or of none.
fn from_reference(sandbox: &Sandbox, model: &Path, more: &str, of: &str) -> f32 {
    let run = embed(sandbox, model, "out.npy", &format!("--force {more}"));
    assert_eq!(run.code, Some(0), "{more}: {run}");
    let ours = Matrix::read(&sandbox.path("out.npy"));
    let expected = Matrix::read(&case().join(format!("expected-{of}.npy")));
    assert_eq!((ours.rows, ours.width), (expected.rows, expected.width));
    let rows = (0..ours.rows).map(|row| apart(ours.row(row), expected.row(row)));
    rows.fold(0.0, f32::max)
}

fn made(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_slice(&fs::read(sandbox.path(name)).unwrap()).unwrap()
}

fn copied(sandbox: &Sandbox) -> PathBuf {
    copy_folder(&case().join("model"), &sandbox.path("model"));
    sandbox.path("model")
}

fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

#[test]
fn every_task_equals_the_reference_on_the_native_engine_and_in_built_graphs() {
    let sandbox = Sandbox::new();
    let model = case().join("model");
    for provider in ["native", "rten"] {
        for task in TASKS {
            let more = format!("-p {provider} --task {task}");
            let worst = from_reference(&sandbox, &model, &more, task);
            assert!(worst <= 2e-5, "{provider} {task}: {worst}");
            assert_eq!(made(&sandbox, "out.npy.json")["task"], task);
        }
        let worst = from_reference(&sandbox, &model, &format!("-p {provider}"), "none");
        assert!(worst <= 2e-5, "{provider}: {worst}");
        assert_eq!(made(&sandbox, "out.npy.json").get("task"), None);
    }
    // A text of one's own in place of the prompt; the adapter stays.
    let worst = from_reference(
        &sandbox,
        &model,
        "--task text-matching --prompt x",
        "text-matching",
    );
    assert!(worst > 1e-3, "{worst}");
}

#[test]
fn prompts_of_tasks_come_from_config_json_where_no_other_file_has_them() {
    let sandbox = Sandbox::new();
    let model = copied(&sandbox);
    fs::remove_file(model.join("config_sentence_transformers.json")).unwrap();
    let task = TASKS[0];
    let worst = from_reference(&sandbox, &model, &format!("--task {task}"), task);
    assert!(worst <= 2e-5, "{worst}");
    edit(&model.join("config.json"), |config| {
        config["task_instructions"] = json!(null);
    });
    let worst = from_reference(&sandbox, &model, &format!("--task {task}"), task);
    assert!(worst > 1e-3, "{worst}");
}

#[test]
fn unknown_tasks_are_refused_with_those_that_there_are() {
    let sandbox = Sandbox::new();
    let model = case().join("model");
    for task in ["separation", "query", "document"] {
        let run = embed(&sandbox, &model, "out.npy", &format!("--task {task}"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(
            run.stderr
                .contains("retrieval.query, retrieval.passage, text-matching"),
            "{run}"
        );
    }
    let plain = in_repository("fixtures/parity/family-mpnet/model");
    let run = embed(&sandbox, &plain, "out.npy", "--task separation");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("--task query or --task document"),
        "{run}"
    );
    assert!(!sandbox.path("out.npy").exists());
    // As ever.
    let run = embed(&sandbox, &plain, "out.npy", "--task query");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn vectors_of_one_task_are_not_continued_or_reused_for_another() {
    let sandbox = Sandbox::new();
    let model = copied(&sandbox);
    // Tasks that differ in nothing else.
    for file in ["config.json", "config_sentence_transformers.json"] {
        edit(&model.join(file), |value| {
            for key in ["prompts", "task_instructions"] {
                if let Some(prompts) = value.get_mut(key) {
                    *prompts = json!({"retrieval.query": "", "retrieval.passage": "", "text-matching": ""});
                }
            }
        });
    }
    let run = embed(
        &sandbox,
        &model,
        "out/",
        "-f jsonl --keep text --part-rows 9 --task retrieval.query",
    );
    assert_eq!(run.code, Some(0), "{run}");
    for task in ["--task retrieval.passage", ""] {
        let more = format!("-f jsonl --keep text --part-rows 9 --resume {task}");
        let run = embed(&sandbox, &model, "out/", &more);
        assert_ne!(run.code, Some(0), "{task}: {run}");
        assert!(
            run.stderr.contains("task (\"retrieval.query\" then"),
            "{task}: {run}"
        );
        let more = format!("--keep text --reuse out/ {task}");
        let run = embed(&sandbox, &model, "other.jsonl", &more);
        assert_ne!(run.code, Some(0), "{task}: {run}");
        assert!(
            run.stderr.contains("task (\"retrieval.query\" then"),
            "{task}: {run}"
        );
    }
    let more = "--keep text --reuse out/ --task retrieval.query";
    let run = embed(&sandbox, &model, "other.jsonl", more);
    assert_eq!(run.code, Some(0), "{run}");
    // The same vectors again, by what the output says of itself.
    let run = sandbox.run("inspect other.jsonl --verify 5");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn info_lists_the_tasks_and_a_run_without_one_says_that_there_are_some() {
    let sandbox = Sandbox::new();
    let model = case().join("model");
    let run = sandbox.run(&format!("info {} --json", model.display()));
    assert_eq!(run.code, Some(0), "{run}");
    let info: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(info["tasks"], json!(TASKS));
    let run = sandbox.run(&format!("info {}", model.display()));
    assert!(
        run.stdout
            .contains("retrieval.query, retrieval.passage, text-matching"),
        "{run}"
    );
    let run = embed(&sandbox, &model, "out.npy", "");
    assert!(
        run.stderr.contains("none is applied unless --task"),
        "{run}"
    );
    let run = embed(&sandbox, &model, "out.npy", "--force --task text-matching");
    assert!(
        run.stderr
            .contains("adapter for the task text-matching is applied"),
        "{run}"
    );
    assert!(!run.stderr.contains("none is applied"), "{run}");
}

#[test]
fn an_exported_graph_has_the_adapter_and_no_onnx_file_runs_in_the_place_of_one() {
    let sandbox = Sandbox::new();
    let model = copied(&sandbox);
    let task = TASKS[1];
    let run = sandbox.run(&format!("export model model.onnx --task {task}"));
    assert_eq!(run.code, Some(0), "{run}");
    fs::create_dir(model.join("onnx")).unwrap();
    fs::rename(sandbox.path("model.onnx"), model.join("onnx/model.onnx")).unwrap();
    for more in ["--weights onnx", "--model-file onnx/model.onnx"] {
        let run = embed(
            &sandbox,
            &model,
            "out.npy",
            &format!("--task {task} {more}"),
        );
        assert_ne!(run.code, Some(0), "{more}: {run}");
        assert!(
            run.stderr.contains("an ONNX file would run without it"),
            "{more}: {run}"
        );
    }
    // The graph alone, with the task's prompt.
    let more = format!("-p rten --weights onnx --prompt-name {task}");
    let worst = from_reference(&sandbox, &model, &more, task);
    assert!(worst <= 2e-5, "{worst}");
}

#[test]
fn a_module_of_other_code_is_refused() {
    let sandbox = Sandbox::new();
    let model = copied(&sandbox);
    edit(&model.join("config.json"), |config| {
        let config = config.as_object_mut().unwrap();
        config.remove("lora_adaptations");
    });
    let run = embed(&sandbox, &model, "out.npy", "");
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("custom_st.Transformer"), "{run}");
}
