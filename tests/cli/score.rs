//! `embedctl score`: rerankers and classifiers, as jobs.

use serde_json::Value;

use crate::jobs::code;
use crate::sandbox::{Run, Sandbox, in_repository};

const PAIRS: &str = "fixtures/scores/bert/model";
const LABELS: &str = "fixtures/scores/bert-three-labels/model";

/// Runs `score` with a model of the cases.
fn score(sandbox: &Sandbox, model: &str, line: &str) -> Run {
    let mut command = sandbox.command(["score", "--provider", "native", "--threads", "1", "-m"]);
    command
        .arg(in_repository(model))
        .args(line.split_whitespace());
    sandbox.finish(&mut command)
}

fn records(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// `count` pairs of five queries, one pair repeated.
fn pairs(count: usize) -> String {
    (0..count)
        .map(|n| {
            format!(
                "{{\"id\": {n}, \"q\": \"who is number {}?\", \"body\": \"text {}\"}}\n",
                n % 5,
                if n == 7 { 2 } else { n }
            )
        })
        .collect()
}

#[test]
fn the_summary_counts_what_was_scored() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(2));
    for (model, line, words) in [
        (
            PAIRS,
            "--query-field q --text-field body",
            "scored 2 pairs (",
        ),
        (LABELS, "--text-field body", "scored 2 texts ("),
    ] {
        let run = score(
            &sandbox,
            model,
            &format!("pairs.jsonl {line} -o out.npy --force"),
        );
        code(&run, 0);
        assert!(run.stderr.contains(words), "{run}");
        assert!(!run.stderr.contains("embedded 2"), "{run}");
    }
}

#[test]
fn a_dry_run_counts_what_would_be_scored() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(20));
    let line = "pairs.jsonl --query-field q --text-field body --dry-run";
    let run = score(&sandbox, PAIRS, line);
    code(&run, 0);
    assert!(
        run.stdout.contains("20 = 20 to score + 0 to be rejected"),
        "{run}"
    );
}

#[test]
fn scores_without_ids_stand_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(3));
    for (model, line, keys) in [
        (PAIRS, "--query-field q --text-field body", vec!["score"]),
        (LABELS, "--text-field body", vec!["label", "scores"]),
    ] {
        let run = score(
            &sandbox,
            model,
            &format!("pairs.jsonl {line} --id-field none -o -"),
        );
        let lines = records(&code(&run, 0).stdout);
        assert_eq!(lines.len(), 3);
        for line in lines {
            let names: Vec<&String> = line.as_object().unwrap().keys().collect();
            assert_eq!(names, keys);
        }
    }
}

#[test]
fn a_pair_has_a_score_in_every_format() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(12));
    let line = "pairs.jsonl --query-field q --text-field body";
    let run = score(&sandbox, PAIRS, &format!("{line} -o - --keep q"));
    let lines = records(&code(&run, 0).stdout);
    assert!(
        run.stderr.contains("1 duplicate text computed once"),
        "{run}"
    );
    let value = |line: &Value| line["score"].as_f64().unwrap();
    assert!(lines.iter().all(|line| (0.0..=1.0).contains(&value(line))));
    assert_eq!(
        (&lines[3]["id"], &lines[3]["q"]),
        (&3.into(), &"who is number 3?".into())
    );
    assert_eq!(value(&lines[2]), value(&lines[7]));
    assert_ne!(value(&lines[1]), value(&lines[2]));
    // Other formats read back the same.
    for format in ["parquet", "arrow", "arrows", "jsonl.zst", "pgcopy"] {
        let out = format!("out.{format}");
        code(&score(&sandbox, PAIRS, &format!("{line} -o {out}")), 0);
        code(&score(&sandbox, PAIRS, &format!("{line} -o {out}.npy")), 0);
        let found = sandbox.run(&format!("inspect {out} {out}.npy --json"));
        assert!(found.stdout.contains("\"score\""), "{found}");
        let found = sandbox.run(&format!("inspect {out}"));
        assert!(
            found.stdout.contains(" of 1 score, f32; no rows with NaN"),
            "{found}"
        );
        assert!(found.stdout.contains(" scored, 0 rejected"), "{found}");
        let again = sandbox.run(&format!(
            "inspect {out} --verify 5 --input pairs.jsonl --text-field body -p native"
        ));
        let said = &code(&again, 0).stdout;
        assert!(
            said.contains("5 rows computed again, as they were"),
            "{format}: {again}"
        );
    }
}

#[test]
fn several_labels_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(6));
    let line = "pairs.jsonl --query-field q --text-field body -o - --softmax --top-labels 2";
    let run = score(&sandbox, LABELS, line);
    for line in records(&code(&run, 0).stdout) {
        let numbers = |key: &str| -> Vec<f64> {
            let list = line[key].as_array().unwrap().iter();
            list.map(|number| number.as_f64().unwrap()).collect()
        };
        let scores = numbers("scores");
        assert!((scores.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{line}");
        let names = ["no", "maybe", "yes"];
        let best = (0..3)
            .max_by(|a, b| scores[*a].total_cmp(&scores[*b]))
            .unwrap();
        assert_eq!(line["label"], names[best], "{line}");
        assert_eq!(line["top_labels"][0], names[best], "{line}");
        let top = numbers("top_scores");
        assert_eq!((top.len(), top[0]), (2, scores[best]), "{line}");
    }
}

#[test]
fn texts_alone_need_no_query() {
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "one\ntwo\n\nfour\n");
    let run = score(&sandbox, LABELS, "texts.txt -o -");
    assert_eq!(records(&code(&run, 0).stdout).len(), 4, "{run}");
}

#[test]
fn tables_and_templates_make_pairs() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.csv", "id,q,title,body\n1,who?,T,B\n2,,T,\n");
    sandbox.write(
        "pairs.jsonl",
        "{\"id\":1,\"q\":\"who?\",\"t\":\"T: B\"}\n{\"id\":2,\"q\":\"\",\"t\":\"T: \"}\n",
    );
    let mut command = sandbox.command(["score", "-p", "native", "--threads", "1", "-m"]);
    command.arg(in_repository(PAIRS)).args([
        "pairs.csv",
        "--query-field",
        "q",
        "--text-template",
        "{title}: {body}",
        "-o",
        "-",
        "-q",
    ]);
    let of_csv = sandbox.finish(&mut command);
    let of_lines = score(
        &sandbox,
        PAIRS,
        "pairs.jsonl --query-field q --text-field t -o - -q",
    );
    let scores = |run: &Run| -> Vec<Value> {
        records(&code(run, 0).stdout)
            .iter()
            .map(|line| line["score"].clone())
            .collect()
    };
    assert_eq!(scores(&of_csv), scores(&of_lines));
}

#[test]
fn bad_pairs_are_rejects_or_null_rows() {
    let sandbox = Sandbox::new();
    let bad = "{\"q\": \"a\", \"text\": \"b\"}\n{\"q\": null, \"text\": \"b\"}\n{\"text\": \"b\"}\n{\"q\": \"a\"}\n";
    sandbox.write("bad.jsonl", bad);
    let line = "bad.jsonl --query-field q";
    let run = score(&sandbox, PAIRS, &format!("{line} -o a.jsonl"));
    assert!(code(&run, 1).stderr.contains("bad.jsonl:2"), "{run}");
    let run = score(
        &sandbox,
        PAIRS,
        &format!("{line} -o b.jsonl --on-error skip --rejects r.jsonl"),
    );
    code(&run, 3);
    let listed = std::fs::read_to_string(sandbox.path("r.jsonl")).unwrap();
    assert!(listed.contains("nothing in `q`"), "{listed}");
    assert_eq!(
        std::fs::read_to_string(sandbox.path("r.jsonl"))
            .unwrap()
            .lines()
            .count(),
        3
    );
    let run = score(&sandbox, LABELS, &format!("{line} -o - --on-error null"));
    let rows = records(&code(&run, 3).stdout);
    assert_eq!(rows.len(), 4, "{run}");
    assert!(
        rows[1]["scores"].is_null() && rows[1]["label"].is_null(),
        "{run}"
    );
    assert!(rows[0]["label"].is_string(), "{run}");
}

#[test]
fn a_job_is_resumed_in_parts_and_shards() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(40));
    let line = "pairs.jsonl --query-field q --text-field body";
    code(
        &score(&sandbox, PAIRS, &format!("{line} -o whole.jsonl")),
        0,
    );
    // The first part alone, then the rest.
    let job = format!("{line} -o out/ -f jsonl --part-rows 10");
    code(&score(&sandbox, PAIRS, &job), 0);
    std::fs::remove_file(sandbox.path("out/_SUCCESS")).unwrap();
    let again = score(&sandbox, PAIRS, &format!("{job} --resume"));
    assert!(code(&again, 0).stderr.contains("nothing to do"), "{again}");
    let other = score(&sandbox, PAIRS, &format!("{job} --resume --softmax"));
    assert!(code(&other, 2).stderr.contains("softmax"), "{other}");
    // A single file of parts.
    code(
        &score(&sandbox, PAIRS, &format!("{line} -o single.jsonl --resume")),
        0,
    );
    let text = |name: &str| std::fs::read_to_string(sandbox.path(name)).unwrap();
    assert_eq!(text("single.jsonl"), text("whole.jsonl"));
    for shard in [2, 1] {
        let line = format!("{line} -o shards/ -f jsonl --part-rows 7 --shard {shard}/2");
        code(&score(&sandbox, PAIRS, &line), 0);
    }
    assert!(sandbox.path("shards/_SUCCESS").exists());
    // Scores of an earlier output are copied for equal pairs.
    let reused = score(
        &sandbox,
        PAIRS,
        &format!("{line} -o reused.jsonl --reuse out"),
    );
    assert!(
        code(&reused, 0).stderr.contains("40 vectors copied"),
        "{reused}"
    );
    assert_eq!(text("reused.jsonl"), text("whole.jsonl"));
}

/// Of a file, pairs are known by both of their texts.
#[test]
fn scores_of_a_file_are_copied_for_equal_pairs() {
    let sandbox = Sandbox::new();
    sandbox.write("old.jsonl", pairs(30));
    sandbox.write("new.jsonl", pairs(40));
    let line = "--query-field q --text-field body --keep q,body";
    for old in ["old.parquet", "old.arrow", "old.out.jsonl"] {
        let run = score(&sandbox, PAIRS, &format!("old.jsonl {line} -o {old}"));
        code(&run, 0);
        let run = score(
            &sandbox,
            PAIRS,
            &format!("new.jsonl {line} -o new.out.jsonl --force --reuse {old}"),
        );
        let said = &code(&run, 0).stderr;
        assert!(said.contains("30 vectors copied"), "{old}: {run}");
    }
    let new = std::fs::read_to_string(sandbox.path("new.out.jsonl")).unwrap();
    let old = std::fs::read_to_string(sandbox.path("old.out.jsonl")).unwrap();
    assert!(new.starts_with(&old));
    // One text of a pair does not tell the pair.
    let line = "--query-field q --text-field body";
    let old = format!("old.jsonl {line} --keep body -o half.parquet");
    code(&score(&sandbox, PAIRS, &old), 0);
    let run = score(
        &sandbox,
        PAIRS,
        &format!("new.jsonl {line} -o none.jsonl --reuse half.parquet"),
    );
    assert!(code(&run, 2).stderr.contains("neither hashes"), "{run}");
    assert!(run.stderr.contains("of pairs --keep with both"), "{run}");
}

#[test]
fn what_scores_cannot_be_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("pairs.jsonl", pairs(3));
    let line = "pairs.jsonl --query-field q --text-field body -o out.parquet";
    for (option, words) in [
        ("--dtype f16", "--dtype is about vectors"),
        ("--dimensions 8", "--dimensions is about vectors"),
        ("--chunk sentences", "--chunk is about vectors"),
        ("--normalize true", "--normalize is about vectors"),
        ("--task query", "--task is about vectors"),
        ("--vectors sparse", "--vectors is about vectors"),
        ("--pool-factor 2", "--pool-factor is about vectors"),
    ] {
        let run = score(&sandbox, PAIRS, &format!("{line} {option}"));
        assert!(code(&run, 2).stderr.contains(words), "{option}: {run}");
    }
    // A network that was trained for vectors has no head.
    let run = score(&sandbox, "fixtures/architectures/bert", line);
    assert_eq!(run.code, Some(1), "{run}");
    let mut command = sandbox.command([
        "embed",
        "pairs.jsonl",
        "--text-field",
        "body",
        "-o",
        "-",
        "-m",
    ]);
    let saved = "fixtures/scores/activation-of-the-saved-model/model";
    command.arg(in_repository(saved));
    let run = sandbox.finish(&mut command);
    assert!(
        code(&run, 1).stderr.contains("describes a CrossEncoder"),
        "{run}"
    );
    let run = score(
        &sandbox,
        PAIRS,
        "pairs.jsonl --query-field q --text-field body --dry-run",
    );
    assert!(code(&run, 0).stdout.contains('3'), "{run}");
}
