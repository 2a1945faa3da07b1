//! Commits and lock files: exactly this, or nothing.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::hub::Files;
use crate::world::{MODEL, ONNX, World, fixture, json, names, small_model};

/// The small model, and then something else on its branch.
fn moved() -> (World, String) {
    let world = World::new();
    let commit = world.commit.clone();
    world.hub.publish(MODEL, fixture("bert-dense-tanh"));
    (world, commit)
}

fn provenance(world: &World) -> Value {
    let text = fs::read_to_string(world.sandbox.path("out.npy.json")).unwrap();
    let object: Value = serde_json::from_str(&text).unwrap();
    object["model"].clone()
}

#[test]
fn a_commit_is_what_it_was() {
    let (world, commit) = moved();
    world.done(&format!("download org/small@{commit}"));
    let cached = world.cached();
    assert_eq!(cached.files(&commit), small_model());
    assert_eq!(cached.commit("main"), None);
    assert!(!cached.0.join("refs").join(&commit).exists());
}

#[test]
fn a_commit_that_is_here_needs_no_network() {
    let (mut world, commit) = moved();
    world.done(&format!("download org/small@{commit}"));
    world.hub.take_asked();
    world.done(&format!("download org/small@{commit}"));
    let run = world.embed(&format!("--model org/small@{commit}"));
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(provenance(&world)["revision"], commit);
    assert_eq!(provenance(&world)["id"], MODEL);
    world.done(&format!("download --check org/small@{commit}"));
    assert_eq!(world.hub.asked().len(), 0);
    world.hub.stop();
    world.done(&format!("download org/small@{commit}"));
}

#[test]
fn a_commit_in_capitals_is_the_same_commit() {
    let (world, commit) = moved();
    world.done(&format!("download org/small@{commit}"));
    world.hub.take_asked();
    let capitals = commit.to_uppercase();
    let run = world.embed(&format!("--model org/small@{capitals} --offline"));
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(provenance(&world)["revision"], commit);
    world.done(&format!("download org/small@{capitals}"));
    assert_eq!(world.hub.asked().len(), 0);
    assert_eq!(names(&world.cached().0.join("snapshots")), [commit]);
}

#[test]
fn another_file_of_a_commit_that_is_here() {
    let (world, _) = moved();
    let files = small_model().with("onnx/model_fp16.onnx", fixture("bert-dense-tanh").get(ONNX));
    let commit = world.hub.publish(MODEL, files);
    world.done(&format!("download org/small@{commit}"));
    world.hub.take_asked();
    world.done(&format!("download org/small@{commit} --precision fp16"));
    assert_eq!(world.hub.fetched(), ["onnx/model_fp16.onnx"]);
}

#[test]
fn a_branch_names_its_commit_in_what_is_written() {
    let world = World::new();
    world.hub.tag(MODEL, "v1.0", &world.commit);
    let run = world.embed("--model org/small@v1.0");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(provenance(&world)["revision"], world.commit);
}

// Lock files.

fn locked() -> World {
    let world = World::new();
    world
        .hub
        .publish("org/external", fixture("weights-external-data"));
    world.done("download org/small org/external@main --lock models.lock");
    world
}

fn lock(world: &World) -> String {
    fs::read_to_string(world.sandbox.path("models.lock")).unwrap()
}

fn forget(world: &World) {
    fs::remove_dir_all(world.sandbox.path(".cache")).unwrap();
    world.hub.take_asked();
}

#[test]
fn a_lock_file_names_commits_and_hashes() {
    let world = locked();
    assert_snapshot!(lock(&world));
}

#[test]
fn exactly_what_was_locked_comes() {
    let world = locked();
    let before = world.cached().files(&world.commit);
    world.hub.publish(MODEL, fixture("bert-dense-tanh"));
    forget(&world);
    assert_snapshot!(world.done("download --locked models.lock"));
    assert_eq!(world.cached().files(&world.commit), before);
    assert_eq!(
        names(&world.cached().0.join("snapshots")),
        std::slice::from_ref(&world.commit)
    );
    let asked = world.hub.asked();
    assert!(
        asked.iter().all(|asked| asked.file.is_some()),
        "the list was locked too"
    );
    world.assert_whole();
}

#[test]
fn what_was_locked_works_offline() {
    let world = locked();
    forget(&world);
    assert_snapshot!(world.run("download --locked models.lock --offline"));
    assert_eq!(world.hub.asked().len(), 0);
    world.done("download --locked models.lock");
    world.hub.take_asked();
    world.done("download --locked models.lock --offline");
    let run = world.embed("--model org/small --offline");
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(provenance(&world)["revision"], world.commit);
    assert_eq!(world.hub.asked().len(), 0);
}

/// Without a modules.json, nothing in the folder says that there is none.
#[test]
fn a_plain_transformer_that_was_locked_works_offline() {
    let world = World::new();
    world.hub.publish(MODEL, fixture("bare-encoder"));
    world.done("download org/small --lock models.lock");
    forget(&world);
    world.done("download --locked models.lock");
    world.hub.take_asked();
    for options in ["", "--offline"] {
        let run = world.embed(&format!("--model org/small --pooling mean -q {options}"));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run}");
    }
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn a_branch_that_is_here_is_not_moved_by_a_lock() {
    let world = locked();
    let newest = world.hub.publish(MODEL, fixture("bert-dense-tanh"));
    world.done("download org/small");
    world.done("download --locked models.lock");
    assert_eq!(world.cached().commit("main"), Some(newest));
}

#[test]
fn one_of_the_locked_models() {
    let world = locked();
    forget(&world);
    world.done("download org/external --locked models.lock");
    assert!(!world.cached().exists());
    assert_snapshot!(world.run("download org/other --locked models.lock"));
    assert_snapshot!(world.run("download org/external@v2 --locked models.lock"));
}

#[test]
fn a_locked_folder_for_a_machine_without_a_network() {
    let world = locked();
    forget(&world);
    world.done("download org/small --locked models.lock --local-dir small");
    let mut folder = Files::of(&world.sandbox.path("small"));
    folder.0.remove("embedctl.lock.json").unwrap();
    assert_eq!(folder, small_model());
}

/// The Hub's content for a commit never changes; a mirror's may.
#[test]
fn content_that_is_not_what_was_locked() {
    let world = locked();
    forget(&world);
    let changed = small_model().with("config.json", "{}");
    world.hub.replace(MODEL, &world.commit, changed);
    let run = world.run("download org/small --locked models.lock");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr
            .contains("config.json: the downloaded content does not match"),
        "{run}"
    );
    world.assert_nothing_published();
}

/// A lock file that contradicts itself: the Hub's hash is right, the SHA-256 is not.
#[test]
fn a_hash_that_is_not_what_was_locked() {
    let world = locked();
    let mut object: Value = serde_json::from_str(&lock(&world)).unwrap();
    for file in object["models"][0]["files"].as_array_mut().unwrap() {
        if file["path"] == "config.json" {
            file["sha256"] = Value::from("0".repeat(64));
        }
    }
    world.sandbox.write("models.lock", object.to_string());
    forget(&world);
    let run = world.run("download org/small --locked models.lock");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("not the one of the lock file"), "{run}");
    world.assert_nothing_published();
}

#[test]
fn damage_to_what_was_locked_is_mended() {
    let world = locked();
    let place = world.cached().snapshot(&world.commit).join(ONNX);
    let mut bytes = fs::read(&place).unwrap();
    bytes[5] ^= 1;
    fs::write(&place, bytes).unwrap();
    world.hub.take_asked();
    world.done("download --locked models.lock");
    assert_eq!(world.hub.fetched(), [ONNX]);
    world.assert_whole();
}

#[test]
fn no_lock_file() {
    let world = World::new();
    let run = world.run("download --locked models.lock");
    assert!(run.stderr.contains("cannot read models.lock"), "{run}");
    world.sandbox.write("models.lock", "{}");
    assert_snapshot!(world.run("download --locked models.lock"));
    world
        .sandbox
        .write("models.lock", "{\"schema\": 9, \"models\": []}");
    assert_snapshot!(world.run("download --locked models.lock"));
    assert_eq!(world.hub.asked().len(), 0);
}

/// A lock file of some of the models would be taken for one of all.
#[test]
fn a_failed_download_writes_no_lock_file() {
    let world = World::new();
    let run = world.run("download org/small org/none --lock models.lock");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(!world.sandbox.path("models.lock").exists());
}

#[test]
fn a_lock_file_says_the_same_as_the_run() {
    let world = World::new();
    let run = world.done("download org/small --lock models.lock --json -q");
    let said = &json(&run.stdout)[0];
    let lock: Value = serde_json::from_str(&lock(&world)).unwrap();
    let locked = &lock["models"][0];
    assert_eq!(locked["revision"], said["revision"]);
    let files = |object: &Value| -> Vec<(Value, Value)> {
        let files = object["files"].as_array().unwrap().iter();
        files
            .map(|file| (file["path"].clone(), file["sha256"].clone()))
            .collect()
    };
    assert_eq!(files(locked), files(said));
}
