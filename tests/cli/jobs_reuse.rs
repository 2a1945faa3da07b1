//! `embedctl embed --reuse`: vectors of an earlier output in place of new ones.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::jobs::{code, json};
use crate::sandbox::{Run, SMALL_MODEL, Sandbox, copy_folder, in_repository};
use crate::support;

/// Lines `from` to `to`; some are equal.
fn lines(from: usize, to: usize) -> String {
    (from..to)
        .map(|n| format!("{{\"id\": {n}, \"text\": \"text number {}\"}}\n", n % 50))
        .collect()
}

fn rows(sandbox: &Sandbox, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(sandbox.path(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Vectors by their texts, as they were written.
fn vectors(sandbox: &Sandbox, file: &str) -> BTreeMap<String, String> {
    let of = |row: &Value| (row["text"].to_string(), row["embedding"].to_string());
    rows(sandbox, file).iter().map(of).collect()
}

fn reused(run: &Run, sandbox: &Sandbox) -> u64 {
    code(run, 0);
    let stats = json(&sandbox.path("stats.json"));
    assert_eq!(stats["read"], stats["embedded"]);
    stats["reused"].as_u64().unwrap()
}

/// How far two vectors are apart, component by component.
fn distance(one: &str, other: &str) -> f64 {
    let numbers = |text: &str| serde_json::from_str::<Vec<f64>>(text).unwrap();
    let (one, other) = (numbers(one), numbers(other));
    assert_eq!(one.len(), other.len());
    let apart = one
        .iter()
        .zip(&other)
        .map(|(one, other)| (one - other).abs());
    // Unlike `f64::max`, it lets a NaN through, which is as far apart as can be.
    apart.fold(0.0, |most, one| if one <= most { most } else { one })
}

#[test]
fn what_an_earlier_output_holds_is_not_embedded_again() {
    let sandbox = Sandbox::new();
    sandbox.write("old.jsonl", lines(0, 30));
    sandbox.write("new.jsonl", lines(20, 90));
    code(&sandbox.embed("old.jsonl -o plain.jsonl --keep text"), 0);
    let whole = vectors(&sandbox, "plain.jsonl");
    // Texts 20 to 29 and 50 to 79, which are 0 to 29 again.
    for (old, more) in [
        ("parts/", ""),
        ("npy/", "-f npy --part-rows 7"),
        ("arrow/", "-f arrow --part-rows 7"),
        ("lines/", "-f jsonl --part-rows 7"),
        ("copy/", "-f pgcopy"),
        ("old.parquet", "--keep text"),
        ("old.arrow", "--keep text --vector-type list"),
        ("old.arrows", "--keep text"),
        ("old.npy", "--keep text"),
        ("resumed.parquet", "--keep text --resume"),
        ("kept.jsonl", "--keep text"),
        ("kept.jsonl.gz", "--keep text"),
        ("kept.fbin", "--keep text"),
        ("other.parquet", "--keep text --embedding-field vector"),
    ] {
        code(&sandbox.embed(&format!("old.jsonl -o {old} {more}")), 0);
        let field = if old == "other.parquet" {
            "--embedding-field vector"
        } else {
            ""
        };
        let line = format!("new.jsonl -o new-out.jsonl --keep text --force --reuse {old} {field}");
        let run = sandbox.embed(&format!("{line} --stats stats.json"));
        assert_eq!(reused(&run, &sandbox), 40, "{old} {run}");
        assert!(
            run.stderr
                .contains("40 vectors copied from an earlier output"),
            "{run}"
        );
        let made = json(&sandbox.path("new-out.jsonl.json"));
        assert_eq!(
            (&made["rows"]["reused"], &made["rows"]["embedded"]),
            (&40.into(), &70.into())
        );
        if field.is_empty() {
            let new = vectors(&sandbox, "new-out.jsonl");
            assert_eq!(new.len(), 50);
            for (text, vector) in &whole {
                assert!(distance(&new[text], vector) < 1e-5, "{old} {text}");
            }
        }
        // The same once more is the same bytes, where the provenance lies beside them.
        if [".npy", ".fbin", ".jsonl", ".arrows"]
            .iter()
            .any(|ending| old.ends_with(ending))
        {
            let again = format!("again-{old}");
            let line = format!("old.jsonl -o {again} --reuse {old} --keep text");
            let run = sandbox.embed(&format!("{line} --stats stats.json"));
            assert_eq!(reused(&run, &sandbox), 30, "{old} {run}");
            let bytes = |name: &str| fs::read(sandbox.path(name)).unwrap();
            assert!(bytes(&again) == bytes(old), "{old}");
        }
    }
}

#[test]
fn the_vectors_are_those_of_the_earlier_output() {
    let sandbox = Sandbox::new();
    sandbox.write("old.jsonl", lines(0, 3));
    code(&sandbox.embed("old.jsonl -o old-out.jsonl --keep text"), 0);
    // No model computes this vector.
    let mut rows = rows(&sandbox, "old-out.jsonl");
    let marked: Vec<f64> = (0..48).map(|n| f64::from(n) / 64.0).collect();
    rows[1]["embedding"] = marked.into();
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    sandbox.write("old-out.jsonl", text);
    sandbox.write("new.jsonl", lines(0, 5));
    let refused = sandbox.embed("new.jsonl -o new-out.jsonl --reuse old-out.jsonl");
    assert!(code(&refused, 1).stderr.contains("is not what was written"));
    // An older version kept no hash of it, and had options that are gone.
    let mut made = json(&sandbox.path("old-out.jsonl.json"));
    made["engine"]["own_operators"] = vec!["BiasGelu"].into();
    made["engine"]["options"] = vec!["cpu.operators=fused"].into();
    made.as_object_mut()
        .unwrap()
        .shift_remove("sha256")
        .unwrap();
    sandbox.write("old-out.jsonl.json", made.to_string());
    let expected = vectors(&sandbox, "old-out.jsonl");
    for output in ["whole.jsonl", "parts/", "single.jsonl --resume"] {
        let name = output.split(' ').next().unwrap();
        let line = format!("new.jsonl -f jsonl --keep text --reuse old-out.jsonl -o {output}");
        let run = sandbox.embed(&format!("{line} --stats stats.json"));
        assert_eq!(reused(&run, &sandbox), 3);
        assert!(run.stderr.contains("its vectors have no hash"), "{run}");
        let file = match name {
            "parts/" => "parts/part-00001-00000.jsonl",
            name => name,
        };
        let sidecar = match name {
            "parts/" => sandbox.of_job("parts", "part-00001-00000.jsonl.json"),
            name => sandbox.path(&format!("{name}.json")),
        };
        let new = vectors(&sandbox, file);
        assert_eq!(new.len(), 5);
        assert!(
            expected.iter().all(|(text, vector)| new[text] == *vector),
            "{name}"
        );
        let made = json(&sidecar);
        assert_eq!(made["rows"]["reused"], 3);
    }
    // All of it is there: nothing runs, and nothing differs.
    let line = "new.jsonl -o again.jsonl --keep text --reuse parts/ --stats stats.json";
    assert_eq!(reused(&sandbox.embed(line), &sandbox), 5);
    let bytes = |name: &str| fs::read(sandbox.path(name)).unwrap();
    assert!(bytes("again.jsonl") == bytes("whole.jsonl"));
    assert_eq!(json(&sandbox.path("stats.json"))["tokens"], 0);
    // On standard output too.
    let run = sandbox.embed("new.jsonl --keep text --reuse parts/ -o -");
    assert_eq!(code(&run, 0).stdout.as_bytes(), bytes("whole.jsonl"));
    // And an output may be replaced by its successor.
    sandbox.write("new.jsonl", lines(1, 7));
    let run = sandbox.embed(
        "new.jsonl -o whole.jsonl --force --keep text --reuse whole.jsonl --stats stats.json",
    );
    assert_eq!(reused(&run, &sandbox), 4);
}

/// Rows with vectors of several widths, read back from every format that has columns.
#[test]
fn vectors_of_several_widths_are_reused_as_they_were() {
    let sandbox = Sandbox::new();
    sandbox.write("old.jsonl", lines(0, 30));
    sandbox.write("new.jsonl", lines(10, 40));
    let widths = "--keep text --dimensions 8,16";
    code(
        &sandbox.embed(&format!("new.jsonl -o whole.jsonl {widths}")),
        0,
    );
    let whole = rows(&sandbox, "whole.jsonl");
    let folders = ["arrow", "jsonl", "pgcopy", "arrows"]
        .map(|format| format!("{format}/ -f {format} --part-rows 9"));
    let files =
        ["parquet", "arrow", "arrows", "jsonl", "jsonl.gz"].map(|ending| format!("out.{ending}"));
    for output in files.iter().chain(&folders) {
        let name = output.split(' ').next().unwrap();
        code(
            &sandbox.embed(&format!("old.jsonl -o {output} {widths}")),
            0,
        );
        let line = format!(
            "new.jsonl -o new.out.jsonl --force --reuse {name} {widths} --stats stats.json"
        );
        assert_eq!(reused(&sandbox.embed(&line), &sandbox), 20, "{output}");
        for (row, expected) in rows(&sandbox, "new.out.jsonl").iter().zip(&whole) {
            assert_eq!(row["text"], expected["text"]);
            for column in ["embedding_8", "embedding_16"] {
                let apart = distance(&row[column].to_string(), &expected[column].to_string());
                assert!(apart < 1e-5, "{output} {column}: {apart}");
            }
        }
    }
}

/// Sparse vectors as maps from tokens to weights, read back from every format that holds them.
#[test]
fn maps_from_tokens_to_weights_are_reused_as_they_were() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", lines(0, 30));
    let embed = |line: &str| {
        let mut command = sandbox.command(["embed", "in.jsonl", "--keep", "text", "-m"]);
        command
            .arg(in_repository("fixtures/sparse/bert/model"))
            .args(line.split_whitespace());
        sandbox.finish(&mut command)
    };
    let forms = [("", "plain.jsonl"), ("--sparse-tokens", "maps.jsonl")];
    for (form, out) in forms {
        code(&embed(&format!("-o {out} {form}")), 0);
    }
    let text = |name: &str| fs::read_to_string(sandbox.path(name)).unwrap();
    assert!(text("maps.jsonl") != text("plain.jsonl"));
    for old in [
        "maps.jsonl",
        "maps.jsonl.gz",
        "maps.parquet",
        "maps.arrow",
        "maps.arrows",
        "maps/",
        "lines/ -f jsonl --part-rows 9",
    ] {
        let name = old.split(' ').next().unwrap();
        if name != "maps.jsonl" {
            code(&embed(&format!("-o {old} --sparse-tokens")), 0);
        }
        for (form, whole) in forms {
            let line = format!(
                "-o new.jsonl --force {form} --reuse {name} --stats stats.json --threads 1"
            );
            assert_eq!(reused(&embed(&line), &sandbox), 30, "{name} {form}");
            assert_eq!(json(&sandbox.path("stats.json"))["tokens"], 0);
            assert!(text("new.jsonl") == text(whole), "{name} {form}");
        }
    }
}

#[test]
fn vectors_of_another_kind_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("old.jsonl", lines(0, 3));
    code(&sandbox.embed("old.jsonl -o folder/"), 0);
    code(&sandbox.embed("old.jsonl -o file.parquet --keep text"), 0);
    code(
        &sandbox.embed("old.jsonl -o half.parquet --keep text --dtype f16"),
        0,
    );
    copy_folder(&in_repository(SMALL_MODEL), &sandbox.path("model"));
    let config = fs::read_to_string(sandbox.path("model/config.json")).unwrap();
    sandbox.write("model/config.json", config + "\n");
    for old in ["folder", "file.parquet"] {
        for (other, said) in [
            ("--prompt p", "prompt (\"\" then, \"p\" now)"),
            ("--normalize false", "normalized (true then, false now)"),
            ("--max-length 9", "max_length ("),
            ("--dimensions 16", "dimensions (48 then, 16 now)"),
            ("--pooling max", "pooling ("),
            ("--dtype f16", "dtype (\"f32\" then, \"f16\" now)"),
            ("--dtype ubinary", "cannot be read back"),
        ] {
            let run = sandbox.embed(&format!("old.jsonl -o new.parquet {other} --reuse {old}"));
            assert!(code(&run, 2).stderr.contains(said), "{run}");
        }
        // Another model, which is known by its files' hashes, after the engine is open.
        let mut command = sandbox.embed_command(&format!("old.jsonl -o new.parquet --reuse {old}"));
        let run = sandbox.finish(command.env("EMBEDCTL_MODEL", sandbox.path("model")));
        let said = &code(&run, 2).stderr;
        assert!(
            said.contains("one kind: model.files.config.json ("),
            "{run}"
        );
        assert!(!sandbox.path("new.parquet").exists());
    }
    for (line, said) in [
        ("--reuse none.parquet", "there is no such output"),
        ("--reuse old.jsonl", "has no provenance"),
        ("--reuse .", "holds no output in parts"),
        ("--reuse half.parquet", "dtype (\"f16\" then, \"f32\" now)"),
    ] {
        let run = sandbox.embed(&format!("old.jsonl -o new.parquet {line}"));
        assert!(code(&run, 2).stderr.contains(said), "{run}");
    }
    let run = sandbox.embed("old.jsonl -o folder/ --force --reuse folder/");
    assert!(
        code(&run, 2).stderr.contains("write to another folder"),
        "{run}"
    );
    // Without its texts a file has nothing to be known by.
    code(&sandbox.embed("old.jsonl -o without.parquet"), 0);
    let run = sandbox.embed("old.jsonl -o new.parquet --reuse without.parquet");
    assert!(code(&run, 2).stderr.contains("--keep text"), "{run}");
    assert!(!sandbox.path("new.parquet").exists());
    // A setting that does not decide a vector may differ.
    let more = "--id-field text --keep text --batch-tokens 64 --window 2 -f npy";
    let run = sandbox.embed(&format!(
        "old.jsonl -o other/ {more} --part-rows 2 --reuse folder --stats stats.json"
    ));
    assert_eq!(reused(&run, &sandbox), 3);
    let run = sandbox
        .embed("old.jsonl -o halves.npy --dtype f16 --reuse half.parquet --stats stats.json");
    assert_eq!(reused(&run, &sandbox), 3);
    code(&sandbox.embed("old.jsonl -o plain.npy --dtype f16"), 0);
    let bytes = |name: &str| fs::read(sandbox.path(name)).unwrap();
    assert!(bytes("halves.npy") == bytes("plain.npy"));
}

#[test]
fn texts_that_were_put_together_or_cut_are_known_by_what_was_embedded() {
    let sandbox = Sandbox::new();
    let line =
        |n: usize| format!("{{\"text\": \"one two three four {n}\", \"title\": \"t {n}\"}}\n");
    sandbox.write("old.jsonl", (0..6).map(line).collect::<String>());
    sandbox.write("new.jsonl", (3..9).map(line).collect::<String>());
    let chunks = "--chunk tokens --chunk-tokens 2 --chunk-text";
    code(&sandbox.embed(&format!("old.jsonl -o chunks/ {chunks}")), 0);
    code(
        &sandbox.embed(&format!("old.jsonl -o chunks.parquet {chunks}")),
        0,
    );
    code(
        &sandbox.embed(&format!("new.jsonl -o plain.jsonl {chunks}")),
        0,
    );
    let plain = rows(&sandbox, "plain.jsonl");
    for old in ["chunks/", "chunks.parquet"] {
        let line = format!("new.jsonl -o new-out.jsonl --force {chunks} --reuse {old}");
        let run = sandbox.embed(&format!("{line} --stats stats.json"));
        // All chunks but those with a number that is new.
        let expected = plain.len() as u64 - 3;
        assert_eq!(reused(&run, &sandbox), expected, "{run}");
        for (mut new, mut plain) in rows(&sandbox, "new-out.jsonl")
            .into_iter()
            .zip(plain.clone())
        {
            let [new_vector, vector] =
                [&mut new, &mut plain].map(|row| row["embedding"].take().to_string());
            assert_eq!(new, plain);
            assert!(distance(&new_vector, &vector) < 1e-5);
        }
    }
    // The kept text is not what was embedded.
    for (name, more) in [
        ("title", "--text-field title"),
        ("both", "--text-template {title}-{text}"),
    ] {
        code(
            &sandbox.embed(&format!("old.jsonl -o {name}.parquet --keep text {more}")),
            0,
        );
        let run = sandbox.embed(&format!("old.jsonl -o none.parquet --reuse {name}.parquet"));
        assert!(code(&run, 2).stderr.contains("neither hashes"), "{run}");
        code(&sandbox.embed(&format!("old.jsonl -o {name}/ {more}")), 0);
        let run = sandbox.embed(&format!(
            "old.jsonl -o new.parquet {more} --reuse {name}/ --force --stats stats.json"
        ));
        assert_eq!(reused(&run, &sandbox), 6);
    }
    code(
        &sandbox.embed("old.jsonl -o kept.parquet --text-field title --keep title"),
        0,
    );
    let run = sandbox.embed("old.jsonl -o new.parquet --text-field title --reuse kept.parquet --force --stats stats.json");
    assert_eq!(reused(&run, &sandbox), 6);
}

#[test]
fn rows_without_vectors_and_lost_hashes_are_no_harm() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "old.jsonl",
        format!("{}no JSON\n{}", lines(0, 3), lines(3, 6)),
    );
    sandbox.write("new.jsonl", lines(0, 8));
    for old in ["null/", "null.parquet"] {
        code(
            &sandbox.embed(&format!("old.jsonl -o {old} --on-error null --keep text")),
            3,
        );
        let run = sandbox.embed(&format!(
            "new.jsonl -o new.npy --force --reuse {old} --stats stats.json"
        ));
        assert_eq!(reused(&run, &sandbox), 6, "{run}");
    }
    code(
        &sandbox.embed("old.jsonl -o null.jsonl --on-error null --keep text"),
        3,
    );
    let run = sandbox.embed("new.jsonl -o other.npy --reuse null.jsonl");
    assert!(
        code(&run, 1).stderr.contains("holds 6 vectors for 7 rows"),
        "{run}"
    );
    // Without the hashes the column of texts is hashed.
    fs::remove_dir_all(sandbox.path("_null.embedctl/texts")).unwrap();
    let run = sandbox.embed("new.jsonl -o other.npy --reuse null/ --stats stats.json");
    assert_eq!(reused(&run, &sandbox), 6, "{run}");
}

/// Compares the vectors of two files, bit by bit, row by row.
const SAME: &str = "
import pyarrow.parquet as pq, pyarrow.dataset as dataset, numpy
old = dataset.dataset('old', format='parquet').to_table()
new = pq.read_table('new.parquet')
bits = lambda table: {i: numpy.array(v, dtype=numpy.float32).tobytes()
                      for i, v in zip(table['id'].to_pylist(), table['embedding'].to_pylist())}
old, new = bits(old), bits(new)
assert len(new) == 3000 and len(old) == 2500
assert all(new[i] == old[i] for i in old if i in new), 'other bits'
assert sum(i in old for i in new) == 2000
";

#[test]
fn others_read_the_same_bits() {
    let name = "others_read_the_same_bits";
    let Some(python) = support::python(name, &["pyarrow", "numpy"]) else {
        return;
    };
    let sandbox = Sandbox::new();
    let line = |n: usize| {
        format!(
            "{{\"id\": {n}, \"text\": \"{n} and {}\"}}\n",
            n * 7919 % 1000
        )
    };
    // Backwards: no row is where it was.
    sandbox.write("old.jsonl", (0..2500).map(line).collect::<String>());
    sandbox.write("new.jsonl", (500..3500).rev().map(line).collect::<String>());
    code(&sandbox.embed("old.jsonl -o old/ --part-rows 700"), 0);
    let run = sandbox.embed("new.jsonl -o new.parquet --window 300 --reuse old --stats stats.json");
    assert_eq!(reused(&run, &sandbox), 2000);
    let mut command = Command::new(python);
    command.args(["-c", SAME]).current_dir(sandbox.path("."));
    code(&sandbox.finish(&mut command), 0);
}
