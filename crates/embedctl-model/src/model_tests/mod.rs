//! Repositories that are read or refused, and the messages.

mod damaged;
mod refused;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Model, ModelConfig, ModelOptions, Precision};
use super::{WeightsKind, WeightsPreference};
use embedctl_common::error::{ErrorKind, Result};
use embedctl_rows::{PoolingMode, PositionIds, Step};
use embedctl_testing::assert_no_bug;
use embedctl_testing::mutation;

/// A copy of a parity case's model, to be changed.
struct Variant(TempDir);

impl Variant {
    fn of(case: &str) -> Self {
        let folder = TempDir::new().unwrap();
        copy(
            &Path::new("../../fixtures/parity").join(case).join("model"),
            folder.path(),
        );
        Self(folder)
    }

    fn write(self, file: &str, content: &Value) -> Self {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_string()).unwrap();
        self
    }

    fn change(self, file: &str, key: &str, value: Value) -> Self {
        let path = self.0.path().join(file);
        let mut content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        content[key] = value;
        self.write(file, &content)
    }

    fn remove(self, file: &str) -> Self {
        let path = self.0.path().join(file);
        if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
        .unwrap();
        self
    }

    fn options(&self) -> ModelOptions {
        ModelOptions {
            model: self.0.path().to_str().unwrap().into(),
            ..ModelOptions::default()
        }
    }

    fn open(&self) -> Result<Model> {
        Model::open(&self.options(), WeightsPreference::Onnx)
    }

    /// The configuration, for a repository that must be accepted.
    fn config(&self) -> ModelConfig {
        self.open().unwrap().config
    }

    /// Asserts that the repository is refused with a message that holds all `parts`.
    fn refused(&self, parts: &[&str]) {
        assert_says(self.open(), parts);
    }
}

fn assert_says(result: Result<Model>, parts: &[&str]) {
    let message = result.expect_err("this must be refused").to_string();
    for part in parts {
        assert!(message.contains(part), "'{part}' is missing in: {message}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let name = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &name);
        } else {
            fs::copy(&entry, &name).map(|_| ()).unwrap();
        }
    }
}

fn module(kind: &str, path: &str) -> Value {
    json!({"idx": 0, "name": kind, "path": path, "type": kind})
}

#[test]
fn the_hubs_cache_is_read_by_branch_and_by_commit() {
    let cache = TempDir::new().unwrap();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let base = cache.path().join("models--org--name");
    copy(
        Path::new("../../fixtures/parity/bert-cls/model"),
        &base.join("snapshots").join(commit),
    );
    fs::create_dir_all(base.join("refs")).unwrap();
    fs::write(base.join("refs/main"), commit).unwrap();
    for model in ["org/name", "org/name@main", &format!("org/name@{commit}")] {
        let options = ModelOptions {
            model: model.into(),
            cache_dir: Some(cache.path().into()),
            ..ModelOptions::default()
        };
        let model = Model::open(&options, WeightsPreference::Onnx).unwrap();
        assert_eq!(
            (model.id.as_str(), model.revision.as_deref()),
            ("org/name", Some(commit))
        );
    }
}

#[test]
fn lengths_come_from_the_files_in_the_references_order() {
    assert_eq!(Variant::of("bert-cls").config().max_length, 96);
    let short =
        Variant::of("bert-cls").change("sentence_bert_config.json", "max_seq_length", json!(32));
    assert_eq!(short.config().max_length, 32);
    let none =
        Variant::of("bert-cls").change("tokenizer_config.json", "model_max_length", json!(1e30));
    assert_eq!(none.config().max_length, 128);
    let passed = json!({"text": {"max_length": 20}});
    let passed =
        Variant::of("bert-cls").change("sentence_bert_config.json", "processing_kwargs", passed);
    assert_eq!(passed.config().max_length, 20);
    // RoBERTa: 66 positions; those up to the padding id are never used.
    let roberta =
        Variant::of("roberta-mean").change("tokenizer_config.json", "model_max_length", json!(512));
    assert_eq!(roberta.config().max_length, 64);
    assert_eq!(roberta.config().positions, PositionIds::AfterPadding(1));
}

#[test]
fn a_limit_of_special_tokens_alone_or_below_them_is_the_references() {
    const FILE: &str = "sentence_bert_config.json";
    let limited = |limit: Value| Variant::of("bert-cls").change(FILE, "max_seq_length", limit);
    assert_eq!(limited(json!(2)).config().max_length, 2);
    // tokenizers takes the special tokens from a limit, and cuts nothing where it has fewer.
    for limit in [json!(0), json!(1), json!(true), json!(false)] {
        let config = limited(limit.clone()).config();
        assert_eq!(config.limit(), None, "{limit}");
        assert_eq!(config.positions_limit, Some(128), "{limit}");
    }
    limited(json!("3")).refused(&[FILE, "max_seq_length", "number of tokens"]);
    for (limit, kept) in [(0, None), (1, None), (2, Some(2)), (3, Some(3))] {
        let variant = Variant::of("bert-cls").change(FILE, "max_seq_length", Value::Null);
        let variant = variant.change("tokenizer_config.json", "model_max_length", json!(limit));
        assert_eq!(variant.config().limit(), kept, "{limit}");
    }
}

#[test]
fn truncate_dim_is_the_end_of_a_slice() {
    const FILE: &str = "config_sentence_transformers.json";
    let cut = |end: Value| Variant::of("bert-cls").change(FILE, "truncate_dim", end);
    for (end, width) in [
        (json!(5), 5),
        (json!(true), 1),
        (json!(-2), 46),
        (json!(48), 48),
        (json!(1000), 48),
        (Value::Null, 48),
    ] {
        assert_eq!(cut(end.clone()).config().width, width, "{end}");
    }
    for end in [json!(0), json!(false), json!(-48), json!("3"), json!(2.5)] {
        let shown = end.to_string();
        cut(end).refused(&[FILE, "truncate_dim", &shown]);
    }
}

#[test]
fn switches_are_true_as_in_python() {
    let pooling = |key: &str, value: Value| {
        let variant = Variant::of("bert-mean-legacy");
        variant.change("1_Pooling/config.json", key, value).config()
    };
    let lowers = |value: Value| {
        let variant = Variant::of("tok-lowercase-sentence-bert-config");
        let variant = variant.change("sentence_bert_config.json", "do_lower_case", value);
        let (tokenizer, _) = Model::tokenizer_alone(&variant.options()).unwrap();
        let ids = |text| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        ids("A CAT SITS") == ids("a cat sits")
    };
    for (value, on) in [
        (json!("False"), true),
        (json!(1), true),
        (json!([0]), true),
        (json!(""), false),
        (json!(0), false),
        (json!([]), false),
        (Value::Null, false),
    ] {
        let config = pooling("include_prompt", value.clone());
        assert_eq!(config.include_prompt, on, "{value}");
        let modes = pooling("pooling_mode_cls_token", value.clone()).pooling;
        assert_eq!(modes.contains(&PoolingMode::Cls), on, "{value}");
        assert_eq!(lowers(value.clone()), on, "{value}");
    }
}

#[test]
fn an_end_token_that_is_asked_for_and_not_added_is_noted() {
    let asking = |value: Value| {
        let variant = Variant::of("qwen3-lasttoken");
        let variant = variant.change("tokenizer_config.json", "add_eos_token", value);
        let notes = variant.open().unwrap().notes;
        notes.iter().any(|note| note.contains("add_eos_token"))
    };
    assert!(asking(json!(true)));
    assert!(!asking(json!(false)));
}

#[test]
fn lengths_that_are_not_possible_name_both_limits() {
    let variant = Variant::of("bert-cls");
    for (asked, parts) in [
        (2, ["2 special tokens", "least is 3"]),
        (129, ["128 positions", "from 3 to 128"]),
    ] {
        let options = ModelOptions {
            max_length: Some(asked),
            ..variant.options()
        };
        let error = Model::open(&options, WeightsPreference::Onnx).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage);
        assert_says(Err(error), &parts);
    }
}

#[test]
fn prompts_are_chosen_by_name_by_default_and_by_text() {
    let variant = Variant::of("e5-prompts");
    let prompt =
        |options| Model::open(&options, WeightsPreference::Onnx).map(|model| model.config.prompt);
    let named = |name: &str| ModelOptions {
        prompt_name: Some(name.into()),
        ..variant.options()
    };
    assert_eq!(prompt(variant.options()).unwrap(), "passage: ");
    assert_eq!(prompt(named("query")).unwrap(), "query: ");
    let text = ModelOptions {
        prompt: Some(String::new()),
        ..variant.options()
    };
    assert_eq!(prompt(text).unwrap(), "");
    assert_says(
        Model::open(&named("nonsense"), WeightsPreference::Onnx),
        &["nonsense", "document, query"],
    );
    let both = ModelOptions {
        prompt: Some("a".into()),
        ..named("query")
    };
    assert_eq!(prompt(both).unwrap_err().kind(), ErrorKind::Usage);
    Variant::of("e5-prompts")
        .change(
            "config_sentence_transformers.json",
            "default_prompt_name",
            json!("gone"),
        )
        .refused(&["gone", "prompt"]);
}

#[test]
fn dimensions_and_normalization_can_be_overridden() {
    let variant = Variant::of("bert-cls");
    let with = |change: fn(&mut ModelOptions)| {
        let mut options = variant.options();
        change(&mut options);
        Model::open(&options, WeightsPreference::Onnx)
    };
    let usual = variant.config();
    assert_eq!((usual.width, usual.normalized()), (48, true));
    let cut = with(|options| options.dimensions = vec![16])
        .unwrap()
        .config;
    assert_eq!((cut.width, cut.normalized()), (16, false));
    let both = with(|options| {
        options.dimensions = vec![16];
        options.normalize = Some(true);
    });
    assert!(both.unwrap().config.normalized());
    let several = with(|options| options.dimensions = vec![48, 16]).unwrap();
    assert_eq!(several.config.vectors().0, [48, 16]);
    assert_eq!(several.config.width, 64);
    let all = with(|options| options.dimensions = vec![48]).unwrap();
    assert_eq!((all.config.width, all.config.normalized()), (48, true));
    assert_says(
        with(|options| options.dimensions = vec![16, 8, 16]),
        &["16 is listed twice"],
    );
    let raw = with(|options| options.normalize = Some(false))
        .unwrap()
        .config;
    assert!(!raw.steps.contains(&Step::Normalize) && !raw.normalized());
    assert_says(
        with(|options| options.dimensions = vec![16, 49]),
        &["dimensions 49", "48"],
    );
    let concatenated =
        with(|options| options.pooling = Some(vec![PoolingMode::Cls, PoolingMode::Max]));
    assert_eq!(concatenated.unwrap().config.width, 96);
}

#[test]
fn finished_vectors_are_taken_as_they_are() {
    let variant = Variant::of("graph-pooled-only-dense");
    let model = variant.open().unwrap();
    assert!(model.config.steps.is_empty());
    assert!(
        model.notes.iter().any(|note| note.contains("final")),
        "{:?}",
        model.notes
    );
    let options = ModelOptions {
        pooling: Some(vec![PoolingMode::Mean]),
        ..variant.options()
    };
    assert_says(Model::open(&options, WeightsPreference::Onnx), &["pooling"]);
}

#[test]
fn onnx_files_are_found_by_precision_and_by_path() {
    let variant = Variant::of("weights-fp16");
    variant.refused(&["fp32", "model_fp16.onnx", "precision"]);
    let open = |file: Option<&str>, precision| {
        Model::open(
            &ModelOptions {
                model_file: file.map(Into::into),
                precision,
                ..variant.options()
            },
            WeightsPreference::Onnx,
        )
    };
    assert!(
        open(None, Some(Precision::Fp16))
            .unwrap()
            .onnx()
            .unwrap()
            .path
            .ends_with("model_fp16.onnx")
    );
    assert!(open(Some("onnx/model_fp16.onnx"), None).is_ok());
    assert_says(
        open(Some("model_q4.onnx"), None),
        &["--model-file", "model_fp16.onnx"],
    );
    assert_says(
        open(Some("onnx/model_fp16.onnx"), Some(Precision::Fp16)),
        &["exclude each other"],
    );
}

#[test]
fn a_file_that_changes_after_it_was_read_has_no_hash() {
    let native = |variant: &Variant| {
        let wanted = WeightsPreference::Checkpoint(embedctl_checkpoint::knows);
        Model::open(&variant.options(), wanted).unwrap()
    };
    let case = "dense-two-layers";
    let names: Vec<String> = {
        let files = native(&Variant::of(case))
            .provenance(WeightsKind::Checkpoint)
            .unwrap()
            .files;
        files.into_iter().map(|file| file.path).collect()
    };
    assert!(names.len() > 6, "{names:?}");
    // Each file in each way; and files that would decide something if they were there.
    let rewrite: fn(&Path) = |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.reverse();
        fs::write(path, bytes).unwrap();
    };
    let replace: fn(&Path) = |path| {
        let other = path.with_extension("new");
        fs::copy(path, &other).unwrap();
        fs::rename(&other, path).unwrap();
    };
    let cut: fn(&Path) = |path| fs::File::create(path).map(drop).unwrap();
    let remove: fn(&Path) = |path| fs::remove_file(path).unwrap();
    let create: fn(&Path) = |path| fs::write(path, "{}").unwrap();
    let there = names.iter().map(String::as_str);
    let changes = there
        .flat_map(|name| [rewrite, replace, cut, remove].map(|change| (name, change)))
        .chain([
            ("sentence_bert_config.json", create),
            ("special_tokens_map.json", create),
        ]);
    for (name, change) in changes {
        let variant = Variant::of(case);
        let path = variant.0.path().join(name);
        // The clock of files ticks slowly, and this was written long ago.
        if let Ok(file) = fs::File::options().write(true).open(&path) {
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        }
        let model = native(&variant);
        model.check_unchanged(WeightsKind::Checkpoint).unwrap();
        model.provenance(WeightsKind::Checkpoint).unwrap();
        change(&path);
        for error in [
            model.check_unchanged(WeightsKind::Checkpoint).map(drop),
            model.provenance(WeightsKind::Checkpoint).map(drop),
        ] {
            let error = error.expect_err(name).to_string();
            let file = path.file_name().unwrap().to_str().unwrap();
            assert!(error.contains("was changed while"), "{error}");
            assert!(error.contains(file), "{name}: {error}");
        }
    }
}

#[test]
fn provenance_hashes_every_file_that_decides_a_vector() {
    let files = Variant::of("bert-dense-tanh")
        .open()
        .unwrap()
        .provenance(WeightsKind::Onnx)
        .unwrap()
        .files;
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for name in [
        "onnx/model.onnx",
        "tokenizer.json",
        "modules.json",
        "2_Dense/model.safetensors",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let external = Variant::of("weights-external-data")
        .open()
        .unwrap()
        .provenance(WeightsKind::Onnx)
        .unwrap()
        .files;
    assert!(
        external
            .iter()
            .any(|file| file.path == "onnx/model.onnx_data")
    );
    // Of `{}`, so that the hash function itself is pinned.
    let empty = Variant::of("bert-cls");
    fs::write(empty.0.path().join("special_tokens_map.json"), b"{}").unwrap();
    let files = empty
        .open()
        .unwrap()
        .provenance(WeightsKind::Onnx)
        .unwrap()
        .files;
    let map = files
        .iter()
        .find(|file| file.path == "special_tokens_map.json")
        .unwrap();
    assert_eq!(
        map.sha256,
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

#[test]
fn special_tokens_are_those_of_the_template() {
    let around = |case: &str| {
        let frame = Variant::of(case).config().frame;
        (frame.before.len(), frame.after.len())
    };
    assert_eq!(around("bert-cls"), (1, 1));
    assert_eq!(around("qwen3-lasttoken").0, 0);
    assert_eq!(around("tok-no-special-tokens"), (0, 0));
}
