//! Inputs of other commands than `embed`, read where they are: records to measure with, vectors and texts to compare.

use serde_json::Value;

use crate::datasets::DATASET;
use crate::hub::{Files, Hub};
use crate::runs::World;
use crate::sandbox::{Run, SMALL_MODEL, Sandbox, in_repository};
use crate::servers::moto;

/// Vectors of the reference, and their texts.
const CASE: &str = "fixtures/parity/bert-cls";

fn model(folder: &str) -> String {
    in_repository(folder).display().to_string()
}

fn run(world: &World, arguments: &[&str]) -> Run {
    let mut command = world.sandbox.command(arguments);
    let settings = world.store.settings.iter();
    command.envs(settings.map(|(name, value)| (*name, value)));
    world.sandbox.finish(&mut command)
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run}"))
}

#[test]
fn vectors_and_their_texts_are_compared_where_they_are() {
    let Some(store) = moto("vectors_and_their_texts_are_compared_where_they_are") else {
        return;
    };
    let world = World::new(store);
    store.bucket("compared");
    for (file, key) in [
        ("expected.npy", "a/reference.npy"),
        ("texts.jsonl", "a/reference.jsonl"),
        ("expected.npy", "alone/reference.npy"),
    ] {
        let path = in_repository(CASE).join(file);
        let path = path.display();
        store.boto(&format!("s3.upload_file(r'{path}', 'compared', '{key}')"));
    }
    let model = model(&format!("{CASE}/model"));
    let verify = |arguments: &[&str]| {
        let always = ["verify-model", &model, "--provider", "rten", "--json"];
        run(&world, &[&always, arguments].concat())
    };
    // The texts stand beside the vectors, or are named as embed's inputs are.
    for arguments in [
        &["--against", "s3://compared/a/reference.npy"][..],
        &[
            "--against",
            "s3://compared/alone/reference.npy",
            "--texts",
            "s3://compared/a/*.jsonl",
        ],
    ] {
        let run = verify(arguments);
        assert_eq!((run.code, &json(&run)["equal"]), (Some(0), &true.into()));
    }
    let run = verify(&["--against", "s3://compared/alone/reference.npy"]);
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("name the texts with --texts"), "{run}");
    let run = verify(&[
        "--against",
        "s3://compared/gone.npy",
        "--texts",
        "texts.txt",
    ]);
    assert_eq!(run.code, Some(2), "{run}");
    let said = "there is no object s3://compared/gone.npy";
    assert!(run.stderr.contains(said), "{run}");
    let run = verify(&[
        "--against",
        "x.npy",
        "--texts",
        "texts.txt",
        "--storage-option",
        "aws_region=x",
    ]);
    assert!(run.stderr.contains("is an address"), "{run}");
}

#[test]
fn records_to_measure_with_come_from_stores() {
    let Some(store) = moto("records_to_measure_with_come_from_stores") else {
        return;
    };
    let world = World::new(store);
    store.bucket("measured");
    store.boto(
        "for name in 'ab':\n\
         \x20   s3.put_object(Bucket='measured', Key=f'x/{name}.txt', Body=f'text {name}\\nmore of {name}\\n'.encode())\n\
         s3.put_object(Bucket='measured', Key='x/logo.png', Body=b'no input')\n\
         s3.put_object(Bucket='measured', Key='z/a.md', Body=b'one\\ndocument')\n\
         s3.put_object(Bucket='measured', Key='z/b.txt', Body=b'another\\none')\n",
    );
    let model = model(SMALL_MODEL);
    let bench = |input: &str| {
        let line = format!("bench --json --samples 1 --duration 0.2 -p native --input {input} -m");
        let mut arguments: Vec<&str> = line.split_whitespace().collect();
        arguments.push(&model);
        run(&world, &arguments)
    };
    let found = bench("s3://measured/x/");
    assert_eq!(found.code, Some(0), "{found}");
    let workload = &json(&found)["workload"];
    assert_eq!(workload["records"], 4, "{found}");
    let name = "s3://measured/x/a.txt, s3://measured/x/b.txt";
    assert_eq!(workload["name"], name, "{found}");
    // All objects are documents: each is one record.
    let found = bench("s3://measured/z/");
    assert_eq!(found.code, Some(0), "{found}");
    assert_eq!(json(&found)["workload"]["records"], 2, "{found}");
    let found = bench("s3://measured/x/c.txt");
    assert_eq!(found.code, Some(2), "{found}");
    let said = "there is no object s3://measured/x/c.txt";
    assert!(found.stderr.contains(said), "{found}");

    // And what a file's vectors were made of.
    world.done("texts.txt -o vectors.npy");
    store.boto("s3.put_object(Bucket='measured', Key='y/1.txt', Body=b'one\\ntwo words\\n')");
    store.boto("s3.put_object(Bucket='measured', Key='y/2.txt', Body=b'and three more\\n')");
    let verified = world.any(
        "inspect vectors.npy --json --verify 3 --provider native --input s3://measured/y/*.txt",
    );
    assert_eq!(verified.code, Some(0), "{verified}");
    assert_eq!(json(&verified)["verified"]["rows"], 3, "{verified}");
}

#[test]
fn ranges_of_calibration_are_read_where_they_are() {
    let Some(store) = moto("ranges_of_calibration_are_read_where_they_are") else {
        return;
    };
    let world = World::new(store);
    store.bucket("ranges");
    world.done("texts.txt -o ranges.npy");
    world.upload("ranges", "of/vectors.npy", "ranges.npy");
    for (ranges, name) in [
        ("ranges.npy", "here.npy"),
        ("s3://ranges/of/vectors.npy", "there.npy"),
    ] {
        world.done(&format!(
            "texts.txt -o {name} --dtype int8 --calibration {ranges}"
        ));
    }
    let content = |name: &str| std::fs::read(world.sandbox.path(name)).unwrap();
    assert_eq!(content("there.npy"), content("here.npy"));
    let line = "texts.txt -o none.npy --dtype int8 --calibration s3://ranges/gone.npy";
    let run = world.run(line);
    assert_eq!(run.code, Some(2), "{run}");
    let said = "there is no object s3://ranges/gone.npy";
    assert!(run.stderr.contains(said), "{run}");
    assert!(!world.sandbox.path("none.npy").exists());
}

#[test]
fn vectors_in_a_dataset_are_inspected_at_one_commit() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo words\nand three more\n");
    for name in ["a.parquet", "b.jsonl"] {
        let run = sandbox.embed(&format!("texts.txt --keep text -o {name}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let content = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    let names = ["a.parquet", "b.jsonl", "b.jsonl.json"];
    let files = names.iter().fold(Files::default(), |files, name| {
        files.with(&format!("data/{name}"), content(name))
    });
    let hub = Hub::start();
    hub.publish(DATASET, files);
    let inspect = |arguments: &[&str]| {
        let mut command = sandbox.command([&["inspect", "--json"], arguments].concat());
        command.env("HF_ENDPOINT", hub.url());
        sandbox.finish(&mut command)
    };
    let run = inspect(&["hf://datasets/org/texts/data/*.{parquet,jsonl}", "--same"]);
    assert_eq!(run.code, Some(0), "{run}");
    let found = json(&run);
    let all = found["files"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{run}");
    for (file, name) in all.iter().zip(["a.parquet", "b.jsonl"]) {
        let path = format!("hf://datasets/org/texts/data/{name}");
        assert_eq!(file["path"], path, "{run}");
        assert_eq!(file["columns"][0]["vectors"], 3, "{run}");
        assert_eq!(file["provenance"]["rows"]["embedded"], 3, "{run}");
    }
    // Against what stands beside it, there.
    assert_eq!(all[1]["belongs"][0]["same"], true, "{run}");
    let one = "hf://datasets/org/texts/data/a.parquet";
    let run = inspect(&[one, "--verify", "3", "--provider", "native"]);
    assert_eq!(json(&run)["verified"]["same"], true, "{run}");
    let run = inspect(&["hf://datasets/org/texts/data/gone.parquet"]);
    assert_eq!(run.code, Some(2), "{run}");
    let said = "there is no object hf://datasets/org/texts/data/gone.parquet";
    assert!(run.stderr.contains(said), "{run}");
}
