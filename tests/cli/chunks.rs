//! `--chunk`: long texts become several rows.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

fn jsonl(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn long_text() -> String {
    let sentences = (0..40).map(|number| {
        format!(
            "Sentence number {number} is about naïve cafés, 東京タワー and {} words. ",
            number * 7
        )
    });
    sentences.collect()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let record = |id: &str, text: &str| serde_json::json!({"id": id, "text": text, "n": 7});
    let records = [
        record("long", &long_text()),
        record("short", "two words"),
        record("empty", ""),
    ];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    sandbox.write("in.jsonl", lines);
    sandbox
}

#[test]
fn a_chunks_vector_is_that_of_its_text_alone() {
    let sandbox = sandbox();
    let line = "in.jsonl --keep n,text --chunk sentences --chunk-tokens 60 --chunk-overlap 20 --chunk-text -o -";
    let run = sandbox.embed(line);
    assert_eq!(run.code, Some(0), "{run}");
    let rows = jsonl(&run.stdout);
    let of = |id: &str| rows.iter().filter(|row| row["id"] == id).count();
    assert_eq!((of("short"), of("empty")), (1, 1));
    assert!(of("long") > 5, "{}", of("long"));
    let mut alone = String::new();
    for row in &rows {
        let text: Vec<char> = row["text"].as_str().unwrap().chars().collect();
        let place = |name: &str| usize::try_from(row[name].as_u64().unwrap()).unwrap();
        let part: String = text[place("chunk_start")..place("chunk_end")]
            .iter()
            .collect();
        assert_eq!(row["chunk_text"], part);
        assert_eq!(row["n"], 7);
        alone += &format!("{part}\n");
    }
    sandbox.write("alone.txt", alone);
    let alone = jsonl(&sandbox.embed("alone.txt -o -").stdout);
    assert_eq!(alone.len(), rows.len());
    for (row, alone) in rows.iter().zip(&alone) {
        let vector = |row: &Value| -> Vec<f64> {
            let values = row["embedding"].as_array().unwrap();
            values.iter().map(|value| value.as_f64().unwrap()).collect()
        };
        for (chunk, alone) in vector(row).iter().zip(vector(alone)) {
            assert!((chunk - alone).abs() < 1e-5, "{}", row["chunk_text"]);
        }
    }
}

#[test]
fn records_and_chunks_are_counted_apart() {
    let sandbox = sandbox();
    let run: Run = sandbox.embed("in.jsonl --chunk tokens --chunk-tokens 50 -o out.npy");
    assert_snapshot!(run);
    let provenance: Value =
        serde_json::from_slice(&std::fs::read(sandbox.path("out.npy.json")).unwrap()).unwrap();
    assert_eq!(
        provenance["chunking"],
        serde_json::json!({"by": "tokens", "tokens": 50, "overlap": 0})
    );
    let rows = std::fs::read_to_string(sandbox.path("out.npy.rows.jsonl")).unwrap();
    assert_eq!(provenance["rows"]["embedded"], 3);
    assert_eq!(provenance["rows"]["chunks"], jsonl(&rows).len());
    assert_eq!(jsonl(&rows)[1]["chunk"], 1);
}

#[test]
fn chunks_beyond_the_model_are_refused() {
    assert_snapshot!(sandbox().embed("in.jsonl --chunk tokens --chunk-tokens 9999 -o out.npy"));
}

#[test]
fn options_of_chunks_need_chunks() {
    assert_snapshot!(sandbox().embed("in.jsonl --chunk-overlap 10 -o out.npy"));
}

#[test]
fn a_kept_field_by_the_name_of_a_chunks_column() {
    assert_snapshot!(sandbox().embed("in.jsonl --keep chunk --chunk tokens -o out.parquet"));
}

#[test]
fn rejected_records_can_stay_as_nulls() {
    let sandbox = Sandbox::new();
    let lines = "{\"id\": \"a\", \"text\": \"one\", \"n\": 1}\n{\n{\"id\": \"c\", \"text\": \"three\", \"n\": 3}\n";
    sandbox.write("in.jsonl", lines);
    let run = sandbox.embed("in.jsonl --keep n --on-error null -o - -q");
    assert_eq!(run.code, Some(3), "{run}");
    let rows = jsonl(&run.stdout);
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["id"], &rows[2]["n"]), (&"a".into(), &3.into()));
    for row in [&rows[0], &rows[2]] {
        assert_eq!(row["embedding_error"], Value::Null);
        assert_eq!(row["embedding"].as_array().unwrap().len(), 48);
    }
    assert_eq!(rows[1]["embedding"], Value::Null);
    assert_eq!(
        (&rows[1]["id"], &rows[1]["n"]),
        (&Value::Null, &Value::Null)
    );
    let error = rows[1]["embedding_error"].as_str().unwrap();
    assert!(error.contains("JSON"), "{error}");
    assert_snapshot!(
        sandbox.embed("in.jsonl --on-error null --rejects no.jsonl --chunk tokens -o out.parquet")
    );
    assert_eq!(sandbox.files(), ["in.jsonl", "no.jsonl", "out.parquet"]);
}
