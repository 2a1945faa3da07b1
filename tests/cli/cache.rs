//! `embedctl cache`: what is kept on this machine, and its removal.

use std::fs::{self, File};
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox, in_repository};

const HUB: &str = ".cache/huggingface/hub";
const OWN: &str = ".cache/embedctl";
const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn write(sandbox: &Sandbox, path: &str, bytes: usize) {
    let path = sandbox.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, vec![b'x'; bytes]).unwrap();
    // A day of the last use that does not change.
    let file = File::options().write(true).open(path).unwrap();
    let day = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    let times = fs::FileTimes::new().set_modified(day).set_accessed(day);
    file.set_times(times).unwrap();
}

/// A cache with something of each kind, and files of others among it.
fn full() -> Sandbox {
    let sandbox = Sandbox::new();
    for (path, bytes) in [
        ("models--org--large/blobs/a", 3_000_000),
        ("models--org--large/blobs/b", 500),
        ("models--org--large/refs/main", 40),
        ("models--small/blobs/a", 1_000),
        ("datasets--org--texts/blobs/a", 7_000),
        (".locks/models--org--large/a.lock", 0),
    ] {
        write(&sandbox, &format!("{HUB}/{path}"), bytes);
    }
    for (path, bytes) in [
        ("native/KEY.weights", 20_000),
        ("native/KEY.note", 100),
        ("native/fKEY.note", 100),
        ("native/.KEY.weights.embedctl-1.tmp", 10),
        ("native/mine.weights", 10),
        ("native/cuda/kernels-KEY.cubin", 4_000),
        ("native/cuda/products-KEY.txt", 400),
        ("native/cuda/kernels.txt", 10),
        ("tensorrt/0123456789abcdef/a.engine", 900),
        ("tensorrt/0123456789abcdef/deep/b", 90),
        ("tensorrt/notes/a", 10),
    ] {
        let path = path.replace("KEY", KEY);
        write(&sandbox, &format!("{OWN}/{path}"), bytes);
    }
    sandbox
}

/// The entries as `kind name bytes`.
fn entries(run: &Run) -> Vec<String> {
    assert_eq!(run.code, Some(0), "{run}");
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    let entries = listed["entries"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    entries
        .map(|it| {
            format!(
                "{} {} {}",
                text(&it["kind"]),
                text(&it["name"]),
                it["bytes"]
            )
        })
        .collect()
}

const ALL: [&str; 7] = [
    "models org/large 3000540",
    "models small 1000",
    "weights 0123456789ab 20000",
    "weights notes 200",
    "kernels kernels-0123456789ab 4000",
    "kernels products-0123456789ab 400",
    "engines tensorrt/0123456789ab 990",
];

/// The files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(own) = folders.pop() {
        for entry in fs::read_dir(own).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let path = entry.path();
                    let name = path.strip_prefix(folder).unwrap().display().to_string();
                    found.push(name.replace('\\', "/"));
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn everything_that_is_kept_is_listed_with_its_size() {
    let sandbox = full();
    assert_snapshot!(sandbox.run("cache"));
    assert_snapshot!(sandbox.run("cache size"));
    let run = sandbox.run("cache list --json");
    assert_eq!(entries(&run), ALL);
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(listed["bytes"], 3_027_130);
    assert_eq!(listed["entries"][0]["used"], "2096-10-02T07:06:40Z");
    let kinds = sandbox.run("cache list --kind kernels,engines --json");
    assert_eq!(entries(&kinds), ALL[4..]);
    let sizes: Value = serde_json::from_str(&sandbox.run("cache size --json").stdout).unwrap();
    assert_eq!(sizes["bytes"], 3_027_130);
    let expected = json!({"kind": "weights", "entries": 2, "bytes": 20_200});
    assert_eq!(sizes["kinds"][1], expected);
    // Another place of the models.
    let other = sandbox.run("cache --cache-dir elsewhere --json");
    assert_eq!(entries(&other), ALL[2..]);
    let none = Sandbox::new().run("cache --json");
    assert_eq!(entries(&none), [""; 0]);
}

#[test]
fn entries_are_removed_by_name_and_by_kind_and_nothing_else_is() {
    let sandbox = full();
    let before = (files(&sandbox.path(HUB)), files(&sandbox.path(OWN)));
    let shown = sandbox.run("cache remove org/large --dry-run --json");
    assert_eq!(entries(&shown), ALL[..1]);
    assert!(
        shown.stderr.contains("would remove 1 item, 3.0 MB"),
        "{shown}"
    );
    let after = (files(&sandbox.path(HUB)), files(&sandbox.path(OWN)));
    assert_eq!(after, before);

    assert_snapshot!(sandbox.run("cache remove org/large"));
    assert_eq!(
        files(&sandbox.path(HUB)),
        ["datasets--org--texts/blobs/a", "models--small/blobs/a"]
    );
    // By the beginning of the key that is listed, or by all of it.
    let name = format!("kernels-{KEY}");
    let removed = sandbox.run(&format!("cache remove tensorrt/0123456789ab {name} --json"));
    assert_eq!(entries(&removed), [ALL[4], ALL[6]]);
    let removed = sandbox.run("cache remove --kind weights,kernels,engines --json");
    assert_eq!(entries(&removed), [ALL[2], ALL[3], ALL[5]]);
    assert_eq!(
        files(&sandbox.path(OWN)),
        [
            format!("native/.{KEY}.weights.embedctl-1.tmp"),
            "native/cuda/kernels.txt".to_owned(),
            "native/mine.weights".to_owned(),
            "tensorrt/notes/a".to_owned(),
        ]
    );
    assert_eq!(entries(&sandbox.run("cache --json")), [ALL[1]]);
}

#[test]
fn wrong_removals_are_refused_before_anything_goes() {
    let sandbox = full();
    for (line, words) in [
        ("cache remove", "name what is to go"),
        (
            "cache remove small other",
            "nothing in the cache is called other",
        ),
        (
            "cache remove ../datasets--org--texts",
            "nothing in the cache is called",
        ),
        (
            "cache remove org/large --kind kernels",
            "nothing in the cache is called org/large",
        ),
        (
            "cache remove --kind texts",
            "the kinds are models, weights, kernels, engines",
        ),
        ("cache list --dry-run", "leave it out"),
        ("cache drop small", "invalid value 'drop'"),
    ] {
        let run = sandbox.run(line);
        assert_eq!(run.code, Some(2), "{line}: {run}");
        assert!(run.stderr.contains(words), "{line}: {run}");
    }
    assert_eq!(entries(&sandbox.run("cache --json")), ALL);
}

#[test]
fn a_model_that_is_being_downloaded_is_not_removed() {
    let sandbox = full();
    let lock = format!("{HUB}/.locks/models--org--large/a.lock");
    let held = File::options()
        .write(true)
        .open(sandbox.path(&lock))
        .unwrap();
    held.lock().unwrap();
    let run = sandbox.run("cache remove org/large");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("a file of org/large is being downloaded"),
        "{run}"
    );
    assert_eq!(entries(&sandbox.run("cache --json")), ALL);
}

/// A project's author may not have files of the user removed.
#[test]
fn a_projects_file_removes_nothing() {
    for (setting, words) in [
        ("kind = ['models']", "a project's file may not set"),
        ("cache-action = 'remove'", "cache has no option"),
        ("cache-name = ['small']", "cache has no option"),
    ] {
        let sandbox = full();
        sandbox.write("embedctl.toml", format!("[cache]\n{setting}\n"));
        let mut command = sandbox.command(["cache", "remove"]);
        let run = sandbox.finish(command.env_remove("EMBEDCTL_NO_CONFIG"));
        assert_eq!(run.code, Some(2), "{setting}: {run}");
        assert!(run.stderr.contains(words), "{setting}: {run}");
        assert_eq!(entries(&sandbox.run("cache --json")), ALL);
    }
}

/// What a run keeps is listed, and made again after it was removed.
#[test]
fn weights_of_a_run_are_listed_and_made_again() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a cat\nthe dog runs over the moon\n");
    let model = in_repository("fixtures/parity/family-qwen3/model");
    let embed = || {
        let run = sandbox.run(&format!(
            "embed texts.txt -o out.npy --force -m {} -p native --precision int8 --min-cosine 0.5",
            model.display()
        ));
        assert_eq!(run.code, Some(0), "{run}");
        fs::read(sandbox.path("out.npy")).unwrap()
    };
    let first = embed();
    let kept = entries(&sandbox.run("cache --json"));
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept[0].starts_with("weights "), "{kept:?}");
    let removed = sandbox.run("cache remove --kind weights --json");
    assert_eq!(entries(&removed), kept);
    assert_eq!(entries(&sandbox.run("cache --json")), [""; 0]);
    assert_eq!(embed(), first);
    assert_eq!(entries(&sandbox.run("cache --json")), kept);
}
