//! `embedctl embed --shard`: runs that write one folder together.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::jobs::{code, joined, json};
use crate::sandbox::Sandbox;
use embedctl::arrow::array::{ArrayRef, RecordBatch, StringArray};
use embedctl::arrow::ipc::writer::{FileWriter, StreamWriter};

#[test]
fn shards_agree_without_speaking() {
    let sandbox = Sandbox::new();
    // A file that is cut twice and more, a small one, and an empty one.
    let lines = |from: usize, to: usize| {
        (from..to)
            .map(|n| format!("text {n}\n"))
            .collect::<String>()
    };
    sandbox.write("a.txt", lines(0, 500));
    sandbox.write("b.txt", lines(500, 510));
    sandbox.write("c.txt", "");
    let inputs = "a.txt b.txt c.txt";
    code(
        &sandbox.embed(&format!("{inputs} -o plain.jsonl --keep text")),
        0,
    );
    let shard = |number: u32| {
        format!("{inputs} -o out/ -f jsonl --part-rows 40 --keep text --shard {number}/4")
    };
    for number in [3, 1, 4] {
        let run = sandbox.embed(&shard(number));
        assert!(
            code(&run, 0).stderr.contains("when all others are"),
            "{run}"
        );
        assert!(!sandbox.path("out/_SUCCESS").exists());
    }
    // Who asks is told what is missing.
    let found = sandbox.run("inspect out/");
    let said = &code(&found, 1).stdout;
    assert!(
        said.contains("shard 2 of 4 is not at its end: 0 of its records are done"),
        "{found}"
    );
    // Once more is nothing to do, with the option; without it, it is refused.
    let again = sandbox.embed(&format!("{} --resume", shard(3)));
    let said = &code(&again, 0).stderr;
    assert!(
        said.contains("nothing to do: this shard is complete"),
        "{again}"
    );
    let refused = sandbox.embed(&shard(3));
    let said = &code(&refused, 2).stderr;
    assert!(
        said.contains("or remove it and run all shards anew"),
        "{refused}"
    );
    // Another number of shards, or another listing, would divide the input otherwise.
    let other = sandbox.embed(&shard(2).replace("/4", "/5"));
    assert!(
        code(&other, 2).stderr.contains("shards (4 then, 5 now)"),
        "{other}"
    );
    sandbox.write("c.txt", "more\n");
    let other = sandbox.embed(&shard(2));
    assert!(code(&other, 2).stderr.contains("input_sizes"), "{other}");
    sandbox.write("c.txt", "");
    let last = sandbox.embed(&shard(2));
    assert!(
        !code(&last, 0).stderr.contains("when all others are"),
        "{last}"
    );
    let manifest = json(&sandbox.path("out/_embedctl/manifest.json"));
    assert_eq!(
        (&manifest["rows"], &manifest["shards"]),
        (&510.into(), &4.into())
    );
    assert!(joined(&sandbox, "out") == read(&sandbox.path("plain.jsonl")));
    let again = sandbox.embed(&format!("{} --resume", shard(3)));
    let said = &code(&again, 0).stderr;
    assert!(
        said.contains("nothing to do: the output is complete"),
        "{again}"
    );
    let found = sandbox.run("inspect out/");
    let said = &code(&found, 0).stdout;
    assert!(said.contains("510 read, 0 rejected; 510 rows"), "{found}");
    sandbox.write("a.txt", lines(0, 500).replace("text", "next"));
    let other = sandbox.embed(&format!("{} --resume", shard(1)));
    let said = &code(&other, 2).stderr;
    assert!(
        said.contains("or remove it and run all shards anew"),
        "{other}"
    );
}

#[test]
fn shards_divide_one_file() {
    let sandbox = Sandbox::new();
    let texts: Vec<_> = (0..90).map(|row| format!("text {row}")).collect();
    let lines = |text: &String| format!("{{\"id\": \"{text}\", \"text\": \"{text}\"}}\n");
    sandbox.write("one.jsonl", texts.iter().map(lines).collect::<String>());
    let text = Arc::new(StringArray::from(texts)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", text.clone()), ("text", text)]).unwrap();
    let mut arrow = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    for row in (0..90).step_by(8) {
        arrow.write(&batch.slice(row, 8.min(90 - row))).unwrap();
    }
    sandbox.write("one.arrow", arrow.into_inner().unwrap());
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    sandbox.write("one.arrows", stream.into_inner().unwrap());
    // In row groups that are small beside a shard, and in one.
    for (name, rows) in [("few.parquet", 7), ("one.parquet", 90)] {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
        let properties = properties.build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        sandbox.write(name, file);
    }
    for name in ["one.jsonl", "one.arrow", "few.parquet", "one.parquet"] {
        let given = "-f jsonl --source-columns --part-rows 8";
        code(
            &sandbox.embed(&format!("{name} -f jsonl --source-columns -o {name}.plain")),
            0,
        );
        for number in [2, 3, 1] {
            let run = sandbox.embed(&format!("{name} -o {name}.out/ {given} --shard {number}/3"));
            code(&run, 0);
            let end =
                json(&sandbox.path(&format!("{name}.out/_embedctl/shards/0000{number}.json")));
            let rows = end["rows"].as_u64().unwrap();
            assert!((25..36).contains(&rows), "{name} {number}: {rows}");
        }
        assert_eq!(
            joined(&sandbox, &format!("{name}.out")),
            read(&sandbox.path(&format!("{name}.plain")))
        );
    }
    let run = sandbox.embed("one.arrows -o out/ --shard 1/3");
    assert!(
        code(&run, 2)
            .stderr
            .contains("can only be read from its beginning"),
        "{run}"
    );
    assert!(!sandbox.path("out").exists());
}

/// What earlier runs and other shards have embedded counts.
#[test]
fn a_run_that_has_nothing_left_to_embed_is_not_empty() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let line = "a.txt -o out/ -f jsonl --fail-on-empty --resume";
    code(&sandbox.embed(line), 0);
    // As a kill behind the last part leaves it.
    fs::remove_file(sandbox.path("out/_SUCCESS")).unwrap();
    fs::remove_file(sandbox.path("out/_embedctl/manifest.json")).unwrap();
    fs::remove_dir_all(sandbox.path("out/_embedctl/shards")).unwrap();
    code(&sandbox.embed(line), 0);
    assert!(sandbox.path("out/_SUCCESS").exists());
    // Two lines for three.
    for number in 1..=3 {
        let line = format!("a.txt -o three/ -f jsonl --fail-on-empty --shard {number}/3");
        code(&sandbox.embed(&line), 0);
    }
    assert_eq!(joined(&sandbox, "three"), joined(&sandbox, "out"));
}

/// A record may look like the header, or like two: only whole files are read as they were written.
#[test]
fn files_of_csv_are_dealt_out_whole() {
    let sandbox = Sandbox::new();
    for name in ["a.csv", "b.csv"] {
        let records = (0..30).map(|row| format!("{name} {row}\ntext\n\"two\ntext\n\"\n"));
        sandbox.write(name, format!("text\n{}", records.collect::<String>()));
    }
    let line = "a.csv b.csv -f jsonl --source-columns";
    code(&sandbox.embed(&format!("{line} -o plain.jsonl")), 0);
    for number in [2, 3, 1] {
        let run = sandbox.embed(&format!("{line} -o out/ --shard {number}/3"));
        code(&run, 0);
    }
    let plain = read(&sandbox.path("plain.jsonl"));
    assert_eq!(joined(&sandbox, "out"), plain);
    for number in 1..=2 {
        let run = sandbox.embed(&format!("a.csv -o one/ --shard {number}/2"));
        let said = &code(&run, 2).stderr;
        assert!(said.contains("CSV or an Arrow stream can only be"), "{run}");
    }
    assert!(!sandbox.path("one").exists());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
