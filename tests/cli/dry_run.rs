//! `embed --dry-run`: a run's plan, without the run.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use arrow::array::{RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;

fn survey(sandbox: &Sandbox, line: &str) -> (Option<i32>, Value) {
    let line = format!("{line} --dry-run --log-format json");
    let output = sandbox.embed_command(&line).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        json.unwrap_or_else(|_| panic!("{said}")),
    )
}

#[test]
fn a_small_input_is_counted_exactly_and_nothing_is_written() {
    let sandbox = Sandbox::new();
    let long = "word ".repeat(300);
    sandbox.write(
        "a.jsonl",
        format!("{{\"text\": \"one\", \"year\": 1999}}\n{{\"text\": \"one\"}}\n{{\"text\": \"{long}\"}}\n"),
    );
    let line =
        "a.jsonl -o out.npy --keep year --stats stats.json --rejects rejects.jsonl --on-error skip";
    let (code, found) = survey(&sandbox, line);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(sandbox.files(), ["a.jsonl"]);
    // As a run counts them.
    let run = sandbox.embed("a.jsonl -o out.npy --keep year");
    assert_eq!(run.code, Some(0), "{run}");
    let made: Value =
        serde_json::from_str(&fs::read_to_string(sandbox.path("out.npy.json")).unwrap()).unwrap();
    let sample = &found["sample"];
    assert_eq!(sample["tokens"], made["tokens"]["embedded"]);
    assert_eq!(sample["truncated"], made["rows"]["truncated"]);
    for (name, expected) in [
        ("whole", json!(true)),
        ("records", json!(3)),
        ("rows", json!(3)),
        ("repeated", json!(1)),
        ("truncated", json!(1)),
        ("rejected", json!(0)),
    ] {
        assert_eq!(sample[name], expected, "{name}");
    }
    assert_eq!(found["columns"], json!([["id", "Utf8"], ["year", "Int64"]]));
    assert_eq!(found["dimensions"], 48);
    assert_eq!(found["engine"]["provider"], "native");
    assert_eq!(found["estimate"]["records"], 3);
    assert!(found["measured"]["rows"].as_u64() > Some(0), "{found}");
}

#[test]
fn a_larger_input_is_estimated_from_a_sample() {
    let sandbox = Sandbox::new();
    let mut text = String::new();
    for line in 0..4000 {
        writeln!(text, "line {line:04} of a text").unwrap();
    }
    sandbox.write("a.txt", text);
    let (code, found) = survey(&sandbox, "a.txt -o out.parquet");
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(
        (&found["sample"]["whole"], &found["sample"]["records"]),
        (&json!(false), &json!(1000))
    );
    let near = |name: &str, expected: u64| {
        let estimate = found["estimate"][name].as_f64().unwrap();
        let off = estimate / expected as f64;
        assert!(
            (0.85..1.15).contains(&off),
            "{name}: {estimate}, not {expected}: {found}"
        );
    };
    near("records", 4000);
    let run = sandbox.embed("a.txt -o out.parquet");
    assert_eq!(run.code, Some(0), "{run}");
    near(
        "bytes",
        fs::metadata(sandbox.path("out.parquet")).unwrap().len(),
    );
    assert!(found["estimate"]["seconds"].as_f64() > Some(0.0));
    // All of it, where that is asked for.
    let (code, found) = survey(&sandbox, "a.txt -o all.parquet --limit 0");
    assert_eq!(code, Some(0), "{found}");
    let sample = &found["sample"];
    assert_eq!(
        (&sample["whole"], &sample["records"]),
        (&json!(true), &json!(4000))
    );
}

/// `--limit` is how much a dry run reads, and says nothing of the run, which could not know it of a shard.
#[test]
fn a_sample_is_as_large_as_asked_and_of_a_shard_too() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one line\n".repeat(40));
    for more in [
        "",
        " --window 16",
        " --shard 1/2",
        " --shard 1/2 --window 16",
    ] {
        let (code, found) = survey(&sandbox, &format!("a.txt -o out/ --limit 25{more}"));
        assert_eq!(code, Some(0), "{more}: {found}");
        let sample = &found["sample"];
        assert_eq!(
            (&sample["whole"], &sample["records"]),
            (&json!(false), &json!(25)),
            "{more}"
        );
    }
    // An option that the run would refuse is refused.
    let run = sandbox.embed("a.txt -o out/ --sample 5 --shard 1/2 --dry-run");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("leave --sample out"), "{run}");
    let run = sandbox.embed("a.txt -o out/ --limit 25 --shard 1/2");
    assert!(run.stderr.contains("leave --limit out"), "{run}");
}

#[test]
fn people_get_a_table_and_bad_records_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\"}\n{\"txt\": \"two\"}\n");
    let run = sandbox.embed("a.jsonl -o out.npy --dry-run");
    assert_eq!(run.code, Some(3), "{run}");
    for words in [
        "Counted in the whole input\n",
        "records      2 = 1 to embed + 1 to be rejected\n",
        "columns      id: Utf8\n",
        "rejects      a.jsonl:2:",
        "vectors      48 dimensions\n",
        "in out.npy\n",
        "Nothing was written.\n",
    ] {
        assert!(run.stdout.contains(words), "{words}{run}");
    }
    assert_eq!(sandbox.files(), ["a.jsonl"]);
}

#[test]
fn a_pipe_is_counted_and_not_estimated_and_what_cannot_begin_is_refused() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.embed_command("-o out.npy --dry-run");
    let input = "one\n".repeat(2000);
    let run = sandbox.run_with_input(&mut command, input.as_bytes());
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stdout.contains("Counted in the first 1,000 records"),
        "{run}"
    );
    assert!(
        run.stdout
            .contains("No estimate: the size of the input is unknown"),
        "{run}"
    );
    sandbox.write("out.npy", "");
    let run = sandbox.embed("a.txt -o out.npy --dry-run");
    assert_eq!(run.code, Some(2), "{run}");
}

#[test]
fn no_output_need_be_named_and_one_that_is_there_is_no_matter() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\"}\n");
    sandbox.write("vectors.parquet", "something else");
    let (code, found) = survey(&sandbox, "a.jsonl");
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(sandbox.files(), ["a.jsonl", "vectors.parquet"]);
    let run = sandbox.embed("a.jsonl");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--output <OUT>"), "{run}");
}

#[test]
fn chunks_are_counted_beside_records() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        format!(
            "{{\"id\": \"a\", \"text\": \"{}\"}}\n{{\"id\": \"b\", \"text\": \"short\"}}\n{{\"id\": \"c\"}}\n",
            "many words of a long text ".repeat(40)
        ),
    );
    let line = "a.jsonl -o out.jsonl --on-error skip --chunk tokens --chunk-tokens 20 --chunk-text";
    let (code, found) = survey(&sandbox, line);
    assert_eq!(code, Some(3), "{found}");
    let run = sandbox.embed(line);
    assert_eq!(run.code, Some(3), "{run}");
    let made = fs::read_to_string(sandbox.path("out.jsonl.json")).unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    let sample = &found["sample"];
    assert_eq!(
        (&found["chunked"], &sample["records"], &sample["embedded"]),
        (&json!(true), &json!(3), &json!(2))
    );
    assert_eq!(sample["rows"], made["rows"]["chunks"], "{found}");
    assert_eq!(sample["tokens"], made["tokens"]["embedded"], "{found}");
    assert_eq!(found["estimate"]["rows"], made["rows"]["chunks"]);
    let names: Vec<_> = found["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one[0].clone())
        .collect();
    assert_eq!(
        names,
        ["id", "chunk", "chunk_start", "chunk_end", "chunk_text"]
    );
    // All rows were written to learn it; of the provenance it is known about.
    let sizes =
        ["out.jsonl", "out.jsonl.json"].map(|name| fs::metadata(sandbox.path(name)).unwrap().len());
    let size: u64 = sizes.iter().sum();
    let told = found["estimate"]["bytes"].as_u64().unwrap();
    assert!(told.abs_diff(size) < size / 5, "{told} {size}");
    let run = sandbox.embed(&format!("{line} --dry-run --force"));
    assert!(
        run.stdout.contains("3 = 2 to embed + 1 to be rejected"),
        "{run}"
    );
    assert!(run.stdout.contains("chunks"), "{run}");
    assert!(run.stdout.contains("per record"), "{run}");
}

#[test]
fn what_an_earlier_output_holds_is_not_counted_as_work() {
    let sandbox = Sandbox::new();
    let lines = |numbers: std::ops::Range<u32>| -> String {
        numbers
            .map(|n| format!("{{\"text\": \"text {n}\"}}\n"))
            .collect()
    };
    sandbox.write("old.jsonl", lines(0..3));
    sandbox.write("new.jsonl", lines(1..6) + &lines(2..6));
    let run = sandbox.embed("old.jsonl -o old/");
    assert_eq!(run.code, Some(0), "{run}");
    let line = "new.jsonl -o new/ --reuse old/";
    let (code, found) = survey(&sandbox, line);
    assert_eq!(code, Some(0), "{found}");
    assert!(!sandbox.path("new").exists());
    let run = sandbox.embed(&format!("{line} --stats stats.json"));
    assert_eq!(run.code, Some(0), "{run}");
    let stats: Value =
        serde_json::from_str(&fs::read_to_string(sandbox.path("stats.json")).unwrap()).unwrap();
    let sample = &found["sample"];
    for (counted, ran) in [
        ("rows", "embedded"),
        ("reused", "reused"),
        ("tokens", "tokens"),
    ] {
        assert_eq!(sample[counted], stats[ran], "{counted}: {found} {stats}");
    }
    assert_eq!(
        (&sample["reused"], &sample["repeated"]),
        (&json!(3), &json!(3))
    );
    let run = sandbox.embed(&format!("{line} --dry-run --force"));
    assert!(
        run.stdout
            .contains("3 rows with a vector in the earlier output"),
        "{run}"
    );
    // Cases that the run would refuse.
    let run = sandbox.embed(&format!("{line} --dry-run --force --prompt p"));
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("prompt (\"\" then, \"p\" now)"),
        "{run}"
    );
}

#[test]
fn errors_that_stay_are_a_column_and_record_batches_are_counted() {
    let sandbox = Sandbox::new();
    sandbox.write("a.jsonl", "{\"text\": \"one\"}\n{\"id\": \"b\"}\n");
    let (_, found) = survey(&sandbox, "a.jsonl -o out.jsonl --on-error null");
    let columns = json!([["id", "Utf8"], ["embedding_error", "Utf8"]]);
    assert_eq!(found["columns"], columns, "{found}");
    let texts = Arc::new(StringArray::from(vec!["one", "two"]));
    let batch = RecordBatch::try_from_iter([("text", texts as _)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let stream = writer.into_inner().unwrap();
    let mut command = sandbox.embed_command("-i arrow -f arrow -o - --dry-run");
    let run = sandbox.run_with_input(&mut command, &stream);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("records      2"), "{run}");
}
