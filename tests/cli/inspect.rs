//! `embedctl inspect`: provenance and health of vectors, and differences that keep two files from mixing.

use std::fs;

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Builder, ListBuilder, RecordBatch, StringArray};
use arrow::ipc::writer::FileWriter;
use serde_json::{Value, json};

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, in_repository};

/// Three texts, two of them equal, in every format.
fn sandbox(outputs: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "one\ntwo words\none\n");
    for output in outputs {
        let run = sandbox.embed(&format!("a.txt --keep text -o {output}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    sandbox
}

fn inspect(sandbox: &Sandbox, line: &str) -> (Option<i32>, Value) {
    let run = sandbox.run(&format!("inspect --json {line}"));
    let json = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run}"));
    (run.code, json)
}

fn table(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.run(&format!("inspect {line}"))
}

#[test]
fn one_file_is_compared_with_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo\n");
    for (output, code) in [("one.npy", 2), ("parts/", 0)] {
        sandbox.embed(&format!("texts.txt -f npy -o {output}"));
        let run = sandbox.run(&format!("inspect {output} --same"));
        assert_eq!(run.code, Some(code), "{run}");
    }
    let run = sandbox.run("inspect one.npy one.npy --same");
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn every_format_is_read_and_its_hashes_are_compared() {
    let matrix = ["header", "provenance", "rows", "values"];
    let formats = [
        ("out.parquet", &["file"][..]),
        ("out.npy", &matrix),
        ("out.jsonl", &["lines", "provenance"]),
        ("out.jsonl.gz", &["lines", "provenance"]),
        ("out.jsonl.zst", &["lines", "provenance"]),
        ("out.arrow", &["file"]),
        ("out.arrows", &["provenance", "stream"]),
        ("out.pgcopy", &["provenance", "stream"]),
        ("out.fbin", &matrix),
        ("out.i8bin", &matrix),
        ("out.u8bin", &matrix),
    ];
    let sandbox = sandbox(&[]);
    let run = sandbox.embed("a.txt -o ranges.npy");
    assert_eq!(run.code, Some(0), "{run}");
    for (name, _) in formats {
        let integers = match name {
            "out.i8bin" | "out.u8bin" => "--calibration ranges.npy",
            _ => "--keep text",
        };
        let run = sandbox.embed(&format!("a.txt {integers} -o {name}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    for (name, hashes) in formats {
        let (code, found) = inspect(&sandbox, name);
        assert_eq!(code, Some(0), "{name}: {found}");
        let file = &found["files"][0];
        assert_eq!(file["problems"], json!([]), "{name}");
        assert_eq!(file["provenance"]["rows"]["embedded"], 3, "{name}");
        assert_eq!(file["provenance"]["tool"]["name"], "embedctl", "{name}");
        let column = &file["columns"][0];
        let dtype = match name {
            "out.i8bin" => "int8",
            "out.u8bin" => "uint8",
            _ => "f32",
        };
        assert_eq!(
            (&column["vectors"], &column["dtype"]),
            (&json!(3), &json!(dtype)),
            "{name}"
        );
        let is_matrix = name.ends_with(".npy") || name.ends_with("bin");
        let called = if is_matrix { "" } else { "embedding" };
        assert_eq!(column["column"], called, "{name}");
        assert_eq!(
            (&column["narrowest"], &column["widest"]),
            (&json!(48), &json!(48)),
            "{name}"
        );
        assert_eq!(
            column["repeated"],
            json!({"vectors": 1, "exact": true}),
            "{name}"
        );
        assert_eq!(
            (&column["not_finite"], &column["zero"]),
            (&json!(0), &json!(0)),
            "{name}"
        );
        let belongs = file["belongs"].as_array().unwrap();
        let mut names: Vec<&str> = belongs
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(names, hashes, "{name}");
        assert!(
            belongs.iter().all(|one| one["same"] == true),
            "{name}: {belongs:?}"
        );
    }
}

#[test]
fn vectors_of_postgresql_are_found_by_what_stands_beside_them_or_by_their_looks() {
    let sandbox = sandbox(&[]);
    for (options, dtype, width, by_looks) in [
        ("--dtype f32", "f32", 48, true),
        ("--dtype f16", "f16", 48, true),
        // As bytes, eight bits each, as in every other format.
        ("--dtype ubinary", "uint8", 6, false),
        ("--dtype binary", "uint8", 6, false),
    ] {
        let line = format!("a.txt --keep text --embedding-field v {options} -o out.pgcopy --force");
        let run = sandbox.embed(&line);
        assert_eq!(run.code, Some(0), "{run}");
        let (code, found) = inspect(&sandbox, "out.pgcopy");
        let columns = found["files"][0]["columns"].as_array().unwrap();
        assert_eq!((code, columns.len()), (Some(0), 1), "{options}: {found}");
        assert_eq!(
            [
                &columns[0]["column"],
                &columns[0]["dtype"],
                &columns[0]["vectors"],
                &columns[0]["widest"]
            ],
            [&json!("v"), &json!(dtype), &json!(3), &json!(width)],
            "{options}"
        );
        fs::remove_file(sandbox.path("out.pgcopy.json")).unwrap();
        let (_, found) = inspect(&sandbox, "out.pgcopy");
        let columns = found["files"][0]["columns"].as_array().unwrap();
        assert_eq!(columns.len(), usize::from(by_looks), "{options}: {found}");
        if by_looks {
            assert_eq!(
                (&columns[0]["column"], &columns[0]["dtype"]),
                (&json!("3"), &json!(dtype))
            );
        }
    }
    // Cut in the middle, and followed by nothing.
    let whole = fs::read(sandbox.path("out.pgcopy")).unwrap();
    sandbox.write("out.pgcopy", &whole[..whole.len() - 3]);
    let run = table(&sandbox, "out.pgcopy");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("copy or make it again"), "{run}");
}

#[test]
fn streams_are_read_one_after_another_and_matrices_to_their_last_row() {
    let sandbox = sandbox(&["one.arrows", "out.fbin"]);
    let one = fs::read(sandbox.path("one.arrows")).unwrap();
    sandbox.write("two.arrows", [one.as_slice(), &one].concat());
    let (code, found) = inspect(&sandbox, "two.arrows");
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["files"][0]["columns"][0]["vectors"], 6);
    sandbox.write("cut.arrows", &one[..one.len() / 2]);
    let matrix = fs::read(sandbox.path("out.fbin")).unwrap();
    sandbox.write("cut.fbin", &matrix[..matrix.len() - 1]);
    sandbox.write("head.i8bin", &matrix[..5]);
    sandbox.write("wide.u8bin", [255; 8]);
    sandbox.write("other.pgcopy", b"PGCOPY of something else");
    sandbox.write(
        "bad.jsonl",
        "{\"embedding\": [1.0]}\n{\"embedding\": [1.0\n",
    );
    for (name, part) in [
        ("cut.arrows", "cut.arrows"),
        (
            "cut.fbin",
            "it ends in the middle of a vector; copy or make it again",
        ),
        ("head.i8bin", "it ends in the middle of a vector"),
        ("wide.u8bin", "would be 4294967295 wide"),
        ("other.pgcopy", "does not begin as PostgreSQL's binary COPY"),
        ("bad.jsonl", "line 2 is not a JSON object"),
    ] {
        let run = table(&sandbox, name);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains(part), "{name}: {run}");
    }
}

#[test]
fn folders_of_parts_are_looked_at_part_by_part_and_as_a_whole() {
    let sandbox = sandbox(&[]);
    for format in ["parquet", "arrow", "npy", "jsonl", "pgcopy"] {
        let run = sandbox.embed(&format!(
            "a.txt -f {format} --part-rows 1 --window 1 -o {format}/"
        ));
        assert_eq!(run.code, Some(0), "{run}");
        let (code, found) = inspect(&sandbox, &format!("{format}/"));
        let files = found["files"].as_array().unwrap();
        assert_eq!((code, files.len()), (Some(0), 3), "{format}: {found}");
        for (number, file) in files.iter().enumerate() {
            let name = format!("{format}/part-00001-0000{number}.{format}");
            assert_eq!(
                (&file["path"], &file["problems"]),
                (&json!(name), &json!([]))
            );
            let belongs = file["belongs"].as_array().unwrap();
            assert!(belongs.iter().all(|one| one["same"] == true), "{file}");
        }
        assert_eq!(found["mix"], true, "{format}: {found}");
        let folder = format!("{format}/");
        let whole = json!([{
            "path": folder, "complete": true, "shards": 1, "ended": 1, "parts": 3, "records": 3,
            "rows": 3, "rejected": 0,
        }]);
        assert_eq!(found["folders"], whole);
        let shown = table(&sandbox, &format!("{format}/")).stdout;
        let begin = format!(
            "{format}/\n  output       complete: 3 parts\n  records      3 read, 0 rejected; 3 rows\n"
        );
        assert!(shown.starts_with(&begin), "{shown}");
        fs::remove_file(sandbox.path(&format!("{format}/part-00001-00001.{format}"))).unwrap();
        let (code, found) = inspect(&sandbox, &format!("{format}/"));
        let problems = found["files"][0]["problems"].to_string();
        assert_eq!(code, Some(1), "{format}: {found}");
        assert_eq!(found["folders"][0]["complete"], false);
        assert!(
            problems.contains("begins at record 2, but the records before it end at 1"),
            "{problems}"
        );
        for number in [0, 2] {
            fs::remove_file(sandbox.path(&format!("{format}/part-00001-0000{number}.{format}")))
                .unwrap();
        }
        let run = table(&sandbox, &format!("{format}/"));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("it holds no part"), "{run}");
    }
    // The file that was written with a part.
    let run = sandbox.embed("a.txt -f npy --part-rows 2 --window 1 -o spoiled/");
    assert_eq!(run.code, Some(0), "{run}");
    sandbox.write("spoiled/part-00001-00000.npy.rows.jsonl", "{}\n");
    fs::remove_file(sandbox.path("spoiled/part-00001-00001.npy.rows.jsonl")).unwrap();
    let (code, found) = inspect(&sandbox, "spoiled/");
    assert_eq!(code, Some(1), "{found}");
    for file in found["files"].as_array().unwrap() {
        let problems = file["problems"].to_string();
        assert!(
            problems.contains(".npy.rows.jsonl is not what was written"),
            "{problems}"
        );
    }
    let run = table(&sandbox, "gone/");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("there is no file gone/"), "{run}");
    fs::create_dir(sandbox.path("empty")).unwrap();
    let run = table(&sandbox, "empty/");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("is a folder without an output in parts"),
        "{run}"
    );
}

#[test]
fn files_that_do_not_belong_together_are_found() {
    let sandbox = sandbox(&["out.npy", "out.jsonl"]);
    // A byte of the last vector; a row's description.
    let mut values = fs::read(sandbox.path("out.npy")).unwrap();
    let last = values.len() - 1;
    values[last] ^= 1;
    sandbox.write("out.npy", values);
    let run = table(&sandbox, "out.npy");
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stdout.contains("values       NOT as written (out.npy)"),
        "{run}"
    );
    assert!(
        run.stdout
            .contains("rows         as written (out.npy.rows.jsonl)"),
        "{run}"
    );
    let lines = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    sandbox.write("out.jsonl", lines.lines().next().unwrap());
    let (code, found) = inspect(&sandbox, "out.jsonl");
    assert_eq!(code, Some(1));
    let problems = found["files"][0]["problems"].to_string();
    assert!(
        problems.contains("3 rows were embedded, but the file holds 1 vectors"),
        "{problems}"
    );
    assert!(
        problems.contains("out.jsonl is not what was written"),
        "{problems}"
    );
}

#[test]
fn damaged_vectors_and_files_without_provenance_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "a.jsonl",
        "{\"embedding\": [3.0, 4.0]}\n{\"embedding\": [0, 0]}\n{\"embedding\": [1e39, 0]}\n",
    );
    let run = table(&sandbox, "a.jsonl");
    assert_eq!(run.code, Some(1), "{run}");
    for words in [
        "3 vectors of 2 dimensions, f32; norms 0.0000 to 5.0000",
        "made by      unknown",
        "1 vector of embedding holds NaN or infinity",
    ] {
        let shown = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&words), "{words}{run}");
    }
    for name in ["gone.npy", "a.xyz"] {
        assert_eq!(table(&sandbox, name).code, Some(2), "{name}");
    }
    sandbox.write("cut.npy", b"\x93NUMPY\x01\x00");
    assert_eq!(table(&sandbox, "cut.npy").code, Some(1));
}

#[test]
fn why_two_files_do_not_mix() {
    let sandbox = sandbox(&["a.parquet"]);
    let model = in_repository(SMALL_MODEL).display().to_string();
    for (name, options) in [("b.npy", "--prompt query:"), ("c.jsonl", "--window 1")] {
        let run = sandbox.embed(&format!("a.txt -o {name} {options}"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let (code, found) = inspect(&sandbox, "a.parquet b.npy --same");
    assert_eq!((code, &found["mix"]), (Some(1), &json!(false)), "{found}");
    let differences = found["differences"].as_array().unwrap();
    let grave: Vec<&Value> = differences
        .iter()
        .filter(|one| one["decides"] == true)
        .collect();
    assert_eq!(grave.len(), 1, "{grave:?}");
    assert_eq!(
        (&grave[0]["key"], &grave[0]["values"]),
        (&json!("prompt"), &json!(["", "query:"]))
    );
    let run = table(&sandbox, "a.parquet b.npy");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stdout
            .contains("These vectors cannot be mixed:\n  prompt: \"\" | \"query:\"\n"),
        "{run}"
    );
    let (code, found) = inspect(&sandbox, "a.parquet c.jsonl --same");
    assert_eq!((code, &found["mix"]), (Some(0), &json!(true)), "{found}");
    assert!(
        found.to_string().contains(&model)
            || found["files"][0]["provenance"]["model"]["id"].is_string()
    );
}

#[test]
fn rows_are_embedded_again() {
    let sandbox = sandbox(&["out.npy", "out.jsonl", "out.parquet"]);
    for line in [
        "out.npy --verify 2",
        "out.jsonl --verify 10",
        "out.parquet --verify 3",
        "out.parquet --verify 3 --input a.txt",
    ] {
        let (code, found) = inspect(&sandbox, &format!("{line} --provider native"));
        assert_eq!(code, Some(0), "{line}: {found}");
        assert_eq!(found["verified"]["same"], true, "{line}");
        assert!(
            found["verified"]["least_cosine"].as_f64() > Some(0.999_99),
            "{line}: {found}"
        );
    }
    // Other texts give other vectors, and fewer texts are none of these.
    sandbox.write("b.txt", "six\nanother text\none\n");
    let run = table(
        &sandbox,
        "out.npy --verify 3 --input b.txt --provider native",
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("NOT as they were"), "{run}");
    sandbox.write("b.txt", "one\n");
    let run = table(
        &sandbox,
        "out.npy --verify 3 --input b.txt --provider native",
    );
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("has 1 texts, but there are 3 vectors"),
        "{run}"
    );
    sandbox.write("b.jsonl", "{\"text\": \"one\"}\n{\"texts\": 2}\n");
    let run = table(
        &sandbox,
        "out.npy --verify 3 --input b.jsonl --provider native",
    );
    let said = "b.jsonl has 1 texts (b.jsonl:2 has none: ";
    assert!(run.stderr.contains(said), "{run}");
    let reason = run.stderr.split_once("has none: ").unwrap().1;
    assert!(
        !reason.split_once("), but").unwrap().0.contains(';'),
        "{run}"
    );
    let run = table(
        &sandbox,
        "out.npy --verify 3 --model fixtures/nowhere --provider native",
    );
    assert_eq!(run.code, Some(1), "{run}");
    let other = in_repository("fixtures/parity/bert-cls/model");
    let run = table(
        &sandbox,
        &format!(
            "out.npy --verify 3 --provider rten --model {}",
            other.display()
        ),
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("is not the one that made the vectors"),
        "{run}"
    );
}

#[test]
fn kept_lists_are_no_vectors() {
    let sandbox = Sandbox::new();
    // A value that a number cannot hold is kept as it is written.
    let lines = [("one", "[0.5,2]", "1e400"), ("two words", "[1]", "7")];
    let lines =
        lines.map(|(text, bow, n)| format!("{{\"text\":\"{text}\",\"bow\":{bow},\"n\":{n}}}\n"));
    sandbox.write("in.jsonl", lines.concat());
    let mut lists = ListBuilder::new(Float32Builder::new());
    lists.append_value([Some(0.5), Some(f32::NAN)]);
    lists.append_value([Some(1.0)]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["one", "two words"]));
    let bow: ArrayRef = Arc::new(lists.finish());
    let batch = RecordBatch::try_from_iter([("text", texts), ("bow", bow)]).unwrap();
    let file = fs::File::create(sandbox.path("in.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    for (input, output) in [
        ("in.jsonl --keep text,bow:json,n:json", "out.jsonl"),
        ("in.arrow --keep text,bow", "out.parquet"),
        ("in.arrow --keep text,bow", "out.arrow"),
        ("in.arrow --keep text,bow", "out.arrows"),
    ] {
        let run = sandbox.embed(&format!("{input} -o {output}"));
        assert_eq!(run.code, Some(0), "{run}");
        let (code, found) = inspect(&sandbox, &format!("{output} --verify 2 --provider native"));
        assert_eq!(code, Some(0), "{output}: {found}");
        assert_eq!(found["verified"]["same"], true, "{output}: {found}");
        let columns = found["files"][0]["columns"].as_array().unwrap();
        assert_eq!(columns.len(), 1, "{output}: {found}");
        assert_eq!(columns[0]["column"], "embedding", "{output}");
        let line = format!("{input} -o two.npy --force --dtype int8 --calibration {output}");
        let run = sandbox.embed(&line);
        assert_eq!(run.code, Some(0), "{run}");
    }
    let run = sandbox.embed("in.jsonl -o three.npy --reuse out.jsonl");
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains("2 vectors copied from an earlier output"),
        "{run}"
    );
}

#[test]
fn texts_are_made_again_of_what_they_were_made_of() {
    let sandbox = Sandbox::new();
    let record = r#"{"text":"x","title":"one","body":"two words"}"#;
    sandbox.write("in.jsonl", format!("{record}\n{record}\n"));
    for (made, kept) in [
        ("--text-template {title}:\\t{body} --keep text", None),
        (
            "--text-template {title}:\\t{body} --keep text,title,body",
            Some(""),
        ),
        ("--text-field body --keep text,body", Some("")),
    ] {
        let run = sandbox.embed(&format!("in.jsonl {made} -o out.parquet --force"));
        assert_eq!(run.code, Some(0), "{run}");
        for input in kept.into_iter().chain(["--input in.jsonl"]) {
            let line = format!("out.parquet --verify 2 --provider native {input}");
            let (code, found) = inspect(&sandbox, &line);
            assert_eq!(code, Some(0), "{made} {input}: {found}");
        }
        // A text that was never the one that was embedded is not taken for it.
        if kept.is_none() {
            let run = table(&sandbox, "out.parquet --verify 2 --provider native");
            assert_eq!(run.code, Some(2), "{run}");
            assert!(run.stderr.contains("title"), "{run}");
        }
    }
    // Lines are texts as they are.
    let run = sandbox.embed("in.jsonl --text-template {title}:\\t{body} -o out.npy");
    assert_eq!(run.code, Some(0), "{run}");
    sandbox.write("as.txt", "one:\ttwo words\n".repeat(2));
    let (code, found) = inspect(
        &sandbox,
        "out.npy --verify 2 --provider native --input as.txt",
    );
    assert_eq!(code, Some(0), "{found}");
}

#[test]
fn chunks_are_counted_as_the_rows_that_they_are() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "long.txt",
        "one word after another ".repeat(60) + "\nshort\n",
    );
    for output in [
        "out/ --part-rows 1",
        "out.parquet",
        "resumed.parquet --resume",
    ] {
        let run = sandbox.embed(&format!("long.txt --chunk tokens -o {output}"));
        assert_eq!(run.code, Some(0), "{run}");
        let name = output.split(' ').next().unwrap();
        let run = sandbox.run(&format!("inspect {name}"));
        assert_eq!(run.code, Some(0), "{run}");
        assert!(!run.stdout.contains("problem"), "{run}");
    }
}
