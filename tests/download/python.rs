//! One cache for embedctl and Python's `huggingface_hub`: each finds what the other has fetched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use crate::hub::{At, Fault, Files};
use crate::support;
use crate::world::{MODEL, ONNX, World, fixture, small_model};

/// The beginning of every script.
const PRELUDE: &str = "\
import json, sys
from huggingface_hub import *
say = lambda value: json.dump(value, open(sys.argv[1], 'w'), default=str)
";

struct Python {
    program: PathBuf,
}

impl Python {
    fn find(test: &str) -> Option<Self> {
        let program = support::python(test, &["huggingface_hub"])?;
        Some(Self { program })
    }

    fn command(&self, world: &World, script: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-c", &format!("{PRELUDE}{script}")])
            .arg(world.sandbox.path("answer"))
            .current_dir(world.sandbox.path(""))
            .env("HOME", world.sandbox.path(""))
            .env("HF_ENDPOINT", world.hub.url())
            .env("HF_HUB_DISABLE_XET", "1") // this Hub has no such thing
            .env("HF_HUB_DISABLE_PROGRESS_BARS", "1")
            .env("HF_HUB_DISABLE_TELEMETRY", "1");
        // Nothing of the caller's reaches it.
        for name in [
            "HF_HOME",
            "HF_HUB_CACHE",
            "HF_TOKEN",
            "HF_HUB_OFFLINE",
            "XDG_CACHE_HOME",
            "http_proxy",
            "https_proxy",
            "all_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a script; returns what it said.
    fn run(&self, world: &World, script: &str) -> Value {
        let output = self.command(world, script).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{stderr}");
        serde_json::from_slice(&std::fs::read(world.sandbox.path("answer")).unwrap()).unwrap()
    }
}

/// The caches' own folder, and not what a link to it would be called.
fn real(path: &Path) -> String {
    let path = path.canonicalize().unwrap();
    path.to_str().unwrap().to_owned()
}

fn vectors(world: &World, line: &str) -> Vec<u8> {
    let run = world.embed(line);
    assert_eq!(run.code, Some(0), "{run}");
    std::fs::read(world.sandbox.path("out.npy")).unwrap()
}

// From embedctl to Python.

#[test]
fn python_finds_what_embedctl_fetched() {
    let Some(python) = Python::find("python_finds_what_embedctl_fetched") else {
        return;
    };
    let world = World::new();
    world
        .hub
        .publish(MODEL, small_model().with("README.md", "more"));
    let commit = world
        .hub
        .publish(MODEL, small_model().with("README.md", "most"));
    world.hub.tag(MODEL, "v1.0", &commit);
    world.done("download org/small");
    world.done("download org/small@v1.0");
    world.hub.take_asked();
    let found = python.run(
        &world,
        &format!(
            "say(dict(
                main=snapshot_download('{MODEL}', local_files_only=True),
                tag=snapshot_download('{MODEL}', revision='v1.0', local_files_only=True),
                commit=snapshot_download('{MODEL}', revision='{commit}', local_files_only=True),
                file=hf_hub_download('{MODEL}', '{ONNX}', local_files_only=True),
                deep=hf_hub_download('{MODEL}', '1_Pooling/config.json', local_files_only=True),
                known=try_to_load_from_cache('{MODEL}', 'config.json')))"
        ),
    );
    let snapshot = real(&world.cached().snapshot(&commit));
    for name in ["main", "tag", "commit"] {
        assert_eq!(found[name], snapshot, "{name}");
    }
    assert_eq!(found["file"], format!("{snapshot}/{ONNX}"));
    assert_eq!(found["deep"], format!("{snapshot}/1_Pooling/config.json"));
    assert!(found["known"].as_str().unwrap().ends_with("config.json"));
    // It asks for other things by itself.
    let about_the_model = |path: &str| path.contains(MODEL);
    assert!(
        !world
            .hub
            .asked()
            .iter()
            .any(|asked| about_the_model(&asked.request.path))
    );
}

/// Python counts the same bytes, and misses nothing else after a removal.
#[test]
fn python_knows_the_models_that_are_listed_and_removed() {
    let Some(python) = Python::find("python_knows_the_models_that_are_listed_and_removed") else {
        return;
    };
    let world = World::new();
    world
        .hub
        .publish("org/other", small_model().with("README.md", "other"));
    world.done("download org/small");
    world.done("download org/other");
    let scan = || {
        python.run(
            &world,
            "info = scan_cache_dir()
say(dict(warnings=len(info.warnings), repos={it.repo_id: it.size_on_disk for it in info.repos}))",
        )
    };
    let listed = || -> Vec<(String, u64)> {
        let listed: Value = serde_json::from_str(&world.run("cache --json").stdout).unwrap();
        let models = listed["entries"].as_array().unwrap().iter();
        models
            .filter(|it| it["kind"] == "models")
            .map(|it| {
                (
                    it["name"].as_str().unwrap().to_owned(),
                    it["bytes"].as_u64().unwrap(),
                )
            })
            .collect()
    };
    let (found, own) = (scan(), listed());
    assert_eq!(found["warnings"], 0, "{found}");
    assert_eq!(own.len(), 2);
    for (name, bytes) in own {
        let blobs = found["repos"][&name].as_u64().unwrap();
        // Lists of files and references are no blobs.
        assert!(
            (blobs..blobs + 20_000).contains(&bytes),
            "{name}: {bytes}, {blobs}"
        );
    }
    let removed = world.run("cache remove org/small");
    assert_eq!(removed.code, Some(0), "{removed}");
    let found = scan();
    assert_eq!(found["warnings"], 0, "{found}");
    let names: Vec<&String> = found["repos"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["org/other"]);
    assert_eq!(listed().len(), 1);
    let again = world.run("download org/small --offline");
    assert_eq!(again.code, Some(1), "{again}");
    world.done("download org/small");
    assert_eq!(listed().len(), 2);
}

#[test]
fn python_finds_nothing_wrong_with_the_cache() {
    let Some(python) = Python::find("python_finds_nothing_wrong_with_the_cache") else {
        return;
    };
    let world = World::new();
    world
        .hub
        .publish("org/external", fixture("weights-external-data"));
    world.done("download org/small org/external");
    let newest = world
        .hub
        .publish(MODEL, small_model().with("vocab.txt", "one\n"));
    world.done("download org/small");
    let scanned = python.run(
        &world,
        "info = scan_cache_dir()
say(dict(warnings=[str(one) for one in info.warnings], size=info.size_on_disk, repositories={
    one.repo_id: dict(files=one.nb_files, size=one.size_on_disk, revisions={
        revision.commit_hash: sorted(revision.refs) for revision in one.revisions})
    for one in info.repos}))",
    );
    assert_eq!(scanned["warnings"], json!([]));
    let repositories = &scanned["repositories"];
    assert_eq!(repositories.as_object().unwrap().len(), 2);
    let revisions = &repositories[MODEL]["revisions"];
    assert_eq!(revisions[&newest], json!(["main"]));
    assert_eq!(revisions[&world.commit], json!([]));
    let size: usize = small_model().0.values().map(Vec::len).sum();
    assert_eq!(repositories[MODEL]["size"], size + "one\n".len());
}

#[test]
fn python_fetches_nothing_again() {
    let Some(python) = Python::find("python_fetches_nothing_again") else {
        return;
    };
    let world = World::new();
    let files = small_model().with("README.md", "# Not needed\n");
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small");
    world.hub.take_asked();
    python.run(&world, &format!("say(snapshot_download('{MODEL}'))"));
    assert_eq!(world.hub.fetched(), ["README.md"]);
    assert_eq!(world.cached().files(&commit), files);
    world.assert_whole();
}

#[test]
fn python_takes_everything_for_everything() {
    let Some(python) = Python::find("python_takes_everything_for_everything") else {
        return;
    };
    let world = World::new();
    let files = small_model()
        .with("README.md", "# Needed by somebody\n")
        .with("openvino/model.bin", [5; 3000]);
    world.hub.publish(MODEL, files);
    world.done("download org/small --all");
    world.hub.take_asked();
    python.run(&world, &format!("say(snapshot_download('{MODEL}'))"));
    assert_eq!(world.hub.fetched(), [""; 0]);
}

// From Python to embedctl.

#[test]
fn embedctl_finds_what_python_fetched() {
    let Some(python) = Python::find("embedctl_finds_what_python_fetched") else {
        return;
    };
    let mut world = World::new();
    python.run(&world, &format!("say(snapshot_download('{MODEL}'))"));
    world.hub.stop();
    let by_branch = vectors(&world, "--model org/small");
    let commit = world.commit.clone();
    assert_eq!(
        vectors(&world, &format!("--model org/small@{commit}")),
        by_branch
    );
    assert_eq!(vectors(&world, "--model org/small --offline"), by_branch);
    let folder = world.cached().snapshot(&commit);
    let by_folder = vectors(&world, &format!("--model {}", folder.display()));
    assert_eq!(by_folder, by_branch);
    world.done("download --check org/small");
    world.done("download org/small --offline");
    world.done(&format!("download org/small@{commit}"));
    world.done("download org/small --offline --local-dir copy");
    let mut copy = Files::of(&world.sandbox.path("copy"));
    copy.0.remove("embedctl.lock.json");
    assert_eq!(copy, small_model());
}

#[test]
fn embedctl_finds_the_part_that_python_fetched() {
    let Some(python) = Python::find("embedctl_finds_the_part_that_python_fetched") else {
        return;
    };
    let mut world = World::new();
    let others = ["pytorch_model.bin", "README.md"];
    let files = small_model()
        .with(others[0], [3; 5000])
        .with(others[1], "text");
    world.hub.publish(MODEL, files);
    let script = format!("say(snapshot_download('{MODEL}', allow_patterns=['*.json', '*.onnx']))");
    python.run(&world, &script);
    world.hub.stop();
    vectors(&world, "--model org/small");
    world.done("download --check org/small");
}

#[test]
fn embedctl_fetches_what_python_left_out() {
    let Some(python) = Python::find("embedctl_fetches_what_python_left_out") else {
        return;
    };
    let world = World::new();
    let script = format!("say(snapshot_download('{MODEL}', ignore_patterns=['tokenizer*']))");
    python.run(&world, &script);
    world.hub.take_asked();
    let offline = world.embed("--model org/small --offline");
    assert_eq!(offline.code, Some(1), "{offline}");
    assert!(offline.stderr.contains("tokenizer.json"), "{offline}");
    vectors(&world, "--model org/small");
    assert_eq!(
        world.hub.fetched(),
        ["tokenizer.json", "tokenizer_config.json"]
    );
    world.assert_whole();
}

/// File by file, as `transformers` does it: no list of the repository comes with it.
#[test]
fn embedctl_finds_single_files_that_python_fetched() {
    let Some(python) = Python::find("embedctl_finds_single_files_that_python_fetched") else {
        return;
    };
    let mut world = World::new();
    let files: Vec<String> = small_model().paths().map(str::to_owned).collect();
    let script = format!(
        "for file in {}: hf_hub_download('{MODEL}', file)\nsay(0)",
        json!(files)
    );
    python.run(&world, &script);
    world.hub.stop();
    vectors(&world, "--model org/small");
    world.done("download --check org/small");
}

/// Without a `modules.json`, it could be a plain Transformer, or somebody did not fetch it.
#[test]
fn embedctl_makes_sure_that_nothing_was_left_out() {
    let Some(python) = Python::find("embedctl_makes_sure_that_nothing_was_left_out") else {
        return;
    };
    let fetch = |world: &World, files: &Files| {
        let script = format!(
            "for file in {}: hf_hub_download('{MODEL}', file)\nsay(0)",
            json!(files.paths().collect::<Vec<_>>())
        );
        python.run(world, &script);
        world.hub.take_asked();
    };
    // A plain one, with the Hub to ask and without.
    let mut world = World::new();
    let plain = fixture("bare-encoder");
    world.hub.publish(MODEL, plain.clone());
    fetch(&world, &plain);
    let run = world.embed("--model org/small --pooling mean --offline");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr.contains("treated as a plain Transformer"),
        "{run}"
    );
    assert_eq!(world.hub.asked().len(), 0);
    let run = world.embed("--model org/small --pooling mean -q");
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    assert_eq!(world.hub.asked().len(), 1, "asked once, and remembered");
    world.hub.stop();
    let run = world.embed("--model org/small --pooling mean -q");
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    // One whose pooling was left out.
    let world = World::new();
    let names: BTreeSet<&str> = BTreeSet::from(["config.json", "tokenizer.json", ONNX]);
    let mut part = small_model();
    part.0.retain(|path, _| names.contains(path.as_str()));
    fetch(&world, &part);
    vectors(&world, "--model org/small");
    assert!(world.hub.fetched().contains(&"modules.json".to_owned()));
    world.assert_whole();
}

// At the same time.

#[test]
fn python_waits_for_a_file_that_embedctl_is_fetching() {
    let Some(python) = Python::find("python_waits_for_a_file_that_embedctl_is_fetching") else {
        return;
    };
    let world = World::new();
    let (reached, is_reached) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let hold = move || {
        reached.send(()).unwrap();
        let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(60));
    };
    world
        .hub
        .spoil(At::Content(ONNX.into()), Fault::call(200_000, hold));
    let mut first = world.command("download org/small -q").spawn().unwrap();
    is_reached.recv_timeout(Duration::from_secs(60)).unwrap();
    let script = format!("say(hf_hub_download('{MODEL}', '{ONNX}'))");
    let mut second = python.command(&world, &script).spawn().unwrap();
    // It has asked what the file is, and turns to its lock.
    let has_asked = || {
        world
            .hub
            .asked()
            .iter()
            .any(|asked| asked.request.method == "HEAD")
    };
    while !has_asked() {
        assert!(second.try_wait().unwrap().is_none(), "it should ask");
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    assert!(first.wait().unwrap().success());
    assert!(second.wait().unwrap().success());
    assert_eq!(world.hub.ranges(ONNX), [None], "fetched once");
    world.assert_whole();
}
