//! `embedctl export`: the file is a valid ONNX model, and gives the reference's vectors in ONNX Runtime and here.

use std::fs;
use std::path::Path;
use std::process::Command;

use embedctl::built::{self, ExportForm};
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, FloatType, Resolved};
use embedctl::error::ErrorKind;
use embedctl::model::{Model, ModelOptions};
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, copy_folder, in_repository};
use crate::support;

/// Checks the file and where its weights lie, runs it on rows padded on the right, and prints its vectors. ONNX Runtime's
/// processor provider has no kernels for bfloat16, so the package's own evaluator runs that.
const CHECK: &str = r#"
import json, sys
import numpy as np, onnx, onnxruntime
from onnx.reference import ReferenceEvaluator
path, feeds, runs = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
onnx.checker.check_model(path, full_check=True)
graph = onnx.load(path, load_external_data=False).graph
outside = [{one.key: one.value for one in tensor.external_data} for tensor in graph.initializer if tensor.data_location]
places = [[one["location"], int(one["offset"]), int(one["length"])] for one in outside]
feeds = {one.name: np.array(feeds[one.name], np.int64) for one in graph.input}
if runs == "reference":
    vectors, = ReferenceEvaluator(onnx.load(path)).run(["sentence_embedding"], feeds)
else:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    vectors, = session.run(["sentence_embedding"], feeds)
print(json.dumps({"vectors": vectors.astype(float).tolist(), "places": places}))
"#;

/// The answer of [`CHECK`].
#[derive(serde::Deserialize)]
struct Checked {
    vectors: Vec<Vec<f32>>,
    /// File, beginning and length of each weight that lies beside the graph.
    places: Vec<(String, u64, u64)>,
}

fn check(python: &Path, file: &Path, feeds: &Value, runs: &str) -> Checked {
    let output = Command::new(python)
        .args(["-c", CHECK])
        .arg(file)
        .arg(feeds.to_string())
        .arg(runs)
        .output()
        .unwrap();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {failed}", file.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The inputs of a graph for the texts of [`sandbox`], rows padded on the right.
fn feeds(sandbox: &Sandbox, model: &Path) -> Value {
    let texts = fs::read_to_string(sandbox.path("texts.txt")).unwrap();
    let asked = json!({"model": model, "texts": texts.lines().collect::<Vec<_>>()});
    let mut tokenize = sandbox.command(["__tokenize"]);
    let answer = sandbox.run_with_input(&mut tokenize, format!("{asked}\n").as_bytes());
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let rows: Vec<Vec<i64>> = serde_json::from_value(answer["ids"].clone()).unwrap();
    let longest = rows.iter().map(Vec::len).max().unwrap();
    let padded = |value: &dyn Fn(Option<&i64>) -> i64| -> Vec<Vec<i64>> {
        let row = |row: &Vec<i64>| (0..longest).map(|place| value(row.get(place))).collect();
        rows.iter().map(row).collect()
    };
    json!({
        "input_ids": padded(&|id| *id.unwrap_or(&1)),
        "attention_mask": padded(&|id| i64::from(id.is_some())),
        "token_type_ids": padded(&|_| 0),
    })
}

/// Vectors of a run of ours, row after row.
fn vectors(sandbox: &Sandbox, model: &str, more: &str) -> Vec<Vec<f32>> {
    let line =
        format!("embed texts.txt -m {model} -o out.jsonl --force --threads 1 --offline {more}");
    let mut command = sandbox.command(line.split_whitespace());
    // With AVX-512, OpenVINO 2025.4 crashes where heads are as narrow as in these models.
    command.env("ONEDNN_MAX_CPU_ISA", "AVX2");
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(0), "{run}");
    let lines = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let row = |line: &str| -> Vec<f32> {
        let row: Value = serde_json::from_str(line).unwrap();
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
    each_pooled_export(|out, feeds| {
        let checked = check(&python, out, feeds, "onnxruntime");
        assert!(checked.places.is_empty());
        checked.vectors
    });
}

/// Exports every model with its pooling in fp32 and fp16; `run` gives the vectors of a file for these inputs.
fn each_pooled_export(run: impl Fn(&Path, &Value) -> Vec<Vec<f32>>) {
    let sandbox = sandbox();
    for (index, model) in MODELS.into_iter().enumerate() {
        let folder = in_repository(model);
        let expected = vectors(&sandbox, folder.to_str().unwrap(), "-p native");
        let feeds = feeds(&sandbox, &folder);
        for (precision, most) in [("fp32", 2e-5), ("fp16", 2e-2)] {
            let out = format!("{index}{precision}.onnx");
            let done = sandbox.run(&format!(
                "export {} {out} --pooled --offline --precision {precision}",
                folder.display()
            ));
            assert_eq!(done.code, Some(0), "{done}");
            let worst = apart(&run(&sandbox.path(&out), &feeds), &expected);
            assert!(worst < most, "{model} {precision}: {worst}");
        }
    }
}

/// The checkpoint in `folder`, as `embedctl export` opens it.
fn checkpoint(folder: &Path) -> Model {
    let options = ModelOptions {
        model: folder.to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "native".parse().unwrap(),
        ..EngineOptions::default()
    };
    Resolved::of(&options, &engine, engine::installed(), &CancelToken::new())
        .unwrap()
        .open_files()
        .unwrap()
}

/// Finished vectors from a graph whose weights lie in a file of their own.
fn beside(float: FloatType) -> ExportForm {
    ExportForm {
        float,
        pooled: true,
        replace: false,
        beside: Some(0),
    }
}

#[test]
fn weights_in_a_file_of_their_own_are_aligned_and_give_the_same_vectors() {
    let test = "weights_in_a_file_of_their_own_are_aligned_and_give_the_same_vectors";
    let Some(python) = support::python(test, &["onnx", "onnxruntime", "numpy"]) else {
        return;
    };
    let sandbox = sandbox();
    for model in &MODELS[..3] {
        let folder = in_repository(model);
        let expected = vectors(&sandbox, folder.to_str().unwrap(), "-p native");
        let feeds = feeds(&sandbox, &folder);
        for (float, most, runs) in [
            (FloatType::F32, 2e-5, "onnxruntime"),
            (FloatType::F16, 2e-2, "onnxruntime"),
            (FloatType::Bf16, 1e-1, "reference"),
        ] {
            let name = format!(
                "{}-{float}.onnx",
                folder.parent().unwrap().file_name().unwrap().display()
            );
            let path = sandbox.path(&name);
            let cancel = CancelToken::new();
            let written = built::export(&checkpoint(&folder), beside(float), &path, &cancel);
            let data = format!("{name}_data");
            assert_eq!(written.unwrap().beside, Some(sandbox.path(&data)));
            let checked = check(&python, &path, &feeds, runs);
            let apart = apart(&checked.vectors, &expected);
            assert!(apart < most, "{model} {float}: {apart}");
            let mut end = 0;
            for (file, start, length) in &checked.places {
                assert_eq!(file, &data);
                assert!(*start >= end && start.is_multiple_of(4096), "{start}");
                end = start + length;
            }
            assert!(checked.places.len() > 5);
            assert_eq!(fs::metadata(sandbox.path(&data)).unwrap().len(), end);
        }
    }
}

#[test]
fn an_interrupted_export_leaves_neither_graph_nor_weights() {
    let sandbox = Sandbox::new();
    copy_folder(&in_repository(MODELS[2]), &sandbox.path("model"));
    let model = checkpoint(&sandbox.path("model"));
    let path = sandbox.path("new.onnx");
    let cancel = CancelToken::new();
    cancel.cancel();
    let error = built::export(&model, beside(FloatType::F32), &path, &cancel).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(sandbox.files(), ["model"]);

    // A number of the last product, which half precision does not hold: other weights are written before it.
    let weights = sandbox.path("model/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let start = 8 + usize::try_from(length).unwrap();
    let header: Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let place = &header["encoder.layer.1.output.dense.weight"]["data_offsets"][0];
    let place = start + usize::try_from(place.as_u64().unwrap()).unwrap();
    bytes[place..place + 4].copy_from_slice(&70_000.0_f32.to_le_bytes());
    fs::write(&weights, bytes).unwrap();
    let model = checkpoint(&sandbox.path("model"));
    let cancel = CancelToken::new();
    let error = built::export(&model, beside(FloatType::F16), &path, &cancel).unwrap_err();
    assert!(error.to_string().contains("70000"), "{error}");
    assert_eq!(sandbox.files(), ["model"]);
    built::export(&model, beside(FloatType::Bf16), &path, &cancel).unwrap();
    assert_eq!(sandbox.files(), ["model", "new.onnx", "new.onnx_data"]);
}

#[test]
fn openvino_takes_an_exported_file() {
    let list = std::env::var("EMBEDCTL_TEST_PROVIDERS").unwrap_or_default();
    let library = list
        .split(',')
        .find_map(|one| one.strip_prefix("openvino:"));
    let Some(library) = library else {
        let test = "openvino_takes_an_exported_file";
        let _: Option<()> = support::skip(test, "providers", "openvino in EMBEDCTL_TEST_PROVIDERS");
        return;
    };
    let sandbox = sandbox();
    for (index, model) in MODELS.into_iter().enumerate() {
        let folder = in_repository(model);
        let expected = vectors(&sandbox, folder.to_str().unwrap(), "-p native");
        let name = format!("copy{index}");
        copy_folder(&folder, &sandbox.path(&name));
        let _ = fs::remove_dir_all(sandbox.path(&format!("{name}/onnx")));
        fs::create_dir(sandbox.path(&format!("{name}/onnx"))).unwrap();
        let run = sandbox.run(&format!("export {name} {name}/onnx/model.onnx --offline"));
        assert_eq!(run.code, Some(0), "{run}");
        fs::remove_file(sandbox.path(&format!("{name}/model.safetensors"))).unwrap();
        let ours = vectors(&sandbox, &name, &format!("-p openvino --ort-lib {library}"));
        let worst = apart(&ours, &expected);
        // Its kernels add in another order.
        assert!(worst < 5e-5, "{model}: {worst}");
    }
}

#[test]
fn onnxruntime_for_the_web_takes_an_exported_file() {
    let test = "onnxruntime_for_the_web_takes_an_exported_file";
    let Some(packages) = support::web_runtime(test) else {
        return;
    };
    each_pooled_export(|out, feeds| {
        let output = Command::new("node")
            .arg(in_repository("tests/web/run.mjs"))
            .args([packages.as_path(), out])
            .arg(feeds.to_string())
            .output()
            .unwrap();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {failed}", out.display());
        serde_json::from_slice(&output.stdout).unwrap()
    });
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
    // What the model is read from is no earlier export.
    for own in ["model.safetensors", "config.json"] {
        let run = sandbox.run(&format!("export cut cut/{own} --force"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(
            run.stderr
                .contains("--force replaces earlier exports alone"),
            "{run}"
        );
        let [kept, there] = [model.join(own), sandbox.path(&format!("cut/{own}"))];
        assert_eq!(fs::read(kept).unwrap(), fs::read(there).unwrap());
    }
    let weights = sandbox.path("cut/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() - 100]).unwrap();
    let run = sandbox.run("export cut new.onnx");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("model.safetensors"), "{run}");
    assert!(!sandbox.path("new.onnx").exists());
    assert!(!sandbox.path("new.onnx_data").exists());
}
