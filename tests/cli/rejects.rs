//! Lists of rejected records as inputs: mended, they are embedded with the options of the run that made them.

use std::fs;
use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use serde_json::{Map, Value, json};

use crate::jobs::code;
use crate::sandbox::Sandbox;
use embedctl::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};

type Record = Map<String, Value>;

/// The lines of a file of JSON Lines.
fn lines(sandbox: &Sandbox, name: &str) -> Vec<Record> {
    let text = fs::read_to_string(sandbox.path(name)).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Mends a list in place.
fn mend(sandbox: &Sandbox, list: &str, mend: impl Fn(&mut Record)) {
    let mut records = lines(sandbox, list);
    records.iter_mut().for_each(mend);
    let text = records
        .into_iter()
        .map(|it| Value::Object(it).to_string() + "\n");
    sandbox.write(list, text.collect::<String>());
}

/// Embeds `input` and its mended rejects, and compares both together with a clean run of `whole`; `line` is all that
/// decides, and `records` of the input are rejected.
fn check(
    sandbox: &Sandbox,
    [input, whole]: [&str; 2],
    line: &str,
    records: &[Value],
    mended: impl Fn(&mut Record),
) {
    code(
        &sandbox.embed(&format!("{whole} {line} -o whole.jsonl --force")),
        0,
    );
    let first = format!("{input} {line} --on-error skip --force");
    code(
        &sandbox.embed(&format!("{first} -o file.jsonl --rejects rejects.jsonl")),
        3,
    );
    code(
        &sandbox.embed(&format!("{first} -o folder/ -f jsonl --part-rows 4")),
        3,
    );
    let lists = fs::read_dir(sandbox.path("_folder.embedctl/rejects")).unwrap();
    let mut lists: Vec<_> = lists.map(|list| list.unwrap().path()).collect();
    lists.sort();
    let lists: Vec<u8> = lists
        .iter()
        .flat_map(|list| fs::read(list).unwrap())
        .collect();
    assert!(lists == fs::read(sandbox.path("rejects.jsonl")).unwrap());

    let own = ["file", "line", "offset", "reason", "raw"];
    let listed = lines(sandbox, "rejects.jsonl");
    assert_eq!(listed.len(), records.len());
    for (mut listed, record) in listed.into_iter().zip(records) {
        assert_eq!(listed["file"], input);
        for key in own {
            assert!(listed.shift_remove(key).is_some(), "{key}");
        }
        assert_eq!(&Value::Object(listed), record);
    }
    mend(sandbox, "rejects.jsonl", mended);
    code(
        &sandbox.embed(&format!("rejects.jsonl {line} -o mended.jsonl --force")),
        0,
    );
    let mut rows = lines(sandbox, "file.jsonl");
    rows.extend(lines(sandbox, "mended.jsonl"));
    rows.sort_by_key(|row| row["id"].to_string());
    assert_eq!(rows, lines(sandbox, "whole.jsonl"));

    // Both inputs in one output, without a duplicate row.
    let both = format!(
        "{input} rejects.jsonl {line} --on-error skip -o both.jsonl --force --reuse folder/"
    );
    code(&sandbox.embed(&format!("{both} --stats stats.json")), 3);
    let stats: Value =
        serde_json::from_slice(&fs::read(sandbox.path("stats.json")).unwrap()).unwrap();
    assert_eq!(stats["reused"], (rows.len() - records.len()) as u64);
    let mut both = lines(sandbox, "both.jsonl");
    both.sort_by_key(|row| row["id"].to_string());
    assert_eq!(both, rows);
}

/// A rejected record's text and fields, mended.
fn put(record: &mut Record, number: u64) {
    for (key, value) in [
        ("id", json!(number)),
        ("body", json!(format!("text {number}"))),
        ("year", json!(2000 + number)),
    ] {
        record.insert(key.to_owned(), value);
    }
}

/// A bad record, by its number.
fn number(record: &Record) -> u64 {
    record["line"].as_u64().unwrap()
}

#[test]
fn of_json_lines() {
    let sandbox = Sandbox::new();
    let good = |n: u64| {
        format!(
            "{{\"id\": {n}, \"other\": 1, \"body\": \"text {n}\", \"year\": {}}}\n",
            2000 + n
        )
    };
    let bad = |n: u64| match n {
        2 => "{\"id\": 2, \"body\": null, \"year\": 2002}\n".to_owned(),
        4 => good(4).replace("2004", "\"n/a\""),
        5 => "no JSON\n".to_owned(),
        7 => good(7).replace("\"body\": \"text 7\",", ""),
        _ => good(n),
    };
    sandbox.write("in.jsonl", (1..9).map(bad).collect::<String>());
    sandbox.write("whole.jsonl", (1..9).map(good).collect::<String>());
    sandbox.write("clean.jsonl", (1..9).map(good).collect::<String>());
    let expected = [
        json!({"id": 2, "body": null, "year": 2002}),
        json!({"id": 4, "body": "text 4", "year": "n/a"}),
        json!({}),
        json!({"id": 7, "year": 2007}),
    ];
    // A type that the first records decide is no other.
    for keep in ["year", "year:int"] {
        let line = format!("--text-field body --keep {keep}");
        let inputs = ["in.jsonl", "clean.jsonl"];
        check(&sandbox, inputs, &line, &expected, |record| {
            put(record, number(record));
        });
    }
}

#[test]
fn of_csv() {
    let sandbox = Sandbox::new();
    let good = |n: u64| format!("{n},\"text {n}\",x,{}\n", 2000 + n);
    let bad = |n: u64| match n {
        2 => "2,text 2\n".to_owned(),
        4 => good(4).replace("2004", "n/a"),
        _ => good(n),
    };
    let header = "id,body,other,year\n".to_owned();
    sandbox.write(
        "in.csv",
        header.clone() + &(1..7).map(bad).collect::<String>(),
    );
    sandbox.write("clean.csv", header + &(1..7).map(good).collect::<String>());
    let expected = [
        json!({}),
        json!({"id": "4", "body": "text 4", "year": "n/a"}),
    ];
    let line = "--text-field body --keep year:int";
    // The header is the first line.
    check(
        &sandbox,
        ["in.csv", "clean.csv"],
        line,
        &expected,
        |record| {
            put(record, number(record) - 1);
            // As CSV has it.
            let id = record["id"].to_string();
            record.insert("id".to_owned(), json!(id));
        },
    );
}

#[test]
fn of_tables() {
    let sandbox = Sandbox::new();
    let table = |name: &str, bad: bool| {
        let id = |n: u64| if bad && n == 4 { u64::MAX } else { n };
        let body = |n: u64| Some(format!("text {n}")).filter(|_| !bad || n != 2);
        let columns: [(&str, ArrayRef); 3] = [
            (
                "id",
                Arc::new(UInt64Array::from_iter_values((1..7).map(id))),
            ),
            ("body", Arc::new((1..7).map(body).collect::<StringArray>())),
            ("year", Arc::new(Int64Array::from_iter_values(2001..2007))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        sandbox.write(name, file);
    };
    table("in.parquet", true);
    table("clean.parquet", false);
    let expected = [
        json!({"id": 2, "body": null, "year": 2002}),
        json!({"id": u64::MAX, "body": "text 4", "year": 2004}),
    ];
    let line = "--text-field body --keep year --id-type int";
    let inputs = ["in.parquet", "clean.parquet"];
    check(&sandbox, inputs, line, &expected, |record| {
        put(record, number(record));
    });
}

#[test]
fn of_text() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "one\ntw\0o\nthree\n");
    sandbox.write("clean.txt", "one\ntwo\nthree\n");
    let expected = [json!({"id": "2", "text": "tw\0o"})];
    check(&sandbox, ["in.txt", "clean.txt"], "", &expected, |record| {
        record.insert("text".to_owned(), json!("two"));
    });
}

/// A field of the record keeps its name, and the list's own key is called otherwise.
#[test]
fn fields_of_the_lists_own_names() {
    let sandbox = Sandbox::new();
    let good = "{\"id\": 1, \"body\": \"one\", \"reason\": \"r\", \"file\": \"f\"}\n";
    let bad = good.replace("\"one\"", "7");
    sandbox.write("in.jsonl", format!("{bad}{}", good.replace('1', "2")));
    let line = "--text-field body --keep reason,file -f jsonl";
    let first = format!("in.jsonl {line} --on-error skip -o out.jsonl --rejects rejects.jsonl");
    code(&sandbox.embed(&first), 3);
    let listed = &lines(&sandbox, "rejects.jsonl")[0];
    for (key, value) in [("reason", "r"), ("file", "f"), ("reject_file", "in.jsonl")] {
        assert_eq!(listed[key], value);
    }
    assert!(listed["reject_reason"].as_str().unwrap().contains("body"));
    mend(&sandbox, "rejects.jsonl", |record| {
        record.insert("body".to_owned(), json!("one"));
    });
    code(
        &sandbox.embed(&format!("rejects.jsonl {line} -o mended.jsonl")),
        0,
    );
    let row = &lines(&sandbox, "mended.jsonl")[0];
    let row = ["id", "reason", "file"].map(|key| row[key].clone());
    assert_eq!(row, [json!(1), json!("r"), json!("f")]);
}
