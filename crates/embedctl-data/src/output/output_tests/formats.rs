//! What is written reads back equal, with the readers that this crate itself depends on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::parquet::read_parquet;
use crate::output::proof::{Proof, prove};
use crate::output::tests::support::*;
use crate::output::{
    ChosenVectors, Compression, Destination, Finish, Forms, OutputFormat, OutputOptions, RowForm,
    RunFiles, RunOutput, TemporaryVectors, Terms, create, provenance as provenance_of,
    read_vectors,
};
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use embedctl_common::error::ErrorKind;
use embedctl_records::json_rows::JsonColumns;
use embedctl_records::quantize::Dtype;
use embedctl_records::record::{RowVectors, Rows};
use embedctl_storage::Readable;
use embedctl_vectors::Numbers;

const JSONL: OutputFormat = OutputFormat::Jsonl(Compression::None);

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(super) fn write_kept(path: &Path, first: usize) {
    let schema = kept_batch().schema();
    let mut writer = create(
        &options(path).into(),
        &Forms::dense(&[2]),
        names(),
        &schema,
        &RunFiles::new(),
    )
    .unwrap();
    writer.write(rows(kept_batch(), first, 2)).unwrap();
    writer
        .write(rows(kept_batch().slice(0, 0), first + 3, 2))
        .unwrap();
    writer
        .write(rows(kept_batch().slice(1, 2), first + 3, 2))
        .unwrap();
    finish(writer, schema).unwrap();
}

/// A format that is added is tested here without another word.
#[test]
fn every_format_is_complete_and_reads_back_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let mut endings: Vec<&str> = Vec::new();
    for format in OutputFormat::all() {
        let facts = format.facts();
        endings.extend(facts.endings);
        assert!(
            !facts.about.is_empty() && !facts.hashes.is_empty(),
            "{format}"
        );
        let path = at(&folder, &format!("out.{format}"));
        // Without a calibration.
        let dtype = facts.dtypes.iter().find(|dtype| !dtype.needs_ranges());
        let is_sparse = facts.holds_sparse_alone();
        let options = OutputOptions {
            dtype: dtype.copied(),
            ..options(&path)
        };
        let forms = match is_sparse {
            true => RowForm::Sparse(Terms::new(8)).into(),
            false => Forms::dense(&[8]),
        };
        let mut writer = create(
            &options.clone().into(),
            &forms,
            names(),
            &id_schema(),
            &RunFiles::new(),
        )
        .unwrap();
        writer
            .write(match is_sparse {
                true => sparse_rows(0, 5, 8),
                false => id_rows(0, 5, 8),
            })
            .unwrap();
        finish(writer, id_schema()).unwrap();
        let file = Readable::file(&path).unwrap();
        let mut found = Vec::new();
        read_vectors(&file, &mut |vector| {
            found.extend_from_slice(vector.values);
            Ok(())
        })
        .unwrap();
        match dtype {
            Some(Dtype::F32) => {
                let expected: Vec<f32> = (0..5).flat_map(|row| vector(row, 8)).collect();
                assert_eq!(found, expected, "{format}");
            }
            _ => assert_eq!(found.len(), 5, "{format}: a byte for eight signs"),
        }
        let made = provenance_of(&file, format).unwrap().unwrap();
        let proof = prove(&file, format, &made).unwrap();
        assert_eq!(proof, Proof::Whole, "{format}");
        let hashes = made["sha256"].as_object().unwrap().keys();
        let mut hashes: Vec<&str> = hashes.map(String::as_str).collect();
        let mut named = facts.hashes.to_vec();
        hashes.sort_unstable();
        named.sort_unstable();
        assert_eq!(hashes, named, "{format}");
    }
    let all = endings.len();
    endings.sort_unstable();
    endings.dedup();
    assert_eq!(endings.len(), all, "an ending names two formats");
}

/// Each format that holds sparse vectors reads them back, and what is null stays so.
#[test]
fn sparse_vectors_are_read_back_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let all = OutputFormat::all()
        .filter(|format| format.facts().holds(&RowForm::Sparse(Terms::default())));
    for format in all {
        let path = at(&folder, &format!("out.{format}"));
        let output = RunOutput {
            nullable: !format.is_matrix(),
            ..options(&path).into()
        };
        let forms = RowForm::Sparse(Terms::new(8)).into();
        let mut writer = create(&output, &forms, names(), &id_schema(), &RunFiles::new()).unwrap();
        let missing = NullBuffer::from(vec![true, false, true]);
        writer
            .write(Rows {
                missing: Some(missing).filter(|_| !format.is_matrix()),
                ..sparse_rows(0, 3, 8)
            })
            .unwrap();
        let made = json!({"dimensions": 8});
        let end = Finish {
            schema: id_schema(),
            provenance: &made,
            rejects: None,
        };
        writer.finish(end).unwrap();
        let file = Readable::file(&path).unwrap();
        let mut found = Vec::new();
        read_vectors(&file, &mut |vector| {
            found.push(vector.values.to_vec());
            Ok(())
        })
        .unwrap();
        let rows = match format.is_matrix() {
            true => vec![0, 1, 2],
            false => vec![0, 2],
        };
        let expected: Vec<Vec<f32>> = rows.into_iter().map(|row| vector(row, 8)).collect();
        assert_eq!(found, expected, "{format}");
    }
}

/// Vectors of several widths are read back row by row, in whichever order a format has them.
#[test]
fn rows_of_several_widths_are_read_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    for format in OutputFormat::all().filter(|format| !format.is_matrix()) {
        for dtype in [Dtype::F32, Dtype::F16] {
            let path = at(&folder, &format!("out.{format}"));
            let options = OutputOptions {
                dtype: Some(dtype),
                ..forced(&path)
            };
            let forms = Forms::dense(&[3, 5]);
            let mut writer = create(
                &options.clone().into(),
                &forms,
                names(),
                &id_schema(),
                &RunFiles::new(),
            )
            .unwrap();
            for first in [0, 4] {
                writer.write(id_rows(first, 4, 8)).unwrap();
            }
            finish(writer, id_schema()).unwrap();
            let file = Readable::file(&path).unwrap();
            let kinds = RunOutput::from(options).names(&forms, 1).unwrap().vectors;
            let mut temporary = TemporaryVectors::default();
            let mut chosen = ChosenVectors::open(&file, format, &kinds, &mut temporary).unwrap();
            assert_eq!(chosen.rows(), 8, "{format}");
            let as_written = |value: f32| match dtype {
                Dtype::F16 => half::f16::from_f32(value).to_f32(),
                _ => value,
            };
            let mut found = Vec::new();
            chosen
                .read(&[1, 6], &mut |index, row| {
                    found.push((index, row.first().values().to_vec()));
                })
                .unwrap();
            let expected = [1, 6].map(|row| vector(row, 8).into_iter().map(as_written).collect());
            let expected: Vec<(usize, Vec<f32>)> = (0..).zip(expected).collect();
            assert_eq!(found, expected, "{format} {dtype}");
        }
    }
}

/// Rows may have vectors and nothing else.
#[test]
fn rows_without_columns_of_records_are_written_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = Arc::new(Schema::empty());
    let mut written = 0;
    for format in OutputFormat::all() {
        let kinds = RowForm::of_vectors().map(|form| form.of_width(8));
        for form in kinds.into_iter().chain([RowForm::Scores(8)]) {
            let path = at(&folder, &format!("out.{format}"));
            let dtypes = format.facts().dtypes;
            let options = OutputOptions {
                dtype: dtypes.iter().find(|dtype| !dtype.needs_ranges()).copied(),
                ..forced(&path)
            };
            let forms = Forms::from(form.clone());
            if options.check_forms(&forms).is_err() {
                continue;
            }
            let mut multi = Numbers::of_vectors(8);
            (0..3).for_each(|row| multi.push_values(&vector(row, 16)));
            let vectors = match form {
                RowForm::Dense(_) | RowForm::Scores(_) => id_rows(0, 3, 8).vectors,
                RowForm::Sparse(_) => sparse_rows(0, 3, 8).vectors,
                RowForm::Tokens(_) => multi.into(),
            };
            let rows_of = RecordBatchOptions::new().with_row_count(Some(3));
            let columns =
                RecordBatch::try_new_with_options(Arc::clone(&nothing), Vec::new(), &rows_of);
            let mut writer = create(
                &options.clone().into(),
                &forms,
                names(),
                &nothing,
                &RunFiles::new(),
            )
            .unwrap();
            writer
                .write(Rows {
                    columns: columns.unwrap(),
                    vectors,
                    ..id_rows(0, 3, 8)
                })
                .unwrap();
            let end = Finish {
                schema: Arc::clone(&nothing),
                provenance: &json!({"dimensions": 8}),
                rejects: None,
            };
            writer.finish(end).unwrap();
            written += 1;
            let mut found = 0;
            let file = Readable::file(&path).unwrap();
            read_vectors(&file, &mut |_| {
                found += 1;
                Ok(())
            })
            .unwrap();
            let is_multi = forms.has(|form| !form.is_one_per_row());
            let expected = if is_multi { 6 } else { 3 };
            assert_eq!(found, expected, "{format} {form:?}");
            if format == JSONL {
                let keys = json_lines(&path).into_iter().map(|line| {
                    let keys = line.as_object().unwrap().keys().cloned();
                    keys.collect::<Vec<_>>()
                });
                let name = match form {
                    RowForm::Scores(_) => "scores",
                    _ => "embedding",
                };
                assert!(keys.eq(vec![[name]; 3]), "{form:?}");
            }
            if format.is_matrix() {
                let lines = json_lines(&at(&folder, &format!("out.{format}.rows.jsonl")));
                assert_eq!(lines[1], json!({"row": 1, "line": 2, "file": "two.jsonl"}));
            }
        }
    }
    assert!(written > 20, "{written}");
}

#[test]
fn jsonl_keeps_every_type_and_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.jsonl");
    write_kept(&path, 0);
    let lines = json_lines(&path);
    assert_eq!(lines.len(), 5);
    let first = fs::read_to_string(&path).unwrap();
    assert_eq!(
        first.lines().next().unwrap(),
        r#"{"id":"ä\"1\"","a.b":"zwei\nlines","int":-9007199254740993,"float":0.1,"bool":true,"json":{"x": [1, null]},"embedding":[0.0,0.84147096]}"#
    );
    assert_eq!(lines[1]["id"], Value::Null);
    assert_eq!(lines[2]["json"], json!("日本\n"));
    assert_eq!(listing(folder.path()), ["out.jsonl", "out.jsonl.json"]);
    let sidecar = fs::read_to_string(at(&folder, "out.jsonl.json")).unwrap();
    let mut sidecar: Value = serde_json::from_str(&sidecar).unwrap();
    let hashes = sidecar.as_object_mut().unwrap().remove("sha256").unwrap();
    assert_eq!(hashes["lines"].as_str().unwrap().len(), 64);
    assert_eq!(sidecar, written());
}

#[test]
fn jsonl_numbers_read_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.ndjson");
    let values = [
        f32::MIN_POSITIVE,
        f32::MAX,
        -0.0,
        1e-45,
        0.1,
        16_777_217.0,
        1.0 / 3.0,
        -1e-7,
    ];
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[8]),
        names(),
        &id_schema(),
        &RunFiles::new(),
    )
    .unwrap();
    writer
        .write(Rows {
            vectors: RowVectors::in_full(8, values.to_vec()),
            ..id_rows(0, 1, 8)
        })
        .unwrap();
    finish(writer, id_schema()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let list = text.split_once('[').unwrap().1.split_once(']').unwrap().0;
    let read: Vec<u32> = list
        .split(',')
        .map(|number| number.parse::<f32>().unwrap().to_bits())
        .collect();
    assert_eq!(read, values.map(f32::to_bits));
}

#[test]
fn npy_holds_the_matrix_and_its_rows_stand_beside() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.npy");
    write_kept(&path, 7);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 128 + 5 * 2 * 4);
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', "));
    let header = std::str::from_utf8(&bytes[10..128]).unwrap();
    assert!(header.contains("'shape': (5, 2)") && header.ends_with(" \n"));
    let values: Vec<f32> = bytes[128..]
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let expected: Vec<f32> = (7..12).flat_map(|row| vector(row, 2)).collect();
    assert_eq!(values, expected);

    assert_eq!(
        listing(folder.path()),
        ["out.npy", "out.npy.json", "out.npy.rows.jsonl"]
    );
    let lines = json_lines(&at(&folder, "out.npy.rows.jsonl"));
    assert_eq!(lines.len(), 5);
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "row", "id", "line", "file", "a.b", "int", "float", "bool", "json"
        ]
    );
    for (row, line) in lines.iter().enumerate() {
        assert_eq!(line["row"], row);
        assert_eq!(line["line"], row + 8);
        assert_eq!(line["file"], names()[(row + 7) % 2]);
    }
    assert_eq!(lines[0]["json"], json!({"x": [1, null]}));
}

#[test]
fn one_source_needs_no_file_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "out.npy");
    let mut writer = create(
        &options(&path).into(),
        &Forms::dense(&[2]),
        ["-".to_string()].into(),
        &id_schema(),
        &RunFiles::new(),
    )
    .unwrap();
    writer.write(id_rows(0, 1, 2)).unwrap();
    finish(writer, id_schema()).unwrap();
    assert_eq!(
        fs::read_to_string(at(&folder, "out.npy.rows.jsonl")).unwrap(),
        "{\"row\":0,\"id\":\"0\",\"line\":1}\n"
    );
}

#[test]
fn no_rows_make_a_valid_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.parquet", "out.arrow", "out.npy", "out.jsonl"] {
        let schema = kept_batch().schema();
        let writer = create(
            &options(&at(&folder, name)).into(),
            &Forms::dense(&[384]),
            names(),
            &schema,
            &RunFiles::new(),
        )
        .unwrap();
        finish(writer, schema).unwrap();
    }
    let (batch, _) = read_parquet(&at(&folder, "out.parquet"));
    assert_eq!((batch.num_rows(), batch.num_columns()), (0, 7));
    assert_eq!(batch.column(2).data_type(), &DataType::Int64);
    let npy = fs::read(at(&folder, "out.npy")).unwrap();
    assert_eq!(npy.len(), 128);
    assert!(
        std::str::from_utf8(&npy[10..])
            .unwrap()
            .contains("'shape': (0, 384)")
    );
    assert_eq!(fs::read(at(&folder, "out.npy.rows.jsonl")).unwrap(), b"");
    assert_eq!(fs::read(at(&folder, "out.jsonl")).unwrap(), b"");
}

#[test]
fn names_that_are_taken_are_refused_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let schema = |names: &[&str]| {
        let field = |name: &&str| Field::new(*name, DataType::Utf8, true);
        Schema::new(names.iter().map(field).collect::<Vec<_>>())
    };
    let refused = |file: &str, fields: &[&str], sources: usize| {
        let sources = vec![String::new(); sources].into();
        let result = create(
            &options(&at(&folder, file)).into(),
            &Forms::dense(&[2]),
            sources,
            &schema(fields),
            &RunFiles::new(),
        );
        result.is_err_and(|error| {
            error.kind() == ErrorKind::Usage && error.to_string().contains("keep")
        })
    };
    assert!(refused("o.parquet", &["id", "embedding"], 1));
    assert!(refused("o.npy", &["id", "line"], 1));
    assert!(refused("o.npy", &["id", "file"], 2));
    assert!(!refused("o.npy", &["id", "file", "embedding"], 1));
    assert!(!refused("o.parquet", &["id", "line", "row", "file"], 2));
    assert!(refused("o.parquet", &["id", "a", "a"], 1));
    assert_eq!(listing(folder.path()), Vec::<String>::new());
}

/// The columns of every kind and width have names of their own, and none of them is a record's.
#[test]
fn columns_of_every_kind_and_width_take_their_names() {
    let several = |widths: &[usize]| {
        let beside = [RowForm::Sparse(Terms::new(4)), RowForm::Tokens(4)];
        let dense = RowForm::Dense(widths.to_vec());
        Forms::new([vec![dense], beside.to_vec()].concat()).unwrap()
    };
    let named = || OutputOptions {
        embedding_field: Some("vec".into()),
        ..OutputOptions::default()
    };
    let plain = OutputOptions::default;
    type Case<'a> = (OutputOptions, Forms, &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        (
            plain(),
            Forms::dense(&[4]),
            &["embedding"],
            &["embedding_sparse", "embedding_4", "vec"],
        ),
        (named(), Forms::dense(&[4]), &["vec"], &["embedding"]),
        (
            plain(),
            Forms::dense(&[2, 4]),
            &["embedding_2", "embedding_4"],
            &["embedding"],
        ),
        (
            plain(),
            several(&[2, 4]),
            &[
                "embedding_2",
                "embedding_4",
                "embedding_sparse",
                "embedding_multi",
            ],
            &["embedding"],
        ),
        (
            named(),
            several(&[4]),
            &["vec", "vec_sparse", "vec_multi"],
            &["embedding", "embedding_sparse", "embedding_multi"],
        ),
        (
            plain(),
            RowForm::Scores(1).into(),
            &["score"],
            &["embedding", "scores"],
        ),
    ];
    for (options, forms, taken, free) in cases {
        for format in [
            JSONL,
            OutputFormat::Parquet,
            OutputFormat::Arrow,
            OutputFormat::Arrows,
        ] {
            let output = RunOutput::from(OutputOptions {
                format: Some(format),
                ..options.clone()
            });
            for (names, is_free) in [(taken, false), (free, true)] {
                for name in names {
                    let field = Field::new(*name, DataType::Utf8, true);
                    let checked = output.check_names(&forms, &Schema::new(vec![field]), 1);
                    let said = checked.map_err(|error| error.to_string());
                    assert_eq!(said.is_ok(), is_free, "{format} {forms:?} {name}: {said:?}");
                }
            }
        }
    }
    let same = RunOutput::from(OutputOptions {
        format: Some(JSONL),
        ..OutputOptions::default()
    });
    let twice = Forms::dense(&[4, 4]);
    assert!(same.check_names(&twice, &Schema::empty(), 1).is_err());
}

#[test]
fn rows_that_do_not_add_up_are_a_bug() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["o.parquet", "o.arrow", "o.arrows", "o.npy", "o.jsonl"] {
        let mut writer = writer(&options(&at(&folder, name))).unwrap();
        let mut short = id_rows(0, 3, 2);
        short.vectors.parts_mut()[0].values_mut().pop();
        assert_eq!(writer.write(short).unwrap_err().kind(), ErrorKind::Internal);
    }
}

#[test]
fn the_format_comes_from_f_or_the_ending() {
    let format = |destination, format| {
        let options = OutputOptions {
            format,
            ..OutputOptions::new(destination)
        };
        options.resolved_format()
    };
    let path = |path: &str| Destination::Path(path.into());
    for (name, expected) in [
        ("a.parquet", OutputFormat::Parquet),
        ("a.b/c.NPY", OutputFormat::Npy),
        ("a.jsonl", JSONL),
        ("a.ndjson", JSONL),
        ("a.jsonl.GZ", OutputFormat::Jsonl(Compression::Gzip)),
        ("a.ndjson.zst", OutputFormat::Jsonl(Compression::Zstd)),
        ("a.arrow", OutputFormat::Arrow),
        ("a.feather", OutputFormat::Arrow),
        ("a.arrows", OutputFormat::Arrows),
    ] {
        assert_eq!(format(path(name), None).unwrap(), expected);
        assert_eq!(format(path("a.csv"), Some(expected)).unwrap(), expected);
    }
    for (name, expected) in [
        ("a.jsonl.gz", Compression::Gzip),
        ("a.ZST", Compression::Zstd),
    ] {
        let found = format(path(name), Some(JSONL)).unwrap();
        assert_eq!(found, OutputFormat::Jsonl(expected), "{name}");
    }
    assert_eq!(format(Destination::Stdout, None).unwrap(), JSONL);
    let stream = format(Destination::Stdout, Some(OutputFormat::Arrow));
    assert_eq!(stream.unwrap(), OutputFormat::Arrows);
    for name in [
        "out",
        "out.csv",
        "out.parquet/x",
        ".npy",
        ".jsonl.gz",
        "out.gz",
    ] {
        let message = format(path(name), None).unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains(" -f"),
            "{message}"
        );
    }
}

#[test]
fn every_type_and_its_nulls_are_written_in_json() {
    let batch = kept_batch();
    let mut columns = JsonColumns::new(&batch).unwrap();
    let mut row = |row: usize| {
        let mut out = Vec::new();
        for column in 0..columns.count() {
            if column > 0 {
                out.push(b' ');
            }
            columns.write(column, row, &mut out);
        }
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        row(0),
        r#""id":"ä\"1\"" "a.b":"zwei\nlines" "int":-9007199254740993 "float":0.1 "bool":true "json":{"x": [1, null]}"#
    );
    assert_eq!(
        row(1),
        r#""id":null "a.b":null "int":null "float":null "bool":null "json":null"#
    );
    assert_eq!(
        row(2),
        r#""id":"" "a.b":"" "int":0 "float":null "bool":false "json":"日本\n""#
    );
}
