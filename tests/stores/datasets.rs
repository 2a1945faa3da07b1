//! Datasets of the Hub: listed by its API, read in place, at one commit.

use embedctl::ErrorKind;
use embedctl::cancel::CancelToken;
use embedctl::hub::{HubOptions, HubSettings};
use embedctl::storage::{Address, Storage};

use crate::hub::{At, Fault, Files, Host, Hub};
use crate::servers::storage_with;

pub const DATASET: &str = "datasets/org/texts";
const TOKEN: &str = "hf_5ecret7oken";

/// A dataset with a file that the Hub serves itself, and two that its storage does.
pub fn files() -> Files {
    Files::default()
        .with("README.md", "small")
        .with("data/b.jsonl", "{\"text\": \"b\"}\n".repeat(1000))
        .with("data/a.jsonl", "{\"text\": \"a\"}\n".repeat(1000))
}

fn open(hub: &Hub) -> Storage {
    let settings = HubSettings::from_environment(&HubOptions::default()).unwrap();
    let settings = HubSettings {
        endpoint: hub.url(),
        offline: None,
        ..settings
    };
    storage_with(settings, [], &CancelToken::new())
}

fn at(url: &str) -> Address {
    Address::parse(url).unwrap()
}

#[test]
fn files_are_listed_and_read_at_one_commit() {
    let hub = Hub::start();
    let commit = hub.publish(DATASET, files());
    hub.tag(DATASET, "v1", &commit);
    let storage = open(&hub);
    let listed = storage
        .list(&at("hf://datasets/org/texts/data/*.jsonl"))
        .unwrap();
    let names: Vec<_> = listed
        .iter()
        .map(|object| object.address().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "hf://datasets/org/texts/data/a.jsonl",
            "hf://datasets/org/texts/data/b.jsonl"
        ]
    );
    assert!(listed.iter().all(|object| object.etag() == Some(&commit)));
    // A new commit is pushed meanwhile.
    hub.publish(DATASET, files().with("data/a.jsonl", "other"));
    for object in &listed {
        let bytes = object.read_whole(1 << 20).unwrap();
        assert_eq!(bytes, files().get(object.address().key()));
    }
    let small = storage
        .look(&at("hf://datasets/org/texts@v1/README.md"))
        .unwrap();
    assert_eq!(small.read_whole(100).unwrap(), b"small");
    let below = storage
        .list(&at("hf://datasets/org/texts@v1/data/"))
        .unwrap();
    assert_eq!(below.len(), 2);
    let all = storage.list(&at("hf://datasets/org/texts@v1/**")).unwrap();
    assert_eq!(all.len(), 3);
}

#[test]
fn a_cut_connection_is_resumed() {
    let hub = Hub::start();
    hub.publish(DATASET, files());
    let storage = open(&hub);
    let object = storage
        .look(&at("hf://datasets/org/texts/data/a.jsonl"))
        .unwrap();
    hub.spoil(At::Content("data/a.jsonl".into()), Fault::Cut(5000));
    assert_eq!(
        object.read_whole(1 << 20).unwrap(),
        files().get("data/a.jsonl")
    );
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let hub = Hub::start();
    hub.publish(DATASET, files());
    hub.nature()
        .private
        .insert(DATASET.to_owned(), TOKEN.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let without = open(&hub);
    let error = without
        .look(&at("hf://datasets/org/texts/data/a.jsonl"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    let said = error.to_string();
    assert!(
        said.starts_with("hf://datasets/org/texts: ") && said.contains("HF_TOKEN"),
        "{said}"
    );

    // The binary reads its token from the environment.
    let sandbox = crate::sandbox::Sandbox::new();
    let mut command = sandbox.embed_command("hf://datasets/org/texts/data/a.jsonl -o out.jsonl");
    command
        .env("HF_ENDPOINT", hub.url())
        .env("HF_TOKEN_PATH", &token);
    let run = sandbox.finish(&mut command);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let rows = std::fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 1000);
    let asked = hub.asked();
    let with_token = |asked: &&crate::hub::Asked| asked.authorization().is_some();
    assert!(
        asked
            .iter()
            .filter(with_token)
            .all(|asked| asked.host == Host::Hub)
    );
    assert!(asked.iter().any(|asked| asked.host == Host::Storage));
}

#[test]
fn what_is_not_there_says_so() {
    let hub = Hub::start();
    hub.publish(DATASET, files());
    let storage = open(&hub);
    for (url, part) in [
        ("hf://datasets/org/texts/data/c.jsonl", "check its name"),
        (
            "hf://datasets/org/texts/*.csv",
            "no object fits the pattern",
        ),
        ("hf://datasets/org/none/a.jsonl", "is not a repository that"),
        ("hf://datasets/org/texts@v9/a.jsonl", "has no revision 'v9'"),
        ("hf://datasets/org/te%20xts/a.jsonl", "names no dataset"),
    ] {
        let said = storage.list(&at(url)).unwrap_err().to_string();
        assert!(said.contains(part), "{url}: {said}");
    }
}
