//! Inputs that are tables: Parquet, Arrow, CSV, and their errors; folders, patterns, a random sample.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use insta::assert_snapshot;
use parquet::arrow::ArrowWriter;
use serde_json::Value;

use crate::sandbox::{Sandbox, in_repository};
use crate::support;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::{FileWriter, StreamWriter};

fn batch() -> RecordBatch {
    let texts: Vec<_> = (0..20).map(|row| format!("text {row}")).collect();
    RecordBatch::try_from_iter([
        ("doc", Arc::new(Int64Array::from_iter_values(0..20)) as _),
        ("body", Arc::new(StringArray::from(texts)) as _),
    ])
    .unwrap()
}

fn parquet() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    file
}

fn arrow() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_cut_parquet_file() {
    let sandbox = Sandbox::new();
    let whole = parquet();
    sandbox.write("cut.parquet", &whole[..whole.len() / 2]);
    assert_snapshot!(sandbox.embed("cut.parquet --text-field body -o out.parquet"));
    assert_eq!(sandbox.files(), ["cut.parquet"]);
}

#[test]
fn a_corrupt_arrow_stream() {
    let sandbox = Sandbox::new();
    let whole = arrow();
    sandbox.write("cut.arrows", &whole[..whole.len() / 2]);
    assert_snapshot!(sandbox.embed("cut.arrows --text-field body -o out.parquet"));
    assert_eq!(sandbox.files(), ["cut.arrows"]);
}

#[test]
fn a_column_that_is_not_there() {
    let sandbox = Sandbox::new();
    sandbox.write("a.parquet", parquet());
    assert_snapshot!(sandbox.embed("a.parquet -o out.parquet"));
}

#[test]
fn a_text_column_of_another_type() {
    let sandbox = Sandbox::new();
    sandbox.write("a.parquet", parquet());
    assert_snapshot!(sandbox.embed("a.parquet --text-field doc -o out.parquet"));
}

#[test]
fn wrong_quoting_in_csv() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,text\n1,fine\n2,\"two\"fold\n3,fine\n");
    assert_snapshot!(sandbox.embed("a.csv -o out.parquet"));
    let skipped = sandbox.embed("a.csv -o - --on-error skip");
    assert_snapshot!("wrong_quoting_in_csv_skipped", skipped.stderr);
    assert_eq!(skipped.stdout.lines().count(), 2);
}

#[test]
fn a_folder_without_inputs() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("empty")).unwrap();
    assert_snapshot!(sandbox.embed("empty -o out.parquet"));
}

#[test]
fn folders_and_patterns_are_read_whole() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("in/deep")).unwrap();
    sandbox.write("in/b.csv", "id,body\nb,from csv\n");
    sandbox.write(
        "in/deep/a.jsonl",
        "{\"id\":\"a\",\"body\":\"from jsonl\"}\n",
    );
    sandbox.write("in/notes.md", "no data\n");
    let ids = |line: &str| -> Vec<String> {
        let run = sandbox.embed(&format!("{line} --text-field body --source-columns -o -"));
        let lines = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|row| format!("{} {} {}", row["id"], row["file"], row["line"]))
            .collect()
    };
    let all = ["\"b\" \"in/b.csv\" 2", "\"a\" \"in/deep/a.jsonl\" 1"];
    assert_eq!(ids("in"), all);
    assert_eq!(ids("in/**/*.{csv,jsonl}"), all);
    assert_eq!(ids("in -i jsonl"), all[1..]);
}

#[test]
fn ids_that_are_line_numbers_of_several_files_do_not_repeat_in_silence() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    sandbox.write("b.txt", "three\n");
    let note = "ids are line numbers, so those of 2 text inputs repeat; `--source-columns` adds the columns";
    let run = sandbox.embed("a.txt b.txt -o -");
    assert!(run.stderr.contains(note), "{run}");
    let run = sandbox.embed("a.txt b.txt --source-columns -o -");
    assert!(!run.stderr.contains("repeat"), "{run}");
    let rows = run.stdout.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        format!("{} {}", row["file"], row["id"])
    });
    let expected = ["\"a.txt\" \"1\"", "\"a.txt\" \"2\"", "\"b.txt\" \"1\""];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

#[test]
fn a_draw_is_the_same_for_every_window() {
    let sandbox = Sandbox::new();
    sandbox.write("a.parquet", parquet());
    let draw = |more: &str| {
        let line = format!(
            "a.parquet --text-template {{body}}:{{doc}} --id-field doc --sample 5 {more} -o -"
        );
        let run = sandbox.embed(&line);
        let lines = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|row| row["id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let drawn = draw("");
    assert_eq!(drawn.len(), 5);
    assert_eq!(draw("--window 3"), drawn);
    assert_ne!(draw("--seed 1"), drawn);
    assert!(draw("--limit 5").iter().all(|&id| id < 5));
}

/// pyarrow's files keep their types, and values come out as they went in.
#[test]
fn types_of_pyarrow_come_through() {
    let Some(python) = support::python("types_of_pyarrow_come_through", &["pyarrow"]) else {
        return;
    };
    let sandbox = Sandbox::new();
    let script = in_repository("tests/cli/tables.py");
    let python = |step: &str| {
        let done = Command::new(&python)
            .arg(&script)
            .arg(step)
            .current_dir(sandbox.path("."))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    python("write");
    for name in [
        "snappy.parquet",
        "brotli.parquet",
        "lz4.parquet",
        "file.arrow",
        "stream.arrows",
        "zstd.feather",
    ] {
        let run = sandbox.embed(&format!(
            "{name} --keep when,price,tags,meta,label,text -o {name}.out.parquet"
        ));
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
    }
    python("compare");
}

/// The record or the part, and what helps.
#[test]
fn every_malformed_table_says_where_and_what_helps() {
    let sandbox = Sandbox::new();
    let (parquet, arrow) = (parquet(), arrow());
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let mut page = parquet.clone();
    page[4..40].fill(0xff);
    let mut message = arrow.clone();
    message[8..40].fill(0xff);
    sandbox.write("a.parquet", &parquet);
    sandbox.write("page.parquet", page);
    sandbox.write(
        "footer.parquet",
        [
            &parquet[..parquet.len() - 20],
            &parquet[parquet.len() - 8..],
        ]
        .concat(),
    );
    sandbox.write("empty.parquet", "");
    sandbox.write("none.parquet", "no table at all");
    sandbox.write("cut.arrow", &file[..file.len() / 2]);
    sandbox.write("message.arrows", message);
    sandbox.write("old.feather", b"FEA1\0\0\0\0\0\0\0\0");
    sandbox.write("open.csv", "id,body\n1,fine\n2,\"never closed\n");
    sandbox.write("more.csv", "id,body\n1,fine\n2,two,three\n");
    sandbox.write("semicolons.csv", "id;body\n1;fine\n");
    for (line, parts) in [
        (
            "page.parquet --keep doc",
            [
                "page.parquet: row group 1 of 1 cannot be read",
                "copy or write it again",
            ],
        ),
        (
            "footer.parquet",
            [
                "footer.parquet: its footer cannot be read",
                "copy or write it again",
            ],
        ),
        (
            "empty.parquet",
            ["empty.parquet: is empty", "write it again"],
        ),
        (
            "none.parquet",
            [
                "none.parquet: is not a Parquet file",
                "name the format with `-i`",
            ],
        ),
        ("cut.arrow", ["cut.arrow: ", "copy or write it again"]),
        (
            "message.arrows",
            [
                "message.arrows: the stream's schema cannot be read",
                "copy or write it again",
            ],
        ),
        (
            "old.feather",
            [
                "old.feather: is Feather version 1",
                "pyarrow.feather.write_feather",
            ],
        ),
        (
            "open.csv",
            [
                "open.csv:3: its quoting is wrong: a quoted field that begins here is never closed",
                "close it",
            ],
        ),
        (
            "more.csv",
            [
                "more.csv:3: the record has 3 fields, but the header has 2",
                "quote a field",
            ],
        ),
        (
            "semicolons.csv",
            [
                "semicolons.csv: the header is one field",
                "say `--csv-delimiter ';'`",
            ],
        ),
        (
            "a.parquet --keep nothing",
            [
                "a.parquet: no column is called `nothing`; the columns are `doc`, `body`",
                "with `--keep`",
            ],
        ),
        (
            "a.parquet --id-field body --id-type int",
            ["the id `body` has the type Utf8", "use `--id-type string`"],
        ),
        (
            "a.parquet --keep body:int",
            [
                "a.parquet:1: the kept column `body` holds a value that is no Int64",
                "use `--keep body:string`",
            ],
        ),
    ] {
        let run = sandbox.embed(&format!("{line} --text-field body -o out.npy"));
        assert!(matches!(run.code, Some(1 | 2)), "{line}: {run}");
        for part in parts {
            assert!(run.stderr.contains(part), "{line}: no '{part}' in {run}");
        }
        assert!(!sandbox.path("out.npy").exists(), "{line}");
    }
}
