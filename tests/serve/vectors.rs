//! A text's vector is the same in the library, in the batch job's output and in the server's answer, bit by bit.

use std::sync::Arc;

use base64::Engine as _;
use embedctl::Embedder;
use embedctl::cancel::CancelToken;
use embedctl::engine::{self, EngineOptions, Resolved};
use embedctl::model::ModelOptions;
use serde_json::{Value, json};

use crate::sandbox::{REAL_MODEL, Sandbox, in_repository};
use crate::server::Server;
use crate::support::npy::Matrix;

/// Texts of very different lengths, an empty one and equal ones among them.
fn texts() -> Vec<String> {
    let quotes = std::fs::read_to_string(in_repository("fixtures/inputs/quotes.txt")).unwrap();
    let lines: Vec<&str> = quotes.lines().collect();
    let mut texts: Vec<String> = lines.iter().take(30).map(ToString::to_string).collect();
    texts.extend([String::new(), "x".into(), lines.join(" "), lines[3].into()]);
    texts
}

fn bits(vectors: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let bits = |vector: &Vec<f32>| vector.iter().map(|it| it.to_bits()).collect();
    vectors.iter().map(bits).collect()
}

#[test]
fn library_batch_job_and_server_give_the_same_bits() {
    let texts = texts();
    for (model, precision) in [
        (REAL_MODEL, "fp32"),
        (REAL_MODEL, "int8"),
        ("fixtures/parity/family-qwen3/model", "fp32"),
        ("fixtures/parity/family-t5/model", "fp32"),
        ("fixtures/parity/dense-two-layers/model", "fp32"),
        ("fixtures/parity/layer-norm/model", "fp32"),
    ] {
        let case = format!("{model}, {precision}");
        let model = in_repository(model).display().to_string();
        let options = ModelOptions {
            model: model.clone(),
            precision: Some(precision.parse().unwrap()),
            ..ModelOptions::default()
        };
        let engine = EngineOptions {
            providers: "native".parse().unwrap(),
            workers: 2,
            ..EngineOptions::default()
        };
        let cancel = CancelToken::new();
        let resolved = Resolved::of(&options, &engine, engine::installed(), &cancel).unwrap();
        let library = Embedder::open(resolved, &cancel)
            .unwrap()
            .embed(&texts)
            .unwrap();

        let sandbox = Sandbox::new();
        let lines: Vec<String> = texts
            .iter()
            .map(|it| json!({"text": it}).to_string())
            .collect();
        sandbox.write("texts.jsonl", lines.join("\n"));
        let setting = ["-m", &model, "-p", "native", "--precision", precision];
        let mut command = sandbox.command(["embed", "texts.jsonl", "-o", "out.npy"]);
        let run = sandbox.finish(command.args(setting));
        assert_eq!(run.code, Some(0), "{case}: {run}");
        let matrix = Matrix::read(&sandbox.path("out.npy"));
        let batch: Vec<Vec<f32>> = (0..matrix.rows)
            .map(|row| matrix.row(row).to_vec())
            .collect();
        assert_eq!(
            bits(&batch),
            bits(&library),
            "{case}: embed and the library"
        );

        let server = Server::start(&sandbox, &setting);
        let served = server.vectors(&texts);
        assert_eq!(bits(&served), bits(&batch), "{case}: serve and embed");
        // One by one, at the same time, and in the other protocol.
        let server = Arc::new(server);
        let threads: Vec<_> = (texts.iter().cloned().zip(batch.clone()).enumerate())
            .map(|(index, (text, expected))| {
                let (server, case) = (Arc::clone(&server), case.clone());
                std::thread::spawn(move || {
                    let form = if index % 2 == 0 { "float" } else { "base64" };
                    let body = json!({"input": text, "encoding_format": form});
                    let (status, answer) = server.post("/v1/embeddings", &body);
                    assert_eq!(status, 200, "{case}: {answer}");
                    let answer: Value = serde_json::from_str(&answer).unwrap();
                    let vector = vector(&answer["data"][0]["embedding"]);
                    assert_eq!(bits(&[vector]), bits(&[expected]), "{case}: text {index}");
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}

/// A vector of OpenAI's protocol, in either form.
fn vector(value: &Value) -> Vec<f32> {
    let Some(text) = value.as_str() else {
        return serde_json::from_value(value.clone()).unwrap();
    };
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap();
    let words = bytes.chunks_exact(4);
    words
        .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn prompts_and_widths_of_requests_are_those_of_runs_with_options() {
    let model = in_repository("fixtures/parity/e5-prompts/model")
        .display()
        .to_string();
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", "a text\nanother, longer text\n");
    let texts = json!(["a text", "another, longer text"]);
    let server = Server::start(&sandbox, &["-m", &model, "-p", "rten"]);
    for (options, members) in [
        ("", json!({})),
        ("--prompt-name query", json!({"prompt_name": "query"})),
        ("--dimensions 7", json!({"dimensions": 7})),
        (
            "--prompt-name query --dimensions 48",
            json!({"prompt_name": "query", "dimensions": 48}),
        ),
    ] {
        let run = sandbox.run(&format!(
            "embed texts.txt -o out.npy --force -m {model} -p rten --threads 1 {options}"
        ));
        assert_eq!(run.code, Some(0), "{run}");
        let mut body = members.clone();
        body["inputs"] = texts.clone();
        let (status, answer) = server.post("/embed", &body);
        assert_eq!(status, 200, "{options}: {answer}");
        let served: Vec<Vec<f32>> = serde_json::from_str(&answer).unwrap();
        let matrix = Matrix::read(&sandbox.path("out.npy"));
        for (row, vector) in served.iter().enumerate() {
            assert_eq!(vector.len(), matrix.width, "{options}");
            for (ours, batch) in vector.iter().zip(matrix.row(row)) {
                assert!((ours - batch).abs() < 1e-5, "{options}: row {row}");
            }
        }
    }
    let (status, answer) = server.post("/embed", &json!({"inputs": "a", "prompt_name": "passage"}));
    assert!(
        status == 422 && answer.contains("it has document, query"),
        "{answer}"
    );
}

#[test]
fn token_ids_are_those_of_the_models_own_tokenizer() {
    let model = in_repository(REAL_MODEL).display().to_string();
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &["-m", &model, "-p", "native"]);
    let text = "A cat sits on a mat.";
    let tokens = |special: bool| -> Vec<u64> {
        let body = json!({"inputs": text, "add_special_tokens": special});
        let (status, answer) = server.post("/tokenize", &body);
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let tokens = answer[0].as_array().unwrap().iter();
        tokens.map(|token| token["id"].as_u64().unwrap()).collect()
    };
    let (bare, whole) = (tokens(false), tokens(true));
    assert_eq!(whole, [&[101], &bare[..], &[102]].concat());
    let ask = |input: Value| server.post("/v1/embeddings", &json!({"input": input}));
    let by_ids = ask(json!(bare));
    assert_eq!(by_ids.0, 200, "{}", by_ids.1);
    assert_eq!(by_ids, ask(json!(text)));
    let (status, answer) = ask(json!(whole));
    assert!(
        status == 400 && answer.contains("special tokens already"),
        "{answer}"
    );
    // Ids of another vocabulary, as clients of OpenAI send them by default.
    let (status, answer) = ask(json!([[32, 8415, 23566, 89999]]));
    assert!(status == 400 && answer.contains("input 0"), "{answer}");
}
