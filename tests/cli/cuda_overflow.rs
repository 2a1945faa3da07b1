//! Rows that overflow in fp16 on embedctl's own engine for NVIDIA GPUs, which the emulator stands for: they are computed in
//! bf16. A word's embedding is made too great for fp16.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::cuda::{OWN, emulated, sandbox};
use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};
#[cfg(feature = "serve")]
use crate::server::Server;
use embedctl_testing::stride;

const MODEL: &str = "fixtures/parity/family-distilbert/model";

const MULTI: &str = "fixtures/multi/distilbert-document/model";
const SPARSE: &str = "fixtures/sparse/bert/model";
const SCORES: &str = "fixtures/scores/bert/model";

/// The word that overflows. The rows on which a card is compared with the processor do not have it.
const WORD: &str = "x";

/// Texts: the second and the last one overflow.
const TEXTS: [&str; 5] = ["one two", "an x here", "three", "four five", "x"];

/// Beyond fp16, and not beyond bf16.
fn too_great_for_fp16(value: f32) -> f32 {
    value * 1e7
}

/// Finite in fp32, and infinite in bf16.
fn too_great_for_bf16(value: f32) -> f32 {
    f32::MAX.copysign(value)
}

/// A copy of a model whose embedding of [`WORD`] is changed.
fn changed(sandbox: &Sandbox, model: &str, change: impl Fn(f32) -> f32) -> PathBuf {
    let folder = sandbox.path("model");
    let _ = fs::remove_dir_all(&folder);
    copy_folder(&in_repository(model), &folder);
    let tokenizer: Value =
        serde_json::from_slice(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
    let id = tokenizer["model"]["vocab"][WORD].as_u64().unwrap() as usize;
    let file = folder.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let mut tensors = header.as_object().unwrap().iter();
    let is_table = |name: &str| name.ends_with("word_embeddings.weight");
    let (_, table) = tensors.find(|(name, _)| is_table(name)).unwrap();
    assert_eq!(table["dtype"], "F32");
    let width = table["shape"][1].as_u64().unwrap() as usize;
    let row = start + table["data_offsets"][0].as_u64().unwrap() as usize + 4 * width * id;
    for word in bytes[row..row + 4 * width].as_chunks_mut().0 {
        *word = change(f32::from_le_bytes(*word)).to_le_bytes();
    }
    fs::write(&file, bytes).unwrap();
    folder
}

/// Lines with a field `text`, and `other` for models of pairs.
fn lines(texts: &[&str]) -> String {
    texts
        .iter()
        .map(|text| format!("{{\"text\": \"{text}\", \"other\": \"seven\"}}\n"))
        .collect()
}

fn command(sandbox: &Sandbox, verb: &str, model: &Path, input: &str, line: &str) -> Command {
    let mut command = sandbox.command([verb, input]);
    emulated(&mut command, sandbox, model)
        .env("EMBEDCTL_EMULATED_CARDS", "2")
        .arg("-m")
        .arg(model)
        .args(line.split_whitespace());
    command
}

/// Runs it into `out.jsonl`: the numbers of each row, and how many rows overflowed.
fn numbers(
    sandbox: &Sandbox,
    verb: &str,
    model: &Path,
    input: &str,
    line: &str,
) -> (Vec<Value>, Value) {
    let line = format!("-o out.jsonl --force --stats stats.json {line}");
    let run = sandbox.finish(&mut command(sandbox, verb, model, input, &line));
    assert_eq!(run.code, Some(0), "{run}");
    let rows = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let rows = rows.lines().map(|row| {
        let mut row: Value = serde_json::from_str(row).unwrap();
        row.as_object_mut().unwrap().remove("id");
        row
    });
    (rows.collect(), overflowed(sandbox))
}

/// The count in `stats.json`.
fn overflowed(sandbox: &Sandbox) -> Value {
    let stats = fs::read(sandbox.path("stats.json")).unwrap();
    serde_json::from_slice::<Value>(&stats).unwrap()["overflowed"].clone()
}

#[test]
fn rows_that_overflow_have_the_bits_of_bf16_and_others_those_of_fp16() {
    let Some(sandbox) = sandbox("rows that overflow in fp16") else {
        return;
    };
    let others: Vec<&str> = TEXTS
        .into_iter()
        .filter(|text| !text.contains(WORD))
        .collect();
    sandbox.write("all.jsonl", lines(&TEXTS));
    sandbox.write("others.jsonl", lines(&others));
    let cases = [
        ("embed", MODEL, ""),
        ("embed", MODEL, "--provider-option cuda.pooling=host"),
        ("embed", MODEL, "--batch-tokens 3"),
        ("embed", MODEL, "--batch-tokens 3 --device all"),
        ("embed", MULTI, ""),
        ("embed", SPARSE, ""),
        ("score", SCORES, "--query-field text --text-field other"),
    ];
    for (verb, model, line) in cases.into_iter().step_by(stride(3)) {
        // The head of the sparse model has the same weights, so all its rows overflow.
        let overflows = |text: &str| model == SPARSE || text.contains(WORD);
        let case = format!("{verb} {model} {line}");
        let folder = changed(&sandbox, model, too_great_for_fp16);
        let run = |input: &str, precision: &str| {
            let line = format!("{OWN} --precision {precision} {line}");
            numbers(&sandbox, verb, &folder, input, &line)
        };
        let (wide, of_bf16) = run("all.jsonl", "bf16");
        let (narrow, of_others) = run("others.jsonl", "fp16");
        let (all, of_all) = run("all.jsonl", "fp16");
        let [in_others, in_all] = [&others[..], &TEXTS[..]]
            .map(|texts| texts.iter().filter(|text| overflows(text)).count());
        assert_eq!(of_bf16, 0, "{case}");
        assert_eq!([of_others, of_all], [in_others, in_all], "{case}");
        assert_eq!(all.len(), TEXTS.len(), "{case}");
        let mut narrow = narrow.iter();
        for ((text, row), wide) in TEXTS.iter().zip(&all).zip(&wide) {
            let narrow = match text.contains(WORD) {
                true => None,
                false => narrow.next(),
            };
            let expected = narrow.filter(|_| !overflows(text)).unwrap_or(wide);
            assert_eq!(row, expected, "{case}: {text}");
            assert!(!row.to_string().contains("null"), "{case}: {row}");
        }
    }
}

#[test]
fn rows_that_overflow_are_near_the_native_engines_and_are_told() {
    let Some(sandbox) = sandbox("rows that overflow are told") else {
        return;
    };
    let model = changed(&sandbox, MODEL, too_great_for_fp16);
    sandbox.write("texts.jsonl", lines(&TEXTS));
    let fp16 = format!("{OWN} --precision fp16");
    let (ours, _) = numbers(&sandbox, "embed", &model, "texts.jsonl", &fp16);
    let (exact, _) = numbers(&sandbox, "embed", &model, "texts.jsonl", "-p native");
    for (ours, exact) in ours.iter().zip(&exact) {
        let [ours, exact] = [ours, exact].map(|row| row["embedding"].as_array().unwrap());
        for (ours, exact) in ours.iter().zip(exact) {
            let apart = ours.as_f64().unwrap() - exact.as_f64().unwrap();
            assert!(apart.abs() <= 2e-2, "{ours} and {exact}");
        }
    }
    for (texts, words, count) in [
        (
            &TEXTS[..],
            "2 rows overflowed in fp16 and were computed in bf16",
            2,
        ),
        (
            &TEXTS[..2],
            "1 row overflowed in fp16 and was computed in bf16",
            1,
        ),
        // Copies of a text are rows, too.
        (
            &["one", "x", "x", "x"],
            "3 rows overflowed in fp16 and were computed in bf16",
            3,
        ),
    ] {
        sandbox.write("texts.jsonl", lines(texts));
        // A file that can be resumed is put together from parts.
        for output in ["-o out.parquet --force", "-o parts.parquet --resume"] {
            let _ = fs::remove_file(sandbox.path("parts.parquet"));
            let line = format!("{fp16} {output} --stats stats.json");
            let mut command = command(&sandbox, "embed", &model, "texts.jsonl", &line);
            let run = sandbox.finish(&mut command);
            assert_eq!(run.code, Some(0), "{run}");
            assert!(run.stderr.contains(words), "{run}");
            assert_eq!(overflowed(&sandbox), count);
            let file = output.split(' ').nth(1).unwrap();
            let shown = sandbox.run(&format!("inspect --json {file}"));
            let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
            let made = &shown["files"][0]["provenance"];
            assert_eq!(made["rows"]["overflowed"], count, "{made}");
            assert_eq!(made["engine"]["built_graph"], "fp16", "{made}");
        }
    }
}

/// Parts, shards, parts that are gone, earlier outputs, widths and kept fields: the rows are those of one run.
#[test]
fn rows_that_overflow_are_the_same_in_parts_shards_and_earlier_outputs() {
    let Some(sandbox) = sandbox("rows that overflow in jobs") else {
        return;
    };
    let model = changed(&sandbox, MODEL, too_great_for_fp16);
    sandbox.write("texts.jsonl", lines(&TEXTS));
    sandbox.write("some.jsonl", lines(&TEXTS[..2]));
    let form = "--precision fp16 --keep text --dimensions 4,8";
    let run = |input: &str, line: &str| {
        let line = format!("{OWN} {form} --stats stats.json {line}");
        let run = sandbox.finish(&mut command(&sandbox, "embed", &model, input, &line));
        assert_eq!(run.code, Some(0), "{line}: {run}");
        overflowed(&sandbox)
    };
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!(run("texts.jsonl", "-o whole.jsonl"), 2);
    let whole = read(&sandbox.path("whole.jsonl"));
    assert_eq!(whole.lines().count(), TEXTS.len());
    let joined = |folder: &str| -> String {
        let files = fs::read_dir(sandbox.path(folder)).unwrap();
        let files = files.map(|it| it.unwrap().path());
        let mut parts: Vec<_> = files
            .filter(|it| it.extension() == Some("jsonl".as_ref()))
            .collect();
        parts.sort();
        parts.iter().map(|part| read(part)).collect()
    };
    let parts = "-o parts/ -f jsonl --part-rows 1 --resume";
    assert_eq!(run("texts.jsonl", parts), 2);
    assert_eq!(joined("parts"), whole);
    // The second and the third part are embedded again.
    let mut files: Vec<_> = fs::read_dir(sandbox.path("parts"))
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    files.retain(|it| it.extension() == Some("jsonl".as_ref()));
    files.sort();
    for part in &files[1..3] {
        fs::remove_file(part).unwrap();
    }
    assert_eq!(run("texts.jsonl", parts), 1);
    assert_eq!(joined("parts"), whole);
    let of_shards = [1, 2].map(|shard| {
        let line = format!("-o shards/ -f jsonl --part-rows 1 --resume --shard {shard}/2");
        run("texts.jsonl", &line).as_u64().unwrap()
    });
    assert_eq!(of_shards, [1, 1]);
    assert_eq!(joined("shards"), whole);
    // What is taken from an earlier output is not computed; the row that is new is.
    assert_eq!(run("some.jsonl", "-o some.parquet"), 1);
    assert_eq!(run("texts.jsonl", "-o again.jsonl --reuse some.parquet"), 1);
    assert_eq!(read(&sandbox.path("again.jsonl")), whole);
}

/// A server's `/metrics` count them.
#[cfg(feature = "serve")]
#[test]
fn a_server_counts_the_rows_that_overflow() {
    let Some(sandbox) = sandbox("a server's rows that overflow") else {
        return;
    };
    for (model, route, body, count) in [
        (MODEL, "/embed", json!({"inputs": TEXTS}), 2),
        // The head of the sparse model has the same weights, so all its rows overflow.
        (SPARSE, "/embed_sparse", json!({"inputs": TEXTS}), 5),
        (
            SCORES,
            "/rerank",
            json!({"query": "seven", "texts": TEXTS}),
            2,
        ),
    ] {
        let model = changed(&sandbox, model, too_great_for_fp16);
        let mut command = sandbox.command(["serve", "--threads", "1", "--listen", "127.0.0.1:0"]);
        let line = format!("{OWN} --precision fp16");
        emulated(&mut command, &sandbox, &model).args(line.split(' '));
        let server = Server::spawn(&mut command);
        let (status, answer) = server.post(route, &body);
        assert!(
            status == 200 && !answer.contains("null"),
            "{route}: {answer}"
        );
        let (_, metrics) = server.get("/metrics");
        let counted = format!("embedctl_serve_overflowed_total {count}\n");
        assert!(metrics.contains(&counted), "{route}: {metrics}");
    }
}

#[test]
fn rows_that_overflow_in_bf16_too_are_rejected() {
    let Some(sandbox) = sandbox("rows that overflow in bf16") else {
        return;
    };
    let model = changed(&sandbox, MODEL, too_great_for_bf16);
    sandbox.write("texts.jsonl", lines(&TEXTS));
    let run = |line: &str| {
        let line = format!("{OWN} --precision fp16 -o out.npy {line}");
        sandbox.finish(&mut command(
            &sandbox,
            "embed",
            &model,
            "texts.jsonl",
            &line,
        ))
    };
    let failed = run("");
    assert_ne!(failed.code, Some(0), "{failed}");
    assert!(failed.stderr.contains("NaN or infinity"), "{failed}");
    assert!(!sandbox.path("out.npy").exists(), "{failed}");
    let skipped = run("--on-error skip");
    assert!(
        skipped.stderr.contains("3 embedded + 2 rejected"),
        "{skipped}"
    );
    assert!(!skipped.stderr.contains("overflowed"), "{skipped}");
}

/// Neither a row is lost nor a run hidden behind `--on-error skip`: the error names the precision that needs no second
/// network.
#[test]
fn a_card_without_memory_for_bf16_beside_fp16_is_an_error_that_names_bf16() {
    let Some(sandbox) = sandbox("no memory for bf16") else {
        return;
    };
    let model = changed(&sandbox, MODEL, too_great_for_fp16);
    sandbox.write("texts.jsonl", lines(&TEXTS));
    let run = |memory: usize, line: &str| -> Run {
        let line = format!("{OWN} -o out.npy --force --batch-tokens 64 {line}");
        let mut command = command(&sandbox, "embed", &model, "texts.jsonl", &line);
        sandbox.finish(command.env("EMBEDCTL_EMULATED_MEMORY", memory.to_string()))
    };
    // A network has 32 MiB to multiply in, so this is enough for one, and not for two.
    let one = 48 << 20;
    for line in ["", "--on-error skip"] {
        let failed = run(one, &format!("--precision fp16 {line}"));
        assert_ne!(failed.code, Some(0), "{failed}");
        for words in ["overflows in fp16", "out of memory", "--precision bf16"] {
            assert!(failed.stderr.contains(words), "{words}: {failed}");
        }
        assert!(!sandbox.path("out.npy").exists(), "{failed}");
    }
    let wide = run(one, "--precision bf16");
    assert_eq!(wide.code, Some(0), "{wide}");
    let both = run(2 * one, "--precision fp16");
    assert_eq!(both.code, Some(0), "{both}");
}
