//! Texts that the model cannot be given: each rejects its own record, and the rest of the run goes on.

use std::fs;

use serde_json::{Value, json};

use crate::sandbox::{Run, Sandbox, copy_folder, in_repository};

/// Copies a model of the fixtures to `model`, with another tokenizer.json.
fn model(sandbox: &Sandbox, case: &str, change: impl Fn(&mut Value)) {
    let folder = sandbox.path("model");
    copy_folder(
        &in_repository(&format!("fixtures/parity/{case}/model")),
        &folder,
    );
    let own = ["tokenizer.json", "0_StaticEmbedding/tokenizer.json"].map(|name| folder.join(name));
    let file = own.iter().find(|file| file.is_file()).unwrap();
    let mut tokenizer = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut tokenizer);
    fs::write(file, tokenizer.to_string()).unwrap();
}

fn embed(sandbox: &Sandbox, line: &str) -> Run {
    let line = format!("embed -m model --threads 1 --force {line}");
    sandbox.run(&line)
}

/// Adds tokens `<0>`, `<1>`, … until there are ids for all rows of a table, and `<beyond>`, whose id has none.
fn add_tokens(tokenizer: &mut Value, rows: usize) {
    let known = match &tokenizer["model"]["vocab"] {
        Value::Object(vocabulary) => vocabulary.len(),
        list => list.as_array().unwrap().len(),
    };
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for id in known..=rows {
        let content = match id == rows {
            true => "<beyond>".to_owned(),
            false => format!("<{id}>"),
        };
        added.push(json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false,
        }));
    }
}

/// Three records, of which the second is `bad`.
fn records(sandbox: &Sandbox, bad: &str) {
    let records = [("a", "some words"), ("b", bad), ("c", "other words")];
    let lines = records.map(|(id, text)| json!({"id": id, "text": text}).to_string() + "\n");
    sandbox.write("in.jsonl", lines.concat());
}

/// The ids of the records whose rows stand in `out.jsonl`.
fn ids(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ids: Vec<String> = rows
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    // A record may have become several chunks.
    ids.dedup();
    ids
}

/// All that a run says, on one line.
fn words(run: &Run) -> String {
    let said = format!("{} {}", run.stdout, run.stderr);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The run goes on without record `b`, lists it, and fails where that is asked for; `reason` is said of it.
fn check(sandbox: &Sandbox, engine: &str, reason: &str) {
    for how in ["", "--chunk tokens --chunk-tokens 4", "--dry-run"] {
        let line = format!("in.jsonl -o out.jsonl {engine} {how}");
        let skipped = embed(sandbox, &format!("{line} --on-error skip"));
        for part in ["in.jsonl:2", reason] {
            assert!(words(&skipped).contains(part), "{engine} {how}: {skipped}");
        }
        assert!(
            !skipped.stderr.contains("panicked at"),
            "{engine} {how}: {skipped}"
        );
        if how == "--dry-run" {
            continue;
        }
        assert_eq!(skipped.code, Some(3), "{engine} {how}: {skipped}");
        assert_eq!(ids(sandbox), ["a", "c"], "{engine} {how}");
        let listing = format!("{line} --on-error skip --rejects rejects.jsonl");
        assert_eq!(embed(sandbox, &listing).code, Some(3));
        let listed = fs::read(sandbox.path("rejects.jsonl")).unwrap();
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        assert_eq!((&listed["id"], &listed["line"]), (&json!("b"), &json!(2)));
        assert!(
            listed["reason"].as_str().unwrap().contains(reason),
            "{listed}"
        );
        let failed = embed(sandbox, &line);
        assert_eq!(failed.code, Some(1), "{engine} {how}: {failed}");
        for part in ["in.jsonl:2 (id \"b\"): ", reason] {
            assert!(failed.stderr.contains(part), "{engine} {how}: {failed}");
        }
        assert!(!failed.stderr.contains("bug"), "{engine} {how}: {failed}");
    }
}

#[test]
fn a_token_without_a_vector_rejects_its_record() {
    for (case, rows, engines) in [
        // A network with safetensors and an ONNX graph; in less than single precision the first window is measured.
        (
            "bare-encoder",
            320,
            &["-p native", "-p native --precision int16", "-p rten"][..],
        ),
        ("bert-mean-legacy", 1200, &["-p rten"]),
    ] {
        for engine in engines {
            let sandbox = Sandbox::new();
            model(&sandbox, case, |tokenizer| add_tokens(tokenizer, rows));
            let last = rows - 1;
            records(
                &sandbox,
                &format!("the token <{last}> <beyond> and more words behind it"),
            );
            check(&sandbox, engine, &format!("with id {rows}, "));
            records(&sandbox, "<beyond>");
            check(&sandbox, engine, "\"<beyond>\"");
            // The last row of the table is a row like any other.
            records(&sandbox, &format!("the token <{last}>"));
            let run = embed(&sandbox, &format!("in.jsonl -o out.jsonl {engine}"));
            assert_eq!(run.code, Some(0), "{engine}: {run}");
            assert_eq!(ids(&sandbox), ["a", "b", "c"]);
        }
    }
}

#[test]
fn a_token_without_a_vector_in_a_static_table_rejects_its_record() {
    let sandbox = Sandbox::new();
    let table = in_repository("fixtures/parity/static-own-folder/model");
    let rows = static_rows(&table);
    model(&sandbox, "static-own-folder", |tokenizer| {
        add_tokens(tokenizer, rows);
    });
    records(&sandbox, "some <beyond> words");
    check(&sandbox, "-p native", &format!("with id {rows}, "));
}

/// Rows of the table in a static model's safetensors file.
fn static_rows(folder: &std::path::Path) -> usize {
    let file =
        ["model.safetensors", "0_StaticEmbedding/model.safetensors"].map(|name| folder.join(name));
    let bytes = fs::read(file.iter().find(|file| file.is_file()).unwrap()).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    header["embedding.weight"]["shape"][0].as_u64().unwrap() as usize
}

/// A vocabulary that knows the letters of good texts and of the sample that each tokenizer is tried with, and has
/// nothing for others.
#[test]
fn a_text_that_the_tokenizer_fails_on_rejects_its_record() {
    for engine in ["-p native", "-p rten"] {
        let sandbox = Sandbox::new();
        model(&sandbox, "bare-encoder", |tokenizer| {
            let letters = "abcdefghijklmnopqrstuvwxyz ! B1,\u{e9}\n\u{6771}";
            let entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
            let entries = entries.into_iter().chain(letters.chars().map(String::from));
            let entries: Vec<Value> = entries.map(|entry| json!([entry, -1.0])).collect();
            tokenizer["model"] = json!({
                "type": "Unigram", "unk_id": null, "vocab": entries, "byte_fallback": false,
            });
            tokenizer["normalizer"] = Value::Null;
            tokenizer["pre_tokenizer"] = Value::Null;
        });
        let config = json!({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 48});
        sandbox.write("model/tokenizer_config.json", config.to_string());
        records(&sandbox, "words and \u{3a9}");
        check(&sandbox, engine, "fails on this text: ");
    }
}

/// A pre-tokenizer that panics over every text that the normalizer leaves anything of.
#[test]
fn a_text_that_the_tokenizer_panics_on_rejects_its_record() {
    for engine in ["-p native", "-p rten"] {
        let sandbox = Sandbox::new();
        model(&sandbox, "bare-encoder", |tokenizer| {
            tokenizer["normalizer"] =
                json!({"type": "Replace", "pattern": {"Regex": "[^\u{3a9}]+"}, "content": ""});
            tokenizer["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0});
        });
        let config = json!({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 48});
        sandbox.write("model/tokenizer_config.json", config.to_string());
        records(&sandbox, "words and \u{3a9}");
        check(&sandbox, engine, "a library panicked: ");
    }
}
