//! Who means harm: lock files that lead elsewhere, servers that send for ever, hold back or talk to the terminal, and
//! folders that hold more than they should.

use std::fs;
use std::path::Path;
use std::time::Duration;

use embedctl::hub::{HubSettings, ResponseLimits};
use insta::assert_snapshot;
use serde_json::Value;

use crate::hub::{At, Fault, Files};
use crate::sandbox::{ONNX_MODEL, copy_folder, in_repository};
use crate::world::{MODEL, ONNX, TOKEN, World, fixture, names, small_model};

fn content(file: &str) -> At {
    At::Content(file.to_owned())
}

// Lock files.

/// A lock file of the small model, changed, and what a download with it comes to.
fn with_lock(change: impl FnOnce(&mut Value)) -> (World, crate::sandbox::Run) {
    let world = World::new();
    world.done("download org/small --lock models.lock");
    fs::remove_dir_all(world.sandbox.path(".cache")).unwrap();
    let path = world.sandbox.path("models.lock");
    let mut lock: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut lock);
    fs::write(&path, lock.to_string()).unwrap();
    let run = world.run("download --locked models.lock --cache-dir cache/hub");
    (world, run)
}

#[test]
fn no_field_of_a_lock_file_leads_out_of_the_cache() {
    for (field, value) in [
        ("requested", "../../../../victim"),
        ("requested", "/absolute/victim"),
        ("requested", ""),
        ("model", "../../victim"),
        ("model", "org/small@../../../victim"),
        ("revision", "../../../victim"),
    ] {
        let (world, run) = with_lock(|lock| lock["models"][0][field] = value.into());
        assert_eq!(run.code, Some(2), "{field}: {run}");
        let made = world.sandbox.files();
        assert_eq!(made, ["models.lock"], "{field}: {value}");
    }
    for path in [
        "../../../victim",
        "/victim",
        "a/../../victim",
        "config.json/../../victim",
        "nul",
    ] {
        for field in ["path", "sha256", "blob"] {
            let (world, run) = with_lock(|lock| lock["models"][0]["files"][0][field] = path.into());
            assert_eq!(run.code, Some(2), "{field}: {run}");
            assert_eq!(world.sandbox.files(), ["models.lock"]);
        }
    }
}

#[test]
fn a_lock_file_that_names_nothing_is_no_success() {
    let (_, run) = with_lock(|lock| lock["models"] = serde_json::json!([]));
    assert_eq!(run.code, Some(2), "{run}");
    let (_, run) = with_lock(|lock| {
        lock["models"][0]["files"] = serde_json::json!([]);
        lock["models"][0]["onnx"] = Value::Null;
    });
    assert_eq!(run.code, Some(2), "{run}");
}

#[test]
fn a_lock_file_without_an_end() {
    let world = World::new();
    let run = world.run("download --locked /dev/zero");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("not a regular file"), "{run}");
}

// Folders.

/// Every file of a folder with its content, the manifest left out.
fn files(world: &World, folder: &str) -> Files {
    let mut files = Files::of(&world.sandbox.path(folder));
    files.0.remove("embedctl.lock.json");
    files
}

#[test]
fn a_folder_holds_one_model() {
    let world = World::new();
    let plain = small_model()
        .without("modules.json")
        .without("1_Pooling/config.json");
    world.hub.publish("org/plain", plain.clone());
    world.done("download org/small --local-dir models");
    let before = files(&world, "models");
    assert_snapshot!(world.run("download org/plain --local-dir models"));
    assert_eq!(files(&world, "models"), before);
    world.done("download --check models");
    // And the other way round, with what an older version of the program left behind.
    world.done("download org/plain --local-dir plain");
    world
        .sandbox
        .write("plain/modules.json", small_model().get("modules.json"));
    world.sandbox.write("plain/notes.txt", "mine");
    assert_snapshot!(world.run("download --check ./plain"));
    let run = world.run("download org/plain --local-dir plain");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("holds modules.json, which"), "{run}");
    fs::remove_file(world.sandbox.path("plain/modules.json")).unwrap();
    world.done("download org/plain --local-dir plain");
    world.done("download --check ./plain");
}

#[test]
fn files_of_nobody_knows_what_are_not_joined() {
    let world = World::new();
    fs::create_dir_all(world.sandbox.path("models/onnx")).unwrap();
    world
        .sandbox
        .write("models/onnx/model_fp16.onnx", "another model's");
    let run = world.run("download org/small --local-dir models");
    assert_eq!(run.code, Some(2), "{run}");
    assert_eq!(world.hub.fetched(), [""; 0]);
    assert_eq!(names(&world.sandbox.path("models")), ["onnx"]);
}

#[test]
fn another_commit_replaces_the_folder_whole() {
    let world = World::new();
    world.hub.publish(
        MODEL,
        small_model()
            .with("1_Pooling/extra.json", "{}")
            .with("vocab.txt", "old"),
    );
    world.done("download org/small --local-dir models");
    world.sandbox.write("models/notes.txt", "mine");
    let newer = small_model().with("vocab.txt", "new");
    world.hub.publish(MODEL, newer.clone());
    world.done("download org/small --local-dir models");
    assert_eq!(files(&world, "models"), newer.with("notes.txt", "mine"));
    world.done("download --check ./models");
}

#[test]
fn another_kind_of_weights_joins_the_same_commit() {
    let world = World::new();
    let both = small_model().with("onnx/model_fp16.onnx", fixture("bert-dense-tanh").get(ONNX));
    world.hub.publish(MODEL, both.clone());
    world.done("download org/small --local-dir models");
    world.done("download org/small --precision fp16 --local-dir models");
    assert_eq!(files(&world, "models"), both);
    world.done("download --check ./models");
}

#[test]
fn a_manifest_must_name_the_files_of_one_model() {
    let world = World::new();
    world.done("download org/small --local-dir models");
    let path = world.sandbox.path("models/embedctl.lock.json");
    let whole: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let spoil = |change: &dyn Fn(&mut Value)| {
        let mut manifest = whole.clone();
        change(&mut manifest);
        fs::write(&path, manifest.to_string()).unwrap();
        let run = world.run("download --check ./models");
        assert!(matches!(run.code, Some(1 | 2)), "{manifest}: {run}");
    };
    spoil(&|manifest| manifest["models"] = serde_json::json!([]));
    spoil(&|manifest| {
        manifest["models"][0]["files"] = serde_json::json!([]);
        manifest["models"][0]["onnx"] = Value::Null;
    });
    spoil(&|manifest| {
        let again = manifest["models"][0].clone();
        manifest["models"].as_array_mut().unwrap().push(again);
    });
    spoil(&|manifest| manifest["models"][0]["files"][0]["path"] = "../../../etc/passwd".into());
}

#[test]
fn a_copy_that_lacks_files_is_no_model() {
    let world = World::new();
    world.done("download org/small --local-dir models");
    fs::remove_file(world.sandbox.path("models/modules.json")).unwrap();
    assert_snapshot!(world.embed("--model ./models"));
}

/// The content is staged: a download that ends early leaves nothing that could be taken for a model, and one that
/// renews a folder leaves it as it was.
#[test]
fn nothing_is_in_place_before_everything_is_here() {
    let world = World::new();
    world
        .hub
        .spoil_all(content("config.json"), Fault::Status(403, Vec::new()));
    assert_eq!(
        world.run("download org/small --local-dir models").code,
        Some(1)
    );
    assert_eq!(names(&world.sandbox.path("models")), [".embedctl-partial"]);
    world.hub.mend();
    world.done("download org/small --local-dir models");
    let before = files(&world, "models");
    let newer = small_model()
        .with("config.json", "{}")
        .with("tokenizer.json", "{}");
    world.hub.publish(MODEL, newer);
    world
        .hub
        .spoil_all(content("config.json"), Fault::Status(403, Vec::new()));
    assert_eq!(
        world.run("download org/small --local-dir models").code,
        Some(1)
    );
    let mut after = files(&world, "models");
    after
        .0
        .retain(|path, _| !path.starts_with(".embedctl-partial"));
    assert_eq!(after, before);
}

#[cfg(unix)]
#[test]
fn links_in_a_folder_are_not_followed() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    fs::create_dir_all(world.sandbox.path("models/.embedctl-partial")).unwrap();
    fs::create_dir(world.sandbox.path("elsewhere")).unwrap();
    world.sandbox.write("precious", "mine");
    symlink(
        world.sandbox.path("precious"),
        world.sandbox.path("models/.embedctl-partial/config.json"),
    )
    .unwrap();
    let run = world.run("download org/small --local-dir models");
    assert_eq!(run.code, Some(1), "{run}");
    fs::remove_dir_all(world.sandbox.path("models")).unwrap();
    fs::create_dir(world.sandbox.path("models")).unwrap();
    symlink(
        world.sandbox.path("elsewhere"),
        world.sandbox.path("models/onnx"),
    )
    .unwrap();
    let run = world.run("download org/small --local-dir models");
    assert_eq!(run.code, Some(1), "{run}");
    assert_eq!(
        fs::read_to_string(world.sandbox.path("precious")).unwrap(),
        "mine"
    );
    assert_eq!(names(&world.sandbox.path("elsewhere")), [""; 0]);
}

#[test]
fn downloads_into_one_folder_at_once() {
    for _ in 0..6 {
        let world = World::new();
        let start = || {
            world
                .command("download org/small --local-dir models")
                .spawn()
                .unwrap()
        };
        let children: Vec<_> = (0..4).map(|_| start()).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
        }
        assert_eq!(files(&world, "models"), small_model());
        assert_eq!(world.hub.ranges(ONNX), [None], "fetched once");
    }
}

#[test]
fn a_folder_here_does_not_take_the_place_of_the_default_model() {
    let world = World::new();
    let shadow = world.sandbox.path("sentence-transformers/all-MiniLM-L6-v2");
    copy_folder(&in_repository(ONNX_MODEL), &shadow);
    let run = world.embed("--offline");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("is not in the Hub's cache"), "{run}");
    let run = world.embed("--offline --model ./sentence-transformers/all-MiniLM-L6-v2");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stderr.contains("is taken for"), "{run}");
    // Any other name: it is said which was taken.
    copy_folder(&in_repository(ONNX_MODEL), &world.sandbox.path("org/small"));
    let run = world.embed("--model org/small");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains("org/small is taken for the folder ./org/small"),
        "{run}"
    );
    assert_eq!(world.hub.asked().len(), 0);
}

// Servers that take more than they should.

fn limited(world: &World, change: impl FnOnce(&mut ResponseLimits)) -> HubSettings {
    let mut settings = world.settings();
    change(&mut settings.net.limits);
    settings
}

/// A Hub that tells neither size nor hash.
fn silent_hub() -> World {
    let world = World::new();
    {
        let mut nature = world.hub.nature();
        nature.names_only = true;
        nature.no_hashes = true;
    }
    for path in small_model().paths() {
        let told = &["x-linked-size", "Content-Length", "X-Linked-Size"];
        world
            .hub
            .spoil_all(At::Hub(path.to_owned()), Fault::Without(told));
        world.hub.spoil_all(content(path), Fault::Unmeasured);
    }
    world
}

#[test]
fn a_body_that_nobody_measures_has_an_end() {
    let world = silent_hub();
    let settings = limited(&world, |limits| limits.unmeasured = 100_000);
    assert_snapshot!(world.failure(&settings));
    assert_eq!(world.hub.ranges(ONNX).len(), 1);
}

#[test]
fn metadata_of_any_size_is_not_fetched() {
    let world = World::new();
    // Several files are on their way at a time: one alone may be above the limit.
    let settings = limited(&world, |limits| limits.metadata = 10_000);
    assert_snapshot!(world.failure(&settings));
    assert!(!world.hub.fetched().contains(&"tokenizer.json".to_owned()));
}

#[test]
fn a_list_of_endless_files() {
    let world = World::new();
    let settings = limited(&world, |limits| limits.files = 3);
    let error = world.failure(&settings);
    assert!(
        error.contains("more files than a repository may have"),
        "{error}"
    );
}

#[test]
fn names_that_are_no_paths_do_not_flood_the_terminal() {
    let world = World::new();
    let files = (0..50).fold(small_model(), |files, number| {
        files.with(&format!("\u{1b}[2J{number}\u{202e}\\x"), "")
    });
    world.hub.publish(MODEL, files);
    let run = world.done("download org/small");
    assert_snapshot!(run);
}

#[test]
fn sizes_that_overflow_a_sum() {
    let world = World::new();
    world.hub.nature().names_only = true;
    let huge = u64::MAX.to_string();
    for path in [ONNX, "tokenizer.json"] {
        world.hub.spoil_all(
            At::Hub(path.to_owned()),
            Fault::With("X-Linked-Size", huge.clone()),
        );
    }
    let run = world.run("download org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("18446744073709551615 bytes"), "{run}");
}

#[test]
fn a_server_that_cuts_and_takes_back() {
    let world = World::new();
    let file = "onnx/model.onnx_data";
    let files = small_model().with(file, vec![7; 4 << 20]);
    world.hub.publish(MODEL, files);
    world.hub.spoil_all(content(file), Fault::Cut(2 << 20));
    world.hub.spoil_all(content(file), Fault::RefuseRange);
    assert_snapshot!(world.failure(&world.settings()));
    assert!(
        world.hub.ranges(file).len() <= 8,
        "{:?}",
        world.hub.ranges(file)
    );
}

#[test]
fn a_server_that_only_just_goes_on() {
    let world = World::new();
    let settings = limited(&world, |limits| {
        limits.window = Duration::from_millis(5);
        limits.least = 1 << 40;
    });
    world.hub.spoil_all(content(ONNX), Fault::Trickle(2_000));
    let error = world.failure(&settings);
    assert!(error.contains("too slow: "), "{error}");
    assert!(error.contains("tried 4 times"), "{error}");
    world.hub.mend();
    world.hub.spoil_all(At::Api, Fault::Trickle(20));
    let error = world.failure(&settings);
    assert!(error.contains("too slow: "), "{error}");
}

// Servers that talk.

#[test]
fn a_token_that_comes_back_is_not_shown() {
    let world = World::new();
    let echo = Fault::Status(
        451,
        vec![("X-Error-Message", format!("Authorization: Bearer {TOKEN}"))],
    );
    world.hub.spoil_all(At::Api, echo);
    world.sandbox.write("x.txt", "text\n");
    for line in [
        "download org/small",
        "download org/small --log-format json",
        "embed x.txt -o y.npy -m org/small",
    ] {
        let mut command = world.command(line);
        let run = world.finish(command.env("HF_TOKEN", TOKEN));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("Bearer [redacted]"), "{run}");
    }
    world.hub.mend();
    // In the list of files.
    world
        .hub
        .publish(MODEL, small_model().with(&format!("{TOKEN}\\"), "x"));
    let run = world.finish(world.command("download org/small").env("HF_TOKEN", TOKEN));
    assert!(run.stderr.contains("'[redacted]\\'"), "{run}");
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let world = World::new();
    let address = world.hub.url().replace("://", "://me:pa55word@");
    world.sandbox.write("x.txt", "text\n");
    let unreachable = "http://me:pa55word@127.0.0.1:1";
    for (variable, value) in [
        ("HF_ENDPOINT", unreachable),
        ("HF_ENDPOINT", "http:/me:pa55word@mirror"),
        ("HF_ENDPOINT", "me:pa55word@mirror.example"),
        ("HF_ENDPOINT", &address),
        ("http_proxy", unreachable),
        ("http_proxy", "me:pa55word@:::"),
    ] {
        for line in [
            "download org/none",
            "download org/none --log-format json",
            "embed x.txt -o y.npy -m org/none",
        ] {
            let mut command = world.command(line);
            let run = world.finish(command.env(variable, value));
            assert!(matches!(run.code, Some(1 | 2)), "{variable}={value}: {run}");
            assert!(
                !run.stderr.contains("pa55word"),
                "{variable}={value}: {run}"
            );
        }
    }
}

#[test]
fn a_graph_that_keeps_weights_elsewhere() {
    let world = World::new();
    let external = fixture("weights-external-data");
    let graph = String::from_utf8_lossy(external.get(ONNX)).into_owned();
    assert!(graph.contains("model.onnx_data"));
    let mut bytes = external.get(ONNX).to_vec();
    let name = b"model.onnx_data";
    let mut places: Vec<usize> = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| window == name)
        .map(|(place, _)| place)
        .collect();
    assert!(!places.is_empty());
    for place in places.drain(..) {
        bytes[place..place + name.len()].copy_from_slice(b"../../secret.on");
    }
    let model = world.sandbox.path("model");
    copy_folder(
        &in_repository("fixtures/parity/weights-external-data/model"),
        &model,
    );
    fs::write(model.join(ONNX), bytes).unwrap();
    fs::copy(
        model.join("onnx/model.onnx_data"),
        world.sandbox.path("secret.on"),
    )
    .unwrap();
    let run = world.embed("--model ./model");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr
            .contains("'../../secret.on', which is not inside"),
        "{run}"
    );
    assert!(Path::new(&world.sandbox.path("secret.on")).exists());
}

/// A lock replaces an earlier one, and nothing else.
#[test]
fn a_lock_replaces_locks_alone() {
    let world = World::new();
    world.done("download org/small --lock models.lock");
    world.done("download org/small --lock models.lock");
    fs::write(world.sandbox.path("mine.txt"), "mine").unwrap();
    let run = world.run("download org/small --lock mine.txt");
    assert_eq!(run.code, Some(2), "{run}");
    assert_eq!(
        fs::read_to_string(world.sandbox.path("mine.txt")).unwrap(),
        "mine"
    );
}

/// A cache that others may only read needs no lock for what is there.
#[test]
fn what_is_whole_in_a_cache_needs_no_lock() {
    let world = World::new();
    world.done("download org/small --lock models.lock");
    let locks = world.sandbox.path(".cache/huggingface/hub/.locks");
    fs::remove_dir_all(&locks).unwrap();
    fs::write(&locks, "").unwrap();
    for line in ["org/small --offline", "org/small", "--locked models.lock"] {
        world.done(&format!("download {line}"));
    }
    let blobs = world
        .sandbox
        .path(".cache/huggingface/hub/models--org--small/blobs");
    fs::remove_file(fs::read_dir(blobs).unwrap().next().unwrap().unwrap().path()).unwrap();
    let run = world.run("download org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains(".locks"), "{run}");
}
