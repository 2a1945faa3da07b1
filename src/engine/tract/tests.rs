//! The engine on small models of several families, in every way there is to plan them.

use std::path::Path;

use super::plans::Plans;
use super::shapes::Shape;
use super::source::{Kind, Source};
use super::*;
use crate::model::ModelOptions;

fn model(case: &str) -> Model {
    let options = ModelOptions {
        model: format!("fixtures/parity/{case}/model"),
        ..ModelOptions::default()
    };
    Model::open(&options).unwrap()
}

fn error(model: &Model) -> String {
    let opened = open(model, &EngineOptions::default(), &[]);
    opened.err().unwrap().to_string()
}

/// Rows of different lengths, padded on the right.
fn batch(rows: usize, length: usize, padding: u32) -> Batch {
    let mut batch = Batch {
        rows,
        length,
        ..Batch::default()
    };
    for row in 0..rows {
        for position in 0..length {
            let real = position < length - row % length;
            let id = 5 + (row * 31 + position * 7) % 50;
            batch.attention_mask.push(i64::from(real));
            batch.input_ids.push(if real {
                i64::try_from(id).unwrap()
            } else {
                padding.into()
            });
        }
    }
    batch
}

/// States of real tokens, or finished rows.
fn states(plans: &Arc<Plans>, batch: &Batch, padding: u32) -> Vec<f32> {
    let mut worker = TractWorker::new(Arc::clone(plans), padding.into());
    match worker.run(batch).unwrap() {
        Output::Pooled { rows, .. } => rows.to_vec(),
        Output::Hidden(hidden) | Output::Packed(hidden) => {
            assert_eq!(
                hidden.states.len(),
                batch.rows * batch.length * hidden.width
            );
            let tokens = hidden.states.chunks_exact(hidden.width);
            tokens
                .zip(&batch.attention_mask)
                .filter(|(_, mask)| **mask == 1)
                .flat_map(|(state, _)| state.iter().copied())
                .collect()
        }
    }
}

#[test]
fn every_way_to_plan_gives_the_same_states() {
    for case in [
        "bert-cls",
        "roberta-mean",
        "qwen3-lasttoken",
        "family-modernbert",
        "family-gemma3-bidirectional",
        "graph-int32-inputs",
        "graph-past-key-values",
        "graph-pooled-only-dense",
        "graph-position-ids-roberta",
    ] {
        let model = model(case);
        let padding = model.config.padding_id;
        let plans = |kind| {
            let source = Source::read(&model.onnx, Feeds::of(&model).unwrap()).unwrap();
            Arc::new(Plans::first_of(&[kind], source, model.config.max_length).unwrap())
        };
        let alone = plans(Kind::AnyLength { rows: 1 });
        for kind in [
            Kind::AnyLength { rows: 8 },
            Kind::Fixed(Shape {
                rows: 8,
                length: 16,
            }),
            Kind::Fixed(Shape {
                rows: 1,
                length: 16,
            }),
        ] {
            let other = plans(kind);
            for (rows, length) in [(1, 1), (8, 2), (11, 7), (3, 18)] {
                let batch = batch(rows, length, padding);
                let (expected, found) = (
                    states(&alone, &batch, padding),
                    states(&other, &batch, padding),
                );
                assert_eq!(expected.len(), found.len());
                let apart = expected.iter().zip(&found).map(|(a, b)| (a - b).abs());
                let worst = apart.fold(0.0_f32, f32::max);
                assert!(
                    worst < 1e-5,
                    "{case}, {kind:?}, {rows} × {length}: {worst} apart"
                );
            }
        }
    }
}

#[test]
fn one_plan_serves_encoders_and_decoders_alike() {
    for case in [
        "bert-cls",
        "qwen3-lasttoken",
        "family-qwen3",
        "family-llama-lasttoken",
        "family-gemma3-bidirectional",
        "family-deberta-v2",
        "graph-past-key-values",
    ] {
        let model = model(case);
        let feeds = Feeds::of(&model).unwrap();
        let plans = Plans::open(&model.onnx, feeds, model.config.max_length).unwrap();
        assert!(plans.takes_many_of_any_length(), "{case}");
        assert_eq!(plans.limits().rows, 8);
    }
}

#[test]
fn rows_that_fill_no_plan_run_alone_once_that_pays() {
    let model = model("bert-cls");
    let plans = Plans::open(&model.onnx, Feeds::of(&model).unwrap(), 256).unwrap();
    assert_eq!(plans.shape(11, 20).rows, 8);
    assert_eq!(plans.shape(3, 20).rows, 8);
    let rows = (0..100).map(|_| plans.shape(3, 20).rows).last();
    assert_eq!(rows, Some(1));
    // Nearly full plans are still better filled up, and full ones never stop.
    assert_eq!(plans.shape(7, 10).rows, 8);
    assert_eq!(plans.shape(8, 20).rows, 8);
    assert_eq!(plans.shape(8, 300).rows, 1);
}

#[test]
fn operators_of_onnx_runtime_alone_are_an_error_that_says_what_helps() {
    let mut model = model("bert-cls");
    let fused = "com.microsoft:SkipLayerNormalization";
    model.graph.operators.insert(fused.into());
    let error = error(&model);
    for word in [
        fused,
        "pip install onnxruntime",
        "--provider cpu",
        "--model-file",
    ] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn what_tract_refuses_is_told_in_its_own_words_with_the_remedy() {
    let mut model = model("bert-cls");
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("model.onnx");
    replace_bytes(
        &model.onnx,
        &onnx,
        b"LayerNormalization",
        b"LayerAbnormality12",
    );
    model.onnx = onnx;
    let error = error(&model);
    assert!(error.contains("LayerAbnormality12"), "{error}");
    assert!(error.contains("pip install onnxruntime"), "{error}");
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

#[test]
fn a_panic_is_an_error() {
    let result: Result<(), String> = guarded(|| panic!("out of luck"));
    assert!(result.unwrap_err().contains("out of luck"));
}

#[test]
fn the_version_is_the_pinned_one() {
    let manifest = include_str!("../../../Cargo.toml");
    assert!(manifest.contains(&format!("\ntract-onnx = \"={VERSION}\"")));
}
