//! `embedctl bench`: measurements, reports and comparisons. Nothing here depends on speed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Run, SMALL_MODEL, Sandbox, in_repository};

/// `bench` with the small model and the native engine, one sample of each configuration.
fn command(sandbox: &Sandbox, line: &str) -> Command {
    bare_command(sandbox, &format!("--duration 0.05 --samples 1 {line}"))
}

/// The same, however long it takes.
fn bare_command(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command(["bench"]);
    command
        .env("EMBEDCTL_MODEL", in_repository(SMALL_MODEL))
        .env("EMBEDCTL_PROVIDER", "rten")
        .env("TMPDIR", sandbox.path(""));
    command.args(line.split_whitespace());
    command
}

fn bench(sandbox: &Sandbox, line: &str) -> Run {
    sandbox.finish(&mut command(sandbox, line))
}

fn report(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// The whole output of `bench --json`.
fn raw_report(sandbox: &Sandbox, line: &str) -> Value {
    let output = command(sandbox, &format!("{line} --json"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sandbox_with_texts() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(
        "texts.txt",
        "one\ntwo words\n\nthree words here\nfour words are here\n",
    );
    sandbox
}

// Options.

#[test]
fn options_that_cannot_be_meant() {
    let sandbox = sandbox_with_texts();
    for (line, words) in [
        ("--corpus medium", "invalid value 'medium'"),
        ("--corpus short --input texts.txt", "cannot be used with"),
        ("--text-field body", "--input"),
        ("--provider cpu,npu", "unknown provider 'npu'"),
        ("--batch-tokens 256,256", "is listed twice"),
        (
            "--provider-option cuda.tf32=true",
            "cuda is not in --provider",
        ),
        ("--provider-option cuda.speed=11", "has no option 'speed'"),
        ("--device 1", "have only device 0, the processor"),
        ("--duration 0", "a number of seconds"),
        (
            "--baseline b.json --max-regression 100%",
            "a percentage below 100",
        ),
        ("--max-regression 5%", "--baseline"),
        ("--plot speed.png", ".svg"),
        ("--plot nowhere/speed.svg", "nowhere"),
        ("--input missing.txt", "missing.txt"),
    ] {
        let run = sandbox.finish(&mut bare_command(&sandbox, line));
        assert_eq!(run.code, Some(2), "{line}\n{run}");
        assert!(
            run.stderr.contains(words) && run.stdout.is_empty(),
            "{line}\n{run}"
        );
    }
    assert_eq!(sandbox.files(), ["texts.txt"]);
}

#[test]
fn nothing_to_measure_with() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "records.jsonl",
        "{\"body\": \"not where the text is looked for\"}\n",
    );
    assert_snapshot!(bench(&sandbox, "--input records.jsonl"));
}

#[test]
fn help() {
    assert_snapshot!(Sandbox::new().run("bench --help"));
}

// Measuring.

#[test]
fn a_report_has_all_figures() {
    let sandbox = Sandbox::new();
    let run = bench(
        &sandbox,
        "--corpus short --json --threads 1,2 --batch-tokens 64,256",
    );
    let report = report(&run);
    assert_eq!(report["schema"], 1);
    assert!(
        report["tool"].as_str().unwrap().starts_with("embedctl "),
        "{run}"
    );
    assert_eq!(report["workload"]["name"], "short");
    let machine = &report["machine"];
    assert!(machine["cores"].as_u64() >= Some(1) && machine["peak_gflops"].as_f64() > Some(0.0));
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "rten 1 thread 64 tokens",
            "rten 1 thread 256 tokens",
            "rten 2 threads 64 tokens",
            "rten 2 threads 256 tokens"
        ]
    );
    for row in rows {
        let measured = &row["measured"];
        let positive = [
            "/sample_rows",
            "/sample_tokens",
            "/rows_per_second/median",
            "/tokens_per_second/median",
            "/latency_ms/p50",
            "/latency_ms/p95",
            "/latency_ms/p99",
            "/latency_ms/texts",
            "/opened/load_seconds",
            "/stages/infer",
            "/useful_gflops",
            "/share_of_peak",
        ];
        for pointer in positive {
            let value = measured.pointer(pointer).and_then(Value::as_f64);
            assert!(value > Some(0.0), "{pointer}: {measured}");
        }
        let stages = measured["stages"].as_object().unwrap();
        let names: Vec<&str> = stages.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["read", "tokenize", "wait", "infer", "pool", "write"]
        );
        let sum: f64 = stages.values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{stages:?}");
        assert_eq!(measured["opened"]["engine"], "rten");
        assert_eq!(
            measured["rows_per_second"]["values"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        if cfg!(unix) {
            assert!(
                measured["peak_memory_bytes"].as_u64() > Some(1 << 20),
                "{measured}"
            );
        }
    }
    // The folder for samples and outputs is gone.
    assert_eq!(sandbox.files(), [""; 0]);
}

#[test]
fn tables_fit_80_columns() {
    let sandbox = sandbox_with_texts();
    let run = bench(&sandbox, "--input texts.txt --threads 1,2");
    assert_eq!(run.code, Some(0), "{run}");
    for line in run
        .stdout
        .lines()
        .filter(|line| !line.contains('/') || line.contains("rows/s"))
    {
        let line = line.replace("[VERSION]", "0.22.0");
        assert!(line.chars().count() <= 80, "{line}\n{run}");
    }
    for words in [
        "throughput",
        "rten 1 thread",
        "█",
        "p95",
        "share of time",
        "limited by: ",
    ] {
        assert!(run.stdout.contains(words), "{words}\n{run}");
    }
    // One record has no text, and counts all the same.
    assert!(run.stdout.contains("texts: texts.txt"), "{run}");
}

#[test]
fn own_records_are_read_as_embed_reads_them() {
    let sandbox = Sandbox::new();
    let records: String = (0..20)
        .map(|i| format!("{{\"b\": {{\"t\": \"text {i}\"}}}}\n"))
        .collect();
    sandbox.write("a.jsonl", records + "{\"b\": 1}\n");
    let report = report(&bench(&sandbox, "--input a.jsonl --text-field b.t --json"));
    assert_eq!(report["workload"]["records"], 20);
    assert_eq!(report["workload"]["rejected"], 1);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("1 records of the input cannot be read"),
        "{notes}"
    );
    let sandbox = Sandbox::new();
    let mut command = command(&sandbox, "--input - --json");
    let run = sandbox.run_with_input(&mut command, b"one\ntwo\n");
    assert_eq!(self::report(&run)["workload"]["records"], 2);
}

/// Rerankers and classifiers are measured by scores: pairs of a query and a text, or texts.
#[test]
fn models_that_score_are_measured_by_scores() {
    let sandbox = Sandbox::new();
    let records: String = (0..20)
        .map(|i| format!("{{\"q\": \"query {}\", \"t\": \"text {i}\"}}\n", i / 4))
        .collect();
    sandbox.write("pairs.jsonl", records);
    let tokens = |model: &str, line: &str| {
        let mut command = command(&sandbox, &format!("--json -p native {line}"));
        let model = in_repository("fixtures/scores").join(model).join("model");
        let report = report(&sandbox.finish(command.arg("-m").arg(model)));
        let measured = &report["rows"][0]["measured"];
        let number = |name: &str| {
            measured[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{report}"))
        };
        number("sample_tokens") / number("sample_rows")
    };
    let own = "--input pairs.jsonl --text-field t";
    let (with, without) = (
        tokens("bert", &format!("{own} --query-field q")),
        tokens("bert", own),
    );
    // A built-in query is longer than "query 3".
    assert!(with < without, "{with} and {without} tokens a pair");
    assert!(tokens("bert-three-labels", "--corpus short") > without / 2.0);
}

/// Models of every kind of vectors are measured, and several kinds in one pass.
#[test]
fn every_kind_of_vectors_is_measured() {
    let sandbox = Sandbox::new();
    for (model, more) in [
        ("fixtures/heads/bert/model", "--vectors multi,dense,sparse"),
        ("fixtures/sparse/route-query/model", "--task query"),
        ("fixtures/multi/pylate-document/model", "--task document"),
    ] {
        let line = format!("--json -p native --corpus short {more}");
        let mut command = command(&sandbox, &line);
        let report = report(&sandbox.finish(command.arg("-m").arg(in_repository(model))));
        let row = &report["rows"][0];
        let configuration = &row["configuration"];
        assert!(row["measured"]["rows_per_second"]["median"].as_f64() > Some(0.0));
        match more.contains("--vectors") {
            true => assert_eq!(
                configuration["vectors"],
                json!(["dense", "sparse", "multi"])
            ),
            false => assert!(configuration["task"].is_string(), "{report:#}"),
        }
    }
}

#[test]
fn a_configuration_that_fails_is_a_row_with_its_reason() {
    let sandbox = sandbox_with_texts();
    sandbox.write("libonnxruntime.so", "not a library");
    let line = "--input texts.txt --provider cpu,rten --ort-lib libonnxruntime.so";
    let report = report(&bench(&sandbox, &format!("{line} --json")));
    let rows = report["rows"].as_array().unwrap();
    assert!(
        rows[0]["failed"]
            .as_str()
            .unwrap()
            .contains("libonnxruntime.so"),
        "{report}"
    );
    assert!(
        rows[0].get("measured").is_none() && rows[1].get("failed").is_none(),
        "{report}"
    );
    let run = bench(&sandbox, line);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("cpu failed: "), "{run}");
}

#[test]
fn where_nothing_can_be_measured_the_run_fails() {
    let sandbox = sandbox_with_texts();
    let run = bench(
        &sandbox,
        "--input texts.txt --provider cpu --ort-lib nothing.so",
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains("no configuration could be measured: "),
        "{run}"
    );
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_the_workers_too() {
    use std::io::{BufRead, BufReader};

    let sandbox = Sandbox::new();
    let mut command = bare_command(&sandbox, "--samples 1000000 --duration 0.2 -v");
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = stderr.lines();
    // A sample was taken: there is a worker.
    let sampled = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.contains("rows/s"));
    assert!(sampled.is_some());
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let workers = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    // SAFETY: the child has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    for worker in workers.unwrap_or_default().split_whitespace() {
        assert!(
            !PathBuf::from(format!("/proc/{worker}")).exists(),
            "worker {worker} is still there"
        );
    }
    assert_eq!(sandbox.files(), [""; 0]);
}

#[test]
fn a_worker_without_requests_ends() {
    let sandbox = Sandbox::new();
    let run = sandbox.run("__bench-worker");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{run}");
    let mut command = sandbox.command(["__bench-worker"]);
    let run = sandbox.run_with_input(&mut command, b"\"work\"\n");
    assert!(run.stdout.contains("{\"failed\":"), "{run}");
}

// Pictures.

#[test]
fn pictures_are_written() {
    let sandbox = sandbox_with_texts();
    let line = "--input texts.txt --batch-tokens 64,128";
    let run = bench(&sandbox, &format!("{line} --plot a.svg"));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("wrote a.svg"), "{run}");
    let picture = fs::read_to_string(sandbox.path("a.svg")).unwrap();
    assert!(picture.starts_with("<svg "), "{picture}");
    assert!(picture.contains("rten 64 tokens") && picture.contains("Where time goes"));
}

// Baselines.

/// The output of `bench --json`, with other rates in place of the measured ones.
fn made_up(report: &Value, rates: [f64; 9]) -> String {
    let mut report = report.clone();
    for row in report["rows"].as_array_mut().unwrap() {
        let mut sorted = rates;
        sorted.sort_by(f64::total_cmp);
        row["measured"]["rows_per_second"] = json!({
            "median": sorted[4],
            "low": sorted[1],
            "high": sorted[7],
            "min": sorted[0],
            "max": sorted[8],
            "values": rates,
        });
    }
    report.to_string()
}

#[test]
fn a_baseline_decides_the_exit_code() {
    let sandbox = sandbox_with_texts();
    let line = "--input texts.txt --max-length 32";
    let report = raw_report(&sandbox, line);
    // Rates that no machine reaches, low and high.
    sandbox.write("slow.json", made_up(&report, [1e-6; 9]));
    sandbox.write("fast.json", made_up(&report, [1e12; 9]));

    let run = bench(
        &sandbox,
        &format!("{line} --baseline slow.json --max-regression 5%"),
    );
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stdout.contains("against the baseline of") && run.stdout.contains(" ok"),
        "{run}"
    );

    let run = bench(
        &sandbox,
        &format!("{line} --baseline fast.json --max-regression 5%"),
    );
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("SLOWER"), "{run}");
    let words = "by more than 5.0 % (--max-regression): rten is 100.0 % slower (between";
    assert!(run.stderr.contains(words), "{run}");

    let run = bench(&sandbox, &format!("{line} --baseline fast.json --json"));
    assert_eq!(run.code, Some(1), "{run}");
    let compared: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(compared["comparison"]["rows"][0]["verdict"], "regressed");
    assert_eq!(compared["comparison"]["max_regression"], 0.05);
}

#[test]
fn a_baseline_that_says_nothing_is_refused() {
    let sandbox = sandbox_with_texts();
    let report = raw_report(&sandbox, "--input texts.txt");
    sandbox.write("baseline.json", report.to_string());
    sandbox.write("other.json", "{\"rows\": []}");
    for (line, words) in [
        (
            "--input texts.txt --baseline other.json",
            "is not a report of bench",
        ),
        (
            "--corpus short --baseline baseline.json",
            "measured on other texts",
        ),
        (
            "--input texts.txt --threads 1 --baseline baseline.json",
            "none of this run's",
        ),
    ] {
        let run = bench(&sandbox, line);
        assert_eq!(run.code, Some(2), "{line}\n{run}");
        assert!(run.stderr.contains(words), "{line}\n{run}");
    }
    let run = bench(&sandbox, "--baseline nowhere.json");
    assert_eq!(run.code, Some(2), "{run}");
}

#[test]
fn a_row_is_called_by_the_provider_that_ran() {
    let sandbox = sandbox_with_texts();
    let report = report(&bench(&sandbox, "--input texts.txt --provider auto --json"));
    let row = &report["rows"][0];
    assert_eq!(
        row["name"], row["measured"]["opened"]["provider"],
        "{report}"
    );
    assert_eq!(row["configuration"]["provider"], "auto");
}

#[test]
fn all_devices_are_one_configuration() {
    let report = report(&bench(
        &Sandbox::new(),
        "--corpus short --device all --json",
    ));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{report}");
    assert_eq!(rows[0]["configuration"]["all_devices"], true);
    assert!(rows[0]["measured"].is_object(), "{report}");
}
