//! Adapters, several networks in one checkpoint, and repositories with code of their own, as users meet them. Vectors
//! of an adapter against the reference are in `tests/parity.rs`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};

/// A model with an adapter beside its weights.
const ADAPTED: &str = "fixtures/parity/adapter-qwen3/model";
/// The same without the adapter; with an ONNX file.
const PLAIN: &str = "fixtures/parity/family-qwen3/model";

/// Files of the network alone.
const NETWORK: [&str; 2] = ["config.json", "model.safetensors"];

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one text\nanother, longer text\n");
    sandbox
}

fn embed(sandbox: &Sandbox, model: &str, out: &str, more: &str) -> Run {
    sandbox.run(&format!(
        "embed texts.txt -m {model} -o {out} --threads 1 --offline --prompt-name query --cache-dir hub {more}"
    ))
}

fn vectors(sandbox: &Sandbox, model: &str, more: &str) -> Vec<u8> {
    let run = embed(sandbox, model, "out.npy", &format!("--force {more}"));
    assert_eq!(run.code, Some(0), "{run}");
    fs::read(sandbox.path("out.npy")).unwrap()
}

/// Changes a JSON file.
fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

/// Takes the network out of `adapted` and puts it into `base`.
fn part(adapted: &Path, base: &Path) {
    fs::create_dir_all(base).unwrap();
    for name in NETWORK {
        fs::rename(adapted.join(name), base.join(name)).unwrap();
    }
}

/// A repository in the Hub's cache that is `hub`; its snapshot's folder.
fn cached(sandbox: &Sandbox, name: &str) -> std::path::PathBuf {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let repository = sandbox.path(&format!("hub/models--org--{name}"));
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), commit).unwrap();
    repository.join("snapshots").join(commit)
}

#[test]
fn an_adapter_alone_gives_the_vectors_of_one_beside_its_base_model() {
    let sandbox = sandbox();
    let beside = in_repository(ADAPTED).display().to_string();
    let plain = in_repository(PLAIN).display().to_string();
    for precision in ["fp32", "int16", "int8"] {
        let more = format!("--precision {precision} -p native");
        let expected = vectors(&sandbox, &beside, &more);
        assert_ne!(vectors(&sandbox, &plain, &more), expected, "{precision}");

        copy_folder(&in_repository(ADAPTED), &sandbox.path("lora"));
        part(&sandbox.path("lora"), &sandbox.path("base"));
        let name = |base: &str| {
            let file = sandbox.path("lora/adapter_config.json");
            edit(&file, |settings| {
                settings["base_model_name_or_path"] = json!(base);
            });
        };
        // Seen from the current folder, from the adapter's own, and by its whole path.
        for base in [
            "base",
            "../base",
            &sandbox.path("base").display().to_string(),
        ] {
            name(base);
            assert_eq!(
                vectors(&sandbox, "lora", &more),
                expected,
                "{precision} {base}"
            );
        }
        name("org/base");
        let run = embed(&sandbox, "lora", "absent.npy", &more);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("`embedctl download org/base`"), "{run}");
        assert!(!sandbox.path("absent.npy").exists());
        let snapshot = cached(&sandbox, "base");
        fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
        fs::rename(sandbox.path("base"), &snapshot).unwrap();
        assert_eq!(
            vectors(&sandbox, "lora", &more),
            expected,
            "{precision}: in the cache"
        );

        // The Hub's own: what it is put over is the base model that it names, whatever lies beside it.
        let lora = cached(&sandbox, "lora");
        copy_folder(&sandbox.path("lora"), &lora);
        for name in NETWORK {
            fs::copy(
                in_repository("fixtures/parity/family-llama-lasttoken/model").join(name),
                lora.join(name),
            )
            .unwrap();
        }
        assert_eq!(
            vectors(&sandbox, "org/lora", &more),
            expected,
            "{precision}: of the Hub"
        );
        for folder in ["lora", "hub"] {
            fs::remove_dir_all(sandbox.path(folder)).unwrap();
        }
    }
}

#[test]
fn an_adapters_files_are_in_the_provenance_and_part_of_the_fingerprint() {
    let sandbox = sandbox();
    copy_folder(&in_repository(ADAPTED), &sandbox.path("lora"));
    part(&sandbox.path("lora"), &sandbox.path("base"));
    let settings = sandbox.path("lora/adapter_config.json");
    edit(&settings, |settings| {
        settings["base_model_name_or_path"] = json!("base");
    });
    let run = embed(&sandbox, "lora", "out/", "-p native");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("adapter"),
        "the adapter is not mentioned: {run}"
    );
    vectors(&sandbox, "lora", "-p native");
    let made: Value =
        serde_json::from_slice(&fs::read(sandbox.path("out.npy.json")).unwrap()).unwrap();
    let files = made["model"]["files"].as_array().unwrap().iter();
    let names: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
    for name in [
        "adapter_config.json",
        "adapter_model.safetensors",
        "base/config.json",
        "base/model.safetensors",
        "tokenizer.json",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    // Another adapter is another model.
    edit(&settings, |settings| settings["lora_alpha"] = json!(9));
    let run = embed(&sandbox, "lora", "out/", "-p native --resume");
    assert_ne!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("adapter_config.json") || run.stderr.contains("model"),
        "{run}"
    );
}

#[test]
fn no_onnx_file_runs_in_place_of_a_network_with_an_adapter() {
    let sandbox = sandbox();
    copy_folder(&in_repository(ADAPTED), &sandbox.path("lora"));
    copy_folder(
        &in_repository(PLAIN).join("onnx"),
        &sandbox.path("lora/onnx"),
    );
    for more in [
        "--weights onnx",
        "--weights onnx -p cpu",
        "--model-file onnx/model.onnx",
    ] {
        let run = embed(&sandbox, "lora", "out.npy", more);
        assert_ne!(run.code, Some(0), "{more}: {run}");
        assert!(run.stderr.contains("adapter_config.json"), "{more}: {run}");
        assert!(
            run.stderr.contains("leave --model-file and --weights out"),
            "{more}: {run}"
        );
        assert!(!sandbox.path("out.npy").exists(), "{more}");
    }
    let native = vectors(&sandbox, "lora", "-p native");
    assert_eq!(vectors(&sandbox, "lora", ""), native);
    // Other engines merge it into a graph of their own, and leave the ONNX file alone.
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let words = bytes[128..].as_chunks().0;
        words.iter().map(|word| f32::from_le_bytes(*word)).collect()
    };
    let built = floats(&vectors(&sandbox, "lora", "-p rten"));
    let apart = built
        .iter()
        .zip(floats(&native))
        .map(|(a, b)| (a - b).abs());
    let worst = apart.max_by(f32::total_cmp).unwrap();
    assert!(worst < 2e-5, "{worst}");
}

#[test]
fn info_and_a_run_mention_adapters_own_code_and_unknown_prefixes() {
    let sandbox = sandbox();
    let plain = "fixtures/parity/pool-max/model";
    let said = |model: &str| {
        let run = sandbox.run(&format!("info {model} --json"));
        assert_eq!(run.code, Some(0), "{run}");
        let info: Value = serde_json::from_str(&run.stdout).unwrap();
        let notes = info["notes"].to_string();
        let run = sandbox.run(&format!(
            "embed texts.txt -m {model} -o out.npy --force -p native"
        ));
        assert_eq!(run.code, Some(0), "{run}");
        (notes, run.stderr)
    };
    copy_folder(&in_repository(ADAPTED), &sandbox.path("lora"));
    let (notes, run) = said("lora");
    assert!(
        notes.contains("adapter_model.safetensors") && run.contains("adapter_model.safetensors"),
        "{notes}\n{run}"
    );

    copy_folder(&in_repository(plain), &sandbox.path("own"));
    let (notes, run) = said("own");
    assert!(
        !notes.contains("auto_map") && !run.contains("auto_map"),
        "{notes}\n{run}"
    );
    edit(&sandbox.path("own/config.json"), |config| {
        config["auto_map"] = json!({"AutoModel": "modeling.OwnModel"});
    });
    let (notes, run) = said("own");
    for said in [&notes, &run] {
        assert!(
            said.contains("modeling.OwnModel") && said.contains("model_type bert"),
            "{said}"
        );
    }

    copy_folder(&in_repository(plain), &sandbox.path("kd"));
    let file = sandbox.path("kd/model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let renamed = tensors
        .tensors()
        .into_iter()
        .map(|(name, tensor)| (format!("kd.{}", name.trim_start_matches("bert.")), tensor));
    let renamed: Vec<_> = renamed.collect();
    fs::write(&file, safetensors::serialize(renamed, None).unwrap()).unwrap();
    let (notes, run) = said("kd");
    for said in [&notes, &run] {
        assert!(said.contains("'kd.'"), "{said}");
    }
}
