//! The columns by which a store knows a row: ids, `chunk_id`, `uuid`; and records without any.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox};
use embedctl_testing::stride;

/// The rows of an output in JSON Lines, without their vectors.
fn rows(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    let content = fs::read_to_string(sandbox.path(name)).unwrap();
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let vector = row.as_object_mut().unwrap().remove("embedding");
        assert!(vector.is_some(), "{row}");
        row
    };
    content.lines().map(row).collect()
}

/// The columns of a row, in order.
fn names(row: &str) -> Vec<String> {
    let (columns, _) = row.split_once(",\"embedding\"").unwrap_or(("{", ""));
    let columns = columns.trim_start_matches('{').split(',');
    columns
        .filter(|column| column.contains("\":"))
        .map(|column| column.split('"').nth(1).unwrap().to_owned())
        .collect()
}

fn done(run: &Run) {
    assert_eq!(run.code, Some(0), "{run}");
}

/// The same three records in every format that has fields.
fn inputs(sandbox: &Sandbox) -> [&'static str; 4] {
    sandbox.write(
        "in.jsonl",
        "{\"id\": \"a\", \"n\": 1, \"text\": \"x\"}\n{\"id\": \"b\", \"n\": 2, \"text\": \"y\"}\n",
    );
    sandbox.write("in.csv", "id,n,text\na,1,x\nb,2,y\n");
    let table = "in.jsonl --keep *,text -o in.FORMAT --embedding-field v";
    for format in ["parquet", "arrow"] {
        done(&sandbox.embed(&table.replace("FORMAT", format)));
    }
    ["in.jsonl", "in.csv", "in.parquet", "in.arrow"]
}

#[test]
fn no_kept_field_clashes_with_the_ids() {
    let sandbox = Sandbox::new();
    for input in inputs(&sandbox).into_iter().step_by(stride(2)) {
        for (options, columns) in [
            ("", vec!["id"]),
            ("--keep id,n", vec!["id", "n"]),
            ("--id-field n", vec!["id"]),
            ("--id-field n --keep id", vec!["n", "id"]),
            ("--id-field n --keep id,text", vec!["n", "id", "text"]),
            ("--id-field n --keep id,n:string", vec!["n_", "id", "n"]),
            ("--id-field none --keep n", vec!["n"]),
            ("--id-field none --keep id", vec!["id"]),
        ] {
            let run = sandbox.embed(&format!("{input} {options} -o out.jsonl --force"));
            done(&run);
            let content = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
            let first = content.lines().next().unwrap();
            assert_eq!(names(first), columns, "{input} {options}: {first}");
            let row = &rows(&sandbox, "out.jsonl")[0];
            if options.contains("keep id") {
                assert_eq!(row["id"], json!("a"), "{input} {options}");
            }
        }
        // All fields, each once, under their own names.
        for (options, first) in [("--id-field n", "n"), ("--id-field none", "id")] {
            let run = sandbox.embed(&format!("{input} {options} --keep * -o out.jsonl --force"));
            done(&run);
            let content = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
            let columns = names(content.lines().next().unwrap());
            assert_eq!(columns[0], first, "{input} {options}");
            let row = &rows(&sandbox, "out.jsonl")[0];
            let number = row["n"].to_string().replace('"', "");
            assert_eq!((&row["id"], number.as_str()), (&json!("a"), "1"));
            assert_eq!(row["text"], json!("x"), "{input} {options}");
        }
    }
}

/// In parts and as one file, resumed, and in every output format that has columns.
#[test]
fn outputs_without_ids_hold_everything_else() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "one\ntwo\n");
    for output in [
        "out.parquet",
        "out.arrow",
        "out.jsonl",
        "out.pgcopy",
        "out.npy",
        "parts/",
    ] {
        let run = sandbox.embed(&format!("in.txt --id-field none --keep text -o {output}"));
        done(&run);
        assert!(!run.stderr.contains("ids"), "{run}");
    }
    done(&sandbox.embed("in.txt --id-field none --keep text -o parts/ --resume"));
    let other = sandbox.embed("in.txt --keep text -o parts/ --resume");
    assert_eq!(other.code, Some(2), "{other}");
    // Without an id and without a kept field there is the vector alone.
    let resumed =
        ["parquet", "jsonl", "pgcopy", "npy", "arrow"].map(|it| format!("resumed.{it} --resume"));
    let folders = ["jsonl", "pgcopy", "npy"].map(|it| format!("{it}/ -f {it}"));
    let endings = [
        "parquet",
        "arrow",
        "arrows",
        "jsonl",
        "jsonl.gz",
        "jsonl.zst",
        "pgcopy",
        "npy",
    ];
    let files = endings.map(|it| format!("bare.{it}"));
    for output in files.into_iter().chain(resumed).chain(folders) {
        done(&sandbox.embed(&format!("in.txt --id-field none -o {output}")));
        let name = output.split(' ').next().unwrap();
        let read = sandbox.run(&format!("inspect {name}"));
        assert!(
            read.code == Some(0) && read.stdout.contains("2 vectors"),
            "{output}: {read}"
        );
    }
    let part = fs::read_to_string(sandbox.path("jsonl/part-00001-00000.jsonl")).unwrap();
    let stream = sandbox.embed("in.txt --id-field none -o -").stdout;
    for name in ["bare.jsonl", "resumed.jsonl"] {
        assert_eq!(
            fs::read_to_string(sandbox.path(name)).unwrap(),
            part,
            "{name}"
        );
    }
    assert_eq!(stream, part);
    assert_eq!(rows(&sandbox, "bare.jsonl"), [json!({}), json!({})]);
    let bare = fs::read_to_string(sandbox.path("bare.npy.rows.jsonl")).unwrap();
    assert_eq!(bare, "{\"row\":0,\"line\":1}\n{\"row\":1,\"line\":2}\n");
}

/// A data set is embedded again beside its old vectors, in every format that has columns.
#[test]
fn vectors_stand_beside_kept_ones_under_another_name() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "one\ntwo\n");
    for format in ["jsonl", "parquet", "arrow"] {
        done(&sandbox.embed(&format!("in.txt --keep text -o old.{format}")));
        for keep in ["embedding,text", "*"] {
            for output in [
                format!("new.{format} --force"),
                format!("{format}{}/ -f {format}", keep.len()),
            ] {
                let line = format!("old.{format} --keep {keep} -o");
                let refused = sandbox.embed(&format!("{line} refused-{output}"));
                let said = "would have two columns called `embedding`";
                assert!(
                    refused.code == Some(2) && refused.stderr.contains(said),
                    "{line}: {refused}"
                );
                done(&sandbox.embed(&format!("{line} {output} --embedding-field vec")));
            }
            let read = sandbox.run(&format!("inspect new.{format}"));
            assert!(read.stdout.contains("2 vectors"), "{read}");
            // Those of the run are told from the kept ones.
            let line = format!(
                "in.txt --reuse new.{format} --embedding-field other -o again.jsonl --force --stats stats.json"
            );
            done(&sandbox.embed(&line));
            let stats = fs::read_to_string(sandbox.path("stats.json")).unwrap();
            let stats: Value = serde_json::from_str(&stats).unwrap();
            assert_eq!(stats["reused"], 2, "{line}");
        }
    }
}

/// Each kind of vectors and each width has a column, whose names are known before a model is fetched.
#[test]
fn a_name_of_any_kind_and_width_is_refused_before_a_model_is_fetched() {
    let sandbox = Sandbox::new();
    let names = ["embedding_sparse", "embedding_multi", "embedding_2"];
    for name in names {
        sandbox.write("in.jsonl", format!("{{\"text\": \"x\", \"{name}\": 1}}\n"));
        let asked = "--vectors dense,sparse,multi --dimensions 2,4";
        let line = format!("embed -m org/none in.jsonl --keep {name} {asked} -o out.jsonl");
        let refused = sandbox.run(&line);
        let said = format!("would have two columns called `{name}`");
        assert!(
            refused.code == Some(2) && refused.stderr.contains(&said),
            "{refused}"
        );
    }
}

#[test]
fn a_uuid_is_that_of_source_and_id_in_every_run() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "docs.jsonl",
        "{\"id\": 17, \"text\": \"x\"}\n{\"text\": \"y\"}\n",
    );
    sandbox.write("lines.txt", "x\n");
    done(&sandbox.embed("docs.jsonl lines.txt --uuid -o out.jsonl"));
    // `uuid.uuid5(uuid.NAMESPACE_URL, "docs.jsonl\n17")` and so on, in Python.
    let uuids = |name: &str| -> Vec<Value> {
        let rows = rows(&sandbox, name).into_iter();
        rows.map(|row| row["uuid"].clone()).collect()
    };
    let all = uuids("out.jsonl");
    assert_eq!(all[0], json!("21767c6a-6c84-5b9d-9032-5fc6c9c3e11f"));
    assert_eq!(all.len(), 3);
    for options in ["--window 1", "--id-type string", "--keep text"] {
        let line = format!("docs.jsonl lines.txt --uuid {options} -o out.jsonl --force");
        done(&sandbox.embed(&line));
        assert_eq!(uuids("out.jsonl"), all, "{options}");
    }
    // Each chunk is a row of its own.
    sandbox.write(
        "long.jsonl",
        "{\"id\": \"d\", \"text\": \"one two three four\"}\n",
    );
    done(&sandbox.embed("long.jsonl --uuid --chunk tokens --chunk-tokens 1 -o out.jsonl --force"));
    let chunks: BTreeSet<String> = uuids("out.jsonl").iter().map(Value::to_string).collect();
    assert!(chunks.len() >= 4, "{chunks:?}");
}

#[test]
fn a_chunks_id_is_unique() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in.jsonl",
        "{\"id\": \"d\", \"text\": \"one two three four\"}\n{\"text\": \"five six\"}\n",
    );
    done(&sandbox.embed("in.jsonl --chunk tokens --chunk-tokens 1 --chunk-id -o out.jsonl"));
    let rows = rows(&sandbox, "out.jsonl");
    let ids: Vec<&str> = rows
        .iter()
        .map(|row| row["chunk_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids[..2], ["d#0", "d#1"]);
    assert!(ids.contains(&"in.jsonl:2#0"), "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

/// An answer to a batch has the batch's columns alone: keys need ids, and so columns that are asked for.
#[test]
fn a_batch_is_not_answered_with_keys_of_another_column() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", "{\"id\": 17, \"text\": \"x\"}\n");
    done(&sandbox.embed("in.jsonl --keep text -o in.arrows"));
    let input = fs::read(sandbox.path("in.arrows")).unwrap();
    let mut command = sandbox.embed_command("-i arrow -f arrow -o - --uuid --embedding-field v");
    let output = sandbox.run_with_input(&mut command, &input);
    done(&output);
    let line = "-i arrow -f arrow -o - --streams --uuid";
    let refused = sandbox.run_with_input(&mut sandbox.embed_command(line), &input);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("leave --uuid"), "{refused}");
}

/// Parts of a folder are no answers to batches: they are written as from any other input.
#[test]
fn a_stream_of_arrow_is_written_to_a_folder_of_arrow_files() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", "{\"id\": 17, \"text\": \"x\"}\n");
    done(&sandbox.embed("in.jsonl --keep text -o in.arrows"));
    let input = fs::read(sandbox.path("in.arrows")).unwrap();
    let line = "-i arrow -f arrow -o parts/ --embedding-field v --part-rows 1";
    done(&sandbox.run_with_input(&mut sandbox.embed_command(line), &input));
    assert!(sandbox.path("parts/part-00001-00000.arrow").exists());
    let streams = "-i arrow -f arrow -o others/ --streams";
    let refused = sandbox.run_with_input(&mut sandbox.embed_command(streams), &input);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("-o -"), "{refused}");
}

#[test]
fn empty_texts_and_missing_ids_are_told() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.write("folder/a.txt", "one\n\n  \t\ntwo\n");
    let run = sandbox.embed("folder -o out.parquet --log-format json");
    done(&run);
    let note = "2 texts are empty and embedded like any other (the first is folder/a.txt:2)";
    assert!(run.stderr.contains(note), "{run}");
    assert!(run.stderr.contains("\"empty_texts\":2"), "{run}");
    // Of a source without the default field, nobody expects ids; one that is there or named should have some.
    sandbox.write("without.jsonl", "{\"text\": \"x\"}\n");
    sandbox.write("without.csv", "text\nx\n");
    sandbox.write("without.txt", "x\n");
    sandbox.write("empty.csv", "id,text\n,x\n");
    sandbox.write(
        "late.jsonl",
        "{\"text\": \"x\"}\n{\"id\": null, \"text\": \"x\"}\n",
    );
    for (input, is_told) in [
        ("without.jsonl", false),
        ("without.csv", false),
        ("without.txt", false),
        ("without.jsonl without.csv", false),
        ("without.jsonl --sample 1", false),
        ("empty.csv", true),
        ("empty.csv --id-field id", true),
        ("late.jsonl", true),
        ("late.jsonl --window 1", true),
        ("late.jsonl --sample 2", true),
        ("without.csv empty.csv", true),
    ] {
        let run = sandbox.embed(&format!("{input} -o out.parquet --force"));
        done(&run);
        assert_eq!(run.stderr.contains("all ids are null"), is_told, "{run}");
    }
    for table in ["table.parquet", "table.arrow"] {
        for (options, is_told) in [("--id-field none", false), ("", true)] {
            let line = format!("late.jsonl {options} --keep text -o {table} --force");
            done(&sandbox.embed(&line));
            let run = sandbox.embed(&format!("{table} -o out.parquet --force"));
            done(&run);
            assert_eq!(run.stderr.contains("all ids are null"), is_told, "{run}");
        }
    }
    sandbox.write("in.jsonl", "{\"id\": null, \"key\": 1, \"text\": \"x\"}\n");
    let told = "all ids are null: no record has a value in `id`; name the field that holds ids with `--id-field`";
    for (options, is_told) in [
        ("", true),
        ("--id-field none", false),
        ("--id-field key", false),
    ] {
        let run = sandbox.embed(&format!("in.jsonl {options} -o out.parquet --force"));
        done(&run);
        assert_eq!(run.stderr.contains(told), is_told, "{run}");
        assert!(!run.stderr.contains("empty"), "{run}");
    }
}
