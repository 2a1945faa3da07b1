//! How long texts are, how much of them is cut, and what keeps it: before a run and after it.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Run, SMALL_MODEL, Sandbox, in_repository};

/// The small model cuts at 64 tokens, and has 128 positions.
const LONG: &str = "The quick brown fox jumps over the lazy dog. ";

fn long_texts(count: usize, sentences: usize) -> String {
    let text = LONG.repeat(sentences);
    let record = |id: usize| format!("{{\"id\": {id}, \"text\": \"{text}{id}\"}}\n");
    (0..count).map(record).collect()
}

fn command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(["tokens", "--provider", "rten", "--threads", "1"]);
    command.env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL));
    command.args(line.split_whitespace());
    command
}

fn tokens(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.finish(&mut command(sandbox, line))
}

/// The same as JSON.
fn found(sandbox: &Sandbox, line: &str) -> Value {
    let output = command(sandbox, line)
        .args(["--log-format", "json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_run_says_how_much_it_cut_and_what_keeps_it() {
    let sandbox = Sandbox::new();
    sandbox.write("long.jsonl", long_texts(23, 60));
    let run = sandbox.embed("long.jsonl -o out.parquet");
    assert_eq!(run.code, Some(0), "{run}");
    let warning = run.stderr.lines().find(|line| line.starts_with("warning:"));
    let warning = warning.unwrap_or_else(|| panic!("{run}"));
    assert!(
        warning.starts_with("warning: 23 of 23 texts were cut to 64 tokens; about 9"),
        "{run}"
    );
    assert!(
        warning.ends_with(
            " % of their tokens had no effect. `--chunk sentences` keeps them; `--max-length 128` keeps about 7 % of them."
        ),
        "{run}"
    );
    // It does.
    let run = sandbox.embed("long.jsonl -o chunks.parquet --chunk sentences");
    assert!(run.stderr.contains("none truncated"), "{run}");
    assert!(!run.stderr.contains("warning:"), "{run}");
    // Documents are cut at their headings.
    sandbox.write("a.md", LONG.repeat(60));
    let run = sandbox.embed("a.md -i file -o md.parquet");
    assert!(
        run.stderr.contains("`--chunk markdown` keeps them; "),
        "{run}"
    );
    // Among many short texts it is a quiet line.
    let short: String = (0..400)
        .map(|id| format!("{{\"text\": \"number {id}\"}}\n"))
        .collect();
    sandbox.write("short.jsonl", short + &long_texts(1, 8));
    let run = sandbox.embed("short.jsonl -o short.parquet");
    assert!(!run.stderr.contains("warning:"), "{run}");
    assert!(
        run.stderr.contains(
            "\n1 of 401 texts was cut to 64 tokens; about 3 % of all tokens had no effect\n"
        ),
        "{run}"
    );
}

#[test]
fn a_longer_limit_is_named_where_the_model_has_one() {
    let sandbox = Sandbox::new();
    sandbox.write("long.jsonl", long_texts(3, 80));
    let mut command = sandbox.embed_command("long.jsonl -o out.parquet --max-length 32");
    let run = sandbox.finish(&mut command);
    assert!(
        run.stderr.contains("were cut to 32 tokens")
            && run
                .stderr
                .contains("; `--max-length 128` keeps about 7 % of them."),
        "{run}"
    );
    // 256 tokens are the real model's own limit, and its network has 512 positions.
    let mut command = sandbox.embed_command("long.jsonl -o real.parquet");
    let run = sandbox.finish(command.arg("--model").arg(in_repository(REAL_MODEL)));
    assert!(run.stderr.contains("; `--max-length 512` keeps "), "{run}");
    let shorter = long_texts(3, 40);
    sandbox.write("long.jsonl", shorter);
    let mut command = sandbox.embed_command("long.jsonl -o real2.parquet");
    let run = sandbox.finish(command.arg("--model").arg(in_repository(REAL_MODEL)));
    assert!(
        run.stderr
            .contains("; `--max-length 512` keeps about all of them."),
        "{run}"
    );
}

#[test]
fn the_share_that_is_lost_is_about_that_of_a_longer_model() {
    let sandbox = Sandbox::new();
    sandbox.write("long.jsonl", long_texts(2, 60));
    let lost = |line: &str| -> u64 {
        let mut command = sandbox.embed_command(&format!("long.jsonl -o out.npy --force {line}"));
        let output = command.args(["--log-format", "json"]).output().unwrap();
        let summary = String::from_utf8(output.stderr).unwrap();
        let summary: Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
        summary["lost_tokens"].as_u64().unwrap()
    };
    let (at_64, at_32) = (lost(""), lost("--max-length 32"));
    // Each of two texts loses 32 tokens more.
    assert!(at_32.abs_diff(at_64 + 64) <= at_64 / 50, "{at_64} {at_32}");
    let found = found(&sandbox, "long.jsonl");
    // Counted, not estimated.
    let counted = found["cut"]["lost"].as_u64().unwrap();
    assert!(counted.abs_diff(at_64) <= counted / 20, "{counted} {at_64}");
    assert_eq!(
        found["lengths"]["longest"].as_u64().unwrap(),
        counted / 2 + 64
    );
}

#[test]
fn tokens_is_a_dry_run_by_its_own_name() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "mixed.jsonl",
        long_texts(2, 60) + &long_texts(6, 1) + &long_texts(6, 1),
    );
    let run = tokens(&sandbox, "mixed.jsonl");
    assert_eq!(run.code, Some(0), "{run}");
    for words in [
        "  tokens       ",
        "2 rows (14.3 %) are cut to 64",
        "  cut off      ",
        " % of all tokens, ",
        "  repeated     6 rows with the text of an earlier row",
        "Tokens of texts: half ",
        "`--chunk sentences` keeps the tokens that are cut now, ",
        " % of all;\n`--max-length 128` keeps ",
        "in vectors.parquet",
        "Nothing was written.",
    ] {
        assert!(run.stdout.contains(words), "{words}\n{run}");
    }
    // Bars, the longest for the most rows; what is cut is marked.
    let bars: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.contains('█'))
        .collect();
    assert!(
        bars.iter().any(|line| line.contains(&"█".repeat(40))),
        "{run}"
    );
    assert_eq!(
        bars.iter().filter(|line| line.ends_with("cut")).count(),
        1,
        "{run}"
    );
    assert!(
        run.stdout.lines().all(|line| line.chars().count() <= 80),
        "{run}"
    );
    assert_eq!(sandbox.files(), ["mixed.jsonl"]);
    let named = found(&sandbox, "mixed.jsonl");
    let mut dry = sandbox.embed_command("mixed.jsonl --dry-run --log-format json");
    let dry: Value = serde_json::from_slice(&dry.output().unwrap().stdout).unwrap();
    for name in ["sample", "lengths", "cut", "cut_remedy", "columns"] {
        assert_eq!(dry[name], named[name], "{name}");
    }
    assert_eq!(
        named["cut_remedy"],
        json!({"chunk": "sentences", "max_length": 128})
    );
    let rows: u64 = named["lengths"]["bins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| bin["rows"].as_u64().unwrap())
        .sum();
    assert_eq!(rows, 14);
    // A command line of embed can be tried as it is.
    let run = tokens(
        &sandbox,
        "mixed.jsonl -o out.npy --chunk tokens --chunk-tokens 20 --force",
    );
    assert!(
        run.stdout.contains("Tokens of chunks: ") && run.stdout.contains("in out.npy"),
        "{run}"
    );
}

/// Equal vectors would be compressed away in the sample: each text has its own.
#[test]
fn sizes_of_parquet_are_those_of_distinct_vectors() {
    let sandbox = Sandbox::new();
    let words: Vec<String> = (0..6000).map(|id| format!("word{id}")).collect();
    let texts: String = words
        .chunks(2)
        .map(|two| format!("{}\n", two.join(" ")))
        .collect();
    sandbox.write("many.txt", texts);
    sandbox.write("long.txt", format!("{}\n", words.join(" ")).repeat(4));
    for (line, out) in [
        ("many.txt -o out.parquet", "out.parquet"),
        ("many.txt -o half.parquet --dtype f16", "half.parquet"),
        ("many.txt -o bits.parquet --dtype ubinary", "bits.parquet"),
        (
            "long.txt -o chunks.parquet --chunk tokens --chunk-tokens 16 --chunk-text",
            "chunks.parquet",
        ),
        ("many.txt -o out.npy", "out.npy"),
    ] {
        let found = found(&sandbox, line);
        let estimate = found["estimate"]["bytes"].as_f64().unwrap();
        let run = sandbox.embed(line);
        assert_eq!(run.code, Some(0), "{run}");
        let files = sandbox
            .files()
            .into_iter()
            .filter(|name| name.starts_with(out));
        let written: u64 = files
            .map(|name| fs::metadata(sandbox.path(&name)).unwrap().len())
            .sum();
        let off = estimate / written as f64;
        assert!(
            (0.75..1.35).contains(&off),
            "{line}: {estimate}, not {written}"
        );
    }
}

/// Where the limit leaves no room for text, chunks have none either.
#[test]
fn chunks_are_no_remedy_for_a_limit_of_special_tokens() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "a cat here\nb dog there\n");
    let model = in_repository("fixtures/parity/bert-max-seq-length-2/model");
    let line = format!(
        "embed in.txt -p rten,native -o out.npy -m {}",
        model.display()
    );
    let run = sandbox.run(&line);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains("`--max-length 200` keeps about all of them"),
        "{run}"
    );
    assert!(!run.stderr.contains("--chunk"), "{run}");
}
