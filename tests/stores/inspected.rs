//! `inspect` of what is on stores: read where it is, and of tables only the parts that are needed.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::hub::http::{Reply, Server as Web};
use crate::runs::World;
use crate::sandbox::Run;
use crate::servers::{every_store, moto};

fn inspected(world: &World, line: &str) -> (Option<i32>, Value) {
    let run = world.any(&format!("inspect --json {line}"));
    let json = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{line}: {run}"));
    (run.code, json)
}

fn says(run: &Run, parts: &[&str]) {
    for part in parts {
        assert!(run.stderr.contains(part), "no '{part}' in {run}");
    }
}

#[test]
fn objects_patterns_and_parts_are_read_on_every_store() {
    let test = "objects_patterns_and_parts_are_read_on_every_store";
    for (store, scheme) in every_store(test) {
        let world = World::new(store);
        let base = format!("{scheme}://looked");
        store.bucket("looked");
        world.done(&format!("texts.txt --keep text -o {base}/a/one.parquet"));
        world.done(&format!("texts.txt -o {base}/a/two.jsonl --prompt query:"));
        world.done(&format!(
            "texts.txt -o {base}/run/ --part-rows 1 --window 1"
        ));

        // Each by its name, with what stands beside it.
        for (name, hashes) in [
            ("a/one.parquet", &[][..]),
            ("a/two.jsonl", &["lines", "provenance"]),
        ] {
            let (code, found) = inspected(&world, &format!("{base}/{name}"));
            let file = &found["files"][0];
            assert_eq!((code, &file["problems"]), (Some(0), &json!([])), "{found}");
            assert_eq!(file["path"], format!("{base}/{name}"));
            assert_eq!(file["columns"][0]["vectors"], 3, "{found}");
            assert_eq!(file["provenance"]["rows"]["embedded"], 3, "{found}");
            let belongs = file["belongs"].as_array().unwrap().iter();
            let belongs: Vec<_> = belongs.map(|one| (&one["name"], &one["same"])).collect();
            let expected: Vec<_> = hashes.iter().map(|name| json!(name)).collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|name| (name, &Value::Bool(true)))
                .collect();
            assert_eq!(belongs, expected, "{name}");
        }
        let (code, found) = inspected(
            &world,
            &format!("{base}/a/one.parquet --verify 3 --provider native"),
        );
        assert_eq!(
            (code, &found["verified"]["same"]),
            (Some(0), &json!(true)),
            "{found}"
        );
        let (code, found) = inspected(&world, &format!("{base}/a/*.{{jsonl,parquet}} --same"));
        assert_eq!((code, &found["mix"]), (Some(1), &json!(false)), "{found}");

        // A folder of parts, whole and not.
        let (code, found) = inspected(&world, &format!("{base}/run/"));
        assert_eq!(code, Some(0), "{found}");
        assert_eq!(found["files"].as_array().unwrap().len(), 3, "{found}");
        let run = world.any(&format!("inspect {base}/a/"));
        assert_eq!(run.code, Some(2), "{run}");
        says(&run, &["is a folder without an output in parts"]);
        let run = world.any(&format!("inspect {base}/a"));
        says(&run, &[&format!("write {base}/a/ for all of them")]);
        let run = world.any(&format!("inspect {base}/gone.npy"));
        assert_eq!(run.code, Some(2), "{run}");
        says(&run, &[&format!("there is no object {base}/gone.npy")]);
        store.remove("looked", &["run/part-00001-00001.parquet"]);
        let (code, found) = inspected(&world, &format!("{base}/run/"));
        let problems = found["files"][0]["problems"].to_string();
        assert_eq!(code, Some(1), "{found}");
        assert!(problems.contains("begins at record 2"), "{problems}");
        // The settings that it was written with have gone.
        world
            .sandbox
            .write("other.jsonl", "{\"embedding\": [1.0]}\n");
        world.upload("looked", "a/two.jsonl", "other.jsonl");
        let (code, found) = inspected(&world, &format!("{base}/a/two.jsonl"));
        assert_eq!(code, Some(1), "{found}");
        assert!(
            found["files"][0]["problems"]
                .to_string()
                .contains("is not what was written")
        );
    }
}

#[test]
fn of_parquet_the_vectors_alone_are_fetched() {
    let Some(store) = moto("of_parquet_the_vectors_alone_are_fetched") else {
        return;
    };
    let world = World::new(store);
    // Four rows of three megabytes that do not compress to less than a third.
    let mut state = 1_u32;
    let mut padding = || -> String {
        let digits = (0..3_000_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (state >> 24) as u8 % 26)
        });
        digits.collect()
    };
    let rows: String = (0..4)
        .map(|row| json!({"text": format!("row {row}"), "padding": padding()}).to_string() + "\n")
        .collect();
    world.sandbox.write("wide.jsonl", rows);
    world.done("wide.jsonl --keep padding -o wide.parquet");
    let content = std::fs::read(world.sandbox.path("wide.parquet")).unwrap();
    let size = content.len();
    assert!(size > 4 << 20, "{size}");
    let fetched: Arc<Mutex<usize>> = Arc::default();
    let counted = Arc::clone(&fetched);
    let server = Web::start(None, move |request| {
        if !request.path.starts_with("/wide.parquet") {
            return Reply::new(404);
        }
        let reply = Reply::ranged(request, &content);
        if request.method == "GET" {
            *counted.lock().unwrap() += reply.body.len();
        }
        reply.with("ETag", "\"1\"")
    });
    let url = format!("http://{}/wide.parquet?signature=5ecret", server.host());
    let (code, found) = inspected(&world, &url);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["files"][0]["columns"][0]["vectors"], 4, "{found}");
    assert_eq!(found["files"][0]["provenance"]["rows"]["embedded"], 4);
    assert!(!found.to_string().contains("5ecret"), "{found}");
    let fetched = *fetched.lock().unwrap();
    assert!(fetched < size / 2, "{fetched} of {size}");
}
