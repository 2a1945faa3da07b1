//! Formats of output and types of components, by the real binary.

use std::fs;
use std::io::{Cursor, Read};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float32Type, Int8Type};
use arrow::ipc::reader::{FileReader, StreamReader};
use embedctl::output::read_vectors;
use embedctl::storage::Readable;
use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Sandbox, in_repository, usage};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo words\n\nfour, after an empty line\n");
    sandbox
}

/// Every vector of a file.
fn vectors(sandbox: &Sandbox, name: &str) -> Vec<(String, Vec<f32>)> {
    let mut all = Vec::new();
    read_vectors(
        &Readable::file(&sandbox.path(name)).unwrap(),
        &mut |vector| {
            all.push((vector.column.to_owned(), vector.values.to_vec()));
            Ok(())
        },
    )
    .unwrap();
    all
}

fn embed(sandbox: &Sandbox, line: &str) {
    let run = sandbox.embed(&format!("texts.txt {line}"));
    assert_eq!(run.code, Some(0), "{run}");
}

#[test]
fn steps_of_what_range_must_be_said() {
    assert_snapshot!(sandbox().embed("texts.txt -o out.npy --dtype int8"));
}

#[test]
fn a_type_that_the_format_does_not_hold() {
    assert_snapshot!(sandbox().embed("texts.txt -o out.pgcopy --dtype int8"));
}

#[test]
fn an_option_that_means_nothing_in_the_format() {
    assert_snapshot!(sandbox().embed("texts.txt -o out.npy --dimensions 8,16"));
}

#[test]
fn every_format_holds_the_same_vectors() {
    let sandbox = sandbox();
    embed(&sandbox, "-o out.npy");
    let expected: Vec<Vec<f32>> = vectors(&sandbox, "out.npy")
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!((expected.len(), expected[0].len()), (4, 48));
    for ending in [
        "parquet",
        "arrow",
        "arrows",
        "jsonl",
        "jsonl.gz",
        "jsonl.zst",
        "pgcopy",
        "fbin",
    ] {
        embed(&sandbox, &format!("-o out.{ending}"));
        let read = vectors(&sandbox, &format!("out.{ending}")).into_iter();
        assert!(read.map(|it| it.1).eq(expected.iter().cloned()), "{ending}");
    }
    let mut rest = Vec::new();
    let gzip = fs::File::open(sandbox.path("out.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(gzip)
        .read_to_end(&mut rest)
        .unwrap();
    assert_eq!(rest, fs::read(sandbox.path("out.jsonl")).unwrap());
}

#[test]
fn arrow_goes_to_standard_output_as_a_stream_and_to_a_file_with_its_provenance() {
    let sandbox = sandbox();
    let output = sandbox
        .embed_command("texts.txt -f arrow -o -")
        .output()
        .unwrap();
    assert!(output.status.success());
    let reader = StreamReader::try_new(Cursor::new(output.stdout), None).unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    embed(&sandbox, "-o out.arrow");
    let file = fs::File::open(sandbox.path("out.arrow")).unwrap();
    let reader = FileReader::try_new(file, None).unwrap();
    let provenance: Value = serde_json::from_str(&reader.custom_metadata()["embedctl"]).unwrap();
    assert_eq!(
        (&provenance["dtype"], &provenance["dimensions"]),
        (&"f32".into(), &48.into())
    );
    assert_eq!(provenance["rows"]["embedded"], 4);
    let own = |batch: &RecordBatch| batch.columns().to_vec();
    let file: Vec<_> = reader.map(|batch| own(&batch.unwrap())).collect();
    assert_eq!(batches.iter().map(own).collect::<Vec<_>>(), file);
}

#[test]
fn all_fields_are_kept_and_none_bears_a_name_of_the_outputs_own() {
    let sandbox = Sandbox::new();
    let record =
        r#"{"text":"a","title":"T","line":8,"embedding_8":1,"chunk":2,"embedding_error":3}"#;
    sandbox.write("all.jsonl", format!("{record}\n").repeat(3));
    for (output, name) in [
        ("out.parquet --embedding-field title", "title"),
        ("out/ --embedding-field title", "title"),
        ("out.parquet --resume --embedding-field title", "title"),
        ("out.pgcopy --embedding-field title", "title"),
        ("out.jsonl --dimensions 8,16", "embedding_8"),
        ("out.npy", "line"),
        ("out.arrow --chunk tokens", "chunk"),
        ("out.arrow --on-error null", "embedding_error"),
    ] {
        let run = sandbox.embed(&format!("all.jsonl --keep * -o {output}"));
        assert_eq!(run.code, Some(2), "{output}: {run}");
        assert!(run.stderr.contains(name), "{output}: {run}");
        assert!(!run.stderr.contains("3 records read"), "{output}: {run}");
    }
    // Jobs that have begun, and no output.
    assert_eq!(
        sandbox.files(),
        ["_out.embedctl", "all.jsonl", "out", "out.parquet.parts"]
    );
}

/// A value that PostgreSQL does not take makes its record a bad one, wherever it stands.
#[test]
fn what_postgresql_refuses_is_a_rejected_record() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "in.jsonl",
        "{\"text\":\"a\",\"j\":1}\n{\"text\":\"b\",\"j\":\"\\u0000\"}\n",
    );
    sandbox.write(
        "ids.jsonl",
        "{\"text\":\"a\",\"id\":\"x\"}\n{\"text\":\"b\",\"id\":\"y\\u0000\"}\n",
    );
    sandbox.write(
        "chunks.jsonl",
        "{\"text\":\"a\"}\n{\"text\":\"b \\u0000\"}\n",
    );
    for (line, field) in [
        ("in.jsonl --keep j:json", "j"),
        ("in.jsonl --keep j:string", "j"),
        ("ids.jsonl", "id"),
        (
            "chunks.jsonl --chunk tokens --chunk-tokens 8 --chunk-text",
            "chunk_text",
        ),
    ] {
        let source = line.split(' ').next().unwrap();
        let said = format!("{source}:2");
        let told = format!("the field `{field}`: it holds a NUL character");
        let run = sandbox.embed(&format!("{line} -o out.pgcopy --force"));
        assert_eq!(run.code, Some(1), "{run}");
        assert!(
            run.stderr.contains(&said) && run.stderr.contains(&told),
            "{run}"
        );
        for (output, on_error) in [
            ("out.pgcopy --force", "skip"),
            ("resumed.pgcopy --resume", "skip"),
            ("out.pgcopy --force", "null"),
        ] {
            let run = sandbox.embed(&format!("{line} --on-error {on_error} -o {output}"));
            assert_eq!(run.code, Some(3), "{line} {on_error}: {run}");
            assert!(
                run.stderr.contains(&said) && run.stderr.contains(&told),
                "{run}"
            );
            let name = output.split(' ').next().unwrap();
            assert_eq!(vectors(&sandbox, name).len(), 1, "{line} {on_error}");
            let made = fs::read_to_string(sandbox.path(&format!("{name}.json"))).unwrap();
            let made: Value = serde_json::from_str(&made).unwrap();
            assert_eq!(
                (&made["rows"]["embedded"], &made["rows"]["rejected"]),
                (&1.into(), &1.into())
            );
        }
        for name in ["resumed.pgcopy", "resumed.pgcopy.json"] {
            fs::remove_file(sandbox.path(name)).unwrap();
        }
    }
}

#[test]
fn vectors_in_steps_give_no_ranges() {
    let sandbox = sandbox();
    embed(&sandbox, "-o calibration.npy");
    for ending in ["jsonl", "parquet"] {
        let line = format!("-o one.{ending} --dtype int8 --calibration calibration.npy");
        embed(&sandbox, &line);
        let line = format!("texts.txt -o two.npy --dtype int8 --calibration one.{ending}");
        let run = sandbox.embed(&line);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("neither a vector of float32"), "{run}");
    }
}

#[test]
fn int8_by_the_ranges_of_vectors_and_of_a_provenance() {
    let sandbox = sandbox();
    embed(&sandbox, "-o calibration.npy");
    embed(
        &sandbox,
        "-o one.arrow --dtype int8 --calibration calibration.npy",
    );
    embed(
        &sandbox,
        "-o one.npy --dtype int8 --calibration calibration.npy",
    );
    embed(
        &sandbox,
        "-o two.arrow --dtype int8 --calibration one.npy.json",
    );
    let read = |name: &str| {
        let file = fs::File::open(sandbox.path(name)).unwrap();
        let batch = FileReader::try_new(file, None)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let list = batch["embedding"].as_fixed_size_list().values().clone();
        list.as_primitive::<Int8Type>().values().to_vec()
    };
    let values = read("one.arrow");
    assert_eq!(values.len(), 4 * 48);
    // Each component's least value is there, and its greatest, but for rounding.
    for component in 0..48 {
        let of_rows = (0..4).map(|row| values[row * 48 + component]);
        assert_eq!(of_rows.clone().min(), Some(-128));
        assert!(of_rows.max() >= Some(126));
    }
    assert_eq!(read("two.arrow"), values);
}

#[test]
fn several_widths_come_from_one_pass_each_as_alone() {
    let sandbox = sandbox();
    for normalize in ["", "--normalize true"] {
        let line =
            format!("-o out.arrow --force --dimensions 8,48,16 --embedding-field v {normalize}");
        embed(&sandbox, &line);
        let file = fs::File::open(sandbox.path("out.arrow")).unwrap();
        let reader = FileReader::try_new(file, None).unwrap();
        let provenance: Value =
            serde_json::from_str(&reader.custom_metadata()["embedctl"]).unwrap();
        assert_eq!(provenance["dimensions"], serde_json::json!([8, 48, 16]));
        let batch = reader.into_iter().next().unwrap().unwrap();
        for width in [8, 48, 16] {
            embed(
                &sandbox,
                &format!("-o alone.npy --force --dimensions {width} {normalize}"),
            );
            let alone = vectors(&sandbox, "alone.npy")
                .into_iter()
                .flat_map(|it| it.1);
            let column = batch[format!("v_{width}").as_str()]
                .as_fixed_size_list()
                .values()
                .clone();
            let values = column.as_primitive::<Float32Type>().values();
            assert!(values.iter().copied().eq(alone), "{width} {normalize}");
        }
    }
}

/// Before the model is open nothing is known of its vectors' form, as in a dry run.
#[test]
fn the_model_decides_whether_an_option_about_sparse_vectors_has_a_meaning() {
    let sandbox = sandbox();
    let model = in_repository("fixtures/sparse/bert/model");
    let run = |line: &str| sandbox.run(&format!("embed texts.txt -m {} {line}", model.display()));
    for line in ["-o out.npz", "-o out.jsonl --sparse-tokens"] {
        let run = run(&format!("{line} --dry-run"));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let other = run("-o out.parquet --vectors multi");
    assert_eq!(other.code, Some(2), "{other}");
    assert!(other.stderr.contains("--vectors multi"), "{other}");
    assert_eq!(sandbox.files(), ["texts.txt"]);
}

#[test]
fn a_complete_file_of_steps_is_complete_and_its_plan_can_be_seen() {
    let sandbox = sandbox();
    embed(&sandbox, "-o ranges.npy");
    let line = "texts.txt -o out.npy --dtype int8 --calibration ranges.npy --resume";
    assert_eq!(sandbox.embed(line).code, Some(0));
    let again = sandbox.embed(line);
    assert_eq!(again.code, Some(0), "{again}");
    assert!(again.stderr.contains("nothing to do"), "{again}");
    let plan = sandbox.embed(&format!("{line} --dry-run"));
    assert_eq!(plan.code, Some(0), "{plan}");
}

#[test]
fn a_folder_that_was_refused_can_be_written_with_other_options() {
    let sandbox = sandbox();
    let refused = sandbox.embed("texts.txt -o out/ -f i8bin --dtype binary --on-error null");
    assert_eq!(refused.code, Some(2), "{refused}");
    embed(&sandbox, "-o out/");
}

#[test]
fn a_matrix_names_the_place_of_each_row_once() {
    let sandbox = sandbox();
    for (line, first) in [
        (
            "--source-columns",
            r#"{"row":0,"id":"1","line":1,"file":"texts.txt"}"#,
        ),
        (
            "--source-columns --id-field none",
            r#"{"row":0,"line":1,"file":"texts.txt"}"#,
        ),
        ("", r#"{"row":0,"id":"1","line":1}"#),
    ] {
        embed(&sandbox, &format!("-o out.npy --force {line}"));
        let rows = fs::read_to_string(sandbox.path("out.npy.rows.jsonl")).unwrap();
        assert_eq!(rows.lines().next(), Some(first), "{line}");
    }
}

/// Every column of Parquet has an encoder of its own, until its row group ends.
#[test]
#[cfg(target_os = "linux")]
fn a_table_of_many_columns_fits_into_memory() {
    const COLUMNS: usize = 20_000;
    const MOST_MEBIBYTES: libc::c_long = 400;
    let sandbox = Sandbox::new();
    let columns: String = (0..COLUMNS).map(|n| format!(", \"c{n}\": {n}")).collect();
    let line = |id: usize| format!("{{\"id\": {id}, \"text\": \"text {id}\"{columns}}}\n");
    sandbox.write("in.jsonl", (0..3).map(line).collect::<String>());
    let mut command = sandbox.embed_command("in.jsonl --keep * -o out.parquet");
    let child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mebibytes = usage(child).ru_maxrss >> 10;
    assert!(mebibytes < MOST_MEBIBYTES, "{mebibytes} MiB");
}

/// Parts are Parquet unless an option says otherwise, in every type.
#[test]
fn a_folder_without_a_format_takes_every_type() {
    let sandbox = sandbox();
    embed(&sandbox, "-o calibration.npy");
    for dtype in [
        "f16",
        "int8 --calibration calibration.npy",
        "uint8 --calibration calibration.npy",
        "binary",
    ] {
        let folder = dtype.split(' ').next().unwrap();
        embed(&sandbox, &format!("-o {folder}/ --dtype {dtype}"));
        let part = format!("{folder}/part-00001-00000.parquet");
        assert_eq!(vectors(&sandbox, &part).len(), 4, "{dtype}");
    }
}
