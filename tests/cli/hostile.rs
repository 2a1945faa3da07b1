//! Files that somebody has put in the place of a model's or an output's: each ends in an error that names it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};

/// A run that fails, says all `parts`, and neither crashes nor blames itself.
fn refused(run: &Run, parts: &[&str]) {
    assert!(matches!(run.code, Some(1..=3)), "{run}");
    for part in parts {
        let said = [&run.stdout, &run.stderr]
            .map(|said| said.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(
            said.iter().any(|said| said.contains(part)),
            "no '{part}': {run}"
        );
    }
    for word in ["panicked", "internal error", "crashed"] {
        assert!(!run.stderr.contains(word), "{run}");
    }
}

fn fifo(path: &Path) {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// A FIFO would keep a run waiting, and a device has no end.
#[test]
fn a_pipe_or_a_device_in_the_place_of_a_jobs_file_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo\nthree\n");
    let run = sandbox.embed("texts.txt -o out/");
    assert_eq!(run.code, Some(0), "{run}");
    let folder = sandbox.path("_out.embedctl");
    let folders = ["", "commits", "texts", "shards"].map(|name| folder.join(name));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let files: Vec<_> = (files.map(|entry| entry.unwrap().path()))
        .filter(|path| path.is_file() && path.extension().is_some())
        .collect();
    assert!(files.len() > 3, "{files:?}");
    for path in files {
        let content = fs::read(&path).unwrap();
        for kind in ["fifo", "zero"] {
            fs::remove_file(&path).unwrap();
            match kind {
                "fifo" => fifo(&path),
                _ => symlink("/dev/zero", &path).unwrap(),
            }
            // A command that does not read this file may succeed.
            let again = sandbox.embed("texts.txt -o out/ --resume");
            let looked = sandbox.run("inspect out/");
            let reused = sandbox.embed("texts.txt -o new.jsonl --reuse out/ --force");
            for run in [&again, &looked, &reused] {
                match run.code {
                    Some(0) => assert!(!run.stderr.contains("panicked"), "{run}"),
                    _ => refused(run, &["not a regular file"]),
                }
            }
            let _ = fs::remove_file(&path);
            fs::write(&path, &content).unwrap();
        }
    }
}

/// A copy of a model, to be changed.
fn copied(sandbox: &Sandbox, model: &str) -> std::path::PathBuf {
    let folder = sandbox.path("model");
    let _ = fs::remove_dir_all(&folder);
    copy_folder(&in_repository(model), &folder);
    folder
}

fn change(file: &Path, change: impl Fn(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

#[test]
fn a_graph_that_gives_narrower_vectors_than_it_declares_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo words\n");
    let model = copied(&sandbox, SMALL_MODEL);
    let graph = model.join("onnx/model.onnx");
    let mut bytes = fs::read(&graph).unwrap();
    // The last dimension of the last output: 48, as the files say.
    let at = bytes.windows(2).rposition(|two| two == [0x08, 48]).unwrap();
    bytes[at + 1] = 96;
    fs::write(&graph, bytes).unwrap();
    change(&model.join("config.json"), |it| {
        it["hidden_size"] = json!(96);
    });
    change(&model.join("1_Pooling/config.json"), |it| {
        it["word_embedding_dimension"] = json!(96);
    });
    let run = sandbox.run("embed texts.txt -o out.jsonl -m ./model -p rten --threads 1");
    refused(&run, &["vectors of 48 components", "from one revision"]);
    assert!(!sandbox.path("out.jsonl").exists());
}

/// A tokenizer of another model makes ids that the table does not have.
#[test]
fn token_ids_beyond_the_table_name_the_record() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\nstrange\n");
    for case in ["family-distilbert", "static-normalized"] {
        let model = copied(&sandbox, &format!("fixtures/parity/{case}/model"));
        change(&model.join("tokenizer.json"), |it| {
            let vocabulary = it["model"]["vocab"].as_object_mut().unwrap();
            for (token, id) in vocabulary {
                if token.chars().all(|c| c.is_ascii_lowercase() || c == '#') {
                    *id = json!(id.as_u64().unwrap() + 900_000);
                }
            }
        });
        let run =
            sandbox.run("embed texts.txt -o out.jsonl -m ./model -p native --threads 1 --force");
        refused(
            &run,
            &[
                "texts.txt:1",
                "ids below",
                "a tokenizer and weights that belong together",
            ],
        );
    }
}

/// A clone without Git LFS: weights that are pointers, alone and beside a graph that runs in their place.
#[test]
fn a_pointer_in_the_place_of_weights_is_named_wherever_it_is_met() {
    const POINTER: &str =
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n";
    let sandbox = Sandbox::new();
    sandbox.write("one.txt", "one\n");
    let model = copied(&sandbox, "fixtures/parity/args-of-the-tokenizer/model");
    fs::write(model.join("model.safetensors"), POINTER).unwrap();
    let run = sandbox.run("embed one.txt -m ./model -o a.jsonl");
    assert_eq!(run.code, Some(0), "{run}");
    let note = "note: ./model/model.safetensors is a pointer to a file in Git LFS";
    assert!(run.stderr.contains(note), "{run}");
    fs::remove_dir_all(model.join("onnx")).unwrap();
    for line in ["embed one.txt -m ./model -o b.jsonl", "info ./model"] {
        refused(
            &sandbox.run(line),
            &["model.safetensors", "Git LFS", "git lfs pull"],
        );
    }
}

/// Weights that are no numbers are the cause whatever engine meets them.
#[test]
fn weights_that_are_no_numbers_are_the_cause() {
    let sandbox = Sandbox::new();
    sandbox.write("one.txt", "one\n");
    let model = copied(&sandbox, "fixtures/parity/args-of-the-tokenizer/model");
    fs::remove_dir_all(model.join("onnx")).unwrap();
    let weights = model.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let tensors: Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let name = "encoder.layer.0.intermediate.dense.weight";
    let at = header + tensors[name]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&weights, &bytes).unwrap();
    for provider in ["auto", "native", "rten"] {
        let run = sandbox.run(&format!(
            "embed one.txt -m ./model -o {provider}.jsonl -p {provider}"
        ));
        refused(
            &run,
            &[name, "holds NaN or infinity; no engine makes vectors of it"],
        );
        assert!(
            !run.stderr.contains("GPU") && !run.stderr.contains("may run it"),
            "{run}"
        );
    }
}

#[test]
fn an_index_that_names_an_odd_shard_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\n");
    let model = copied(&sandbox, "fixtures/parity/family-distilbert/model");
    let _ = fs::remove_file(model.join("model.safetensors"));
    let _ = fs::remove_dir_all(model.join("onnx"));
    for (map, said) in [
        (json!({}), "names no shards"),
        (json!({"a": "config.json"}), "names the shard 'config.json'"),
        (json!({"a": ""}), "names the shard ''"),
        (json!({"a": "."}), "names the shard '.'"),
        (json!({"a": "../x.safetensors"}), "outside its folder"),
    ] {
        let index = model.join("model.safetensors.index.json");
        fs::write(index, json!({"weight_map": map}).to_string()).unwrap();
        let run = sandbox.run("embed texts.txt -o out.jsonl -m ./model -p native --threads 1");
        refused(&run, &["model.safetensors.index.json", said]);
    }
}
