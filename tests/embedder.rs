//! The library on its own: batches and streams give the same vectors, in order.

mod support;

use std::path::Path;

use embedctl::Embedder;
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, Provider, Resolved};
use embedctl::model::{ModelOptions, Precision};

const REAL: &str = "fixtures/models/all-MiniLM-L6-v2";

fn open(model: &ModelOptions, engine: &EngineOptions) -> embedctl::Result<Embedder> {
    let cancel = CancelToken::new();
    let resolved = Resolved::of(model, engine, engine::installed(), &cancel)?;
    Embedder::open(resolved, &cancel)
}

fn native(precision: Precision, min_cosine: Option<f64>) -> embedctl::Result<Embedder> {
    let model = ModelOptions {
        model: REAL.into(),
        precision: Some(precision),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "native".parse().unwrap(),
        workers: 2,
        min_cosine,
        ..EngineOptions::default()
    };
    open(&model, &engine)
}

#[test]
fn two_native_embedders_in_one_process_do_not_disturb_each_other() {
    let texts = ["one text", "another, somewhat longer text", ""];
    let mut exact = native(Precision::Fp32, None).unwrap();
    let alone = exact.embed(&texts).unwrap();
    let mut reduced = native(Precision::Int16, None).unwrap();
    let cosine = reduced
        .engine()
        .cosine
        .expect("reduced precision is measured");
    assert!(cosine.least >= 0.9999 && cosine.texts >= 64, "{cosine:?}");
    assert_eq!(exact.engine().cosine, None);
    let both = std::thread::scope(|scope| {
        let other = scope.spawn(|| reduced.embed(&texts).unwrap());
        (exact.embed(&texts).unwrap(), other.join().unwrap())
    });
    assert_eq!(both.0, alone);
    for (ours, exact) in both.1.iter().zip(&alone) {
        assert!(support::npy::cosine(ours, exact) > 0.9999);
    }
}

#[test]
fn bfloat16_runs_on_the_native_engine_with_its_cosine() {
    let texts = ["one text", "another, somewhat longer text", ""];
    let mut exact = native(Precision::Fp32, None).unwrap();
    let mut reduced = native(Precision::Bf16, None).unwrap();
    let info = reduced.engine();
    assert_eq!(info.engine, "native");
    assert_eq!(info.precision, Some("bf16"));
    let cosine = info.cosine.expect("reduced precision is measured");
    assert!(cosine.least >= 0.999 && cosine.texts >= 64, "{cosine:?}");
    let (ours, exact) = (reduced.embed(&texts).unwrap(), exact.embed(&texts).unwrap());
    assert_ne!(ours, exact);
    for (ours, exact) in ours.iter().zip(&exact) {
        assert!(support::npy::cosine(ours, exact) > 0.999);
    }
    let error = native(Precision::Bf16, Some(1.0)).err().unwrap();
    assert!(error.to_string().contains("fp32"), "{error}");
}

#[test]
fn a_checkpoint_that_is_damaged_leaves_the_onnx_file() {
    let model = Path::new("fixtures/parity/bert-cls/model");
    let folder = tempfile::tempdir().unwrap();
    for part in ["", "1_Pooling", "2_Normalize", "onnx"] {
        std::fs::create_dir_all(folder.path().join(part)).unwrap();
        for file in std::fs::read_dir(model.join(part)).unwrap().flatten() {
            if file.path().is_file() {
                let to = folder.path().join(part).join(file.file_name());
                std::fs::copy(file.path(), to).unwrap();
            }
        }
    }
    std::fs::write(folder.path().join("model.safetensors"), "cut short").unwrap();
    let options = ModelOptions {
        model: folder.path().to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    let open = |providers: &str| {
        let engine = EngineOptions {
            providers: providers.parse().unwrap(),
            workers: 1,
            ..EngineOptions::default()
        };
        open(&options, &engine)
    };
    let error = open("native")
        .err()
        .expect("there is no checkpoint")
        .to_string();
    assert!(error.contains("model.safetensors"), "{error}");
    let mut embedder = open("native,rten").unwrap();
    let info = embedder.engine();
    assert_eq!(info.provider, Provider::Rten);
    assert_eq!(info.passed_over[0].candidate, "native");
    assert!(info.passed_over[0].reason.contains("model.safetensors"));
    assert_eq!(
        embedder.embed(&["a text"]).unwrap()[0].len(),
        embedder.dimensions()
    );
}

#[test]
fn vectors_that_are_farther_from_fp32_than_allowed_are_an_error() {
    let error = native(Precision::Int16, Some(1.0))
        .err()
        .expect("no rounding is exact");
    let words = error.to_string();
    assert!(
        words.contains("--min-cosine") && words.contains("--precision fp32"),
        "{words}"
    );
}

fn embedder(case: &str) -> Embedder {
    let model = ModelOptions {
        model: format!("fixtures/parity/{case}/model"),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "rten".parse().unwrap(),
        workers: 2,
        ..EngineOptions::default()
    };
    open(&model, &engine).unwrap()
}

#[test]
fn a_stream_gives_the_vectors_of_a_batch_in_order() {
    let mut embedder = embedder("bert-mean-legacy");
    let texts: Vec<String> = (0..5000)
        .map(|index| format!("text number {}", index % 97))
        .collect();
    let batch = embedder.embed(&texts[..97]).unwrap();
    let stream: Vec<Vec<f32>> = embedder.stream(&texts).collect::<Result<_, _>>().unwrap();
    assert_eq!(stream.len(), texts.len());
    for (index, vector) in stream.iter().enumerate() {
        assert_eq!(vector.len(), embedder.dimensions());
        let apart = vector
            .iter()
            .zip(&batch[index % 97])
            .map(|(a, b)| (a - b).abs());
        // In this order NaN is the farthest apart.
        let worst = apart.max_by(f32::total_cmp).unwrap();
        assert!(worst < 1e-5, "row {index}: {worst}");
    }
}

#[test]
fn no_texts_give_no_vectors_and_an_empty_text_gives_one() {
    let mut embedder = embedder("bert-cls");
    assert!(embedder.embed::<&str>(&[]).unwrap().is_empty());
    assert_eq!(embedder.embed(&[""]).unwrap()[0].len(), 48);
    assert_eq!(embedder.stream(Vec::<String>::new()).count(), 0);
}

#[test]
fn a_text_without_tokens_gives_a_defined_vector() {
    let mut embedder = embedder("tok-no-special-tokens");
    let vectors = embedder.embed(&["", "a word"]).unwrap();
    assert!(vectors[0].iter().all(|value| value.is_finite()));
    assert_eq!(vectors[0].len(), vectors[1].len());
}
