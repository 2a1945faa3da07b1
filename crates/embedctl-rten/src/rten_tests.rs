//! The engine on small models of several families, and on weights stored in every way there is.

use std::path::{Path, PathBuf};

use half::bf16;
use prost::Message as _;

use super::*;
use embedctl_model::{ModelOptions, WeightsPreference};
use embedctl_onnx::{
    BFLOAT16, EXTERNAL, FLOAT, GraphProto, ModelProto, Node, OperatorSet, StringEntry, Tensor,
    float_value,
};
use embedctl_rows::Frame;
use embedctl_testing::apart;

fn model(case: &str) -> Model {
    let options = ModelOptions {
        model: format!("../../fixtures/parity/{case}/model"),
        ..ModelOptions::default()
    };
    Model::open(&options, WeightsPreference::Onnx).unwrap()
}

fn error(model: &Model) -> String {
    let opened = open(model, &ResolvedEngine::default(), &[], &CancelToken::new());
    opened.err().unwrap().to_string()
}

/// Rows of different lengths.
fn batch(rows: usize, length: usize) -> Batch {
    let mut batch = Batch::default();
    for row in 0..rows {
        let own = length - row % length;
        let id = |position: usize| u32::try_from(5 + (row * 31 + position * 7) % 50).unwrap();
        batch.push((0..own).map(id), &Frame::default());
    }
    batch
}

/// States of tokens, or finished rows.
fn states(worker: &mut dyn Worker, batch: &Batch) -> Vec<f32> {
    let output = worker.run(batch).unwrap();
    assert!(output.fits(batch));
    let rows = (0..batch.rows()).flat_map(|row| output.row(batch, row));
    rows.copied().collect()
}

#[test]
fn a_rows_states_are_the_same_alone_and_in_a_batch() {
    for case in [
        "bert-cls",
        "roberta-mean",
        "qwen3-lasttoken",
        "family-modernbert",
        "family-deberta-v2",
        "family-gemma3-bidirectional",
        "graph-int32-inputs",
        "graph-past-key-values",
        "graph-pooled-only-dense",
        "graph-position-ids-roberta",
    ] {
        let model = model(case);
        let engine = open(&model, &ResolvedEngine::default(), &[], &CancelToken::new()).unwrap();
        let mut worker = engine.worker().unwrap();
        for (rows, length) in [(1, 1), (8, 2), (11, 7), (3, 18)] {
            let batch = batch(rows, length);
            let together = states(&mut *worker, &batch);
            let alone: Vec<f32> = (0..rows)
                .flat_map(|row| {
                    let mut one = Batch::default();
                    one.push(batch.row(row).iter().copied(), &Frame::default());
                    states(&mut *worker, &one)
                })
                .collect();
            let worst = apart(&together, &alone);
            assert!(worst < 1e-5, "{case}, {rows} × {length}: {worst} apart");
        }
    }
}

#[test]
fn operators_that_it_lacks_are_an_error_that_says_what_helps() {
    let mut model = model("bert-cls");
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("model.onnx");
    replace_bytes(
        &model.onnx.as_ref().unwrap().path,
        &onnx,
        b"LayerNormalization",
        b"LayerAbnormality12",
    );
    model.onnx.as_mut().unwrap().path = onnx;
    let error = error(&model);
    for word in [
        "LayerAbnormality12",
        "pip install onnxruntime",
        "provider cpu",
        "--model-file",
    ] {
        assert!(error.contains(word), "{error}");
    }
}

fn replace_bytes(from: &Path, to: &Path, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut bytes = std::fs::read(from).unwrap();
    let mut found = 0;
    for start in 0..=bytes.len() - old.len() {
        if &bytes[start..start + old.len()] == old {
            bytes[start..start + old.len()].copy_from_slice(new);
            found += 1;
        }
    }
    assert!(found > 0);
    std::fs::write(to, bytes).unwrap();
}

/// A tensor of 2 × 3 whose elements are 0, 1, 2, …; how they are stored is to be filled in.
fn weight(data_type: i32) -> Tensor {
    Tensor {
        dims: vec![2, 3],
        data_type,
        name: "weight".into(),
        ..Tensor::default()
    }
}

fn numbers() -> impl Iterator<Item = f32> {
    (0..6_u8).map(f32::from)
}

fn in_file(tensor: Tensor, entries: &[(&str, &str)]) -> Tensor {
    let entry = |&(key, value): &(&str, &str)| StringEntry {
        key: key.into(),
        value: value.into(),
    };
    Tensor {
        external_data: entries.iter().map(entry).collect(),
        data_location: EXTERNAL,
        ..tensor
    }
}

/// Writes `y = x + Cast(weight)` to `folder`.
fn write(folder: &Path, weight: Tensor, cast_to: i32) -> PathBuf {
    let node = |operator: &str, inputs: &[&str], output: &str| Node {
        op_type: operator.into(),
        name: output.into(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        ..Node::default()
    };
    let mut cast = node("Cast", &["weight"], "wide");
    cast.attribute.push(embedctl_onnx::Attribute {
        name: "to".into(),
        i: Some(cast_to.into()),
        kind: 2, // an integer
        ..Default::default()
    });
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSet {
            domain: String::new(),
            version: 17,
        }],
        graph: Some(GraphProto {
            name: "sum".into(),
            node: vec![cast, node("Add", &["x", "wide"], "y")],
            initializer: vec![weight],
            input: vec![float_value("x", &[Some(2), Some(3)])],
            output: vec![float_value("y", &[Some(2), Some(3)])],
        }),
        ..ModelProto::default()
    };
    let path = folder.join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    path
}

/// The constant that the graph adds to zeros.
fn sum(onnx: &Path) -> Result<Vec<f32>, String> {
    let model = stored::load(onnx).map_err(|cause| cause.to_string())?;
    let zeros = rten::Value::from_shape([2, 3], vec![0.0_f32; 6]).unwrap();
    let sum = model.run_one(zeros.into(), None).unwrap();
    Ok(sum.into_shape_vec::<f32, 2>().unwrap().1)
}

#[test]
fn bfloat16_is_widened_wherever_it_is_stored() {
    let narrow = || numbers().map(bf16::from_f32);
    let bytes: Vec<u8> = narrow().flat_map(bf16::to_le_bytes).collect();
    let expected: Vec<f32> = numbers().collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w"), &bytes).unwrap();
    for tensor in [
        Tensor {
            raw_data: bytes,
            ..weight(BFLOAT16)
        },
        Tensor {
            int32_data: narrow().map(|one| one.to_bits().into()).collect(),
            ..weight(BFLOAT16)
        },
        in_file(weight(BFLOAT16), &[("location", "w")]),
    ] {
        for cast_to in [FLOAT, BFLOAT16] {
            let onnx = write(folder.path(), tensor.clone(), cast_to);
            assert_eq!(sum(&onnx).as_ref(), Ok(&expected));
        }
    }
}

#[test]
fn weights_in_files_have_any_name_place_and_alignment() {
    let expected: Vec<f32> = numbers().collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("parts")).unwrap();
    let elements = numbers().flat_map(f32::to_le_bytes);
    let bytes: Vec<u8> = [7, 7, 7].into_iter().chain(elements).collect();
    std::fs::write(folder.path().join("parts/weights of all.bin"), bytes).unwrap();
    let location = ("location", "./parts/weights of all.bin");
    for entries in [
        &[location, ("offset", "3"), ("length", "24")][..],
        &[location, ("offset", "3"), ("some_note", "of its own")],
    ] {
        let onnx = write(folder.path(), in_file(weight(FLOAT), entries), FLOAT);
        assert_eq!(sum(&onnx).as_ref(), Ok(&expected));
    }
    for (entries, words) in [
        (&[location, ("offset", "4")][..], "weight"),
        (&[location, ("offset", "30")], "ends before it (27 bytes)"),
        (&[location, ("offset", "-3")], "its offset is not a number"),
        (&[("location", "../w")], "outside the graph's folder"),
        (&[("location", "/etc/passwd")], "outside the graph's folder"),
        (&[("location", "gone")], "gone"),
        (&[], "names no file"),
    ] {
        let onnx = write(folder.path(), in_file(weight(FLOAT), entries), FLOAT);
        let reason = sum(&onnx).unwrap_err();
        assert!(reason.contains(words), "{reason}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_as_the_hubs_cache_has_them() {
    let model = model("weights-external-data");
    let folder = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (folder.path().join("blobs"), folder.path().join("snapshot"));
    std::fs::create_dir(&blobs).unwrap();
    std::fs::create_dir(&snapshot).unwrap();
    let onnx = model.onnx.unwrap().path;
    let beside = onnx.parent().unwrap();
    for (index, file) in std::fs::read_dir(beside).unwrap().enumerate() {
        let file = file.unwrap();
        let blob = blobs.join(index.to_string());
        std::fs::copy(file.path(), &blob).unwrap();
        std::os::unix::fs::symlink(&blob, snapshot.join(file.file_name())).unwrap();
    }
    let linked = snapshot.join(onnx.file_name().unwrap());
    assert!(stored::load(&linked).is_ok());
}

#[test]
fn damaged_files_are_errors() {
    let whole = std::fs::read(model("weights-external-data").onnx.unwrap().path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    for cut in (0..whole.len()).step_by(61) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        // A file that is cut between two parts is a smaller model; none may end the program.
        let _ = guarded(|| stored::load(&path).map(drop).map_err(|cause| cause.reason));
    }
    let mut nested = Vec::new();
    for _ in 0..200 {
        let mut outer = Vec::new();
        for number in [6, 5, 1] {
            outer.clear();
            embedctl_onnx::append(number, &nested, &mut outer);
            nested.clone_from(&outer);
        }
    }
    let mut file = Vec::new();
    embedctl_onnx::append(7, &nested, &mut file);
    std::fs::write(&path, file).unwrap();
    assert!(stored::load(&path).is_err_and(|cause| cause.reason.contains("nested too deeply")));
}

#[test]
fn a_panic_is_an_error() {
    let result: Result<(), String> = guarded(|| panic!("out of luck"));
    assert!(result.unwrap_err().contains("out of luck"));
}

#[test]
fn the_version_is_the_pinned_one() {
    let manifest = include_str!("../../../Cargo.toml");
    assert!(manifest.contains(&format!("\nrten = \"={VERSION}\"")));
}
