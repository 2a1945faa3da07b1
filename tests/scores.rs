//! Scores of the real binary against sentence-transformers' `CrossEncoder` and transformers, every row of every case.
//!
//! Cases live in `fixtures/scores`; `generate.py` beside them made them. A case's reference was made one record at a time,
//! so agreement here also shows that batching changes nothing.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::cases::{graph_engines, pooling_engine};
use support::npy::{Matrix, apart};

/// How far a score may be from the reference.
const TOLERANCE: f32 = 2e-5;

/// A logit may be large: it may differ by so much of its size.
fn tolerance(expected: &[f32]) -> f32 {
    let most = expected
        .iter()
        .fold(1.0_f32, |most, value| most.max(value.abs()));
    TOLERANCE * most
}

/// The folders of all cases.
fn cases() -> Vec<PathBuf> {
    support::cases::all("fixtures/scores", 45)
}

/// The binary with the records and the model of a case.
fn command(case: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedctl"));
    command
        .env("EMBEDCTL_NO_CONFIG", "1")
        .arg("score")
        .arg(case.join("records.jsonl"))
        .arg("-m")
        .arg(case.join("model"));
    command
}

/// Runs the binary on the records of a case.
fn score(case: &Path, more: &[&str]) -> Result<Matrix, String> {
    let described = support::cases::described(case);
    let args = described["args"].as_array().unwrap().iter();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.npy");
    let mut command = command(case);
    command
        .arg("-o")
        .arg(&out)
        .args(["-q", "--threads", "2"])
        .args(args.map(|arg| arg.as_str().unwrap()))
        .args(more);
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(Matrix::read(&out)),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The difference between scores and the reference, if there is one.
fn difference(ours: &Matrix, expected: &Matrix) -> Option<String> {
    if (ours.rows, ours.width) != (expected.rows, expected.width) {
        let (own, theirs) = ((ours.rows, ours.width), (expected.rows, expected.width));
        return Some(format!("{own:?} instead of {theirs:?}"));
    }
    let far = (0..ours.rows).filter_map(|row| {
        let by = apart(ours.row(row), expected.row(row));
        (by.is_nan() || by > tolerance(expected.row(row))).then_some((row, by))
    });
    let far: Vec<(usize, f32)> = far.collect();
    let most = far.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "{} of {} rows differ, row {} by {}",
        far.len(),
        ours.rows,
        most.0,
        most.1
    ))
}

fn every_case_equals_the_reference_on(engine: &[&str]) {
    let compare = |case: &PathBuf| {
        let expected = Matrix::read(&case.join("expected.npy"));
        let failure = match score(case, engine) {
            Ok(ours) => difference(&ours, &expected),
            Err(error) => Some(error),
        };
        let name = case.file_name().unwrap().to_string_lossy();
        failure.map(|failure| format!("{name}: {failure}"))
    };
    let stride = support::cases::stride_on(engine[1]);
    let failures: Vec<String> = (cases().iter().step_by(stride))
        .filter_map(compare)
        .collect();
    assert!(failures.is_empty(), "{engine:?}: {}", failures.join("\n"));
}

#[test]
fn every_case_equals_the_reference_on_the_native_engine() {
    every_case_equals_the_reference_on(&["-p", "native"]);
}

#[test]
fn every_case_equals_the_reference_as_a_built_graph() {
    for engine in graph_engines("every_case_equals_the_reference_as_a_built_graph") {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        every_case_equals_the_reference_on(&engine);
    }
}

#[test]
fn every_case_equals_the_reference_with_pooling_in_the_graph() {
    let test = "every_case_equals_the_reference_with_pooling_in_the_graph";
    if let Some(engine) = pooling_engine(test) {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        every_case_equals_the_reference_on(&engine);
    }
}

/// Graphs that others have exported, on every engine that takes them.
#[test]
fn every_exported_case_equals_the_reference() {
    let cases = cases();
    let exported: Vec<_> = cases
        .iter()
        .filter(|case| case.join("model/onnx/model.onnx").exists())
        .collect();
    assert!(
        exported.len() >= 3,
        "only {} exported cases",
        exported.len()
    );
    let library = support::onnxruntime("every_exported_case_equals_the_reference");
    let library = library.map(|path| path.to_str().unwrap().to_owned());
    let of_library = |path| vec!["-p", "cpu", "--ort-lib", path];
    let engines = library.as_deref().map(of_library).into_iter();
    for engine in engines.chain([vec!["-p", "rten"]]) {
        let engine = [&engine[..], &["--weights", "onnx"]].concat();
        for case in &exported {
            let expected = Matrix::read(&case.join("expected.npy"));
            let ours = score(case, &engine).unwrap();
            let name = case.display();
            assert_eq!(difference(&ours, &expected), None, "{engine:?}: {name}");
        }
    }
}

/// Scores must not depend on batches, threads or repeated texts.
#[test]
fn scores_do_not_depend_on_batches() {
    let case = Path::new("fixtures/scores/bert-three-labels");
    let expected = score(case, &["-p", "native"]).unwrap();
    for more in [
        ["--batch-size", "1"],
        ["--window", "3"],
        ["--batch-tokens", "64"],
    ] {
        let ours = score(case, &[&["-p", "native"], &more[..]].concat()).unwrap();
        for row in 0..expected.rows {
            assert_eq!(ours.row(row), expected.row(row), "{more:?}, row {row}");
        }
    }
}

/// Reduced precision is near, and says how near the states are that scores are made of.
#[test]
fn reduced_precision_stays_near() {
    let case = Path::new("fixtures/scores/bert-three-labels");
    let expected = score(case, &["-p", "native"]).unwrap();
    for (precision, most) in [("int16", 0.05), ("int8", 0.5)] {
        let ours = score(case, &["-p", "native", "--precision", precision]).unwrap();
        for row in 0..expected.rows {
            let by = apart(ours.row(row), expected.row(row));
            assert!(by <= most, "{precision}, row {row}: {by}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let new = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &new),
            false => std::fs::copy(&path, &new).map(|_| ()).unwrap(),
        }
    }
}

/// A copy of a case without its reference.
fn copied(case: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&case.join("model"), &folder.path().join("model"));
    for name in ["records.jsonl", "case.json"] {
        std::fs::copy(case.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// Adds the first row of a checkpoint's table of tokens to all of its rows.
fn add_first_row(weights: &Path, table: &str) {
    let bytes = std::fs::read(weights).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let changed = tensors.iter().map(|(name, tensor)| {
        let mut data = tensor.data().to_vec();
        if name == table {
            let values = tensor.data().as_chunks::<4>().0.iter();
            let values: Vec<f32> = values.map(|value| f32::from_le_bytes(*value)).collect();
            let first = &values[..tensor.shape()[1]];
            let sums = values.iter().zip(first.iter().cycle());
            data = sums
                .flat_map(|(value, add)| (value + add).to_le_bytes())
                .collect();
        }
        (name, tensor.dtype(), tensor.shape().to_vec(), data)
    });
    let changed: Vec<_> = changed.collect();
    let views = changed.iter().map(|(name, dtype, shape, data)| {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), data);
        (*name, view.unwrap())
    });
    let written = safetensors::serialize(views, None).unwrap();
    std::fs::write(weights, written).unwrap();
}

/// Classes of GPT-2's kind look token types up in their table of tokens: where all are 0, every token gets its first row.
#[test]
fn token_types_are_rows_of_the_table_of_tokens() {
    for (name, table) in [
        ("gpt2", "transformer.wte.weight"),
        ("gpt-neo", "transformer.wte.weight"),
        ("gptj", "transformer.wte.weight"),
    ] {
        let case = &Path::new("fixtures/scores").join(name);
        let without = score(case, &["-p", "native"]).unwrap();

        let typed = copied(case);
        let file = typed.path().join("model/tokenizer_config.json");
        let text = std::fs::read(&file).unwrap();
        let mut config: serde_json::Value = serde_json::from_slice(&text).unwrap();
        config["model_input_names"] =
            serde_json::json!(["input_ids", "token_type_ids", "attention_mask"]);
        std::fs::write(&file, config.to_string()).unwrap();
        let typed = score(typed.path(), &["-p", "native"]).unwrap();

        let added = copied(case);
        add_first_row(&added.path().join("model/model.safetensors"), table);
        let added = score(added.path(), &["-p", "native"]).unwrap();
        assert_eq!(difference(&typed, &added), None, "{name}");
        assert!(difference(&typed, &without).is_some(), "{name}");
    }
}

/// A network that the engine runs, but that transformers does not classify with.
#[test]
fn types_without_a_class_that_classifies_are_refused_with_that_reason() {
    let folder = copied(Path::new("fixtures/scores/llama"));
    let model = folder.path().join("model");
    let file = model.join("config.json");
    let config = std::fs::read_to_string(&file).unwrap();
    let changed = config.replace("\"model_type\": \"llama\"", "\"model_type\": \"granite\"");
    assert_ne!(changed, config);
    std::fs::write(&file, changed).unwrap();
    let said = score(folder.path(), &["-p", "native"]).err().unwrap();
    assert!(said.contains("no class that classifies"), "{said}");
    assert!(said.contains("granite"), "{said}");
}

/// transformers' classifiers read them as they are, whatever template lies beside the tokenizer.
#[test]
fn single_texts_are_put_into_no_chat() {
    let case = Path::new("fixtures/scores/single-texts-qwen3");
    let with = copied(case);
    let model = with.path().join("model");
    let template = "<chat>{{ messages[0].content }}";
    std::fs::write(model.join("chat_template.jinja"), template).unwrap();
    let ours = score(with.path(), &["-p", "native"]).unwrap();
    let expected = Matrix::read(&case.join("expected.npy"));
    assert_eq!(difference(&ours, &expected), None);
    let mut command = command(with.path());
    command.args(["-p", "native", "-o", "-"]);
    let told = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(told.contains("not used for single texts"), "{told}");
}

/// Without one, the reference's would be random.
#[test]
fn logits_have_a_matrix_of_their_own_unless_it_is_tied() {
    let case = Path::new("fixtures/scores/logit-score-tied");
    for tied in [Some(false.into()), Some(serde_json::Value::Null), None] {
        let untied = copied(case);
        let file = untied.path().join("model/config.json");
        let text = std::fs::read(&file).unwrap();
        let mut config: serde_json::Map<_, _> = serde_json::from_slice(&text).unwrap();
        config.remove("tie_word_embeddings");
        config.extend(tied.map(|tied| ("tie_word_embeddings".to_owned(), tied)));
        let text = serde_json::to_string(&config).unwrap();
        std::fs::write(&file, text).unwrap();
        let error = score(untied.path(), &["-p", "native"]).err().unwrap();
        assert!(error.contains("has no tensor 'lm_head.weight'"), "{error}");
    }
}
