//! Files that somebody damaged.

use super::*;

/// A damaged model is read, or refused with a message that names it: no panic, no bug to be reported.
#[test]
fn damaged_models_are_read_or_refused() {
    let variant = Variant::of("bert-dense-tanh");
    let engine = crate::engine::EngineOptions {
        providers: "rten".parse().unwrap(),
        workers: 1,
        ..crate::engine::EngineOptions::default()
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
        let path = variant.0.path().join(file);
        let good = fs::read(&path).ok();
        mutation::each(file, &good.clone().unwrap_or_default(), 7, |damaged| {
            fs::copy(damaged, &path).unwrap();
            let result = crate::Embedder::open(&variant.options(), &engine)
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

#[test]
fn damaged_metadata_is_read_or_refused() {
    let modules = fs::read("fixtures/parity/bert-dense-tanh/model/modules.json").unwrap();
    mutation::each("modules.json", &modules, 300, |path| {
        assert_no_bug(crate::model::modules::read(path.parent().unwrap()));
    });
    let lengths = br#"{"max_seq_length": 48, "do_lower_case": false,
        "tokenizer_args": {"model_max_length": 20, "padding_side": "left"},
        "processing_kwargs": {"text": {"max_length": 30, "truncation": true}}}"#;
    mutation::each("sentence_bert_config.json", lengths, 300, |path| {
        assert_no_bug(crate::model::sentence_config::read(path.parent().unwrap()));
    });
    let graph = crate::provider::check_graph::model();
    mutation::each("model.onnx", &graph, 300, |path| {
        assert_no_bug(crate::model::graph::Graph::read(path));
    });
}
