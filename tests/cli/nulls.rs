//! `--on-error null`: rows of rejected records keep their known fields.

use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::ipc::reader::StreamReader;

fn parquet() -> Vec<u8> {
    let texts = StringArray::from(vec![Some("one"), None, Some("three")]);
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(StringArray::from(vec!["a", "b", "c"])) as _),
        ("text", Arc::new(texts) as _),
        ("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as _),
    ])
    .unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

/// Id, kept field, and whether there is a vector, of each row.
fn rows(sandbox: &Sandbox, line: &str) -> Vec<(Value, Value, bool)> {
    let run = sandbox.embed(&format!("{line} --on-error null -o -"));
    assert_eq!(run.code, Some(3), "{line}: {run}");
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let has_vector = row["embedding"].is_array();
        assert_eq!(row["embedding_error"].is_null(), has_vector, "{row}");
        (row["id"].clone(), row["n"].clone(), has_vector)
    };
    run.stdout.lines().map(row).collect()
}

#[test]
fn rejected_records_keep_their_ids_and_fields_where_they_are_known() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        "{\"id\": \"b\", \"text\": \"two\", \"n\": 2}\n{\"id\": \"a\", \"n\": 1}\nno JSON\n\
         {\"id\": \"d\", \"text\": 4, \"n\": 4}\n{\"id\": \"e\", \"text\": \"five\", \"n\": \"x\"}\n",
    );
    sandbox.write(
        "a.csv",
        "id,text,n\na,one,1\nb,two,x\nc,three\nd,\"four\"x,4\n",
    );
    sandbox.write("a.parquet", parquet());
    let all = |rows: &[(Value, Value, bool)]| rows.to_vec();
    for window in ["", "--window 1"] {
        let jsonl = rows(&sandbox, &format!("a.jsonl --keep n:int {window}"));
        assert_eq!(
            jsonl,
            all(&[
                (json!("b"), json!(2), true),
                (json!("a"), json!(1), false),
                (json!(null), json!(null), false),
                (json!("d"), json!(4), false),
                (json!("e"), json!(null), false),
            ]),
            "{window}"
        );
        let csv = rows(&sandbox, &format!("a.csv --keep n:int {window}"));
        assert_eq!(
            csv,
            all(&[
                (json!("a"), json!(1), true),
                (json!("b"), json!(null), false),
                (json!(null), json!(null), false),
                (json!(null), json!(null), false),
            ]),
            "{window}"
        );
        let parquet = rows(&sandbox, &format!("a.parquet --keep n {window}"));
        assert_eq!(
            parquet,
            all(&[
                (json!("a"), json!(1), true),
                (json!("b"), json!(2), false),
                (json!("c"), json!(3), true),
            ]),
            "{window}"
        );
    }
    // Types that the first records decide: by what is known of rejected ones, too.
    let drawn = rows(&sandbox, "a.jsonl --keep n --sample 9 --limit 4");
    assert_eq!(
        drawn,
        all(&[
            (json!("b"), json!(2), true),
            (json!("a"), json!(1), false),
            (json!(null), json!(null), false),
            (json!("d"), json!(4), false),
        ])
    );
    // Lines of text are called by their numbers.
    sandbox.write("a.txt", b"one\n\0\nthree\n");
    let ids: Vec<_> = rows(&sandbox, "a.txt")
        .into_iter()
        .map(|row| (row.0, row.2))
        .collect();
    assert_eq!(
        ids,
        [(json!("1"), true), (json!("2"), false), (json!("3"), true)]
    );
    // In parts, too.
    let run = sandbox
        .embed("a.parquet --keep n --on-error null -f jsonl --part-rows 2 --window 2 -o parts/");
    assert_eq!(run.code, Some(3), "{run}");
    let part = std::fs::read_to_string(sandbox.path("parts/part-00001-00000.jsonl")).unwrap();
    let row: Value = serde_json::from_str(part.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&row["id"], &row["n"], &row["embedding"]),
        (&json!("b"), &json!(2), &json!(null))
    );
}

#[test]
fn a_stream_says_what_makes_it() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo\n");
    let mut command = sandbox.embed_command("a.txt -f arrow -o - --prompt query:");
    let output = command.output().unwrap();
    assert!(output.status.success());
    let stream = StreamReader::try_new(output.stdout.as_slice(), None).unwrap();
    let made: Value = serde_json::from_str(&stream.schema().metadata()["embedctl"]).unwrap();
    assert_eq!(made["schema"], 1);
    assert_eq!(
        (&made["prompt"], &made["dtype"]),
        (&json!("query:"), &json!("f32"))
    );
    assert_eq!(made["engine"]["provider"], "native");
    assert!(made["model"]["files"][0]["sha256"].is_string(), "{made}");
    // Unknown at that point.
    assert!(
        made.get("rows").is_none() && made.get("tokens").is_none(),
        "{made}"
    );
    let rows: usize = stream
        .map(|batch| {
            let batch = batch.unwrap();
            assert_eq!(batch.column(1).as_fixed_size_list().null_count(), 0);
            batch.num_rows()
        })
        .sum();
    assert_eq!(rows, 2);

    // A stream that was saved is looked at by that; one beside which a provenance lies, by that one.
    sandbox.write("saved.arrows", &output.stdout);
    let run = sandbox.run("inspect --json saved.arrows");
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    let file = &found["files"][0];
    assert_eq!(
        (run.code, &file["problems"]),
        (Some(0), &json!([])),
        "{run}"
    );
    assert_eq!(file["provenance"]["prompt"], "query:");
    let run = sandbox.embed("a.txt -o out.arrows");
    assert_eq!(run.code, Some(0), "{run}");
    let run = sandbox.run("inspect --json out.arrows");
    let found: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(found["files"][0]["provenance"]["rows"]["embedded"], 2);
}
