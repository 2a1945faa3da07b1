//! Jobs and their inputs: what changes between runs, and the types of kept columns, which all parts share.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::jobs::{code, files, joined};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, Int32Array, Int64Array, NullArray, RecordBatch, StringArray};
use arrow::datatypes::DataType;

/// Writes a file that is newer than one that stood there.
fn rewrite(sandbox: &Sandbox, name: &str, content: &str) {
    let before = fs::metadata(sandbox.path(name)).and_then(|it| it.modified());
    sandbox.write(name, content);
    let before = before.unwrap_or_else(|_| SystemTime::now());
    set_time(&sandbox.path(name), before + Duration::from_secs(2));
}

fn set_time(path: &Path, time: SystemTime) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// Takes away what a run has written last: the part, and that the input is at its end.
fn interrupt(sandbox: &Sandbox, part: &str) {
    for gone in [
        part,
        "_SUCCESS",
        "_embedctl/manifest.json",
        "_embedctl/shards/00001.json",
    ] {
        fs::remove_file(sandbox.of_job("out", gone)).unwrap();
    }
}

/// An empty input has records when the run is resumed.
#[test]
fn records_of_an_input_that_was_empty_are_not_passed_over() {
    let sandbox = Sandbox::new();
    for (records, part) in [(4, 2), (6, 2), (8, 3)] {
        let lines = |name: &str, count: usize| -> String {
            (0..count).map(|line| format!("{name} {line}\n")).collect()
        };
        sandbox.write("a.txt", lines("a", records));
        sandbox.write("b.txt", "");
        sandbox.write("c.txt", lines("c", 6));
        let line = "a.txt b.txt c.txt -o out/ -f jsonl --part-rows 4";
        code(&sandbox.embed(&format!("{line} --force")), 0);
        interrupt(&sandbox, &format!("part-00001-0000{part}.jsonl"));
        sandbox.write("b.txt", "one\ntwo\n");
        let refused = sandbox.embed(&format!("{line} --resume"));
        assert!(code(&refused, 2).stderr.contains("records differ"));
        sandbox.write("b.txt", "");
        code(&sandbox.embed(&format!("{line} --resume")), 0);
        assert_eq!(joined(&sandbox, "out").lines().count(), records + 6);
    }
}

/// A complete output stands for the input that it was made of: what has another time is read again, and compared.
#[test]
fn a_complete_output_is_not_one_of_another_input() {
    let sandbox = Sandbox::new();
    let (one, other) = ("one\ntwo\nthree\n", "one\ntwo\ntree!\n");
    for output in ["out/ -f jsonl --part-rows 2", "out.jsonl"] {
        sandbox.write("in.txt", one);
        let line = format!("in.txt -o {output} --resume");
        code(&sandbox.embed(&line), 0);
        for (input, status, said) in [
            (one, 0, "nothing to do"),
            (other, 2, "first 3 records differ"),
            (one, 0, "nothing to do"),
        ] {
            rewrite(&sandbox, "in.txt", input);
            let run = sandbox.embed(&line);
            assert!(code(&run, status).stderr.contains(said), "{run}");
        }
    }
}

/// The record that stopped the first run was mended, so the output is one of a longer input than the first run's.
#[test]
fn an_output_is_complete_once_what_stopped_it_was_mended() {
    let sandbox = Sandbox::new();
    for output in ["out/ -f jsonl", "out.jsonl"] {
        sandbox.write("in.jsonl", "{\"text\": \"one\"}\nno JSON\n");
        let line = format!("in.jsonl -o {output} --window 1 --resume");
        code(&sandbox.embed(&line), 1);
        sandbox.write(
            "in.jsonl",
            "{\"text\": \"one\"}\n{\"text\": \"the second\"}\n",
        );
        code(&sandbox.embed(&line), 0);
        let again = sandbox.embed(&line);
        assert!(code(&again, 0).stderr.contains("nothing to do"), "{again}");
    }
}

/// Writes a table of three texts, of which the second may be missing, and a column `k`.
fn table(sandbox: &Sandbox, name: &str, k: ArrayRef, second: Option<&str>) {
    let text = StringArray::from(vec![Some("one"), second, Some("three")]);
    let columns = [("text", Arc::new(text) as ArrayRef, true), ("k", k, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    sandbox.write(name, writer.into_inner().unwrap());
}

/// Three tables that give `k` three types, each of which can stand in the first.
fn tables(sandbox: &Sandbox, second: Option<&str>) {
    table(
        sandbox,
        "a.parquet",
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Some("two"),
    );
    table(
        sandbox,
        "b.parquet",
        Arc::new(Int32Array::from(vec![4, 5, 6])),
        Some("two"),
    );
    table(sandbox, "c.parquet", Arc::new(NullArray::new(3)), second);
}

/// Asserts that a column has this type in all parts, of which there are so many.
fn assert_type(sandbox: &Sandbox, column: &str, kind: &DataType, parts: usize) {
    let names = files(&sandbox.path("out")).into_iter();
    let names = names.filter(|name| name.ends_with(".parquet"));
    let kinds: Vec<DataType> = names
        .map(|name| {
            let file = fs::File::open(sandbox.path("out").join(name)).unwrap();
            let schema = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let field = schema.schema().field_with_name(column).unwrap().clone();
            field.data_type().clone()
        })
        .collect();
    assert_eq!(kinds, vec![kind.clone(); parts]);
}

/// A run that resumes in a later table writes columns of the first table's types.
#[test]
fn columns_keep_their_types_where_a_run_goes_on() {
    let sandbox = Sandbox::new();
    let inputs = "a.parquet b.parquet c.parquet --keep k --part-rows 3";
    for output in ["out/", "out.parquet", "out.arrow", "out.pgcopy"] {
        tables(&sandbox, None);
        let line = format!("{inputs} -o {output} --resume");
        code(&sandbox.embed(&line), 1);
        table(
            &sandbox,
            "c.parquet",
            Arc::new(NullArray::new(3)),
            Some("two"),
        );
        code(&sandbox.embed(&line), 0);
        if output == "out/" {
            assert_type(&sandbox, "k", &DataType::Int64, 3);
            continue;
        }
        let whole = format!("whole-{output}");
        code(&sandbox.embed(&line.replace(output, &whole)), 0);
        let read = |name: &str| fs::read(sandbox.path(name)).unwrap();
        assert!(read(output) == read(&whole), "{output}");
    }
}

/// So does a shard that begins in one, or has nothing to read.
#[test]
fn columns_have_the_same_types_in_all_shards() {
    let sandbox = Sandbox::new();
    tables(&sandbox, Some("two"));
    for (inputs, shards) in [("a.parquet", 5), ("a.parquet b.parquet c.parquet", 4)] {
        let line = |shard| format!("{inputs} --keep k -o out/ --shard {shard}/{shards}");
        for shard in 1..=shards {
            code(&sandbox.embed(&line(shard)), 0);
        }
        assert_type(&sandbox, "k", &DataType::Int64, shards);
        // One that was killed behind its part is completed, be that without a row.
        fs::remove_file(sandbox.path("out/_SUCCESS")).unwrap();
        fs::remove_dir_all(sandbox.path("_out.embedctl/shards")).unwrap();
        for shard in 1..=shards {
            code(&sandbox.embed(&format!("{} --resume", line(shard))), 0);
        }
        assert!(sandbox.path("out/_SUCCESS").exists());
        // Other inputs in another number of shards: both folders are in the way.
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        let run = sandbox.embed("a.parquet -o out/ --shard 1/2");
        assert!(
            code(&run, 2).stderr.contains("remove it and _out.embedctl"),
            "{run}"
        );
        fs::remove_dir_all(sandbox.path("out")).unwrap();
        fs::remove_dir_all(sandbox.path("_out.embedctl")).unwrap();
    }
}
