//! The commands of the documentation that need a bucket, on buckets.

use std::os::unix::fs::symlink;
use std::process::Command;

use embedctl::cancel::CancelToken;
use embedctl::storage::Address;

use crate::hub::{Files, Hub};
use crate::runs::World;
use crate::sandbox::{SMALL_MODEL, in_repository};
use crate::servers::{azurite, moto};

/// The block of shell behind `<!-- parsed: it needs a bucket -->` in a document.
fn block(document: &str) -> String {
    let text = std::fs::read_to_string(in_repository(document)).unwrap();
    let (_, rest) = text
        .split_once("<!-- parsed: it needs a bucket -->\n```sh\n")
        .expect("a block");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn documented_commands_work_on_buckets() {
    let test = "documented_commands_work_on_buckets";
    let (Some(store), Some(azure)) = (moto(test), azurite(test)) else {
        return;
    };
    let world = World::new(store);
    store.bucket("corpus");
    store.bucket("vectors");
    store.boto(
        "import gzip\n\
         for name in 'ab':\n\
         \x20   row = f'{{\"id\": \"{name}\", \"body\": \"text {name}\"}}\\n'.encode()\n\
         \x20   s3.put_object(Bucket='corpus', Key=f'2026/{name}.jsonl.gz', Body=gzip.compress(row))\n",
    );
    azure.bucket("corpus");
    let texts = Address::parse("az://corpus/texts.txt").unwrap();
    let storage = azure.storage(&CancelToken::new());
    let put = storage.put_new(&texts, b"one\ntwo\n".to_vec());
    assert!(put.unwrap().is_some());
    // An output of embed is a table with texts, too.
    world.done("texts.txt --keep text -o reviews.parquet");
    let table = std::fs::read(world.sandbox.path("reviews.parquet")).unwrap();
    std::fs::remove_file(world.sandbox.path("reviews.parquet")).unwrap();
    world.done("texts.txt -o s3://vectors/2026/ --part-rows 2");
    let hub = Hub::start();
    hub.publish(
        "datasets/stanfordnlp/imdb",
        Files::default().with("plain_text/test-00000-of-00001.parquet", table),
    );
    std::fs::create_dir(world.sandbox.path("programs")).unwrap();
    let program = world.sandbox.path("programs/embedctl");
    symlink(env!("CARGO_BIN_EXE_embedctl"), program).unwrap();
    let account = azure.settings.iter();
    let account = account.filter(|(name, _)| *name != "AZURE_STORAGE_ACCOUNT_NAME");
    for document in ["docs/object-stores.md", "docs/inspect.md"] {
        let text = block(document).replace("=mine", "=devstoreaccount1");
        let output = Command::new("/bin/bash")
            .args(["-c", &format!("set -euo pipefail\n{text}")])
            .current_dir(world.sandbox.path(""))
            .env_clear()
            .env("PATH", "programs:/usr/bin:/bin")
            .env("HOME", world.sandbox.path(""))
            .env("HF_ENDPOINT", hub.url())
            .env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL))
            .env("EMBEDCTL_PROVIDER", "native")
            .envs(store.settings.iter().map(|(name, value)| (*name, value)))
            .envs(account.clone().map(|(name, value)| (*name, value)))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{document}: {text}{said}");
        if document.starts_with("docs/inspect") {
            continue; // it writes nothing
        }
        let (names, _) = store.contents("vectors");
        assert!(names.contains(&"2026.parquet".to_owned()), "{names:?}");
        store.boto("s3.delete_object(Bucket='vectors', Key='2026.parquet')");
    }
    assert!(world.sandbox.path("reviews.parquet").exists());
    let done = Address::parse("az://corpus/texts.parquet").unwrap();
    assert!(storage.look(&done).unwrap().size() > 0);
}
