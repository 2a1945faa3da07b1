//! `embed` from and to object stores, as people run it.

use std::process::{Command, Stdio};

use crate::sandbox::{Run, Sandbox};
use crate::servers::{Server, azurite, every_store, google, moto};
use crate::support::python;
use embedctl_testing::stride;

/// A store and a folder.
pub struct World<'a> {
    pub store: &'a Server,
    pub sandbox: Sandbox,
}

impl<'a> World<'a> {
    pub fn new(store: &'a Server) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("texts.txt", "one\ntwo words\nand three more\n");
        Self { store, sandbox }
    }

    /// A whole run of `embed` that may reach the store.
    pub fn command(&self, line: &str) -> Command {
        let mut command = self.sandbox.embed_command(line);
        command.envs(
            self.store
                .settings
                .iter()
                .map(|(name, value)| (*name, value)),
        );
        command
    }

    /// A whole run of any command that may reach the store.
    pub fn any(&self, line: &str) -> Run {
        let mut command = self.sandbox.command(line.split_whitespace());
        let settings = self.store.settings.iter();
        command.envs(settings.map(|(name, value)| (*name, value)));
        self.sandbox.finish(&mut command)
    }

    pub fn run(&self, line: &str) -> Run {
        self.sandbox.finish(&mut self.command(line))
    }

    pub fn done(&self, line: &str) -> Run {
        let run = self.run(line);
        assert_eq!(run.code, Some(0), "{line}: {}", run.stderr);
        run
    }

    /// An object, fetched by others.
    pub fn fetch(&self, bucket: &str, key: &str) -> std::path::PathBuf {
        let path = self.sandbox.path("fetched");
        self.store.download(bucket, key, &path);
        path
    }

    /// Puts a file of the sandbox into the bucket.
    pub fn upload(&self, bucket: &str, key: &str, name: &str) {
        self.store.upload(bucket, key, &self.sandbox.path(name));
    }
}

#[test]
fn parquet_and_jsonl_go_to_s3_and_are_read_by_others() {
    let test = "parquet_and_jsonl_go_to_s3_and_are_read_by_others";
    let Some(store) = moto(test) else { return };
    let Some(python) = python(test, &["pyarrow"]) else {
        return;
    };
    let world = World::new(store);
    store.bucket("outputs");
    let run = world.done("texts.txt --keep text -o s3://outputs/a/out.parquet");
    assert!(
        run.stderr.contains("wrote s3://outputs/a/out.parquet"),
        "{}",
        run.stderr
    );
    world.done("texts.txt --keep text -o s3://outputs/a/out.jsonl");
    world.done("texts.txt --keep text -o s3://outputs/a/out.arrow");
    world.done("texts.txt --keep text -o local.parquet");
    let (names, uploads) = store.contents("outputs");
    assert_eq!(
        names,
        [
            "a/out.arrow",
            "a/out.jsonl",
            "a/out.jsonl.json",
            "a/out.parquet"
        ]
    );
    assert_eq!(uploads, 0);
    let script = "
import json, sys
import pyarrow as pa, pyarrow.parquet as pq
fetched, kind, local = sys.argv[1:]
local = pq.read_table(local).to_pylist()
if kind == 'jsonl':
    rows = [json.loads(line) for line in open(fetched)]
elif kind == 'arrow':
    rows = pa.ipc.open_file(fetched).read_all().to_pylist()
else:
    rows = pq.read_table(fetched).to_pylist()
assert len(rows) == 3 and [row['text'] for row in rows] == ['one', 'two words', 'and three more'], rows
for row, own in zip(rows, local):
    assert row['id'] == own['id'] and max(abs(a - b) for a, b in zip(row['embedding'], own['embedding'])) < 1e-6
";
    for kind in ["parquet", "jsonl", "arrow"] {
        let fetched = world.fetch("outputs", &format!("a/out.{kind}"));
        let output = Command::new(&python)
            .args(["-c", script])
            .arg(&fetched)
            .arg(kind)
            .arg(world.sandbox.path("local.parquet"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {said}");
    }
}

#[test]
fn what_is_there_is_replaced_with_force_alone() {
    let Some(store) = moto("what_is_there_is_replaced_with_force_alone") else {
        return;
    };
    let world = World::new(store);
    store.bucket("force");
    world.done("texts.txt -o s3://force/out.jsonl");
    let first = std::fs::read(world.fetch("force", "out.jsonl.json")).unwrap();
    let refused = world.run("texts.txt -o s3://force/out.jsonl");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("s3://force/out.jsonl: the object exists; pass --force"),
        "{}",
        refused.stderr
    );
    world.sandbox.write("texts.txt", "another\n");
    world.done("texts.txt -o s3://force/out.jsonl --force");
    let rows = std::fs::read_to_string(world.fetch("force", "out.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 1);
    assert!(std::fs::read(world.fetch("force", "out.jsonl.json")).unwrap() != first);
    // A sidecar is in the way, too.
    store.boto("s3.delete_object(Bucket='force', Key='out.jsonl')");
    let refused = world.run("texts.txt -o s3://force/out.jsonl");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("out.jsonl.json is written with it, but already exists")
    );
    assert_eq!(
        store.contents("force"),
        (vec!["out.jsonl.json".to_owned()], 0)
    );
}

#[test]
fn a_failed_run_leaves_nothing() {
    let Some(store) = moto("a_failed_run_leaves_nothing") else {
        return;
    };
    let world = World::new(store);
    store.bucket("failed");
    world
        .sandbox
        .write("bad.jsonl", "{\"text\": \"good\"}\n{\"text\": 1}\n");
    let run = world.run("bad.jsonl -o s3://failed/out.jsonl");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(store.contents("failed"), (vec![], 0));
    // Rejected records are listed in an object, too.
    let run = world.run(
        "bad.jsonl -o s3://failed/out.parquet --on-error skip --rejects s3://failed/rejects.jsonl",
    );
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let rejects = std::fs::read_to_string(world.fetch("failed", "rejects.jsonl")).unwrap();
    assert!(rejects.contains("\"line\":2"), "{rejects}");
    assert_eq!(store.contents("failed").0, ["out.parquet", "rejects.jsonl"]);
}

#[test]
fn a_matrix_says_where_it_can_be_written() {
    let Some(store) = moto("a_matrix_says_where_it_can_be_written") else {
        return;
    };
    let world = World::new(store);
    let run = world.run("texts.txt -o s3://matrix/out.npy");
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr
            .contains("its header is completed at the end, but s3://matrix/out.npy is not one"),
        "{}",
        run.stderr
    );
}

#[test]
fn azure_takes_outputs_too() {
    let test = "azure_takes_outputs_too";
    let Some(store) = azurite(test) else { return };
    let world = World::new(store);
    store.bucket("outputs");
    world.done("texts.txt -o az://outputs/out.jsonl");
    let again = world.run("texts.txt -o az://outputs/out.jsonl");
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    world.done("texts.txt -o az://outputs/out.jsonl --force");
}

#[test]
fn google_takes_what_google_gives_and_its_emulators_variable_counts() {
    let test = "google_takes_what_google_gives_and_its_emulators_variable_counts";
    let Some(store) = google(test) else { return };
    let world = World::new(store);
    store.bucket("outputs");
    world.upload("outputs", "in/a b.txt", "texts.txt");
    world.done("gs://outputs/in/*.txt -o gs://outputs/out.jsonl");
    world.done("gs://outputs/in/ --keep text -o gs://outputs/out.parquet");
    let again = world.run("texts.txt -o gs://outputs/out.parquet");
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    world.done("gs://outputs/out.parquet -o gs://outputs/out.jsonl --force");
    let rows = std::fs::read_to_string(world.fetch("outputs", "out.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 3);
    assert_eq!(store.contents("outputs").1, 0);

    // Google's own clients take this variable, and ask an emulator without credentials.
    let Some(open) = Server::google(test, &[("OPEN", "1")]) else {
        return;
    };
    open.bucket("open");
    for host in [&open.url, open.url.trim_start_matches("http://")] {
        let sandbox = &world.sandbox;
        let mut command = sandbox.embed_command("texts.txt -o gs://open/out.parquet --force");
        let run = sandbox.finish(command.env("STORAGE_EMULATOR_HOST", host));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    assert_eq!(open.contents("open").0, ["out.parquet"]);
}

#[test]
fn parts_go_to_s3_and_are_gone_on_with() {
    let Some(store) = moto("parts_go_to_s3_and_are_gone_on_with") else {
        return;
    };
    parts_are_gone_on_with(store, "s3");
}

#[test]
fn parts_go_to_google_and_are_gone_on_with() {
    let Some(store) = google("parts_go_to_google_and_are_gone_on_with") else {
        return;
    };
    parts_are_gone_on_with(store, "gs");
}

#[test]
fn parts_go_to_azure_and_are_gone_on_with() {
    let Some(store) = azurite("parts_go_to_azure_and_are_gone_on_with") else {
        return;
    };
    parts_are_gone_on_with(store, "az");
}

fn parts_are_gone_on_with(store: &Server, scheme: &str) {
    let world = World::new(store);
    store.bucket("parts");
    world.sandbox.write("texts.txt", "a\nb\nc\nd\ne\n");
    let line = &format!("texts.txt -o {scheme}://parts/run/ --part-rows 2 --window 1 -f jsonl");
    world.done(line);
    let (whole, uploads) = store.contents("parts");
    assert_eq!(uploads, 0);
    let parts = |names: &[String]| -> Vec<String> {
        let is_part = |name: &&String| name.starts_with("run/part-") && name.ends_with(".jsonl");
        names.iter().filter(is_part).cloned().collect()
    };
    assert_eq!(parts(&whole).len(), 3, "{whole:?}");
    assert!(whole.contains(&"run/_SUCCESS".to_owned()), "{whole:?}");
    let read = |name: &str| std::fs::read(world.fetch("parts", name)).unwrap();
    let before: Vec<_> = parts(&whole).iter().map(|name| read(name)).collect();

    // As if it had been killed before its last part.
    store.remove("parts", &["_SUCCESS", "manifest", "shards/", "-00002"]);
    assert_eq!(parts(&store.contents("parts").0).len(), 2);
    let refused = world.run(line);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--resume"), "{}", refused.stderr);
    world.done(&format!("{line} --resume"));
    assert_eq!(store.contents("parts").0, whole);
    let after: Vec<_> = parts(&whole).iter().map(|name| read(name)).collect();
    assert_eq!(after, before);
    world.done(&format!("{line} --resume"));
    let refused = world.run(&format!(
        "{scheme}://parts/run/part-00001-00000.jsonl -o {scheme}://parts/run/ --force"
    ));
    assert!(
        refused.stderr.contains("lies in the folder that -o names"),
        "{}",
        refused.stderr
    );
    // One object cannot be resumed.
    let refused = world.run(&format!("texts.txt -o {scheme}://parts/one.jsonl --resume"));
    assert!(
        refused.stderr.contains(&format!(
            "one object is written by one run; write parts to {scheme}://parts/one.jsonl/"
        )),
        "{}",
        refused.stderr
    );
}

#[test]
fn vectors_of_parts_on_s3_are_taken_again() {
    let Some(store) = moto("vectors_of_parts_on_s3_are_taken_again") else {
        return;
    };
    let world = World::new(store);
    store.bucket("earlier");
    world.done("texts.txt -o s3://earlier/old/ --part-rows 2");
    world
        .sandbox
        .write("more.txt", "four\nand three more\none\n");
    for format in ["parquet", "jsonl", "jsonl.gz", "arrow", "pgcopy"] {
        world.done(&format!(
            "texts.txt --keep text -o s3://earlier/one.{format}"
        ));
    }
    // A matrix is not written there, and can lie there.
    world.done("texts.txt --keep text -o one.npy");
    for name in ["one.npy", "one.npy.json", "one.npy.rows.jsonl"] {
        world.upload("earlier", name, name);
    }
    for old in [
        "one.parquet",
        "one.jsonl",
        "one.jsonl.gz",
        "one.arrow",
        "one.npy",
        "old/",
    ] {
        let line = format!("more.txt -o more.jsonl --force --reuse s3://earlier/{old}");
        let run = world.done(&line);
        let said = "2 vectors copied from an earlier output";
        assert!(run.stderr.contains(said), "{old}: {}", run.stderr);
    }
    for (old, code, said) in [
        ("one.pgcopy", 2, "neither hashes of its texts"),
        (
            "none.parquet",
            2,
            "there is no object s3://earlier/none.parquet",
        ),
        ("one.npy.rows.jsonl", 2, "has no provenance"),
    ] {
        let run = world.run(&format!(
            "more.txt -o other.jsonl --reuse s3://earlier/{old}"
        ));
        assert_eq!(run.code, Some(code), "{old}: {}", run.stderr);
        assert!(run.stderr.contains(said), "{old}: {}", run.stderr);
    }
    world.done("more.txt -o plain.jsonl");
    let read = |name: &str| std::fs::read_to_string(world.sandbox.path(name)).unwrap();
    let rows = |text: &str| -> Vec<serde_json::Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    for (row, own) in rows(&read("more.jsonl"))
        .iter()
        .zip(rows(&read("plain.jsonl")))
    {
        let vector = |row: &serde_json::Value| -> Vec<f64> {
            serde_json::from_value(row["embedding"].clone()).unwrap()
        };
        let pairs = vector(row).into_iter().zip(vector(&own));
        assert!(
            pairs
                .into_iter()
                .all(|(one, other)| (one - other).abs() < 1e-5)
        );
    }
}

/// A store has no locks: both begin, and one wins each part. What belongs to a part stays, and nothing else does.
#[test]
fn two_runs_at_once_on_s3_lose_nothing() {
    let test = "two_runs_at_once_on_s3_lose_nothing";
    let Some(store) = moto(test) else { return };
    let world = World::new(store);
    store.bucket("two");
    let line = |n: u32| match n % 9 {
        4 => "not JSON\n".to_owned(),
        _ => format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n"),
    };
    world
        .sandbox
        .write("in.jsonl", (0..60).map(line).collect::<String>());
    let options = "in.jsonl --on-error skip --part-rows 6 --resume";
    let rounds = ["jsonl", "parquet", "npy", "jsonl"].iter().enumerate();
    for (round, format) in rounds.step_by(stride(2)) {
        let line = format!("{options} -f {format} -o s3://two/{round}/");
        let start = || {
            let mut command = world.command(&line);
            let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
            silent.spawn().unwrap()
        };
        let runs = [start(), start(), start()];
        for mut run in runs {
            run.wait().unwrap();
        }
        assert_eq!(world.run(&line).code, Some(3));
        let found = world.any(&format!("inspect s3://two/{round}/"));
        assert_eq!(found.code, Some(0), "{found}");
        let (names, _) = store.contents("two");
        let own = |folder: &str| -> Vec<&str> {
            let names = names.iter();
            let names = names.filter_map(|name| name.strip_prefix(folder));
            let names = names.filter(|name| name.starts_with("part-"));
            names.map(|name| name.split('.').next().unwrap()).collect()
        };
        let mut parts = own(&format!("{round}/"));
        parts.dedup();
        assert_eq!(parts.len(), 10);
        assert_eq!(own(&format!("_{round}.embedctl/texts/")), parts);
        assert_eq!(own(&format!("_{round}.embedctl/commits/")), parts);
        assert_eq!(own(&format!("_{round}.embedctl/rejects/")).len(), 7);
        assert!(own(&format!("_{round}.embedctl/beside/")).is_empty());
    }
}

/// An object that is put anew between two shards has another etag; one that is put back may have another, too, and then
/// its content decides.
#[test]
fn shards_of_objects_that_were_put_anew_make_no_output() {
    for (store, scheme) in every_store("shards_of_objects_that_were_put_anew_make_no_output") {
        let world = World::new(store);
        store.bucket("anew");
        let line = |n| format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n");
        let lines: Vec<String> = (10..50).map(line).collect();
        let mut other = lines.clone();
        other.swap(2, 37);
        world.sandbox.write("a.jsonl", lines.concat());
        world.sandbox.write("other.jsonl", other.concat());
        let base = format!("{scheme}://anew");
        for order in [[1, 2], [2, 1]] {
            let [first, second] = order;
            let shard = |shard: u32| {
                let out = format!("{base}/out{first}/");
                format!("{base}/in/ -f jsonl --part-rows 5 --resume -o {out} --shard {shard}/2")
            };
            world.upload("anew", "in/a.jsonl", "a.jsonl");
            world.done(&shard(first));
            world.upload("anew", "in/a.jsonl", "other.jsonl");
            let run = world.run(&shard(second));
            let said = format!("shard {first} of 2 read {base}/in/a.jsonl");
            assert_eq!(run.code, Some(2), "{run}");
            assert!(run.stderr.contains(&said), "{run}");
            let success = format!("out{first}/_SUCCESS");
            assert!(!store.contents("anew").0.contains(&success));
            world.upload("anew", "in/a.jsonl", "a.jsonl");
            world.done(&shard(second));
            assert!(store.contents("anew").0.contains(&success));
        }
    }
}

/// Shards of objects, one of them a table, whatever order they end in.
#[test]
fn shards_fill_one_folder_of_every_store() {
    for (store, scheme) in every_store("shards_fill_one_folder_of_every_store") {
        let world = World::new(store);
        store.bucket("shards");
        let lines = |from: u32, to: u32| {
            let line = |n| format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n");
            (from..to).map(line).collect::<String>()
        };
        world.sandbox.write("a.jsonl", lines(0, 40));
        world.sandbox.write("b.jsonl", lines(40, 44));
        world.done("b.jsonl --keep text -o b.parquet");
        world.sandbox.write("all.jsonl", lines(0, 44));
        world.done("all.jsonl -o all.npy");
        for name in ["a.jsonl", "b.parquet"] {
            world.upload("shards", &format!("in/{name}"), name);
        }
        let base = format!("{scheme}://shards");
        let line = format!("{base}/in/ -f jsonl --part-rows 5 --resume -o {base}/out/");
        for shard in [3, 1, 2] {
            let run = world.done(&format!("{line} --shard {shard}/3"));
            let (names, uploads) = store.contents("shards");
            let is_last = shard == 2;
            let said = run
                .stderr
                .contains("the output is complete when all other shards are");
            assert_eq!(said, !is_last, "{run}");
            let success = names.contains(&"out/_SUCCESS".to_owned());
            assert_eq!((success, uploads), (is_last, 0), "{names:?}");
            let found = world.any(&format!("inspect {base}/out/"));
            assert_eq!(found.code, Some(i32::from(!is_last)), "{found}");
            let missing = "shard 2 of 3 is not at its end: 0 of its records are done";
            assert_eq!(found.stdout.contains(missing), !is_last, "{found}");
        }
        let (mut parts, _) = store.contents("shards");
        parts.retain(|name| name.starts_with("out/part-") && name.ends_with(".jsonl"));
        let read = |name: &String| std::fs::read_to_string(world.fetch("shards", name)).unwrap();
        let rows: Vec<serde_json::Value> = (parts.iter().map(read).collect::<String>().lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str()).collect();
        let expected: Vec<_> = (0..44).map(|id| id.to_string()).collect();
        assert!(
            ids.into_iter()
                .eq(expected.iter().map(|id| Some(id.as_str())))
        );
        // A part that somebody removes is embedded again, by its shard alone.
        let last = parts.last().unwrap();
        store.remove("shards", &[last.as_str(), "_SUCCESS"]);
        world.done(&format!("{line} --shard 3/3"));
        let (names, _) = store.contents("shards");
        assert!(names.contains(last) && names.contains(&"out/_SUCCESS".to_owned()));
        // Readers of a folder look into those in it.
        let run = world.run(&format!("b.jsonl -o {base}/"));
        assert!(run.stderr.contains("the folder holds in/"), "{run}");
    }
}

/// Objects of lines and of a table: a run that goes on enters the one where it was stopped.
#[test]
fn inputs_on_every_store_are_gone_on_with() {
    for (store, scheme) in every_store("inputs_on_every_store_are_gone_on_with") {
        inputs_are_gone_on_with(store, scheme);
    }
}

fn inputs_are_gone_on_with(store: &Server, scheme: &str) {
    let world = World::new(store);
    store.bucket("resumed");
    let good = |n: u32| format!("{{\"id\": \"{n}\", \"text\": \"text {n}\"}}\n");
    let lines = |bad: &str| format!("{}{}{bad}{}", good(1), good(2), good(3));
    world.sandbox.write("a.jsonl", lines(""));
    world.done("a.jsonl --keep text -o b.parquet");
    world.sandbox.write("c.jsonl", lines("no\n"));
    for name in ["a.jsonl", "b.parquet", "c.jsonl"] {
        world.upload("resumed", &format!("in/{name}"), name);
    }
    let line = format!("{scheme}://resumed/in/ --window 1 -f jsonl");
    let outputs = [format!("{scheme}://resumed/out/"), "out.jsonl".to_owned()];
    for output in &outputs {
        let failed = world.run(&format!("{line} -o {output} --resume"));
        assert_eq!(failed.code, Some(1), "{}", failed.stderr);
        let safe = failed
            .stderr
            .contains("8 rows in 1 part are safe; resume with");
        assert!(safe, "{}", failed.stderr);
    }
    for output in &outputs {
        let done = world.run(&format!("{line} -o {output} --resume --on-error skip"));
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(
            done.stderr.contains("resumed after 8 rows"),
            "{}",
            done.stderr
        );
    }
    let ids = |text: &str| -> Vec<String> {
        let id =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string();
        text.lines().map(id).collect()
    };
    let whole = std::fs::read_to_string(world.sandbox.path("out.jsonl")).unwrap();
    assert_eq!(ids(&whole).concat().replace('"', ""), "123123123");
    let parts = ["out/part-00001-00000.jsonl", "out/part-00001-00001.jsonl"];
    let read = |name| std::fs::read_to_string(world.fetch("resumed", name)).unwrap();
    assert!(parts.map(read).concat() == whole);
}
