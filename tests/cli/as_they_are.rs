//! Files as other programs write them: TSV without quoting, tables of lakes, partitions; and limits in the numbers.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox};

/// The rows of an output in JSON Lines.
fn rows(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    let content = fs::read_to_string(sandbox.path(name)).unwrap();
    let lines = content.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn done(run: &Run) {
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn unquoted_tsv_loses_no_record() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "q.tsv",
        "id\ttext\n1\t\"starts here\n2\tmiddle\n3\tends\"\n4\tlast\n",
    );
    for on_error in ["", "--on-error skip"] {
        let run = sandbox.embed(&format!("q.tsv -o out.jsonl {on_error}"));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr.contains("q.tsv:2") && run.stderr.contains("--csv-quote none"),
            "{run}"
        );
        assert!(!sandbox.path("out.jsonl").exists());
    }
    done(&sandbox.embed("q.tsv --csv-quote none --keep text -o out.jsonl"));
    let found = rows(&sandbox, "out.jsonl");
    let texts: Vec<_> = found
        .iter()
        .map(|row| row["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["\"starts here", "middle", "ends\"", "last"]);
    // Quoted as CSV, the field over three lines is one.
    done(&sandbox.embed("q.tsv --csv-quote \" -o quoted.jsonl"));
    assert_eq!(rows(&sandbox, "quoted.jsonl").len(), 2);
    // The same in CSV is a warning.
    sandbox.write(
        "q.csv",
        fs::read_to_string(sandbox.path("q.tsv"))
            .unwrap()
            .replace('\t', ","),
    );
    let run = sandbox.embed("q.csv -o csv.jsonl");
    done(&run);
    assert!(
        run.stderr
            .contains("q.csv:2: a quoted field goes over 3 lines"),
        "{run}"
    );

    sandbox.write("copied.tsv", "id\ttext\tnote\n1\ta\\tb\t\\N\n2\t\\N\tx\n");
    let line = "copied.tsv --csv-quote none --csv-escape \\ --csv-null \\N --keep text,note --on-error skip";
    let run = sandbox.embed(&format!("{line} -o copied.jsonl"));
    assert_eq!(run.code, Some(3), "{run}");
    assert!(
        run.stderr.contains("copied.tsv:3: the record has no text"),
        "{run}"
    );
    let found = rows(&sandbox, "copied.jsonl");
    assert_eq!(
        (found.len(), &found[0]["text"], &found[0]["note"]),
        (1, &"a\tb".into(), &Value::Null)
    );
    let run = sandbox.embed("q.tsv -o out/ --csv-quote none");
    done(&run);
    let run = sandbox.embed("q.tsv -o out/ --resume --csv-quote \"");
    assert!(run.stderr.contains("csv_quote"), "{run}");
}

#[test]
fn tables_of_lakes_are_refused_and_partitions_are_columns() {
    let sandbox = Sandbox::new();
    for year in [2023, 2024] {
        let folder = sandbox.path(&format!("t/year={year}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.jsonl"), "{\"text\": \"one\"}\n").unwrap();
    }
    done(&sandbox.embed("t --keep year -o out.jsonl"));
    let years: Vec<_> = rows(&sandbox, "out.jsonl")
        .iter()
        .map(|row| row["year"].clone())
        .collect();
    assert_eq!(years, [2023, 2024]);
    done(&sandbox.embed("t --keep year -o out/ --part-rows 1"));
    done(&sandbox.embed("t --keep year -o out/ --part-rows 1 --resume"));
    fs::create_dir(sandbox.path("t/_delta_log")).unwrap();
    for input in ["t", "t/year=2023", "t/*/*.jsonl"] {
        let run = sandbox.embed(&format!("{input} -o lake.jsonl"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(
            run.stderr.contains("Delta Lake") && run.stderr.contains("delta_scan"),
            "{run}"
        );
    }
}

#[test]
fn limits_count_in_the_numbers_of_a_run() {
    let sandbox = Sandbox::new();
    let lines: String = (0..500)
        .map(|row| format!("{{\"text\": \"row {row}\"}}\n"))
        .collect();
    sandbox.write("in.jsonl", lines);
    for (limit, records) in [
        ("--limit 50", 50),
        ("--sample 20", 20),
        ("--limit 50 --sample 200", 50),
    ] {
        let line = format!("in.jsonl {limit} --window 10 -o out.jsonl --force --stats stats.json");
        let line = format!("{line} --progress always --log-format json");
        let output = sandbox.embed_command(&line).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let stats: Value =
            serde_json::from_slice(&fs::read(sandbox.path("stats.json")).unwrap()).unwrap();
        assert_eq!(stats["embedded"], records);
        assert_eq!(stats["progress"]["rows"], records);
        assert_eq!(stats["progress"]["share"], 1.0);
        assert_eq!(stats["progress"]["seconds_left"], Value::Null);
        // The last line of the progress is that of a run that is done.
        let events = said.lines();
        let mut events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let last = events.rfind(|it| it["event"] == "progress");
        let last = last.unwrap();
        assert_eq!(last["share"], 1.0, "{said}");
    }
}

/// JSON in an array or on lines is told apart by looking; each record is the same.
#[test]
fn json_is_an_array_or_lines() {
    let sandbox = Sandbox::new();
    let records: Vec<Value> = (0..7)
        .map(|n| json!({"id": format!("r{n}"), "text": format!("text ] [{n}], \"{n}\""), "more": [n, {"a": "]"}]}))
        .collect();
    let lines: String = records.iter().map(|it| format!("{it}\n")).collect();
    let array = Value::Array(records);
    sandbox.write("lines.jsonl", &lines);
    done(&sandbox.embed("lines.jsonl --keep more:json -o expected.jsonl"));
    let expected = rows(&sandbox, "expected.jsonl");
    assert_eq!(expected.len(), 7);
    // As Spark's `write.json` names its parts, among its own files.
    fs::create_dir(sandbox.path("spark")).unwrap();
    sandbox.write("spark/part-00000-1a.json", &lines);
    sandbox.write("spark/_SUCCESS", "");
    sandbox.write("spark/.part-00000-1a.json.crc", "x");
    // Files that embedctl writes beside an output are no input.
    sandbox.write("spark/old.npy.json", "{}");
    sandbox.write("compact.json", array.to_string());
    sandbox.write("pretty.json", serde_json::to_string_pretty(&array).unwrap());
    for input in ["spark", "compact.json", "pretty.json"] {
        let run = sandbox.embed(&format!("{input} --keep more:json -o out.jsonl --force"));
        done(&run);
        assert_eq!(rows(&sandbox, "out.jsonl"), expected, "{input}");
    }
    // In parts, which are resumed, and in shards, of which one has all.
    done(&sandbox.embed("pretty.json -f jsonl -o parts/ --part-rows 2 --window 2"));
    fs::remove_file(sandbox.path("parts/part-00001-00001.jsonl")).unwrap();
    done(&sandbox.embed("pretty.json -f jsonl -o parts/ --part-rows 2 --window 2 --resume"));
    let part = rows(&sandbox, "parts/part-00001-00001.jsonl");
    assert_eq!(part[0]["embedding"], expected[2]["embedding"]);
    // Standard input, and what is wrong in it.
    let run = sandbox.run_with_input(
        &mut sandbox.embed_command("-i json -o piped.jsonl"),
        array.to_string().as_bytes(),
    );
    done(&run);
    assert_eq!(rows(&sandbox, "piped.jsonl").len(), 7);
    for (content, said) in [
        (&array.to_string()[..40], "is not closed"),
        ("[{\"text\": \"a\"}] {}", "more follows"),
        ("[{\"text\": \"a\"}, 12]", "bad.json:2"),
        ("[{\"text\": \"a\nb\"}]", "bad.json:1"),
    ] {
        sandbox.write("bad.json", content);
        let run = sandbox.embed("bad.json -o none.parquet");
        assert!(run.code == Some(1) && run.stderr.contains(said), "{run}");
        assert!(!sandbox.path("none.parquet").exists());
    }
}

/// The field of the ids is in the output already.
#[test]
fn the_ids_may_be_kept() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in.jsonl",
        "{\"id\": \"a\", \"n\": \"b\", \"text\": \"t\"}\n",
    );
    done(&sandbox.embed("in.jsonl --keep id,n -o out.jsonl"));
    let row = &rows(&sandbox, "out.jsonl")[0];
    assert_eq!((&row["id"], &row["n"]), (&json!("a"), &json!("b")));
    // A shard knows the types of all its columns: there is none without a type.
    done(&sandbox.embed("in.jsonl --keep id -o shards/ --shard 1/2"));
}

/// A batch file of OpenAI's API has the vectors of its texts, also compressed, in parts and resumed.
#[test]
fn a_batch_file_of_openai_is_read_text_by_text() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "texts.jsonl",
        "{\"text\":\"x\"}\n{\"text\":\"y\"}\n{\"text\":\"z\"}\n",
    );
    let request = |id: &str, input: &str| {
        format!(
            "{{\"custom_id\":\"{id}\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{{\"model\":\"m\",\"input\":{input}}}}}\n"
        )
    };
    let requests = request("a", "\"x\"") + &request("b", "[\"y\", \"z\"]");
    sandbox.write("batch.jsonl", &requests);
    done(&sandbox.embed("texts.jsonl -o plain.jsonl"));
    done(&sandbox.embed("batch.jsonl -i openai-batch --keep index -o out.jsonl"));
    let (plain, out) = (rows(&sandbox, "plain.jsonl"), rows(&sandbox, "out.jsonl"));
    assert_eq!(out.len(), 3);
    for ((row, plain), (id, index)) in out.iter().zip(&plain).zip([("a", 0), ("b", 0), ("b", 1)]) {
        assert_eq!((&row["id"], &row["index"]), (&json!(id), &json!(index)));
        assert_eq!(row["embedding"], plain["embedding"]);
    }
    done(&sandbox.embed("batch.jsonl -i openai-batch --part-rows 1 -o parts/"));
    done(&sandbox.embed("batch.jsonl -i openai-batch --part-rows 1 -o parts/ --resume"));
    // Without the option the remedy names it; tokens and missing texts are bad records.
    let run = sandbox.embed("batch.jsonl -o none.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("say `-i openai-batch`"), "{run}");
    for (input, reason) in [
        ("[1, 2]", "`text` is an array of numbers, not a string"),
        ("[]", "the record has no text"),
        ("{}", "`text` is an object"),
    ] {
        sandbox.write("bad.jsonl", request("a", input));
        let run = sandbox.embed("bad.jsonl -i openai-batch -o none.parquet");
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains(reason), "{run}");
    }
}

#[test]
fn mistakes_of_the_first_hour_have_remedies() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", "{\"Body\": \"t\"}\n");
    let run = sandbox.embed("in.jsonl --text-field body -o none.parquet");
    assert!(run.stderr.contains("`--text-field Body`"), "{run}");
    let run = sandbox.run_with_input(&mut sandbox.embed_command("-o none.parquet"), b"PAR1....");
    assert!(run.stderr.contains("has to be a file"), "{run}");
    assert!(!run.stderr.contains("say `-i parquet`"), "{run}");
    sandbox.write("a.md", "# a\n");
    sandbox.write("a.html", "<p>a</p>");
    sandbox.write("a.txt", "a\n");
    for (options, remedy) in [
        ("a.md in.jsonl", "say `-i file` to embed it as one text"),
        ("a.html in.jsonl", "say `-i file` to embed it as one text"),
        ("a.txt --chunk 512", "'--chunk tokens --chunk-tokens 512'"),
        ("a.md -i markdown", "here it is 'file'"),
        ("a.txt -i txt", "here it is 'text'"),
        ("a.txt --limit -1", "must be a whole number of at least 0"),
    ] {
        let run = sandbox.embed(&format!("{options} -o none.parquet"));
        assert_eq!(run.code, Some(2), "{run}");
        assert!(run.stderr.contains(remedy), "{run}");
    }
    fs::create_dir(sandbox.path("empty")).unwrap();
    let run =
        sandbox.run("embed in.jsonl --text-field Body -o none.parquet --provider rten -m empty");
    assert!(run.stderr.contains("it holds no config.json"), "{run}");
}

/// Remedies that are followed to the letter.
#[test]
fn remedies_name_what_helps_the_file_at_hand() {
    let sandbox = Sandbox::new();
    sandbox.write("lines.jsonl", "[\"a\"]\n[\"b\"]\n");
    sandbox.write("floats.jsonl", "{\"id\": 1.0, \"text\": \"a\"}\n");
    sandbox.write("halves.jsonl", "{\"id\": 1.5, \"text\": \"a\"}\n");
    sandbox.write("nul.jsonl", "{\"id\": \"a\\u0000\", \"text\": \"a\"}\n");
    for (options, remedy) in [
        (
            "lines.jsonl -o x.parquet",
            "write its elements one a line (`jq -c '.[]'`)",
        ),
        (
            "floats.jsonl -o x.parquet",
            "use `--id-type int` if all are whole numbers, or `--id-type string`",
        ),
        (
            "halves.jsonl -o x.parquet",
            "but ids are strings or integers; use `--id-type string`",
        ),
        ("nul.jsonl -o x.pgcopy", "ids with --id-field none"),
        ("lines.jsonl -o x.parquet -m ./gone.gguf", "gone.gguf"),
    ] {
        let run = sandbox.embed(options);
        assert_ne!(run.code, Some(0), "{run}");
        assert!(run.stderr.contains(remedy), "{options}: {run}");
        assert!(!run.stderr.contains("holds weights as GGUF"), "{run}");
    }
}
