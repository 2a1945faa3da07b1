//! What `embedctl search` and `embedctl compare` take: roles and prompts of queries, folders of parts, files of queries, and
//! outputs that would replace what is read.

use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::jobs::code;
use crate::sandbox::{REAL_MODEL, Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};
use embedctl_testing::stride;

const QUERY: &str = "laughing every day";

fn embed(sandbox: &Sandbox, model: &str, line: &str) {
    let mut command = sandbox.embed_command(line);
    command.env("EMBEDCTL_MODEL", in_repository(model));
    code(&sandbox.finish(&mut command), 0);
}

fn search(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.run(&format!("search -p native,rten {line}"))
}

fn hits(sandbox: &Sandbox, line: &str) -> Vec<Value> {
    let run = search(sandbox, &format!("--json {line}"));
    code(&run, 0);
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Tokens that were pooled have a query all the same.
#[test]
fn an_output_of_pooled_tokens_is_searched() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    let model = "fixtures/multi/bert-document/model";
    let how = "--vectors multi --pool-factor 2";
    embed(&sandbox, model, &format!("in.txt -o out.parquet {how}"));
    assert_eq!(hits(&sandbox, &format!("out.parquet {QUERY}")).len(), 10);
}

/// Refused with these words, and nothing is written to standard output.
fn refused(run: &Run, words: &str) {
    assert!(matches!(run.code, Some(1 | 2)), "{run}");
    assert!(run.stderr.contains(words), "{words}: {run}");
    assert_eq!(run.stdout, "");
}

fn write_quotes(sandbox: &Sandbox) {
    let quotes = fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    let lines: Vec<&str> = quotes.lines().take(40).collect();
    sandbox.write("in.txt", lines.join("\n"));
}

/// A query has the role, the prompt and the task of queries, whatever the texts had.
#[test]
fn queries_are_told_from_texts_by_every_kind_of_model() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    for (model, embedded, searched) in [
        // A route of its own, where texts took the usual one.
        ("fixtures/sparse/route-by-default/model", "", "--task query"),
        // A prompt of its own, where texts took the default one.
        (
            "fixtures/sparse/prompt-of-a-query/model",
            "",
            "--prompt-name query",
        ),
        // A task of its own.
        (
            "fixtures/parity/tasks-in-the-checkpoint/model",
            "--task retrieval.passage",
            "--task retrieval.query",
        ),
    ] {
        let line = format!("in.txt -o out.parquet --force {embedded}");
        let model_folder = in_repository(model);
        let line = format!("embed -p native,rten -m {} {line}", model_folder.display());
        code(&sandbox.run(&line), 0);
        let by_itself = hits(&sandbox, &format!("out.parquet {QUERY}"));
        let asked_for = hits(&sandbox, &format!("out.parquet {searched} {QUERY}"));
        assert_eq!(by_itself, asked_for, "{model}");
        if embedded.is_empty() && searched.contains("task") {
            let as_texts = hits(&sandbox, &format!("out.parquet --task document {QUERY}"));
            assert_ne!(by_itself, as_texts, "{model}");
        }
    }
}

/// The route of a dense model is part of its vectors' identity, and queries take their own.
#[test]
fn routes_of_dense_models_are_told_apart() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    let own = in_repository("fixtures/parity/dense-two-layers/model");
    let kind = "sentence_transformers.models";
    let (mut types, mut structure) = (json!({}), json!({}));
    for (route, mode) in [("query", "cls"), ("document", "mean")] {
        let [network, pooling] = [
            format!("{route}_0_Transformer"),
            format!("{route}_1_Pooling"),
        ];
        copy_folder(&own, &sandbox.path(&format!("routes/{network}")));
        fs::create_dir(sandbox.path(&format!("routes/{pooling}"))).unwrap();
        let width = json!({"word_embedding_dimension": 24, "pooling_mode": mode});
        sandbox.write(&format!("routes/{pooling}/config.json"), width.to_string());
        types[&network] = json!(format!("{kind}.Transformer"));
        types[&pooling] = json!(format!("{kind}.Pooling"));
        structure[route] = json!([network, pooling]);
    }
    let modules = json!([{"idx": 0, "name": "0", "path": "", "type": format!("{kind}.Router")}]);
    sandbox.write("routes/modules.json", modules.to_string());
    let parameters = json!({"default_route": "document", "allow_empty_key": true});
    let router = json!({"types": types, "structure": structure, "parameters": parameters});
    sandbox.write("routes/router_config.json", router.to_string());
    let embed = "embed -p native,rten -m routes in.txt -o out.parquet";
    code(&sandbox.run(embed), 0);
    let by_itself = hits(&sandbox, &format!("out.parquet {QUERY}"));
    let asked_for = hits(&sandbox, &format!("out.parquet --task query {QUERY}"));
    let as_texts = hits(&sandbox, &format!("out.parquet --task document {QUERY}"));
    assert_eq!(by_itself, asked_for);
    assert_ne!(by_itself, as_texts);
    // An output of queries is known as such: each row is the nearest one of its own text.
    code(&sandbox.run(&format!("{embed} --force --task query")), 0);
    code(
        &sandbox.run("inspect out.parquet --input in.txt --verify 3"),
        0,
    );
    let first = fs::read_to_string(sandbox.path("in.txt")).unwrap();
    let first = first.lines().next().unwrap();
    sandbox.write("query.txt", first);
    let found = hits(&sandbox, "out.parquet --queries query.txt");
    assert_eq!(found[0]["row"], 0);
    assert!(found[0]["score"].as_f64().unwrap() > 0.999, "{found:?}");
}

#[test]
fn hits_replace_nothing_that_is_read() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    sandbox.write("queries.jsonl", "{\"text\":\"a\"}\n");
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.parquet --keep text");
    embed(
        &sandbox,
        SMALL_MODEL,
        "in.txt -o parts/ -f npy --part-rows 20",
    );
    let before = fs::read(sandbox.path("out.parquet")).unwrap();
    for line in [
        "out.parquet a -o out.parquet --force",
        "out.parquet a -o ./out.parquet --force",
        "out.parquet --queries queries.jsonl -o queries.jsonl --force",
        "parts a -o parts/part-00001-00000.npy -f jsonl --force",
        "parts a -o parts/hits.jsonl",
    ] {
        refused(&search(&sandbox, line), "is read, too, or lies in it");
    }
    assert_eq!(fs::read(sandbox.path("out.parquet")).unwrap(), before);
    refused(
        &search(&sandbox, "out.parquet a --json -o x.parquet"),
        "names another format",
    );
    let run = search(&sandbox, "out.parquet a -o - -f jsonl -k 1");
    code(&run, 0);
    assert!(run.stdout.starts_with('{'), "{run}");
    assert!(!sandbox.path("-").exists());
    refused(
        &search(&sandbox, "out.parquet a -o - -f parquet"),
        "written to files",
    );
}

#[test]
fn hits_are_not_written_to_a_store() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.parquet");
    let line = format!("out.parquet -o s3://bucket/hits.parquet {QUERY}");
    refused(
        &search(&sandbox, &line),
        "s3://bucket/hits.parquet: hits are written to files",
    );
}

#[test]
fn rows_that_are_lost_are_told_of() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(
        &sandbox,
        SMALL_MODEL,
        "in.txt -o parts/ --part-rows 15 --keep text",
    );
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.parquet --keep text");
    assert_eq!(hits(&sandbox, "parts -k 1 a").len(), 1);
    for part in ["part-00001-00001.parquet", "part-00001-00002.parquet"] {
        let (there, away) = (sandbox.path(&format!("parts/{part}")), sandbox.path("away"));
        fs::rename(&there, &away).unwrap();
        refused(&search(&sandbox, "parts a"), "its rows are not all here");
        let run = sandbox.run("compare out.parquet parts");
        refused(&run, "its rows are not all here");
        fs::rename(&away, &there).unwrap();
    }
    // Without what tells of the parts, nobody knows whether they are all.
    fs::rename(sandbox.path("_parts.embedctl"), sandbox.path("away")).unwrap();
    refused(&search(&sandbox, "parts a"), "without an output in parts");
    refused(&search(&sandbox, ". a"), "without an output in parts");
}

#[test]
fn files_of_a_pattern_are_no_words_of_a_query() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o parts/ --part-rows 20");
    let line = "parts/part-00001-00000.parquet parts/part-00001-00001.parquet a";
    refused(&search(&sandbox, line), "name the folder of the parts");
    assert_eq!(
        hits(&sandbox, "parts/part-00001-00000.parquet none.parquet").len(),
        10
    );
}

#[test]
fn files_of_queries_are_read_as_records() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, REAL_MODEL, "in.txt -o out.parquet --keep text");
    sandbox.write("q.jsonl", "{\"id\":\"x\",\"query\":\"laughing\"}\n");
    sandbox.write("q", "{\"id\":\"x\",\"query\":\"laughing\"}\n");
    let run = search(&sandbox, "out.parquet --queries q.jsonl");
    refused(&run, "--text-field");
    for file in ["q.jsonl", "q -i jsonl"] {
        let found = hits(
            &sandbox,
            &format!("out.parquet --queries {file} --text-field query"),
        );
        assert_eq!((found.len(), &found[0]["query_id"]), (10, &json!("x")));
        let line = format!("compare out.parquet --with int8 --queries {file} --text-field query");
        code(&sandbox.run(&line), 0);
    }
    sandbox.write("null.jsonl", "{\"text\":\"a\"}\n{\"text\":null}\n");
    let run = search(&sandbox, "out.parquet --queries null.jsonl");
    refused(&run, "null.jsonl:2");
    assert!(!run.stderr.contains("--on-error"), "{run}");
    sandbox.write("long.txt", format!("{}\na cat\n", "a cat and ".repeat(300)));
    let run = search(&sandbox, "out.parquet --queries long.txt -k 1");
    code(&run, 0);
    assert!(
        run.stderr
            .contains("1 of 2 queries are longer than the 256 tokens"),
        "{run}"
    );
}

#[test]
fn hits_of_chunks_name_the_chunk() {
    let sandbox = Sandbox::new();
    let texts: Vec<String> = ["a cat on a mat", "interest rates rose", "a rug"]
        .map(|text| format!("{text}. ").repeat(12))
        .into();
    sandbox.write("in.txt", texts.join("\n"));
    let how = "--chunk sentences --chunk-tokens 16 --chunk-text --force";
    for out in ["out.parquet", "out.npy", "out.jsonl"] {
        embed(&sandbox, SMALL_MODEL, &format!("in.txt -o {out} {how}"));
        let found = hits(&sandbox, &format!("{out} -k 100 a cat"));
        let rows: Vec<_> = found
            .iter()
            .map(|hit| (&hit["id"], &hit["chunk"]))
            .collect();
        assert!(
            rows.iter().all(|(_, chunk)| chunk.is_u64()),
            "{out}: {rows:?}"
        );
        let mut distinct = rows.clone();
        distinct.sort_by_key(|row| format!("{row:?}"));
        distinct.dedup();
        assert_eq!(distinct.len(), rows.len(), "{out}");
        // The nearest of a chunk are those of its row.
        let like = hits(&sandbox, &format!("{out} --like-row 2#1 -k 1"));
        assert_ne!(
            (&like[0]["id"], &like[0]["chunk"]),
            (&json!("2"), &json!(1)),
            "{out}"
        );
        // A document is in a run once.
        let run = search(&sandbox, &format!("{out} -k 100 -f trec a cat"));
        code(&run, 0);
        let ids: Vec<&str> = run
            .stdout
            .lines()
            .map(|line| line.split(' ').nth(2).unwrap())
            .collect();
        let ranks: Vec<&str> = run
            .stdout
            .lines()
            .map(|line| line.split(' ').nth(3).unwrap())
            .collect();
        assert_eq!((ids.len(), ranks), (3, vec!["1", "2", "3"]), "{out}: {run}");
    }
}

#[test]
fn few_rows_and_other_texts_are_no_agreement() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "a cat\na rug\ninterest\n");
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.parquet --keep text");
    let run = sandbox.run("compare out.parquet --with ubinary");
    code(&run, 0);
    assert!(
        run.stdout
            .contains("too few rows to compare the best 10, 100"),
        "{run}"
    );
    assert!(!run.stdout.contains("of the 10 nearest"), "{run}");
    refused(
        &sandbox.run("compare out.parquet --with ubinary -k 2"),
        "all of them in any output",
    );
    sandbox.write("in.txt", "a rug\ninterest\na cat\n");
    embed(&sandbox, SMALL_MODEL, "in.txt -o other.parquet --keep text");
    let run = sandbox.run("compare out.parquet other.parquet");
    code(&run, 0);
    assert!(
        run.stderr.contains("3 of 3 rows have another text"),
        "{run}"
    );
}

/// Ids and texts are found by content, too, whatever the output is called.
#[test]
fn ids_and_texts_are_read_under_any_name() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    let formats = [
        (
            "arrow",
            &["a.jsonl", "b.jsonl.gz", "c.arrow.gz", "d.fbin"][..],
        ),
        ("parquet", &["a.jsonl", "b.npy", "c.fbin"]),
        ("jsonl", &["a.jsonl.gz", "b.parquet", "c.fbin"]),
        ("jsonl.zst", &["a.jsonl", "b.arrow"]),
        ("npy", &["a.fbin", "b.jsonl"]),
        ("fbin", &["a.parquet", "b.npy", "c.jsonl", "d.bin"]),
    ];
    for (format, names) in formats.into_iter().step_by(stride(3)) {
        let out = format!("out.{format}");
        embed(
            &sandbox,
            SMALL_MODEL,
            &format!("in.txt -o {out} --keep text"),
        );
        let expected = hits(&sandbox, &format!("{out} {QUERY}"));
        assert!(expected[0]["id"].is_string() && expected[0]["text"].is_string());
        for name in names {
            for ending in ["", ".json", ".rows.jsonl"] {
                let file = sandbox.path(&format!("{out}{ending}"));
                if file.exists() {
                    fs::copy(file, sandbox.path(&format!("{name}{ending}"))).unwrap();
                }
            }
            let found = hits(&sandbox, &format!("{name} {QUERY}"));
            assert_eq!(found, expected, "{out} as {name}");
            let again = format!("in.txt -o again.parquet --force --reuse {name} --keep text");
            embed(&sandbox, SMALL_MODEL, &again);
            for ending in ["", ".json", ".rows.jsonl"] {
                let _ = fs::remove_file(sandbox.path(&format!("{name}{ending}")));
            }
        }
    }
}

/// Ids that no float holds stay as they are.
#[test]
fn decimal_ids_keep_their_digits() {
    let sandbox = Sandbox::new();
    let ids = ["12345678901234567890.12", "12345678901234567890.13", "3.00"];
    let texts = ["a wicked man", "hope and joy", "laughing every day"];
    let unscaled = ids.map(|id| id.replace('.', "").parse::<i128>().unwrap());
    let decimals = Decimal128Array::from_iter_values(unscaled);
    let decimals = decimals.with_precision_and_scale(38, 2).unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(decimals)),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let file = fs::File::create(sandbox.path("in.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), None).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    for format in ["jsonl", "npy", "parquet"] {
        let out = format!("out.{format}");
        embed(
            &sandbox,
            SMALL_MODEL,
            &format!("in.parquet -o {out} --keep text"),
        );
        let found = hits(&sandbox, &format!("{out} {QUERY}"));
        assert_eq!(
            (&found[0]["id"], &found[0]["text"]),
            (&json!(ids[2]), &json!(texts[2]))
        );
        let found = hits(&sandbox, &format!("{out} --like-row {}", ids[1]));
        assert!(
            found.iter().any(|hit| hit["id"] == ids[0]),
            "{out}: {found:?}"
        );
    }
}

/// An output that is not whole is not searched as if it were.
#[test]
fn damage_is_told_of() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.jsonl --keep text");
    let whole = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let cut: Vec<&str> = whole.lines().take(30).collect();
    sandbox.write("out.jsonl", cut.join("\n"));
    refused(
        &search(&sandbox, &format!("out.jsonl {QUERY}")),
        "holds 30 rows with vectors, but 40 were written",
    );
    embed(
        &sandbox,
        SMALL_MODEL,
        "in.txt -o parts/ --part-rows 20 -f jsonl",
    );
    let part = fs::read_to_string(sandbox.path("parts/part-00001-00001.jsonl")).unwrap();
    let cut: Vec<&str> = part.lines().take(15).collect();
    sandbox.write("parts/part-00001-00001.jsonl", cut.join("\n"));
    for run in [
        search(&sandbox, &format!("parts/ {QUERY}")),
        sandbox.run("compare parts/ parts/"),
    ] {
        refused(&run, "holds 15 rows with vectors, but 20 were written");
    }
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.npy --keep text");
    let rows = fs::read_to_string(sandbox.path("out.npy.rows.jsonl")).unwrap();
    let turned: Vec<&str> = rows.lines().rev().collect();
    sandbox.write("out.npy.rows.jsonl", turned.join("\n"));
    let run = search(&sandbox, &format!("out.npy {QUERY}"));
    assert!(run.stderr.contains("it is about row"), "{run}");
    sandbox.write("out.npy.rows.jsonl", "{damaged");
    assert_eq!(search(&sandbox, &format!("out.npy {QUERY}")).code, Some(1));
    fs::remove_file(sandbox.path("out.npy.rows.jsonl")).unwrap();
    let run = search(&sandbox, &format!("out.npy {QUERY}"));
    assert_eq!(code(&run, 0).stdout.lines().count(), 10);
    assert!(
        run.stderr.contains("out.npy.rows.jsonl is not there"),
        "{run}"
    );
}

/// A text in chunks is one document of a run of TREC's, of which `-k` counts.
#[test]
fn a_run_for_trec_has_so_many_texts() {
    let sandbox = Sandbox::new();
    let quotes = fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    let quotes: Vec<&str> = quotes.lines().take(60).collect();
    let texts = quotes.chunks(4).enumerate();
    let texts = texts.map(|(id, some)| json!({"id": id, "text": some.join(" ")}).to_string());
    sandbox.write("in.jsonl", texts.collect::<Vec<_>>().join("\n"));
    for size in [32, 64] {
        let line = format!("in.jsonl -o c{size}.npy --chunk sentences --chunk-tokens {size}");
        embed(&sandbox, REAL_MODEL, &line);
    }
    let run = search(&sandbox, &format!("c32.npy -k 12 -f trec {QUERY}"));
    let ranks: Vec<&str> = (code(&run, 0).stdout.lines())
        .filter_map(|line| line.split(' ').nth(3))
        .collect();
    let expected: Vec<String> = (1..=12).map(|rank| rank.to_string()).collect();
    assert_eq!(ranks, expected);
    let run = sandbox.run("compare c32.npy c64.npy");
    assert!(
        run.stderr.contains("cut into chunks in different ways"),
        "{run}"
    );
    let run = sandbox.run("compare c32.npy c32.npy");
    assert!(!run.stderr.contains("in different ways"), "{run}");
}

/// Hits belong to their query, whatever its id is.
#[test]
fn queries_of_one_id_keep_their_hits() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.npy --keep text");
    let queries = r#"{"id": 7, "text": "laughing"}
{"id": 7, "text": "wealth"}"#;
    sandbox.write("queries.jsonl", queries);
    let run = search(&sandbox, "out.npy --queries queries.jsonl -k 2");
    let headings: Vec<&str> = (code(&run, 0).stdout.lines())
        .filter(|line| ["laughing", "wealth"].contains(line))
        .collect();
    assert_eq!(headings, ["laughing", "wealth"]);
    let run = search(&sandbox, "out.npy --queries queries.jsonl -k 2 -f trec");
    refused(&run, "two queries have the id \"7\"");
    // A row without an id is told from the row whose id equals its number.
    let rows = r#"{"id": "1", "text": "a cat"}
{"text": "a cat on a mat"}"#;
    sandbox.write("rows.jsonl", rows);
    embed(&sandbox, SMALL_MODEL, "rows.jsonl -o rows.parquet");
    let run = search(&sandbox, "rows.parquet -f trec a cat");
    refused(&run, "row 1 has no id, and others do");
    embed(
        &sandbox,
        SMALL_MODEL,
        "rows.jsonl -o none.npy --id-field none",
    );
    let run = search(&sandbox, "none.npy -f trec a cat");
    let ids: Vec<&str> = (code(&run, 0).stdout.lines())
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    assert_eq!(ids, ["0", "1"]);
}

/// Tables of hits are joined with the output by their ids.
#[test]
fn ids_of_hits_have_the_type_of_the_outputs() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in.jsonl",
        "{\"id\": 7, \"text\": \"a cat\"}\n{\"id\": 8, \"text\": \"a dog\"}\n",
    );
    embed(&sandbox, SMALL_MODEL, "in.jsonl -o numbers.parquet");
    embed(
        &sandbox,
        SMALL_MODEL,
        "in.jsonl -o texts.npy --id-type string",
    );
    for (out, kind) in [
        ("numbers.parquet", DataType::Int64),
        ("texts.npy", DataType::Utf8),
    ] {
        code(
            &search(&sandbox, &format!("{out} a cat -o hits.parquet --force")),
            0,
        );
        let file = fs::File::open(sandbox.path("hits.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(
            *reader.schema().field_with_name("id").unwrap().data_type(),
            kind,
            "{out}"
        );
    }
}

/// A template's text is made again of the fields that were kept.
#[test]
fn texts_of_templates_are_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", "{\"year\": 1969, \"text\": \"a cat\"}\n");
    let line = "in.jsonl --text-template {year}:{text} -o";
    embed(
        &sandbox,
        SMALL_MODEL,
        &format!("{line} both.npy --keep year,text"),
    );
    assert_eq!(hits(&sandbox, "both.npy a cat")[0]["text"], "1969:a cat");
    embed(
        &sandbox,
        SMALL_MODEL,
        &format!("{line} one.parquet --keep text"),
    );
    assert_eq!(hits(&sandbox, "one.parquet a cat")[0]["text"], "a cat");
}

#[test]
fn a_file_of_other_rows_is_named() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.npy --keep text");
    let run = search(&sandbox, &format!("out.npy {QUERY}"));
    assert!(!code(&run, 0).stderr.contains("warning"), "{run}");
    let quotes = fs::read_to_string(sandbox.path("in.txt")).unwrap();
    let reversed: Vec<&str> = quotes.lines().rev().collect();
    sandbox.write("in.txt", reversed.join("\n"));
    embed(&sandbox, SMALL_MODEL, "in.txt -o other.npy --keep text");
    fs::copy(
        sandbox.path("other.npy.rows.jsonl"),
        sandbox.path("out.npy.rows.jsonl"),
    )
    .unwrap();
    let run = search(&sandbox, &format!("out.npy {QUERY}"));
    assert!(
        code(&run, 0)
            .stderr
            .contains("is not the file that was written there"),
        "{run}"
    );
}

/// Nothing that others use is replaced.
#[cfg(unix)]
#[test]
fn hits_go_into_a_pipe_as_it_is() {
    let sandbox = Sandbox::new();
    write_quotes(&sandbox);
    embed(&sandbox, SMALL_MODEL, "in.txt -o out.npy");
    for line in ["", "--force"] {
        let pipe = sandbox.path("pipe.jsonl");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        code(
            &search(
                &sandbox,
                &format!("out.npy -k 3 -o pipe.jsonl {line} {QUERY}"),
            ),
            0,
        );
        assert_eq!(reader.join().unwrap().lines().count(), 3);
        assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
        fs::remove_file(&pipe).unwrap();
    }
}

/// Maps from terms to weights are found as the same vectors with indices are.
#[test]
fn maps_of_terms_are_searched() {
    let sandbox = Sandbox::new();
    let quotes = fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    let lines = quotes.lines().take(40).enumerate();
    let lines = lines.map(|(id, text)| match id % 7 {
        3 => json!({"id": id}).to_string(),
        _ => json!({"id": id, "text": text}).to_string(),
    });
    sandbox.write("in.jsonl", lines.collect::<Vec<_>>().join("\n"));
    let model = "fixtures/sparse/distilbert/model";
    for ending in ["jsonl", "parquet", "arrow"] {
        let how = "--vectors sparse --keep text --on-error null";
        for (name, maps) in [("plain", ""), ("maps", "--sparse-tokens")] {
            let line = format!("in.jsonl -o {name}.{ending} {how} {maps}");
            let mut command = sandbox.embed_command(&line);
            command.env("EMBEDCTL_MODEL", in_repository(model));
            code(&sandbox.finish(&mut command), 3);
        }
        for query in [QUERY, "--like-row 8"] {
            let plain = hits(&sandbox, &format!("plain.{ending} {query}"));
            assert_eq!(plain.len(), 10);
            assert_eq!(
                hits(&sandbox, &format!("maps.{ending} {query}")),
                plain,
                "{ending}"
            );
        }
    }
    sandbox.write("queries.txt", "a quiet life\nlaughing every day\n");
    let overlaps = |line: &str| {
        let run = sandbox.run(&format!("compare -p native --json {line}"));
        code(&run, 0);
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        found["others"][0]["overlaps"].clone()
    };
    for with in ["", "--queries queries.txt"] {
        let plain = overlaps(&format!("plain.arrow plain.parquet {with}"));
        assert_eq!(plain[0]["share"], 1.0, "{plain}");
        for outputs in [
            "maps.parquet plain.parquet",
            "plain.jsonl maps.jsonl",
            "maps.arrow maps.parquet",
        ] {
            assert_eq!(overlaps(&format!("{outputs} {with}")), plain, "{outputs}");
        }
    }
}
