//! `embedctl compare`, against shares that are counted here.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::jobs::code;
use crate::sandbox::{Run, Sandbox, in_repository};

const ROWS: usize = 120;

/// Texts that are all different, in an order of ids that is not theirs.
fn texts() -> Vec<(String, String)> {
    let words = ["cat", "rate", "mat", "number", "interest", "rose", "rug"];
    let text = |n: usize| {
        let (one, other) = (words[n % 7], words[n / 7 % 7]);
        format!("the {one} and a {other} number {n}")
    };
    (0..ROWS)
        .map(|n| (format!("a{}", n * 37 % ROWS), text(n)))
        .collect()
}

fn lines<'a>(texts: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let mut lines = String::new();
    for (id, text) in texts {
        let _ = writeln!(lines, "{}", json!({"id": id, "text": text}));
    }
    lines
}

fn compare(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.run(&format!("compare -p native {line}"))
}

fn compared(sandbox: &Sandbox, line: &str) -> Value {
    let run = compare(sandbox, &format!("{line} --json"));
    code(&run, 0);
    serde_json::from_str(&run.stdout).unwrap()
}

fn embed(sandbox: &Sandbox, line: &str) {
    code(&sandbox.embed(line), 0);
}

/// Ids and vectors of a JSONL output.
fn vectors(sandbox: &Sandbox, file: &str) -> Vec<(String, Vec<f64>)> {
    let text = fs::read_to_string(sandbox.path(file)).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let numbers = row["embedding"].as_array().unwrap().iter();
        let numbers = numbers.map(|number| number.as_f64().unwrap()).collect();
        (row["id"].as_str().unwrap().to_owned(), numbers)
    };
    text.lines().map(row).collect()
}

fn cosine(one: &[f64], other: &[f64]) -> f64 {
    let dot =
        |one: &[f64], other: &[f64]| -> f64 { one.iter().zip(other).map(|(a, b)| a * b).sum() };
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

/// The ids of the `k` nearest rows to `query`, without the row of this id.
fn nearest(rows: &[(String, Vec<f64>)], query: &[f64], own: &str, k: usize) -> HashSet<String> {
    let others = rows.iter().filter(|(id, _)| id != own);
    let mut scores: Vec<(f64, &str)> = others
        .map(|(id, row)| (cosine(query, row), id.as_str()))
        .collect();
    scores.sort_by(|one, other| other.0.total_cmp(&one.0));
    scores
        .iter()
        .take(k)
        .map(|(_, id)| (*id).to_owned())
        .collect()
}

/// The share of the `k` nearest rows that two outputs have in common, over all rows of the first. `asks` gives the vector
/// that is compared with the rows of the second.
fn share(
    one: &[(String, Vec<f64>)],
    other: &[(String, Vec<f64>)],
    k: usize,
    asks: &dyn Fn(&str) -> Vec<f64>,
) -> f64 {
    let shares = one.iter().map(|(id, row)| {
        let own = nearest(one, row, id, k);
        let found = nearest(other, &asks(id), id, k);
        own.intersection(&found).count() as f64 / own.len() as f64
    });
    shares.sum::<f64>() / one.len() as f64
}

fn vector(rows: &[(String, Vec<f64>)], id: &str) -> Vec<f64> {
    rows.iter().find(|(own, _)| own == id).unwrap().1.clone()
}

fn near(found: &Value, expected: f64, what: &str) {
    // Two rows may be equally near but for rounding.
    let found = found.as_f64().unwrap();
    assert!(
        (found - expected).abs() < 0.01,
        "{what}: {found} for {expected}"
    );
}

#[test]
fn shares_are_those_of_an_exact_search() {
    let sandbox = Sandbox::new();
    let all = texts();
    sandbox.write("in.jsonl", lines(&all));
    // The other output has the rows in another order, lacks some and has others.
    let more = [("b1".to_owned(), "a rug".to_owned())];
    sandbox.write("other.jsonl", lines(all.iter().rev().skip(20).chain(&more)));
    embed(&sandbox, "in.jsonl -o one.jsonl --keep text");
    embed(&sandbox, "other.jsonl -o two.jsonl --prompt shifted:");
    for out in ["one.parquet", "one.npy", "one/"] {
        embed(&sandbox, &format!("in.jsonl -o {out} --keep text"));
    }
    embed(&sandbox, "other.jsonl -o two.arrow --prompt shifted:");
    let (mut one, mut two) = (
        vectors(&sandbox, "one.jsonl"),
        vectors(&sandbox, "two.jsonl"),
    );
    let ids = |rows: &[(String, Vec<f64>)]| -> HashSet<String> {
        rows.iter().map(|(id, _)| id.clone()).collect()
    };
    let (first, second) = (ids(&one), ids(&two));
    one.retain(|(id, _)| second.contains(id));
    two.retain(|(id, _)| first.contains(id));
    let mut before: Option<Value> = None;
    for (reference, other) in [
        ("one.jsonl", "two.jsonl"),
        ("one.parquet", "two.arrow"),
        ("one.npy", "two.arrow"),
        ("one/", "two.arrow"),
    ] {
        let found = compared(&sandbox, &format!("{reference} {other} -k 1,5,20"));
        assert_eq!(found["rows"], one.len(), "{reference}");
        assert_eq!(found["queries"], one.len(), "{reference}");
        assert_eq!(found["reference"]["rows"], ROWS, "{reference}");
        let with = &found["others"][0];
        for (place, k) in [1, 5, 20].into_iter().enumerate() {
            assert_eq!(with["overlaps"][place]["depth"], k);
            let expected = share(&one, &two, k, &|id| vector(&two, id));
            near(
                &with["overlaps"][place]["share"],
                expected,
                &format!("{reference}: {k}"),
            );
        }
        let cosines: Vec<f64> = one
            .iter()
            .map(|(id, row)| cosine(row, &vector(&two, id)))
            .collect();
        near(
            &with["cosines"]["mean"],
            cosines.iter().sum::<f64>() / cosines.len() as f64,
            "mean",
        );
        near(
            &with["cosines"]["least"],
            cosines.iter().copied().fold(1.0, f64::min),
            "least",
        );
        // What differs most is listed first, with its text.
        let differing = with["differing"].as_array().unwrap();
        let shared: Vec<u64> = differing
            .iter()
            .map(|it| it["shared"].as_u64().unwrap())
            .collect();
        assert!(!shared.is_empty() && shared.is_sorted(), "{differing:?}");
        for row in differing {
            let number = usize::try_from(row["row"].as_u64().unwrap()).unwrap();
            assert_eq!(
                (&row["id"], &row["text"]),
                (&json!(all[number].0), &json!(all[number].1))
            );
        }
        // The format makes no difference.
        if let Some(before) = &before {
            assert_eq!(
                before["others"][0]["overlaps"], with["overlaps"],
                "{reference}"
            );
        }
        before = Some(found);
    }
    // A sample is of as many rows, and the same in every run.
    let line = "one.parquet two.arrow --sample 7";
    let found = compared(&sandbox, line);
    assert_eq!(found["queries"], 7);
    assert_eq!(found, compared(&sandbox, line));
}

#[test]
fn a_form_that_is_made_here_is_as_good_as_one_that_is_written() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", lines(&texts()));
    embed(&sandbox, "in.jsonl -o plain.jsonl");
    let plain = vectors(&sandbox, "plain.jsonl");
    let written = [
        ("f16", "--dtype f16"),
        ("int8", "--dtype int8 --calibration plain.jsonl"),
        ("uint8", "--dtype uint8 --calibration plain.jsonl"),
        ("binary", "--dtype binary"),
        ("ubinary", "--dtype ubinary"),
        ("16d", "--dimensions 16"),
        ("16d+ubinary", "--dimensions 16 --dtype ubinary"),
    ];
    let names: Vec<&str> = written.iter().map(|(name, _)| *name).collect();
    let made = compared(
        &sandbox,
        &format!("plain.jsonl --with {} -k 1,10", names.join(",")),
    );
    for (place, (name, options)) in written.into_iter().enumerate() {
        let out = format!("form{place}.parquet");
        embed(&sandbox, &format!("in.jsonl -o {out} {options}"));
        let found = compared(&sandbox, &format!("plain.jsonl {out} -k 1,10"));
        let (made, found) = (&made["others"][place], &found["others"][0]);
        assert_eq!(made["name"], name);
        for (one, other) in
            (made["overlaps"].as_array().unwrap().iter()).zip(found["overlaps"].as_array().unwrap())
        {
            near(&one["share"], other["share"].as_f64().unwrap(), name);
        }
        assert_eq!(made["bytes_per_row"], found["bytes_per_row"], "{name}");
        assert_eq!(made["dimensions"], found["dimensions"], "{name}");
        match made["cosines"].is_null() {
            true => assert!(name.starts_with("16d"), "{name}"),
            false => near(
                &made["cosines"]["median"],
                found["cosines"]["median"].as_f64().unwrap(),
                name,
            ),
        }
    }
    // Signs alone: a query keeps its numbers, as in a search.
    let signs = |row: &[f64]| {
        row.iter()
            .map(|it| if *it > 0.0 { 1.0 } else { -1.0 })
            .collect()
    };
    let bits: Vec<(String, Vec<f64>)> = plain
        .iter()
        .map(|(id, row)| (id.clone(), signs(row)))
        .collect();
    let expected = share(&plain, &bits, 10, &|id| vector(&plain, id));
    near(
        &made["others"][4]["overlaps"][1]["share"],
        expected,
        "ubinary",
    );
    assert!(expected < 0.99, "the test sees no difference");
}

#[test]
fn queries_of_a_file_are_embedded_by_each_outputs_model() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", lines(&texts()));
    embed(&sandbox, "in.jsonl -o one.jsonl");
    embed(&sandbox, "in.jsonl -o two.jsonl --dimensions 8");
    sandbox.write("queries.txt", "a cat\ninterest rates rose\n");
    embed(&sandbox, "queries.txt -o asked.jsonl");
    embed(&sandbox, "queries.txt -o short.jsonl --dimensions 8");
    let of = |file: &str| vectors(&sandbox, file);
    let (one, two, asked, short) = (
        of("one.jsonl"),
        of("two.jsonl"),
        of("asked.jsonl"),
        of("short.jsonl"),
    );
    let shares = asked.iter().zip(&short).map(|((_, asked), (_, short))| {
        let found = nearest(&one, asked, "", 10);
        found.intersection(&nearest(&two, short, "", 10)).count() as f64 / 10.0
    });
    let expected = shares.sum::<f64>() / 2.0;
    let found = compared(&sandbox, "one.jsonl two.jsonl --queries queries.txt -k 10");
    assert_eq!(
        (&found["queries"], &found["queries_are_rows"]),
        (&json!(2), &json!(false))
    );
    near(
        &found["others"][0]["overlaps"][0]["share"],
        expected,
        "queries",
    );
    // Queries have no ids: people see their numbers.
    let run = compare(&sandbox, "one.jsonl two.jsonl --queries queries.txt -k 10");
    assert!(
        run.stdout.contains("neighbours of 2 queries compared"),
        "{run}"
    );
    assert!(run.stdout.contains("  query 1  a cat\n"), "{run}");
    assert!(!run.stdout.contains("row 0"), "{run}");
    let run = compare(&sandbox, "one.jsonl two.jsonl --sample 1");
    assert!(run.stdout.contains("neighbours of 1 row compared"), "{run}");
    let made = compared(&sandbox, "one.jsonl --with 8d --queries queries.txt -k 10");
    near(
        &made["others"][0]["overlaps"][0]["share"],
        expected,
        "a form",
    );
}

#[test]
fn sparse_vectors_and_vectors_of_tokens_are_compared_too() {
    for (model, other) in [
        ("fixtures/sparse/bert/model", "--max-active-dims 4"),
        ("fixtures/multi/bert-document/model", "--dtype f16"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("in.jsonl", lines(&texts()[..30]));
        let embed = |line: &str| {
            let mut command = sandbox.embed_command(line);
            command.env("EMBEDCTL_MODEL", in_repository(model));
            code(&sandbox.finish(&mut command), 0);
        };
        embed("in.jsonl -o one.parquet");
        embed(&format!("in.jsonl -o two.parquet {other}"));
        let same = compared(&sandbox, "one.parquet one.parquet -k 5");
        assert_eq!(same["others"][0]["overlaps"][0]["share"], 1.0, "{model}");
        let found = compared(&sandbox, "one.parquet two.parquet -k 5");
        let share = found["others"][0]["overlaps"][0]["share"].as_f64().unwrap();
        assert!(share > 0.2 && share <= 1.0, "{model}: {share}");
        let bytes = |it: &Value| it["bytes_per_row"].as_f64().unwrap();
        assert!(
            bytes(&found["others"][0]) < bytes(&found["reference"]),
            "{model}"
        );
        let run = compare(&sandbox, "one.parquet --with int8");
        assert_eq!(run.code, Some(2), "{run}");
        assert!(
            run.stderr.contains("other forms are made of dense vectors"),
            "{run}"
        );
    }
}

#[test]
fn people_see_what_is_kept_at_which_size() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", lines(&texts()));
    embed(&sandbox, "in.jsonl -o out.parquet --keep text");
    let run = compare(
        &sandbox,
        "out.parquet --with 24d,ubinary --differing 2 --plot shares.svg",
    );
    code(&run, 0);
    assert_snapshot!(run);
    let picture = fs::read_to_string(sandbox.path("shares.svg")).unwrap();
    assert!(
        picture.starts_with("<svg ") && picture.contains("The 100 nearest"),
        "{picture}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("in.jsonl", lines(&texts()[..20]));
    sandbox.write("others.jsonl", "{\"id\": \"x\", \"text\": \"a cat\"}\n");
    embed(&sandbox, "in.jsonl -o out.parquet");
    embed(&sandbox, "others.jsonl -o others.parquet");
    embed(&sandbox, "in.jsonl -o bits.parquet --dtype ubinary");
    embed(&sandbox, "in.jsonl -o one.fbin --id-field none");
    embed(&sandbox, "others.jsonl -o two.fbin --id-field none");
    for (line, reason) in [
        ("out.parquet others.parquet", "share no id"),
        ("one.fbin two.fbin", "without ids in both"),
        (
            "bits.parquet --with int8",
            "other forms are made of dense vectors",
        ),
        ("out.parquet --with 999d", "cannot be cut to 999"),
        ("out.parquet --with int9", "int9"),
        ("out.parquet", "B"),
        (
            "out.parquet bits.parquet --with int8",
            "cannot be used with",
        ),
        (
            "out.parquet bits.parquet --plot a.png",
            "does not end in .svg",
        ),
        ("out.parquet in.jsonl", "no provenance"),
    ] {
        let run = compare(&sandbox, line);
        assert_eq!(run.code, Some(2), "{line}: {run}");
        assert!(run.stderr.contains(reason), "{line}: {run}");
    }
}

#[test]
fn chunks_null_rows_parts_widths_and_kinds_are_told_apart() {
    let sandbox = Sandbox::new();
    // Long texts give chunks with one id; a record without a text has no vector.
    let record = |n: usize| match n % 5 {
        0 => json!({"id": n}),
        _ => json!({"id": n, "text": format!("number {n} of a cat. ").repeat(1 + n % 3 * 30)}),
    };
    let records: String = (0..40).map(|n| format!("{}\n", record(n))).collect();
    sandbox.write("in.jsonl", records);
    let formats = [
        ("out.parquet", ""),
        ("out.jsonl", ""),
        ("out.arrow", ""),
        ("parts/", "--part-rows 9 --output-format parquet"),
    ];
    for options in ["--chunk tokens", "--dimensions 16,48"] {
        for (out, more) in formats {
            let line = format!("in.jsonl -o {out} --on-error null --force {options} {more}");
            code(&sandbox.embed(&line), 3);
        }
        let rows = vectors_of("out.jsonl", &sandbox);
        for (out, _) in formats {
            let found = compared(
                &sandbox,
                &format!("out.parquet {out} -k 3,10 --sample 1000"),
            );
            assert_eq!(found["rows"], rows, "{options} {out}");
            for overlap in found["others"][0]["overlaps"].as_array().unwrap() {
                assert_eq!(overlap["share"], 1.0, "{options} {out}");
            }
        }
        fs::remove_dir_all(sandbox.path("parts")).unwrap();
    }
    sandbox.write("few.jsonl", lines(&texts()[..20]));
    let mut command =
        sandbox.embed_command("few.jsonl -o kinds.parquet --vectors dense,sparse,multi");
    command.env("EMBEDCTL_MODEL", in_repository("fixtures/heads/bert/model"));
    code(&sandbox.finish(&mut command), 0);
    // A remedy helps: an output of one kind has no other to choose.
    let mut command = sandbox.embed_command("few.jsonl -o tokens.parquet");
    command.env(
        "EMBEDCTL_MODEL",
        in_repository("fixtures/multi/bert-document/model"),
    );
    code(&sandbox.finish(&mut command), 0);
    embed(&sandbox, "few.jsonl -o dense.parquet");
    let run = compare(&sandbox, "dense.parquet tokens.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("outputs with one kind"), "{run}");
    let run = compare(&sandbox, "kinds.parquet kinds.parquet");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("vectors of several kinds"), "{run}");
    for kind in ["dense", "sparse", "multi"] {
        let found = compared(
            &sandbox,
            &format!("kinds.parquet kinds.parquet --vectors {kind} -k 5"),
        );
        assert_eq!(found["others"][0]["overlaps"][0]["share"], 1.0, "{kind}");
    }
}

/// Rows of a JSONL output that have a vector.
fn vectors_of(file: &str, sandbox: &Sandbox) -> usize {
    let text = fs::read_to_string(sandbox.path(file)).unwrap();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let has_vector = |row: &Value| {
        row.as_object()
            .unwrap()
            .iter()
            .any(|(name, value)| name.starts_with("embedding") && value.is_array())
    };
    rows.filter(has_vector).count()
}
