//! Models in the cache: lookup, damage and repair.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;

use crate::hub::{At, Fault, Host, etag};
use crate::world::{Cached, MODEL, ONNX, World, fixture, json, names, small_model};

/// The blob of a file of the small model.
fn blob(world: &World, path: &str) -> PathBuf {
    world.cached().blob(&etag(path, small_model().get(path)))
}

/// Changes one bit of a file.
fn flip(path: &PathBuf) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

// Where.

#[test]
fn the_cache_is_where_the_environment_says() {
    for (variable, value, hub) in [
        ("HF_HOME", "hf", "hf/hub"),
        ("HF_HUB_CACHE", "models", "models"),
        ("HUGGINGFACE_HUB_CACHE", "old", "old"),
        ("XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"),
    ] {
        let world = World::new();
        let mut command = world.command("download org/small");
        let run = world.finish(command.env(variable, value));
        assert_eq!(run.code, Some(0), "{variable}: {run}");
        let cached = Cached::of(&world.sandbox.path(hub), MODEL);
        assert_eq!(cached.files(&world.commit), small_model(), "{variable}");
        world.hub.take_asked();
        let mut command = world.embed_command("--model org/small");
        let run = world.finish(command.env(variable, value));
        assert_eq!(run.code, Some(0), "{variable}: {run}");
        assert_eq!(world.hub.asked().len(), 0);
    }
}

#[test]
fn an_option_says_it_before_the_environment() {
    let world = World::new();
    let mut command = world.command("download org/small --cache-dir given");
    let run = world.finish(command.env("HF_HUB_CACHE", "other"));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!world.sandbox.path("other").exists());
    let run = world.embed("--model org/small --offline --cache-dir given");
    assert_eq!(run.code, Some(0), "{run}");
}

/// The layout of `huggingface_hub`, and a list of our own beside it.
#[test]
fn the_cache_is_laid_out_as_python_does_it() {
    let world = World::new();
    world.done("download org/small");
    let cached = world.cached();
    assert_eq!(
        names(&cached.0),
        [".embedctl", "blobs", "refs", "snapshots"]
    );
    let mut blobs: Vec<String> = small_model()
        .0
        .iter()
        .map(|(path, content)| etag(path, content))
        .collect();
    blobs.sort();
    assert_eq!(cached.blobs(), blobs);
    #[cfg(unix)]
    {
        let link = fs::read_link(cached.snapshot(&world.commit).join(ONNX)).unwrap();
        let hash = etag(ONNX, small_model().get(ONNX));
        assert_eq!(link, PathBuf::from(format!("../../../blobs/{hash}")));
    }
}

// Offline.

#[test]
fn offline_is_offline_whoever_says_it() {
    let world = World::new();
    for variable in ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        let mut command = world.command("download org/small");
        let run = world.finish(command.env(variable, "1"));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr
                .contains(&format!("{variable} forbids the network")),
            "{run}"
        );
    }
    assert_snapshot!(world.run("download org/small --offline"));
    assert_snapshot!(world.run("download org/small --offline --list"));
    assert_eq!(world.hub.asked().len(), 0);
    world.done("download org/small");
    world.hub.take_asked();
    world.done("download org/small --offline");
    world.done("download org/small --offline --list");
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn offline_names_the_file_that_is_missing() {
    let world = World::new();
    world.done("download org/small");
    fs::remove_file(blob(&world, "tokenizer.json")).unwrap();
    world.hub.take_asked();
    assert_snapshot!(world.run("download org/small --offline"));
    assert_snapshot!(world.embed("--model org/small --offline"));
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn offline_a_damaged_file_is_not_passed_over() {
    let world = World::new();
    world.done("download org/small");
    flip(&blob(&world, ONNX));
    let run = world.run("download org/small --offline");
    assert_snapshot!(run);
    assert!(blob(&world, ONNX).exists(), "nothing could replace it");
}

// `--check`.

#[test]
fn what_is_whole_is_said_to_be() {
    let world = World::new();
    world.done("download org/small");
    world.hub.take_asked();
    assert_snapshot!(world.done("download --check org/small"));
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn damaged_and_missing_files_are_named_and_fetched_again() {
    let world = World::new();
    world.done("download org/small");
    flip(&blob(&world, ONNX));
    fs::remove_file(blob(&world, "tokenizer.json")).unwrap();
    fs::remove_file(world.cached().snapshot(&world.commit).join("config.json")).unwrap();
    world.hub.take_asked();
    let offline = world.run("download --check org/small --offline");
    assert_snapshot!(offline);
    assert_eq!(world.hub.asked().len(), 0);
    assert_snapshot!(world.done("download --check org/small"));
    assert_eq!(world.hub.fetched(), [ONNX, "tokenizer.json"]);
    world.assert_whole();
}

#[test]
fn a_check_says_the_same_to_programs() {
    let world = World::new();
    world.done("download org/small");
    flip(&blob(&world, ONNX));
    let run = world.run("download --check org/small --offline --json -q");
    let object = &json(&run.stdout)[0];
    assert_eq!(object["repaired"], false);
    let files = object["files"].as_array().unwrap();
    let of = |path: &str| files.iter().find(|file| file["path"] == path).unwrap();
    assert_eq!(
        of("config.json"),
        &json!({"path": "config.json", "state": "ok"})
    );
    assert_eq!(of(ONNX)["state"], "damaged");
    let run = world.done("download --check org/small --json -q");
    assert_eq!(json(&run.stdout)[0]["repaired"], true);
    assert_eq!(run.stderr, "");
}

#[test]
fn damage_is_found_by_every_download() {
    let world = World::new();
    world.done("download org/small");
    flip(&blob(&world, ONNX));
    flip(&blob(&world, "config.json"));
    world.hub.take_asked();
    assert_snapshot!(world.done("download org/small"));
    assert_eq!(world.hub.fetched(), ["config.json", ONNX]);
    world.assert_whole();
}

/// The fetched files are checked, not those that would be fetched today.
#[test]
fn a_check_wants_no_other_kind_of_weights() {
    let world = World::new();
    let files = small_model().with("onnx/model_fp16.onnx", fixture("bert-dense-tanh").get(ONNX));
    world.hub.publish(
        MODEL,
        files.without(ONNX).with(ONNX, small_model().get(ONNX)),
    );
    world.done("download org/small --precision fp16");
    world.hub.take_asked();
    world.done("download --check org/small --offline");
    // And mends no more than that.
    fs::remove_file(
        world
            .cached()
            .blob(&etag("config.json", small_model().get("config.json"))),
    )
    .unwrap();
    world.done("download --check org/small");
    assert_eq!(world.hub.fetched(), ["config.json"]);
    let run = world.run("download --check org/small --offline --precision fp32");
    assert!(run.stderr.contains("onnx/model.onnx is missing"), "{run}");
}

#[test]
fn a_check_wants_the_weights_that_the_graph_names() {
    let world = World::new();
    let files = fixture("weights-external-data");
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small");
    let weights = world
        .cached()
        .snapshot(&commit)
        .join("onnx/model.onnx_data");
    fs::remove_file(&weights).unwrap();
    let run = world.run("download --check org/small --offline");
    assert!(
        run.stderr.contains("onnx/model.onnx_data is missing"),
        "{run}"
    );
    world.done("download --check org/small");
    assert_eq!(
        fs::read(weights).unwrap(),
        files.get("onnx/model.onnx_data")
    );
}

#[test]
fn nothing_here_to_be_checked() {
    let world = World::new();
    assert_snapshot!(world.run("download --check org/small"));
    fs::create_dir(world.sandbox.path("folder")).unwrap();
    assert_snapshot!(world.run("download --check folder"));
    assert_snapshot!(world.run("download --check no/such/folder"));
    assert_eq!(world.hub.asked().len(), 0);
}

// Files that others have put there.

/// Copies instead of links, as on systems without links, and as older tools made them.
#[test]
fn a_cache_of_copies_is_taken_and_verified() {
    let world = World::new();
    let cached = world.cached();
    fs::create_dir_all(cached.0.join("refs")).unwrap();
    fs::write(cached.0.join("refs/main"), &world.commit).unwrap();
    let snapshot = cached.snapshot(&world.commit);
    for (path, content) in &small_model().0 {
        fs::create_dir_all(snapshot.join(path).parent().unwrap()).unwrap();
        fs::write(snapshot.join(path), content).unwrap();
    }
    assert_eq!(world.embed("--model org/small").code, Some(0));
    assert_eq!(world.hub.asked().len(), 0);
    world.done("download org/small");
    assert_eq!(world.hub.fetched(), [""; 0]);
    flip(&snapshot.join(ONNX));
    world.hub.take_asked();
    let run = world.done("download org/small");
    assert!(run.stderr.contains("is damaged"), "{run}");
    assert_eq!(world.hub.fetched(), [ONNX]);
    world.assert_whole();
    let run = world.run("download --check org/small");
    assert_eq!(run.code, Some(0), "{run}");
}

/// Links that a killed process has left, under every name that it could have had.
#[test]
#[cfg(unix)]
fn what_a_killed_process_left_is_not_written_through() {
    let world = World::new();
    world.done("download org/small");
    let snapshot = world.cached().snapshot(&world.commit);
    fs::remove_file(snapshot.join("config.json")).unwrap();
    let hash = etag("config.json", small_model().get("config.json"));
    // The next processes' numbers, unless somebody starts very many.
    for id in std::process::id()..std::process::id() + 2000 {
        let left = snapshot.join(format!(".config.json.embedctl-{id}-{:016x}.tmp", 0));
        std::os::unix::fs::symlink(format!("../../blobs/{hash}"), left).unwrap();
    }
    world.done("download org/small");
    for id in std::process::id()..std::process::id() + 2000 {
        fs::remove_file(snapshot.join(format!(".config.json.embedctl-{id}-{:016x}.tmp", 0)))
            .unwrap();
    }
    world.assert_whole();
}

// Two at once.

/// Holds the first answer of a file's content until it is let go; says when it has come so far.
fn held(world: &World, file: &str, after: usize) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (reached, is_reached) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let hold = move || {
        reached.send(()).unwrap();
        let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(60));
    };
    world
        .hub
        .spoil(At::Content(file.into()), Fault::call(after, hold));
    (is_reached, go)
}

#[test]
fn two_processes_share_the_work() {
    let world = World::new();
    let (reached, go) = held(&world, ONNX, 200_000);
    let mut first = world.command("download org/small").spawn().unwrap();
    reached.recv_timeout(Duration::from_secs(60)).unwrap();
    let mut second = world.command("download org/small").spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("another process is fetching") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it should wait");
    }
    go.send(()).unwrap();
    assert!(first.wait().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(second.wait().unwrap().success(), "{rest}");
    assert_eq!(world.hub.ranges(ONNX), [None], "fetched once");
    world.assert_whole();
}

#[test]
fn two_processes_share_a_folder() {
    let world = World::new();
    let (reached, go) = held(&world, ONNX, 200_000);
    let line = "download org/small --local-dir small";
    let mut first = world.command(line).spawn().unwrap();
    reached.recv_timeout(Duration::from_secs(60)).unwrap();
    let mut second = world.command(line).spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("another process is downloading into the same folder") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it should wait");
    }
    go.send(()).unwrap();
    assert!(first.wait().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(second.wait().unwrap().success(), "{rest}");
    assert_eq!(world.hub.ranges(ONNX), [None], "fetched once");
    world.done("download --check small");
    assert!(!world.sandbox.path("small/.embedctl-partial").exists());
}

#[test]
fn many_processes_at_once() {
    let world = World::new();
    let children: Vec<_> = (0..6)
        .map(|_| world.command("download org/small -q").spawn().unwrap())
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
    }
    assert_eq!(world.hub.ranges(ONNX), [None], "fetched once");
    world.assert_whole();
}

/// The same content under two names is one blob.
#[test]
fn content_that_is_here_under_another_name() {
    let world = World::new();
    let files = small_model()
        .with("onnx/copy.onnx", small_model().get(ONNX))
        .with("copy.json", small_model().get("config.json"));
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small --all");
    assert_eq!(world.cached().files(&commit), files);
    let of_storage = |asked: &crate::hub::Asked| {
        asked.host == Host::Storage
            && asked
                .file
                .as_ref()
                .is_some_and(|file| file.ends_with(".onnx"))
    };
    assert_eq!(
        world
            .hub
            .asked()
            .iter()
            .filter(|one| of_storage(one))
            .count(),
        1
    );
}
