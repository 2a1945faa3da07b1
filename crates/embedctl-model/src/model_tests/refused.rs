//! Refused repositories and options, and the messages.

use super::*;
use embedctl_rows::tokenizer_file;

#[test]
fn modules_that_cannot_be_run_are_refused_by_name() {
    let transformer = module("sentence_transformers.models.Transformer", "");
    let list = |second: Value| json!([transformer, second]);
    let variant = |second| Variant::of("bert-cls").write("modules.json", &list(second));
    variant(module("custom_st.Pooler", "1_Pooling")).refused(&["custom_st.Pooler", "own code"]);
    variant(module("sentence_transformers.models.CNN", "1_CNN")).refused(&["CNN", "modules.json"]);
    variant(module(
        "sentence_transformers.models.Pooling",
        "../elsewhere",
    ))
    .refused(&["outside"]);
    variant(module(
        "sentence_transformers.models.Normalize",
        "2_Normalize",
    ))
    .refused(&["pooling"]);
    Variant::of("bert-dense-tanh")
        .change(
            "2_Dense/config.json",
            "module_input_name",
            json!("token_embeddings"),
        )
        .refused(&["token_embeddings", "2_Dense"]);
    Variant::of("bert-dense-tanh")
        .change(
            "2_Dense/config.json",
            "activation_function",
            json!("my.Swoosh"),
        )
        .refused(&["my.Swoosh"]);
    Variant::of("bert-cls")
        .change(
            "config_sentence_transformers.json",
            "model_type",
            json!("MultiVectorEncoder"),
        )
        .refused(&[
            "2_Normalize",
            "'sentence_embedding'",
            "'token_embeddings' only",
        ]);
}

#[test]
fn weights_only_in_a_pickle_are_refused_with_the_conversion() {
    let variant = Variant::of("bert-dense-tanh").remove("2_Dense/model.safetensors");
    variant.refused(&["model.safetensors", "is missing"]);
    fs::write(variant.0.path().join("2_Dense/pytorch_model.bin"), b"").unwrap();
    variant.refused(&["pickle", "save_file"]);
}

#[cfg(unix)]
#[test]
fn weights_of_a_module_that_cannot_be_reached_are_not_called_missing() {
    let variant = Variant::of("bert-dense-tanh").remove("2_Dense/model.safetensors");
    // A link to itself: unreadable for root, too.
    let file = variant.0.path().join("2_Dense/model.safetensors");
    std::os::unix::fs::symlink("model.safetensors", file).unwrap();
    variant.refused(&["cannot read", "2_Dense/model.safetensors"]);
}

#[test]
fn weights_of_a_module_are_compared_with_its_settings_before_they_are_read() {
    let variant = Variant::of("bert-dense-tanh");
    let header =
        br#"{"linear.weight":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,4]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    let file = variant.0.path().join("2_Dense/model.safetensors");
    fs::write(file, [&length, &header[..], &[0; 4]].concat()).unwrap();
    variant.refused(&["2_Dense", "linear.weight", "[1099511627776]"]);
}

#[test]
fn texts_that_would_be_wrapped_in_chat_messages_are_refused() {
    Variant::of("bare-causal-lm")
        .change(
            "tokenizer_config.json",
            "chat_template",
            json!("{{ messages }}"),
        )
        .refused(&["chat template", "tokenizer_config.json"]);
    let modalities = json!({"text": {"method": "forward"}, "message": {"method": "forward"}});
    Variant::of("bert-cls")
        .change("sentence_bert_config.json", "modality_config", modalities)
        .refused(&["message", "sentence_bert_config.json"]);
}

#[test]
fn missing_and_damaged_files_are_named() {
    Variant::of("bert-cls")
        .remove("tokenizer.json")
        .refused(&["tokenizer.json", "save_pretrained"]);
    Variant::of("bert-cls")
        .remove("config.json")
        .refused(&["config.json", "is missing"]);
    Variant::of("bert-cls")
        .remove("1_Pooling")
        .refused(&["1_Pooling", "is missing"]);
    Variant::of("bert-cls")
        .remove("onnx")
        .refused(&["no ONNX file"]);
    let broken = Variant::of("bert-cls");
    fs::write(broken.0.path().join("modules.json"), b"[{").unwrap();
    broken.refused(&["modules.json", "JSON"]);
    fs::write(broken.0.path().join("modules.json"), b"[]").unwrap();
    broken.refused(&["modules.json", "Transformer"]);
    let pointer = Variant::of("bert-cls");
    fs::write(pointer.0.path().join("onnx/model.onnx"), LFS_POINTER).unwrap();
    pointer.refused(&["model.onnx", "Git LFS", "git lfs pull"]);
    for file in ["tokenizer.json", "config.json", "modules.json"] {
        let pointer = Variant::of("bert-cls");
        fs::write(pointer.0.path().join(file), LFS_POINTER).unwrap();
        pointer.refused(&[file, "Git LFS", "git lfs pull"]);
    }
    Variant::of("weights-external-data")
        .remove("onnx/model.onnx_data")
        .refused(&["model.onnx_data", "is missing"]);
    let external = |change: &dyn Fn(&mut Vec<u8>)| {
        let variant = Variant::of("weights-external-data");
        let path = variant.0.path().join("onnx/model.onnx_data");
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
        variant
    };
    let pointer = external(&|bytes| *bytes = LFS_POINTER.to_vec());
    pointer.refused(&["model.onnx_data", "Git LFS", "git lfs pull"]);
    let cut = external(&|bytes| bytes.truncate(40_000));
    cut.refused(&[
        "model.onnx_data",
        "is cut short: it has 40000 bytes",
        "fetch",
    ]);
}

const LFS_POINTER: &[u8] =
    b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";

/// Folders as llama.cpp's users have them, with and without a model's other files.
#[test]
fn weights_of_llama_cpp_are_called_that() {
    let alone = TempDir::new().unwrap();
    fs::write(alone.path().join("model-Q4_K_M.gguf"), b"GGUF").unwrap();
    let options = |path: &Path| ModelOptions {
        model: path.to_str().unwrap().into(),
        ..ModelOptions::default()
    };
    let words = ["GGUF", "model-Q4_K_M.gguf", "org/name"];
    assert_says(
        Model::open(&options(alone.path()), WeightsPreference::Onnx),
        &words,
    );
    // There is no checkpoint that could be run in its place.
    let either = WeightsPreference::CheckpointFirst(|_| Ok(()));
    let error = Model::open(&options(alone.path()), either).unwrap_err();
    assert!(!error.to_string().contains("in its place"), "{error}");
    let file = alone.path().join("model-Q4_K_M.gguf");
    assert_says(
        Model::open(&options(&file), WeightsPreference::Onnx),
        &words,
    );
    let named = Variant::of("bert-cls");
    fs::write(named.0.path().join("q4.gguf"), b"GGUF").unwrap();
    let options_of_file = ModelOptions {
        model_file: Some("q4.gguf".into()),
        ..named.options()
    };
    assert_says(
        Model::open(&options_of_file, WeightsPreference::Onnx),
        &["GGUF (q4.gguf)", "org/name"],
    );
    let gone = alone.path().join("gone.gguf");
    let error = Model::open(&options(&gone), WeightsPreference::Onnx).unwrap_err();
    let error = error.to_string();
    for part in ["gone.gguf", "is not there", "GGUF", "org/name"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("holds weights"), "{error}");
    let beside = Variant::of("bert-cls").remove("onnx");
    fs::write(beside.0.path().join("model-Q4_K_M.gguf"), b"GGUF").unwrap();
    beside.refused(&words);
}

/// Python writes it, and no other reader of JSON takes it.
#[test]
fn numbers_that_json_does_not_have_are_named_with_their_key() {
    for (value, name) in [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("[1, NaN]", "NaN"),
    ] {
        let variant = Variant::of("bert-cls");
        let path = variant.0.path().join("config.json");
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replacen('{', &format!("{{\n  \"a_key\" : {value},"), 1);
        fs::write(&path, text).unwrap();
        let place = match value.starts_with('[') {
            true => "a value on line 2",
            false => "\"a_key\"",
        };
        let said = format!("{place} is {name}, and JSON has no such number");
        variant.refused(&["config.json", &said, "write a number or null"]);
    }
}

/// Windows' editors put one before UTF-8.
#[test]
fn a_byte_order_mark_is_passed_over() {
    let variant = Variant::of("bert-cls");
    for file in ["config.json", "modules.json", "tokenizer_config.json"] {
        let path = variant.0.path().join(file);
        let text = [b"\xef\xbb\xbf", &fs::read(&path).unwrap()[..]].concat();
        fs::write(path, text).unwrap();
    }
    variant.open().unwrap();
}

#[test]
fn a_model_that_is_not_here_is_refused_with_the_way_to_get_it() {
    let cache = TempDir::new().unwrap();
    let options = |model: &str| ModelOptions {
        model: model.into(),
        cache_dir: Some(cache.path().into()),
        ..ModelOptions::default()
    };
    assert_says(
        Model::open(&options("org/name"), WeightsPreference::Onnx),
        &["org/name", "embedctl download org/name", "--local-dir"],
    );
    assert_says(
        Model::open(&options("org/name@v2"), WeightsPreference::Onnx),
        &["embedctl download org/name@v2"],
    );
    assert_says(
        Model::open(&options("./nowhere/at/all"), WeightsPreference::Onnx),
        &["neither a folder"],
    );
}

#[test]
fn widths_that_cannot_be_are_refused() {
    for (file, key) in [
        ("config.json", "hidden_size"),
        ("1_Pooling/config.json", "word_embedding_dimension"),
        ("2_Dense/config.json", "in_features"),
        ("2_Dense/config.json", "out_features"),
    ] {
        for width in [
            json!(0),
            json!(-1),
            json!(1_000_000_000_000_u64),
            json!(1e300),
        ] {
            let variant = Variant::of("bert-dense-tanh").change(file, key, width);
            variant.refused(&[file, key, "must be from 1 to 131072"]);
        }
        // A width that may be, and is not.
        let message = Variant::of("bert-dense-tanh")
            .change(file, key, json!(77))
            .open();
        if let Err(error) = message {
            assert!(!error.to_string().contains("report this"), "{error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn devices_and_fifos_are_no_models_files() {
    for file in [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "2_Dense/model.safetensors",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "onnx/model.onnx",
    ] {
        let variant = Variant::of("bert-dense-tanh");
        let path = variant.0.path().join(file);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        refused_as_none(&variant, file);
        fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the path is a C string that lives through the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        refused_as_none(&variant, file);
    }
}

#[cfg(unix)]
fn refused_as_none(variant: &Variant, file: &str) {
    let error = variant.open().expect_err(file);
    let mut message = error.to_string();
    if let Some(cause) = std::error::Error::source(&error) {
        message = format!("{message}: {cause}");
    }
    let told = message.contains("not a regular file") || file.ends_with(".onnx");
    assert!(told, "{file}: {message}");
}

#[test]
fn a_template_with_an_unknown_special_token_is_refused() {
    let template = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[NONE]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {},
    });
    let variant = Variant::of("bert-cls")
        .change("tokenizer.json", "post_processor", template)
        .change(
            "tokenizer_config.json",
            "tokenizer_class",
            json!("TokenizersBackend"),
        );
    let result = variant.open().and_then(|model| model.text_tokenizer(1));
    let message = result.expect_err("this must be refused").to_string();
    assert!(message.contains("tokenizer.json"), "{message}");
    assert!(!message.contains("report this"), "{message}");
    assert!(message.contains("'[NONE]'"), "{message}");
}

#[test]
fn an_argument_of_another_type_is_refused_by_name() {
    for class in ["BertTokenizer", "DistilBertTokenizer", "FunnelTokenizer"] {
        let variant = Variant::of("bert-cls")
            .change("tokenizer_config.json", "tokenizer_class", json!(class))
            .change("tokenizer_config.json", "strip_accents", json!("x"));
        let message = variant
            .open()
            .expect_err("this must be refused")
            .to_string();
        assert!(
            message.contains("strip_accents is true or false"),
            "{message}"
        );
        assert!(!message.contains("report this"), "{message}");
    }
}

/// The remedy for a tokenizer that its class cannot read is one that helps: some types force their class.
#[test]
fn the_remedy_for_a_class_of_another_kind_helps() {
    for (model_type, class, words) in [
        (
            "qwen2",
            "TokenizersBackend",
            ["no setting of the tokenizer", "Qwen2Tokenizer"],
        ),
        (
            "qwen2",
            "BertTokenizer",
            ["no setting of the tokenizer", "Qwen2Tokenizer"],
        ),
        (
            "bert",
            "Qwen2Tokenizer",
            ["\"TokenizersBackend\"", "Qwen2Tokenizer"],
        ),
    ] {
        let variant = Variant::of("bert-cls")
            .change("config.json", "model_type", json!(model_type))
            .change("tokenizer_config.json", "tokenizer_class", json!(class));
        variant.refused(&words);
        if words[0].contains("Backend") {
            let mended = variant.change(
                "tokenizer_config.json",
                "tokenizer_class",
                json!("TokenizersBackend"),
            );
            mended.open().unwrap();
        }
    }
}

/// The tokenizers crate makes a tree of the pieces, a level for each byte, and drops it by recursion.
#[test]
fn a_unigram_piece_of_any_length_is_read_or_refused() {
    let case = "class-xlm-roberta-unknown-and-bytes";
    for (bytes, is_read) in [
        (1024, true),
        (1025, false),
        (50_000, false),
        (200_000, false),
        (2_000_000, false),
    ] {
        let variant = Variant::of(case);
        let file = variant.0.path().join("tokenizer.json");
        let mut tokenizer: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let vocabulary = tokenizer["model"]["vocab"].as_array_mut().unwrap();
        vocabulary.push(json!(["a".repeat(bytes), -9.0]));
        let variant = variant.write("tokenizer.json", &tokenizer);
        // Threads have smaller stacks than the program's first one.
        let opened = std::thread::spawn(move || variant.open().map(drop));
        match opened.join().unwrap() {
            Ok(()) => assert!(is_read, "{bytes}"),
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.contains(&format!("a piece of {bytes} bytes")),
                    "{said}"
                );
            }
        }
        // Twice the same key: the last one holds, and every one is looked at.
        if !is_read {
            let text = tokenizer.to_string();
            let twice = text.replacen('{', "{\"model\":{},", 1);
            let cause = tokenizer_file::read(twice.into_bytes()).err().unwrap();
            assert!(cause.reason.contains("a piece of"), "{}", cause.reason);
        }
    }
}

/// Templates repeat tokens and texts, each as often as the last one left them.
#[test]
fn a_template_that_grows_without_a_limit_is_refused() {
    let named = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let special = |count: usize| {
        let tokens = vec!["[CLS]"; count];
        json!({"[CLS]": {"id": "[CLS]", "ids": vec![2; count], "tokens": tokens}})
    };
    let template = |single: &[Value], count: usize| json!({"type": "TemplateProcessing", "single": single, "pair": [text], "special_tokens": special(count)});
    let long = [vec![named("[CLS]"); 700], vec![text.clone()]].concat();
    let twice = template(&[text.clone(), text.clone()], 1);
    let doubled = json!({"type": "Sequence", "processors": vec![twice; 40]});
    for post in [template(&long, 700), doubled] {
        let backend = json!("TokenizersBackend");
        let variant = Variant::of("bert-cls")
            .change("tokenizer.json", "post_processor", post)
            .change("tokenizer_config.json", "tokenizer_class", backend);
        variant.refused(&["tokenizer.json", "more than 65536 tokens of a text of one"]);
    }
}
