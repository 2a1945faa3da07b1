//! Vectors of several kinds from one pass.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::cases::{graph_engines, stderr};
use crate::{CASES, assert_alike, case, embed, objects, program, rows, support};

/// Every set of several kinds: each column is that of a run of this kind alone, bit by bit.
#[test]
fn several_kinds_in_one_pass_are_those_of_runs_of_their_own() {
    let alone = |name: &str, kind: &str| rows(name, &["--vectors", kind]);
    for name in CASES {
        let columns = [
            ("embedding", alone(name, "dense")),
            ("embedding_sparse", alone(name, "sparse")),
            ("embedding_multi", alone(name, "multi")),
        ];
        for (asked, places) in [
            ("dense,sparse", &[0, 1][..]),
            ("multi,dense", &[0, 2]),
            ("sparse,multi", &[1, 2]),
            ("multi,sparse,dense", &[0, 1, 2]),
        ] {
            let options: [&[&str]; 5] = [
                &[],
                &["--batch-size", "1"],
                &["--window", "2", "--threads", "1"],
                &["--resume", "--part-rows", "3"],
                &["--precision", "int8", "--min-cosine", "0.2"],
            ];
            for more in options {
                let found = objects(name, &[&["--vectors", asked][..], more].concat());
                let place = format!("{name} {asked} {more:?}");
                assert_eq!(found.len(), columns[0].1.len(), "{place}");
                for (row, found) in found.iter().enumerate() {
                    let found = found.as_object().unwrap();
                    assert_eq!(found.len(), places.len() + 1, "{place}");
                    for &column in places {
                        let (key, alone) = &columns[column];
                        if !more.contains(&"int8") {
                            assert_eq!(found[*key], alone[row], "{place}, row {row}, {key}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn graphs_built_from_the_checkpoint_give_each_kind() {
    for engine in graph_engines("graphs_built_from_the_checkpoint_give_each_kind") {
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        for name in CASES {
            for (asked, keys) in [
                ("dense", &[("dense", "embedding")][..]),
                ("sparse", &[("sparse", "embedding")]),
                ("multi", &[("multi", "embedding")]),
                (
                    "dense,sparse,multi",
                    &[
                        ("dense", "embedding"),
                        ("sparse", "embedding_sparse"),
                        ("multi", "embedding_multi"),
                    ],
                ),
            ] {
                let asked = ["--vectors", asked];
                let native = objects(name, &asked);
                let found = objects(name, &[&asked[..], &engine[..]].concat());
                assert_eq!(found.len(), native.len());
                for (row, (found, native)) in found.iter().zip(&native).enumerate() {
                    for (kind, key) in keys {
                        let place = format!("{name} {asked:?} {engine:?}, row {row}");
                        assert_alike(kind, &found[key], &native[key], &place);
                    }
                }
            }
        }
    }
}

#[test]
fn shards_of_several_kinds_are_one_output() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("parts").join("");
    for shard in ["1/2", "2/2"] {
        let more = [
            "-f",
            "jsonl",
            "--vectors",
            "dense,sparse,multi",
            "--shard",
            shard,
        ];
        let output = embed("bert", &out, &more);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let mut parts: Vec<PathBuf> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    parts.sort();
    assert!(parts.len() > 1, "{parts:?}");
    let lines: Vec<String> = parts
        .iter()
        .flat_map(|part| {
            fs::read_to_string(part)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    let found: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(found, objects("bert", &["--vectors", "dense,sparse,multi"]));
    // Vectors of fewer kinds do not mix with these.
    let more = [
        "-f",
        "jsonl",
        "--vectors",
        "dense,sparse",
        "--shard",
        "1/2",
        "--resume",
    ];
    let fewer = embed("bert", &out, &more);
    assert_eq!(fewer.status.code(), Some(2), "{}", stderr(&fewer));
}

#[test]
fn a_record_without_vectors_has_none_of_any_kind() {
    let folder = tempfile::tempdir().unwrap();
    let (records, model) = (folder.path().join("in.jsonl"), case("bert").join("model"));
    fs::write(
        &records,
        "{\"text\":\"one\"}\n{\"text\":null}\n{\"text\":\"two\"}\n",
    )
    .unwrap();
    for job in [&[][..], &["--resume", "--part-rows", "1"]] {
        let out = folder.path().join(format!("out{}.jsonl", job.len()));
        let mut command = program();
        command.args([
            "embed",
            "-q",
            "--vectors",
            "dense,sparse,multi",
            "--on-error",
            "null",
            "-m",
        ]);
        command
            .arg(&model)
            .arg(&records)
            .arg("-o")
            .arg(&out)
            .args(job);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let text = fs::read_to_string(&out).unwrap();
        let found: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(found.len(), 3);
        for (row, found) in found.iter().enumerate() {
            for key in ["embedding", "embedding_sparse", "embedding_multi"] {
                assert_eq!(found[key].is_null(), row == 1, "row {row}, {key}: {found}");
            }
        }
    }
}

#[test]
fn options_of_several_kinds_act_on_theirs() {
    let of = |kinds: &str, more: &[&str]| objects("bert", &[&["--vectors", kinds], more].concat());
    let all = of(
        "dense,sparse,multi",
        &[
            "--max-active-dims",
            "2",
            "--pool-factor",
            "2",
            "--dimensions",
            "8",
        ],
    );
    let sparse = of("sparse", &["--max-active-dims", "2"]);
    let multi = of("multi", &["--pool-factor", "2"]);
    let dense = of("dense", &["--dimensions", "8"]);
    for (row, all) in all.iter().enumerate() {
        assert_eq!(all["embedding"], dense[row]["embedding"], "row {row}");
        assert_eq!(
            all["embedding_sparse"], sparse[row]["embedding"],
            "row {row}"
        );
        assert_eq!(all["embedding_multi"], multi[row]["embedding"], "row {row}");
    }
    let named = of(
        "dense,sparse",
        &["--embedding-field", "v", "--sparse-tokens"],
    );
    assert!(named[0]["v"].is_array() && named[0]["v_sparse"].is_object());
    assert!(named[0]["v_sparse"].get("indices").is_none());
    for (more, words) in [
        (
            &["--max-active-dims", "2"][..],
            "--max-active-dims is about sparse vectors",
        ),
        (
            &["--sparse-tokens"],
            "--sparse-tokens is about sparse vectors",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let output = embed(
            "bert",
            &out,
            &[&["--vectors", "dense,multi"], more].concat(),
        );
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

/// The columns of every kind are shown, with the settings of the run.
#[test]
fn a_file_of_several_kinds_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["parquet", "arrow", "jsonl"] {
        let out = folder.path().join(format!("out.{ending}"));
        let made = embed("bert", &out, &["--vectors", "dense,sparse,multi"]);
        assert!(made.status.success(), "{}", stderr(&made));
        let seen = program().arg("inspect").arg(&out).output().unwrap();
        assert!(seen.status.success(), "{ending}: {}", stderr(&seen));
        let said = String::from_utf8_lossy(&seen.stdout).into_owned();
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "embedding 8 vectors of 32 dimensions",
            "embedding_sparse 8 vectors of 320 dimensions",
            "embedding_multi 193 vectors of 16 dimensions",
            "dense, sparse, multi vectors in one pass",
            "as written",
        ] {
            assert!(words.contains(expected), "{ending}: {said}");
        }
    }
}

#[test]
fn several_kinds_are_refused_where_they_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    for (ending, more, words) in [
        (
            "npy",
            &[][..],
            "npy output holds one kind of vectors, but several are asked for",
        ),
        ("npz", &[], "choose -f parquet, -f arrow"),
        ("pgcopy", &[], "-f jsonl"),
        ("fbin", &[], "or one kind"),
        (
            "jsonl",
            &["--chunk", "sentences", "--late"],
            "the model gives vectors of several kinds",
        ),
    ] {
        let out = folder.path().join(format!("out.{ending}"));
        let output = embed(
            "bert",
            &out,
            &[&["--vectors", "dense,sparse"], more].concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{ending} {more:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(!out.exists());
    }
    // Logits are no states of tokens.
    let mut command = program();
    command.args(["embed", "-q", "--vectors", "dense,sparse", "-m"]);
    command.arg("fixtures/sparse/masked-model-without-modules/model");
    command.arg(case("bert").join("records.jsonl"));
    command.arg("-o").arg(folder.path().join("out.jsonl"));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("made of logits") && stderr(&output).contains("a run of its own"),
        "{}",
        stderr(&output)
    );
}

/// The numbers of a value, as float32.
fn numbers(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Object(parts) => ["indices", "values"]
            .iter()
            .flat_map(|it| numbers(&parts[*it]))
            .collect(),
        Value::Number(number) => vec![number.as_f64().unwrap() as f32],
        other => panic!("{other}"),
    }
}

/// Other programs read each column of Parquet and Arrow as JSONL has it.
#[test]
fn other_programs_read_columns_of_several_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let expected = objects("bert", &["--vectors", "dense,sparse,multi"]);
    for (module, ending, rows) in [
        (
            "pyarrow",
            "parquet",
            "import pyarrow.parquet as p; rows = p.read_table(path).to_pylist()",
        ),
        (
            "pyarrow",
            "arrow",
            "import pyarrow.feather as p; rows = p.read_table(path).to_pylist()",
        ),
        (
            "polars",
            "parquet",
            "import polars as p; rows = p.read_parquet(path).to_dicts()",
        ),
        (
            "duckdb",
            "parquet",
            "import duckdb; found = duckdb.sql(f\"select * from read_parquet('{path}')\"); \
             rows = [dict(zip(found.columns, row)) for row in found.fetchall()]",
        ),
    ] {
        let test = "other_programs_read_columns_of_several_kinds";
        let Some(python) = support::python(test, &[module]) else {
            continue;
        };
        let out = folder.path().join(format!("{module}.{ending}"));
        let made = embed("bert", &out, &["--vectors", "dense,sparse,multi"]);
        assert!(made.status.success(), "{}", stderr(&made));
        let script = format!(
            "import json, sys\npath = sys.argv[1]\n{rows}\n\
             json.dump(rows, open(path + '.read', 'w'), default=lambda it: it.tolist())"
        );
        let read = Command::new(python)
            .args(["-c", &script])
            .arg(&out)
            .output()
            .unwrap();
        assert!(read.status.success(), "{module}: {}", stderr(&read));
        let read = fs::read_to_string(out.with_extension(format!("{ending}.read"))).unwrap();
        let read: Vec<Value> = serde_json::from_str(&read).unwrap();
        assert_eq!(read.len(), expected.len(), "{module}");
        for (row, (read, expected)) in read.iter().zip(&expected).enumerate() {
            assert_eq!(read["id"], expected["id"]);
            for key in ["embedding", "embedding_sparse", "embedding_multi"] {
                assert_eq!(
                    numbers(&read[key]),
                    numbers(&expected[key]),
                    "{module}, row {row}, {key}"
                );
            }
        }
    }
}
