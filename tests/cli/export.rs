//! `embedctl export`: the file is a valid ONNX model, and gives the reference's vectors in ONNX Runtime and here.

use std::fs;
use std::process::Command;

use crate::sandbox::{Sandbox, copy_folder, in_repository};
use crate::support;

/// Checks the file, runs it on padded rows on either side, and prints whether its vectors are those in `expected.npy`.
const CHECK: &str = r#"
import json, sys
import numpy as np, onnx, onnxruntime
path, texts, tokens = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
onnx.checker.check_model(path, full_check=True)
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
names = {one.name for one in session.get_inputs()}
longest = max(map(len, tokens))
def run(left):
    pad = lambda row, value: ([value] * (longest - len(row)) + row) if left else (row + [value] * (longest - len(row)))
    feeds = {
        "input_ids": np.array([pad(row, 1) for row in tokens], np.int64),
        "attention_mask": np.array([pad([1] * len(row), 0) for row in tokens], np.int64),
        "token_type_ids": np.zeros((len(tokens), longest), np.int64),
    }
    return session.run(["sentence_embedding"], {name: feeds[name] for name in names})[0]
expected = np.array(texts, np.float32)
print(json.dumps({"apart": float(np.abs(run(False) - expected).max())}))
"#;

/// Vectors of a run of ours, row after row.
fn vectors(sandbox: &Sandbox, model: &str, more: &str) -> Vec<Vec<f32>> {
    let run = sandbox.run(&format!(
        "embed texts.txt -m {model} -o out.jsonl --force --threads 1 --offline {more}"
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let lines = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let row = |line: &str| -> Vec<f32> {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(row["embedding"].clone()).unwrap()
    };
    lines.lines().map(row).collect()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "texts.txt",
        "one text\nanother, much longer text about it\nx\n",
    );
    sandbox
}

fn apart(one: &[Vec<f32>], other: &[Vec<f32>]) -> f32 {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    let worst = pairs.map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp);
    assert_eq!(one.len(), other.len());
    worst.unwrap()
}

const MODELS: [&str; 4] = [
    "fixtures/parity/family-modernbert/model",
    "fixtures/parity/family-qwen3/model",
    "fixtures/parity/family-mpnet/model",
    "fixtures/models/all-MiniLM-L6-v2",
];

#[test]
fn an_exported_file_gives_this_programs_vectors_here_token_states_or_pooled() {
    let sandbox = sandbox();
    for (index, model) in MODELS.into_iter().enumerate() {
        let expected = vectors(
            &sandbox,
            in_repository(model).to_str().unwrap(),
            "-p native",
        );
        for (more, modules) in [("", true), ("--pooled", false)] {
            let name = format!("copy{index}{modules}");
            copy_folder(&in_repository(model), &sandbox.path(&name));
            let _ = fs::remove_dir_all(sandbox.path(&format!("{name}/onnx")));
            let run = sandbox.run(&format!("export {name} {name}/model.onnx {more} --offline"));
            assert_eq!(run.code, Some(0), "{run}");
            fs::remove_file(sandbox.path(&format!("{name}/model.safetensors"))).unwrap();
            let ours = vectors(&sandbox, &name, "-p rten");
            let worst = apart(&ours, &expected);
            assert!(worst < 2e-5, "{model} {more}: {worst}");
        }
    }
}

#[test]
fn an_exported_file_is_valid_and_gives_this_programs_vectors_in_onnxruntime() {
    let test = "an_exported_file_is_valid_and_gives_this_programs_vectors_in_onnxruntime";
    let Some(python) = support::python(test, &["onnx", "onnxruntime", "numpy"]) else {
        return;
    };
    let sandbox = sandbox();
    for (index, model) in MODELS.into_iter().enumerate() {
        let folder = in_repository(model);
        let expected = vectors(&sandbox, folder.to_str().unwrap(), "-p native");
        let asked = serde_json::json!({"model": folder, "texts":
            fs::read_to_string(sandbox.path("texts.txt")).unwrap().lines().collect::<Vec<_>>()});
        let answer = sandbox.run_with_input(
            &mut sandbox.command(["__tokenize"]),
            format!("{asked}\n").as_bytes(),
        );
        let answer: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
        for (precision, most) in [("fp32", 2e-5), ("fp16", 2e-2)] {
            let out = format!("{index}{precision}.onnx");
            let run = sandbox.run(&format!(
                "export {} {out} --pooled --offline --precision {precision}",
                folder.display()
            ));
            assert_eq!(run.code, Some(0), "{run}");
            let output = Command::new(&python)
                .args(["-c", CHECK])
                .arg(sandbox.path(&out))
                .arg(serde_json::to_string(&expected).unwrap())
                .arg(answer["ids"].to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let failed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{model} {precision}: {failed}");
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            let apart = said["apart"].as_f64().unwrap();
            assert!(apart < most, "{model} {precision}: {apart}");
        }
    }
}

#[test]
fn a_refused_export_leaves_no_file() {
    let sandbox = sandbox();
    sandbox.write("there.onnx", "mine");
    let model = in_repository(MODELS[0]);
    let run = sandbox.run(&format!("export {} there.onnx", model.display()));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--force"), "{run}");
    assert_eq!(
        fs::read_to_string(sandbox.path("there.onnx")).unwrap(),
        "mine"
    );
    copy_folder(&model, &sandbox.path("cut"));
    let weights = sandbox.path("cut/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() - 100]).unwrap();
    let run = sandbox.run("export cut new.onnx");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("model.safetensors"), "{run}");
    assert!(!sandbox.path("new.onnx").exists());
    assert!(!sandbox.path("new.onnx_data").exists());
}
