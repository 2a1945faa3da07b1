//! The selection of files, over lists of files as repositories have them.

use super::*;
use crate::Knows;

fn config() -> Value {
    serde_json::json!({"model_type": "bert"})
}

fn chosen(paths: &[&str], modules: Option<&str>, choice: &FileChoice) -> Vec<String> {
    let layout = modules.map_or_else(ModuleFolders::default, |modules| {
        ModuleFolders::read("org/name", modules.as_bytes()).unwrap()
    });
    let selection = select("org/name", paths, &layout, choice, &config()).unwrap();
    selection.paths().map(str::to_owned).collect()
}

#[test]
fn a_sentence_model_is_taken_without_other_frameworks_files() {
    let modules = r#"[{"path":""},{"path":"1_Pooling"},{"path":"2_Dense"},{"path":"3_Normalize"}]"#;
    let paths = [
        ".gitattributes",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "2_Dense/pytorch_model.bin",
        "README.md",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "onnx/model.onnx",
        "onnx/model_fp16.onnx",
        "openvino/openvino_model.xml",
        "pytorch_model.bin",
        "sentence_bert_config.json",
        "tokenizer.json",
        "vocab.txt",
    ];
    assert_eq!(
        chosen(&paths, Some(modules), &FileChoice::default()),
        [
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "config.json",
            "config_sentence_transformers.json",
            "modules.json",
            "sentence_bert_config.json",
            "tokenizer.json",
            "vocab.txt",
            "onnx/model.onnx",
        ]
    );
}

#[test]
fn layers_that_make_other_vectors_are_taken() {
    let modules = r#"[{"path":""},{"path":"1_Pooling"},{"path":"2_Normalize"}]"#;
    let paths = [
        "1_Pooling/config.json",
        "1_Pooling/sparse_linear.pt",
        "colbert_linear.pt",
        "config.json",
        "model.safetensors",
        "modules.json",
        "onnx/model.onnx",
        "other.pt",
        "sparse_linear.pt",
    ];
    let taken = chosen(&paths, Some(modules), &FileChoice::default());
    assert_eq!(
        taken,
        [
            "1_Pooling/config.json",
            "colbert_linear.pt",
            "config.json",
            "modules.json",
            "sparse_linear.pt",
            "onnx/model.onnx",
        ]
    );
    assert!(is_read("sparse_linear.pt") && is_read("colbert_linear.pt") && !is_read("other.pt"));
}

#[test]
fn a_static_models_weights_need_no_config() {
    let modules =
        r#"[{"path":"0_StaticEmbedding","type":"sentence_transformers.models.StaticEmbedding"}]"#;
    let layout = ModuleFolders::read("org/name", modules.as_bytes()).unwrap();
    let paths = [
        "0_StaticEmbedding/model.safetensors",
        "0_StaticEmbedding/tokenizer.json",
        "modules.json",
    ];
    let choice = FileChoice {
        weights: WeightsPreference::CheckpointFirst(|_| Err("is not a JSON object".into())),
        ..FileChoice::default()
    };
    let selection = select("org/name", &paths, &layout, &choice, &Value::Null).unwrap();
    assert_eq!(selection.checkpoint, [paths[0]]);
    assert_eq!(selection.others, [paths[1], paths[2]]);
}

#[test]
fn a_checkpoint_is_taken_where_it_is_known_and_else_the_onnx_file() {
    fn of(weights: WeightsPreference) -> Result<Vec<String>> {
        let paths = ["config.json", "model.safetensors", "onnx/model.onnx"];
        let choice = FileChoice {
            weights,
            ..FileChoice::default()
        };
        let selection = select(
            "org/name",
            &paths,
            &ModuleFolders::default(),
            &choice,
            &config(),
        )?;
        Ok(selection.weights().map(str::to_owned).collect())
    }
    let (checkpoint, onnx) = ("model.safetensors", "onnx/model.onnx");
    let knows: Knows = |config| {
        assert_eq!(config["model_type"], "bert");
        Ok(())
    };
    let knows_not: Knows = |_| Err("its model_type is bert".into());
    assert_eq!(of(WeightsPreference::Onnx).unwrap(), [onnx]);
    assert_eq!(
        of(WeightsPreference::Checkpoint(knows)).unwrap(),
        [checkpoint]
    );
    assert_eq!(
        of(WeightsPreference::CheckpointFirst(knows)).unwrap(),
        [checkpoint]
    );
    assert_eq!(
        of(WeightsPreference::CheckpointFirst(knows_not)).unwrap(),
        [onnx]
    );
    assert_eq!(of(WeightsPreference::OnnxFirst(knows)).unwrap(), [onnx]);
    let error = of(WeightsPreference::Checkpoint(knows_not))
        .unwrap_err()
        .to_string();
    assert!(error.contains("its model_type is bert"), "{error}");
}

#[test]
fn an_adapter_is_taken_with_its_settings_and_no_onnx_file_instead() {
    let paths = [
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.json",
        "model.safetensors",
        "onnx/model.onnx",
        "tokenizer.json",
    ];
    let choice = FileChoice {
        weights: WeightsPreference::OnnxFirst(|_| Ok(())),
        ..FileChoice::default()
    };
    let expected = [paths[0], paths[2], paths[5], paths[1], paths[3]];
    assert_eq!(chosen(&paths, None, &choice), expected);
    // Without a network of its own nothing is known about it before its base model is here.
    let alone = [paths[0], paths[1], paths[5]];
    let unknown = FileChoice {
        weights: WeightsPreference::CheckpointFirst(|_| Err("has no model_type".into())),
        ..FileChoice::default()
    };
    assert_eq!(
        chosen(&alone, None, &unknown),
        [paths[0], paths[5], paths[1]]
    );
    let layout = ModuleFolders::default();
    let refused = |paths: &[&str], choice: &FileChoice| {
        let error = select("org/name", paths, &layout, choice, &config()).unwrap_err();
        error.to_string()
    };
    let onnx = refused(&paths, &FileChoice::default());
    assert!(
        onnx.contains("adapter") && onnx.contains("checkpoint"),
        "{onnx}"
    );
    let pickled = refused(&["adapter_config.json", "adapter_model.bin"], &unknown);
    assert!(pickled.contains("adapter_model.safetensors"), "{pickled}");
}

#[test]
fn a_static_model_needs_no_architecture() {
    let unknown: Knows = |_| Err("has no model_type".into());
    let choice = FileChoice {
        weights: WeightsPreference::CheckpointFirst(unknown),
        ..FileChoice::default()
    };
    let modules = r#"[{"path": "0_StaticEmbedding",
        "type": "sentence_transformers.sentence_transformer.modules.StaticEmbedding"}]"#;
    let folder = "0_StaticEmbedding";
    let paths = ["modules.json".to_owned()]
        .into_iter()
        .chain(["model.safetensors", "tokenizer.json"].map(|name| format!("{folder}/{name}")));
    let paths: Vec<String> = paths.collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let expected = [paths[0], paths[2], paths[1]];
    assert_eq!(chosen(&paths, Some(modules), &choice), expected);
}

#[test]
fn a_transformer_may_have_a_folder_of_its_own() {
    let modules = r#"[{"path":"0_Transformer"},{"path":"1_Pooling"}]"#;
    let paths = [
        "0_Transformer/config.json",
        "0_Transformer/model.onnx",
        "0_Transformer/tokenizer.json",
        "1_Pooling/config.json",
        "config.json",
        "modules.json",
    ];
    assert_eq!(
        chosen(&paths, Some(modules), &FileChoice::default()),
        [
            "0_Transformer/config.json",
            "0_Transformer/tokenizer.json",
            "1_Pooling/config.json",
            "modules.json",
            "0_Transformer/model.onnx",
        ]
    );
}

#[test]
fn what_a_model_is_told_about_is_not_read() {
    for read in [
        "onnx/model.onnx_data",
        "2_Dense/model.safetensors",
        "vocab.txt",
    ] {
        assert!(is_read(read), "{read}");
    }
    for other in ["README.md", "2_Dense/pytorch_model.bin", ".gitattributes"] {
        assert!(!is_read(other), "{other}");
    }
}

#[test]
fn the_settings_of_a_stanford_checkpoint_are_taken() {
    let paths = [
        "artifact.metadata",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ];
    let choice = FileChoice {
        weights: WeightsPreference::CheckpointFirst(|_| Ok(())),
        ..FileChoice::default()
    };
    assert_eq!(
        chosen(&paths, None, &choice),
        [paths[0], paths[1], paths[3], paths[2]]
    );
    assert!(is_metadata(paths[0]) && is_read(paths[0]));
}

#[test]
fn all_routes_of_a_router_are_taken() {
    let network = "sentence_transformers.models.Transformer";
    for (folder, file) in [
        ("", ROUTER),
        ("", "config.json"),
        ("0_Router", ROUTER),
        ("0_Asym", "config.json"),
    ] {
        let modules = serde_json::json!([
            {"path": folder, "type": "sentence_transformers.models.Router"},
            {"path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
        ]);
        let layout = ModuleFolders::read("org/name", modules.to_string().as_bytes()).unwrap();
        let all: Vec<String> = [
            file,
            "document_0_MLMTransformer/config.json",
            "document_0_MLMTransformer/model.safetensors",
            "document_0_MLMTransformer/pytorch_model.bin",
            "document_0_MLMTransformer/tokenizer.json",
            "document_1_SpladePooling/config.json",
            "query_0_SparseStaticEmbedding/config.json",
            "query_0_SparseStaticEmbedding/model.safetensors",
            "query_0_SparseStaticEmbedding/pytorch_model.bin",
            "query_0_SparseStaticEmbedding/tokenizer.json",
            "unrelated/config.json",
        ]
        .map(|name| joined(folder, name))
        .into_iter()
        .chain(["modules.json".to_owned()])
        .collect();
        let paths: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(layout.router_file(&paths), Some(paths[0]));
        let types = serde_json::json!({"types": {
            "query_0_SparseStaticEmbedding": "sentence_transformers.sparse_encoder.models.SparseStaticEmbedding",
            "document_0_MLMTransformer": "sentence_transformers.sparse_encoder.models.MLMTransformer",
            "document_1_SpladePooling": "sentence_transformers.sparse_encoder.models.SpladePooling",
        }, "structure": {}});
        let layout = layout
            .with_routes("org/name", paths[0], types.to_string().as_bytes())
            .unwrap();
        let choice = FileChoice {
            weights: WeightsPreference::CheckpointFirst(|_| Ok(())),
            ..FileChoice::default()
        };
        let selection = select("org/name", &paths, &layout, &choice, &config()).unwrap();
        assert_eq!(selection.checkpoint, [paths[2]], "{folder} {file}");
        let expected = [0, 1, 4, 5, 6, 7, 9, 11].map(|at| paths[at]);
        assert_eq!(selection.others, expected, "{folder} {file}");
        assert!(is_read(paths[0]));
    }
    // Two networks: that of the documents is the model's, and the other is fetched with its weights.
    let layout = ModuleFolders::read(
        "org/name",
        br#"[{"path": "", "type": "sentence_transformers.models.Router"}]"#,
    )
    .unwrap();
    let types = serde_json::json!({"types": {"a_0_Transformer": network, "document_0_Transformer": network}});
    let layout = layout
        .with_routes("org/name", ROUTER, types.to_string().as_bytes())
        .unwrap();
    assert_eq!(layout.transformer, "document_0_Transformer");
    assert_eq!(layout.others, ["a_0_Transformer"]);
    let damaged = layout.with_routes("org/name", ROUTER, b"[").unwrap_err();
    assert!(damaged.to_string().contains(ROUTER), "{damaged}");
}

#[test]
fn a_module_list_that_is_none_is_refused() {
    let error = ModuleFolders::read("org/name", b"{}")
        .unwrap_err()
        .to_string();
    assert!(error.contains("modules.json"), "{error}");
}
