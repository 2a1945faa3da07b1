//! Files that somebody damaged.

use std::fs;
use std::path::Path;

use embedctl_testing::{assert_no_bug, mutation};

use crate::Embedder;
use crate::cancel::CancelToken;
use crate::engine::EngineOptions;
use crate::engine::resolved_tests::resolve;
use crate::model::ModelOptions;

/// A damaged model is read, or refused with a message that names it: no panic, no bug to be reported.
#[test]
fn damaged_models_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    copy(
        Path::new("fixtures/parity/bert-dense-tanh/model"),
        folder.path(),
    );
    let options = ModelOptions {
        model: folder.path().to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: "rten".parse().unwrap(),
        workers: 1,
        ..EngineOptions::default()
    };
    let texts = ["Some wörds, 東京!", "", &"x".repeat(500)];
    for file in [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "onnx/model.onnx",
    ] {
        let path = folder.path().join(file);
        let good = fs::read(&path).ok();
        mutation::each(file, &good.clone().unwrap_or_default(), 7, |damaged| {
            fs::copy(damaged, &path).unwrap();
            let result = resolve(&options, &engine)
                .and_then(|resolved| Embedder::open(resolved, &CancelToken::new()))
                .and_then(|mut embedder| embedder.embed(&texts));
            if let Some(vectors) = assert_no_bug(result) {
                assert!(vectors.iter().flatten().all(|value| value.is_finite()));
            }
        });
        match good {
            Some(good) => fs::write(&path, good).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
