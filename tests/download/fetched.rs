//! Fetched files and their places.

use std::fs;

use insta::assert_snapshot;

use crate::hub::{Files, sha256};
use crate::world::{MODEL, ONNX, World, fixture, json, names, small_model};

/// Files that embedding does not need.
fn with_other_frameworks(files: Files) -> Files {
    files
        .with("README.md", "# A model\n")
        .with(".gitattributes", "*.onnx filter=lfs\n")
        .with("pytorch_model.bin", [0; 2000])
        .with("model.safetensors", [1; 2000])
        .with("openvino/openvino_model.xml", "<net/>")
        .with("onnx/model_fp16.onnx", fixture("bert-dense-tanh").get(ONNX))
        .with("onnx/model_int8.onnx", [3; 3000])
}

fn published() -> (World, String) {
    let world = World::new();
    let commit = world
        .hub
        .publish(MODEL, with_other_frameworks(small_model()));
    (world, commit)
}

#[test]
fn what_embedding_needs_comes_and_nothing_else() {
    let (world, commit) = published();
    assert_snapshot!(world.done("download org/small"));
    let wanted = small_model();
    assert_eq!(world.hub.fetched(), wanted.paths().collect::<Vec<_>>());
    let cached = world.cached();
    assert_eq!(cached.commit("main"), Some(commit.clone()));
    assert_eq!(cached.files(&commit), wanted);
    assert_eq!(cached.incomplete(), [""; 0]);
    world.assert_whole();
}

#[test]
fn what_is_here_is_verified_and_not_fetched_again() {
    let (world, _) = published();
    world.done("download org/small");
    world.hub.take_asked();
    assert_snapshot!(world.done("download org/small -v"));
    // Only what `main` stands for today.
    assert_eq!(world.hub.asked().len(), 1);
    assert_eq!(world.hub.fetched(), [""; 0]);
}

#[test]
fn a_branch_that_moved_is_followed() {
    let (world, before) = published();
    world.done("download org/small");
    let config = String::from_utf8(small_model().get("config.json").to_vec()).unwrap();
    let files = small_model().with("config.json", format!("{config}\n"));
    let after = world.hub.publish(MODEL, files);
    world.hub.take_asked();
    world.done("download org/small");
    assert_eq!(world.hub.fetched(), ["config.json"]);
    let cached = world.cached();
    assert_eq!(cached.commit("main"), Some(after.clone()));
    assert_eq!(names(&cached.0.join("snapshots")).len(), 2);
    assert_ne!(cached.files(&before), cached.files(&after));
    world.assert_whole();
}

#[test]
fn a_kind_of_weights_is_chosen_by_its_name() {
    let (world, commit) = published();
    world.done("download org/small --precision fp16");
    let fetched = world.hub.fetched();
    assert!(fetched.contains(&"onnx/model_fp16.onnx".to_owned()));
    assert!(!fetched.contains(&ONNX.to_owned()));
    assert!(!world.cached().snapshot(&commit).join(ONNX).exists());
}

#[test]
fn an_onnx_file_is_chosen_by_its_path() {
    let (world, _) = published();
    let run = world.done("download org/small --model-file onnx/model_fp16.onnx --json -q");
    assert_eq!(json(&run.stdout)[0]["onnx"], "onnx/model_fp16.onnx");
    assert!(!world.hub.fetched().contains(&ONNX.to_owned()));
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let (world, _) = published();
    assert_snapshot!(world.run("download org/small --precision q4"));
    assert_snapshot!(world.run("download org/small --model-file onnx/other.onnx"));
}

#[test]
fn files_with_weights_are_listed_with_their_sizes() {
    let (world, _) = published();
    let external = fixture("weights-external-data");
    world.hub.publish("org/external", external);
    let parts = (small_model().without(ONNX))
        .with("model.safetensors.index.json", "{}")
        .with("model-00001-of-00002.safetensors", "first")
        .with("model-00002-of-00002.safetensors", "second");
    world.hub.publish("org/parts", parts);
    assert_snapshot!(world.done("download org/small --list"));
    assert_snapshot!(world.done("download org/small org/external --list"));
    assert_snapshot!(world.done("download org/external --list --json"));
    assert_snapshot!(world.done("download org/parts --list"));
    assert_eq!(world.hub.fetched(), [""; 0]);
    assert!(!world.cached().exists());
}

#[test]
fn a_checkpoint_is_fetched_where_there_is_no_onnx_file() {
    let world = World::new();
    let files = small_model().without(ONNX).with("model.safetensors", "x");
    world.hub.publish(MODEL, files);
    world.done("download org/small");
    let fetched = world.hub.fetched();
    assert!(
        fetched.contains(&"model.safetensors".to_owned()),
        "{fetched:?}"
    );
}

#[test]
fn a_repository_without_weights_that_are_read_says_what_can_be_done() {
    let world = World::new();
    let files = small_model().without(ONNX).with("pytorch_model.bin", "x");
    let commit = world.hub.publish(MODEL, files.clone());
    assert_snapshot!(world.run("download org/small"));
    assert_snapshot!(world.run("download org/small --list"));
    // It may be wanted for something else.
    world.done("download org/small --all");
    assert_eq!(world.cached().files(&commit), files);
}

#[test]
fn the_native_engine_wants_a_checkpoint_that_it_knows_and_else_the_onnx_file() {
    let world = World::new();
    let fetched = |line: &str| {
        world.done(line);
        let mut paths = world.hub.fetched();
        paths.retain(|path| path.ends_with(".onnx") || path.contains(".safetensors"));
        paths
    };
    let index = r#"{"weight_map": {}}"#;
    let parts = small_model()
        .with("model-00001-of-00002.safetensors", "1")
        .with("model-00002-of-00002.safetensors", "2")
        .with("model.safetensors.index.json", index);
    world.hub.publish("org/parts", parts);
    let mut files = fetched("download org/parts -p native");
    files.sort();
    let names = ["model-00001-of-00002", "model-00002-of-00002", "model"];
    let mut expected: Vec<String> = names.map(|name| format!("{name}.safetensors")).into();
    expected[2].push_str(".index.json");
    assert_eq!(files, expected);

    let checkpoint = small_model().with("model.safetensors", "x");
    let unknown = checkpoint
        .clone()
        .with("config.json", r#"{"model_type": "unheard-of"}"#);
    world.hub.publish("org/known", checkpoint);
    world.hub.publish("org/unknown", unknown);
    world.hub.take_asked();
    assert_eq!(
        fetched("download org/known -p native,cpu"),
        ["model.safetensors"]
    );
    world.hub.take_asked();
    assert_eq!(fetched("download org/unknown -p native,cpu"), [ONNX]);
    world.hub.take_asked();
    assert_eq!(fetched("download org/known -p cpu,native"), [ONNX]);
    let refused = world.run("download org/unknown -p native");
    assert!(refused.stderr.contains("unheard-of"), "{refused}");
}

#[test]
fn weights_of_the_other_kind_serve_where_nothing_can_be_fetched() {
    let world = World::new();
    let files = small_model().with("model.safetensors", "x");
    world.hub.publish(MODEL, files);
    world.done("download org/small -p cpu");
    world.sandbox.write("texts.txt", "one\ntwo\n");
    let line = "embed texts.txt -o out.npy --threads 1 -m org/small -p native,rten";
    let run = world.run(&format!("{line} --offline"));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("engine rten"), "{run}");
}

#[test]
fn everything_comes_where_everything_is_wanted() {
    let world = World::new();
    let files = with_other_frameworks(small_model())
        .with("deep/er/a b#c?d%25+ü.txt", "escaped")
        .with("empty", "");
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small --all");
    assert_eq!(world.cached().files(&commit), files);
    world.assert_whole();
}

#[test]
fn modules_come_with_their_weights() {
    let world = World::new();
    let files = fixture("bert-dense-tanh");
    let commit = world.hub.publish(
        MODEL,
        files.clone().with("2_Dense/pytorch_model.bin", "other"),
    );
    world.done("download org/small");
    assert_eq!(world.cached().files(&commit), files);
}

#[test]
fn weights_beside_the_graph_come_along() {
    let world = World::new();
    let files = fixture("weights-external-data");
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small");
    assert_eq!(world.cached().files(&commit), files);
    let run = world.embed("--model org/small --offline");
    assert_eq!(run.code, Some(0), "{run}");
}

/// The graph names its weights, whatever they are called.
fn renamed_weights() -> Files {
    const OLD: &[u8] = b"model.onnx_data";
    const NEW: &[u8] = b"some.other_name"; // as long: nothing else in the graph changes
    let files = fixture("weights-external-data");
    let mut graph = files.get(ONNX).to_vec();
    for at in 0..graph.len() - OLD.len() {
        if graph[at..].starts_with(OLD) {
            graph[at..at + OLD.len()].copy_from_slice(NEW);
        }
    }
    let weights = files.get("onnx/model.onnx_data").to_vec();
    files
        .without("onnx/model.onnx_data")
        .with(ONNX, graph)
        .with("onnx/some.other_name", weights)
}

#[test]
fn weights_of_another_name_come_along() {
    let world = World::new();
    let files = renamed_weights();
    let commit = world.hub.publish(MODEL, files.clone());
    world.done("download org/small");
    assert_eq!(world.cached().files(&commit), files);
    let run = world.embed("--model org/small --offline");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn weights_that_the_repository_lacks() {
    let world = World::new();
    let files = renamed_weights().without("onnx/some.other_name");
    let commit = world.hub.publish(MODEL, files);
    assert_snapshot!(world.run("download org/small"));
    assert!(!world.cached().snapshot(&commit).exists());
}

#[test]
fn a_branch_a_tag_and_a_change_request() {
    let (world, commit) = published();
    let other = world
        .hub
        .publish(MODEL, small_model().with("vocab.txt", "x"));
    for name in ["v1.0", "refs/pr/7", "feature/x"] {
        world.hub.tag(MODEL, name, &commit);
        world.done(&format!("download org/small@{name}"));
        assert_eq!(world.cached().commit(name), Some(commit.clone()), "{name}");
    }
    world.done("download org/small");
    assert_eq!(world.cached().commit("main"), Some(other));
}

#[test]
fn one_object_a_model_for_programs() {
    let world = World::new();
    world
        .hub
        .publish("org/external", fixture("weights-external-data"));
    let run = world.done("download org/small org/external --json -q");
    let objects = json(&run.stdout);
    assert_eq!(objects.len(), 2);
    assert_eq!(run.stderr, "");
    for file in objects
        .iter()
        .flat_map(|one| one["files"].as_array().unwrap())
    {
        let location = file["location"].as_str().unwrap().to_owned();
        let location = location.replace("[FOLDER]", world.sandbox.path("").to_str().unwrap());
        let content = fs::read(location).unwrap();
        assert_eq!(file["sha256"], sha256(&content));
        assert_eq!(file["size"], content.len());
        assert_eq!(file["fetched"], true);
    }
    insta::assert_json_snapshot!(objects[1]);
}

#[test]
fn a_model_that_fails_does_not_keep_others_from_coming() {
    let world = World::new();
    let run = world.run("download org/none org/small");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("error: model org/none"), "{run}");
    world.assert_whole();
}

// Plain folders.

#[test]
fn a_folder_for_a_machine_without_a_network() {
    let (mut world, _) = published();
    assert_snapshot!(world.done("download org/small --local-dir models/small"));
    let mut folder = Files::of(&world.sandbox.path("models/small"));
    let manifest = String::from_utf8(folder.0.remove("embedctl.lock.json").unwrap()).unwrap();
    assert_eq!(folder, small_model());
    assert!(manifest.contains(&sha256(folder.get(ONNX))));
    assert!(!world.cached().exists(), "the cache was to be left alone");
    world.hub.stop();
    let run = world.embed("--model models/small");
    assert_eq!(run.code, Some(0), "{run}");
    world.done("download --check models/small");
    // And what happens to it on the way.
    let weights = world.sandbox.path("models/small").join(ONNX);
    let mut bytes = fs::read(&weights).unwrap();
    bytes[1000] ^= 1;
    fs::write(&weights, bytes).unwrap();
    fs::remove_file(world.sandbox.path("models/small/tokenizer.json")).unwrap();
    assert_snapshot!(world.run("download --check models/small"));
}

#[test]
fn a_folder_is_mended_by_fetching_into_it_again() {
    let (world, _) = published();
    world.done("download org/small --local-dir small");
    world.sandbox.write("small/config.json", "{}");
    world.hub.take_asked();
    let run = world.done("download org/small --local-dir small");
    assert!(run.stderr.contains("config.json is damaged"), "{run}");
    assert_eq!(world.hub.fetched(), ["config.json"]);
    world.done("download --check small");
}

#[test]
fn a_folder_is_filled_from_the_cache() {
    let (world, _) = published();
    world.done("download org/small");
    world.hub.take_asked();
    world.done("download org/small --local-dir small --offline");
    assert_eq!(world.hub.asked().len(), 0);
    world.done("download --check small");
}

#[test]
fn a_folder_is_filled_where_an_earlier_run_stopped() {
    let (world, _) = published();
    let partial = world.sandbox.path("small/.embedctl-partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(
        partial.join("onnx--model.onnx"),
        &small_model().get(ONNX)[..400_000],
    )
    .unwrap();
    world.done("download org/small --local-dir small");
    assert_eq!(world.hub.ranges(ONNX), [Some(400_000)]);
    assert!(!partial.exists());
    world.done("download --check small");
}

#[test]
fn a_file_where_the_folder_should_be() {
    let (world, _) = published();
    world.sandbox.write("small", "");
    assert_snapshot!(world.run("download org/small --local-dir small"));
    assert_snapshot!(world.run("download org/small org/b --local-dir other"));
}

// `embed` by itself.

#[test]
fn embed_fetches_what_is_missing() {
    let (mut world, commit) = published();
    let run = world.embed("--model org/small");
    assert_snapshot!(run);
    let provenance = || {
        let text = fs::read_to_string(world.sandbox.path("out.npy.json")).unwrap();
        json(&text.replace('\n', ""))[0]["model"].clone()
    };
    assert_eq!(provenance()["revision"], commit);
    assert_eq!(provenance()["id"], MODEL);
    world.hub.take_asked();
    let again = world.embed("--model org/small");
    assert_eq!(again.code, Some(0), "{again}");
    assert_eq!(world.hub.asked().len(), 0, "all of it is here");
    world.hub.stop();
    for options in ["", "--offline"] {
        let run = world.embed(&format!("--model org/small {options}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
}

#[test]
fn embed_does_not_fetch_offline() {
    let (world, _) = published();
    assert_snapshot!(world.embed("--model org/small --offline"));
    assert_eq!(world.hub.asked().len(), 0);
    world.done("download org/small");
    world.hub.take_asked();
    assert_snapshot!(world.embed("--model org/small --offline --precision fp16"));
    assert_eq!(world.hub.asked().len(), 0);
}

#[test]
fn embed_fetches_a_single_file_that_is_missing() {
    let (world, commit) = published();
    world.done("download org/small");
    fs::remove_file(world.cached().snapshot(&commit).join("tokenizer.json")).unwrap();
    world.hub.take_asked();
    assert_eq!(world.embed("--model org/small").code, Some(0));
    world.assert_whole();
}

/// Nothing is fetched for a run that cannot begin.
#[test]
fn inputs_and_outputs_are_looked_at_before_anything_is_fetched() {
    let world = World::new();
    world.sandbox.write("texts.txt", "one\n");
    world.sandbox.write("there.npy", "precious");
    fs::create_dir(world.sandbox.path("empty")).unwrap();
    for line in [
        "embed missing.txt -o out.npy",
        "embed empty -o out.npy",
        "embed texts.txt -o there.npy",
        "embed texts.txt -o nowhere/out.npy",
        "embed texts.txt -o out.csv",
        "embed texts.txt -o out.npy --keep title",
        "embed texts.txt -o out.npy --on-error skip --rejects there.npy",
        "embed texts.txt -o out.npy --on-error skip --rejects out.npy",
        "bench --input missing.txt",
    ] {
        let run = world.run(&format!("{line} -m org/small -p rten"));
        assert!(matches!(run.code, Some(1 | 2)), "{line}: {run}");
        assert_eq!(world.hub.asked().len(), 0, "{line}: {run}");
    }
    assert!(!world.cached().exists());
    fs::remove_dir(world.sandbox.path("empty")).unwrap();
    assert_eq!(world.sandbox.files(), ["texts.txt", "there.npy"]);
}

/// `all-MiniLM-L6-v2` is `sentence-transformers/all-MiniLM-L6-v2`, and `gpt2` is one of the Hub's oldest.
#[test]
fn a_name_without_an_organization_is_looked_for_as_python_does() {
    let world = World::new();
    world
        .hub
        .publish("sentence-transformers/tiny", small_model());
    world.hub.publish("oldest", small_model());
    for (name, id) in [("tiny", "sentence-transformers/tiny"), ("oldest", "oldest")] {
        let run = world.embed(&format!("--model {name}"));
        assert_eq!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains(&format!("model {id} · ")), "{run}");
        // A file that is here is not asked for again.
        world.hub.take_asked();
        assert_eq!(world.embed(&format!("--model {name}")).code, Some(0));
        assert_eq!(
            world.embed(&format!("--model {name} --offline")).code,
            Some(0)
        );
        assert_eq!(
            world
                .done(&format!("download --check {name} --offline"))
                .code,
            Some(0)
        );
        assert_eq!(world.hub.asked().len(), 0, "{name}");
        let run = world.done(&format!("download {name}"));
        assert!(run.stderr.contains(id), "{run}");
    }
    let run = world.embed("--model nothing");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("model nothing: is not a repository"),
        "{run}"
    );
}

/// The remedy for a fetch that cannot be is not to fetch.
#[test]
fn without_a_network_the_way_is_another_one() {
    let world = World::new();
    let mut command = world.embed_command("--model org/small");
    let run = world.finish(command.env("HF_ENDPOINT", "http://127.0.0.1:1"));
    assert_eq!(run.code, Some(1), "{run}");
    for run in [run, world.embed("--model org/small --offline")] {
        assert!(!run.stderr.contains("fetch it with"), "{run}");
        assert!(
            run.stderr.contains("--local-dir FOLDER` elsewhere"),
            "{run}"
        );
    }
}
