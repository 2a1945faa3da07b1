//! `--like`: the model and its settings from an output, and the refusal of vectors that would not mix with it.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, copy_folder, in_repository};
use crate::server::Server;
use crate::support::cases::graph_engines;

const MODEL: &str = "fixtures/parity/dense-two-layers/model";
/// A model without modules after pooling, which takes any.
const POOLED: &str = "fixtures/parity/family-mpnet/model";
/// A checkpoint without an ONNX file.
const CHECKPOINT: &str = "fixtures/heads/bert/model";
const PROMPTS: &str = "fixtures/parity/e5-prompts/model";

/// A folder with a copy of a model and some texts.
fn scene(model: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&in_repository(model), &sandbox.path("model"));
    let texts = texts()
        .iter()
        .map(|text| json!({"text": text}).to_string() + "\n")
        .collect::<String>();
    sandbox.write("texts.jsonl", texts);
    sandbox
}

fn texts() -> Vec<String> {
    (0..20)
        .map(|number| format!("text number {number}, {}", "word ".repeat(number)))
        .collect()
}

fn embed(sandbox: &Sandbox, options: &str) {
    let run = sandbox.run(&format!("embed texts.jsonl -m model --threads 1 {options}"));
    assert_eq!(run.code, Some(0), "{run}");
}

/// The vectors of an output in JSON lines.
fn lines(sandbox: &Sandbox, name: &str) -> Vec<Vec<f32>> {
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
    let vector = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(row["embedding"].clone()).unwrap()
    };
    text.lines().map(vector).collect()
}

#[test]
fn a_server_like_an_output_gives_its_vectors() {
    for (options, output) in [
        ("-p native", "out.parquet"),
        ("-p native --precision int8", "out.npy"),
        ("-p native --prompt a: --max-length 9", "out.jsonl"),
        ("-p native --dimensions 5", "out.arrow"),
        ("-p native --dimensions 5 --normalize true", "out.parquet"),
        ("-p native --normalize false --dimensions 5", "out.parquet"),
        ("-p native --pooling max", "out.parquet"),
        ("-p native --dtype f16", "out.parquet"),
        ("-p native --part-rows 7", "folder/"),
        ("-p rten", "out.parquet"),
    ] {
        let is_pooled = options.contains("--pooling");
        let sandbox = scene(if is_pooled { POOLED } else { MODEL });
        embed(&sandbox, &format!("{options} -o {output}"));
        let plain = options
            .replace("--dtype f16", "")
            .replace("--part-rows 7", "");
        embed(&sandbox, &format!("{plain} -o vectors.jsonl"));
        let mut expected = lines(&sandbox, "vectors.jsonl");
        if options.contains("f16") {
            let half = |it: &mut f32| *it = half::f16::from_f32(*it).to_f32();
            expected.iter_mut().flatten().for_each(half);
        }
        let server = Server::start(&sandbox, &["--like", output]);
        let served = server.vectors(&texts());
        match options.contains("rten") {
            // Its rows round with their batch.
            true => {
                let apart = served.iter().flatten().zip(expected.iter().flatten());
                assert!(apart.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) < 1e-5);
            }
            false => assert_eq!(served, expected, "{options}"),
        }
        let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
        assert_eq!(info["like"]["prompt_differs"], false, "{info}");
        assert!(
            info["identity"]["model"]
                .as_object()
                .is_some_and(|files| files.len() > 2),
            "{info}"
        );
    }
}

#[test]
fn a_server_whose_vectors_would_not_mix_does_not_start() {
    let sandbox = scene(MODEL);
    embed(&sandbox, "-p native -o out.parquet");
    for (options, words) in [
        ("--normalize true", "normalized"),
        ("--dimensions 5", "dimensions"),
        ("--max-length 7", "max_length"),
        ("--precision int8", "engine.precision"),
        ("-p rten", "would not mix"),
    ] {
        let run = sandbox.run(&format!(
            "serve --like out.parquet --listen 127.0.0.1:0 {options}"
        ));
        assert_eq!(run.code, Some(2), "{options}: {run}");
        assert!(run.stderr.contains(words), "{options}: {run}");
        assert!(!run.stderr.contains("listening"), "{run}");
    }
    let pooled = scene(POOLED);
    embed(&pooled, "-p native -o out.parquet");
    let run = pooled.run("serve --like out.parquet --listen 127.0.0.1:0 --pooling max");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("would not mix with its vectors: pooling"),
        "{run}"
    );

    let weights = sandbox.path("model/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let run = sandbox.run("serve --like out.parquet --listen 127.0.0.1:0");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("model.files.model.safetensors"),
        "{run}"
    );
}

#[test]
fn an_output_without_what_a_server_needs_is_refused() {
    let sandbox = scene(MODEL);
    sandbox.write("plain.parquet", "not one");
    sandbox.write("plain.jsonl", "{\"embedding\": [1.0]}\n");
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    embed(&sandbox, "-p native -o bits.npy --dtype ubinary");
    for (name, words) in [
        ("plain.parquet", "plain.parquet"),
        ("plain.jsonl", "no provenance"),
        ("texts.txt", "texts.txt"),
        ("missing.parquet", "missing.parquet"),
        ("empty", "empty"),
        ("bits.npy", "holds ubinary vectors"),
    ] {
        let run = sandbox.run(&format!("serve --like {name} --listen 127.0.0.1:0"));
        assert!(matches!(run.code, Some(1 | 2)), "{name}: {run}");
        assert!(run.stderr.contains(words), "{name}: {run}");
    }
}

#[test]
fn a_prompt_for_queries_is_the_one_difference_that_is_taken() {
    let sandbox = scene(PROMPTS);
    embed(&sandbox, "-p rten --prompt-name document -o out.parquet");
    embed(&sandbox, "-p rten --prompt-name query -o queries.jsonl");
    let server = Server::start(
        &sandbox,
        &["--like", "out.parquet", "--prompt-name", "query"],
    );
    assert!(
        server
            .messages()
            .contains("prompt (\"passage: \" then, \"query: \" now)"),
        "{}",
        server.messages()
    );
    let apart = server.vectors(&texts());
    for (served, batch) in apart.iter().zip(lines(&sandbox, "queries.jsonl")) {
        assert!(served.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
    assert_eq!(info["like"]["prompt_differs"], true);
}

/// Engines of ONNX files run a checkpoint's graph, whose files are the checkpoint's.
#[test]
fn a_graph_built_from_a_checkpoint_alone_is_of_the_checkpoint_in_every_place() {
    let test = "a_graph_built_from_a_checkpoint_alone_is_of_the_checkpoint_in_every_place";
    for engine in graph_engines(test) {
        let sandbox = scene(CHECKPOINT);
        embed(&sandbox, &format!("{} -o out.jsonl", engine.join(" ")));
        let made = std::fs::read(sandbox.path("out.jsonl.json")).unwrap();
        let made: Value = serde_json::from_slice(&made).unwrap();
        assert_eq!(made["model_file"], "model.safetensors");
        let expected = lines(&sandbox, "out.jsonl");
        let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
        for queries in [&[][..], &["--prompt", "query: "]] {
            let arguments = [&["--like", "out.jsonl"], &engine[..], queries].concat();
            let server = Server::start(&sandbox, &arguments);
            let served = server.vectors(&texts());
            let apart = served.iter().flatten().zip(expected.iter().flatten());
            let apart = apart.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert_eq!(apart < 1e-5, queries.is_empty(), "{arguments:?}: {apart}");
            let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
            let files = &info["identity"]["model"];
            assert!(files["model.safetensors"].is_string(), "{info}");
        }
    }
}

#[test]
fn rows_are_embedded_again_before_the_server_starts() {
    let sandbox = scene(MODEL);
    embed(&sandbox, "-p native --keep text -o out.parquet");
    embed(&sandbox, "-p native -o bare.parquet");
    let server = Server::start(&sandbox, &["--like", "out.parquet", "--verify", "5"]);
    assert!(
        server
            .messages()
            .contains("5 rows embedded again: least cosine 1.000000"),
        "{}",
        server.messages()
    );
    let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
    assert_eq!(info["like"]["verified"]["rows"], 5);
    let run = sandbox.run("serve --like bare.parquet --verify 5 --listen 127.0.0.1:0");
    assert!(
        run.code != Some(0) && run.stderr.contains("--verify"),
        "{run}"
    );
}

/// Doubles the numbers of a field in the third row of an output of JSON lines.
fn spoil(sandbox: &Sandbox, name: &str, field: &str) {
    fn double(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(double),
            Value::Object(entries) => double(&mut entries["values"]),
            number => *number = json!(number.as_f64().unwrap() * 2.0),
        }
    }
    let text = std::fs::read_to_string(sandbox.path(name)).unwrap();
    let rows = text.lines().enumerate().map(|(row, line)| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if row == 2 {
            double(&mut value[field]);
        }
        value.to_string() + "\n"
    });
    let rows: String = rows.collect();
    sandbox.write(name, rows);
}

/// Each kind by its own measure, and the message quotes that one.
#[test]
fn rows_of_every_kind_are_computed_again_before_the_server_starts() {
    for (model, command, options, served, spoiled, measure) in [
        (
            "fixtures/sparse/distilbert/model",
            "embed",
            "--keep text",
            "",
            "embedding",
            "5 rows embedded again: largest difference 0.00e0",
        ),
        (
            "fixtures/scores/bert/model",
            "score",
            "--query-field query --keep query,text",
            "",
            "score",
            "5 rows embedded again: largest difference 0.00e0",
        ),
        (
            "fixtures/heads/bert/model",
            "embed",
            "--vectors dense,sparse,multi --keep text",
            "--vectors sparse",
            "embedding_sparse",
            "embedding_sparse: 5 rows embedded again: largest difference 0.00e0",
        ),
    ] {
        let sandbox = scene(model);
        let records = (1..=5).map(|number| {
            let (query, text) = (format!("who is {number}?"), "word ".repeat(number));
            json!({"query": query, "text": text}).to_string() + "\n"
        });
        let records: String = records.collect();
        sandbox.write("records.jsonl", records);
        let run = sandbox.run(&format!(
            "{command} records.jsonl -m model -p native {options} -o out.jsonl"
        ));
        assert_eq!(run.code, Some(0), "{run}");
        let like = format!("--like out.jsonl --verify 5 {served}");
        let like: Vec<&str> = like.split_whitespace().collect();
        let server = Server::start(&sandbox, &like);
        let said = server.messages();
        assert!(said.contains(measure), "{model}: {said}");
        let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
        assert_eq!(info["like"]["verified"]["rows"], 5, "{model}");
        drop(server);
        spoil(&sandbox, "out.jsonl", spoiled);
        let run = sandbox.run(&format!("serve --listen 127.0.0.1:0 {}", like.join(" ")));
        assert_eq!(run.code, Some(2), "{model}: {run}");
        let column = match served.is_empty() {
            true => String::new(),
            false => format!(" ({spoiled})"),
        };
        let words = format!(
            "row 2 of out.jsonl{column} was embedded again and is not as it was: largest difference"
        );
        assert!(run.stderr.contains(&words), "{model}: {run}");
        assert!(!run.stderr.contains("cosine"), "{model}: {run}");
    }
}

/// What queries have in place of documents: the prompt of their task.
#[test]
fn a_task_for_queries_is_taken() {
    let sandbox = scene(PROMPTS);
    embed(&sandbox, "-p rten --task document -o out.parquet");
    embed(&sandbox, "-p rten --task query -o queries.jsonl");
    let server = Server::start(&sandbox, &["--like", "out.parquet", "--task", "query"]);
    let said = server.messages();
    assert!(
        said.contains("prompt (\"passage: \" then, \"query: \" now): --task was given"),
        "{said}"
    );
    let served = server.vectors(&texts());
    for (served, batch) in served.iter().zip(lines(&sandbox, "queries.jsonl")) {
        assert!(served.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
    assert_eq!(info["like"]["prompt_differs"], true);
    // Everything else is compared as without it.
    let run =
        sandbox.run("serve --like out.parquet --listen 127.0.0.1:0 --task query --max-length 7");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("max_length"), "{run}");
}

/// Chunks that were pooled from the states of whole texts are asked with vectors of whole queries.
#[test]
fn an_output_of_late_chunks_is_asked_with_whole_queries() {
    let sandbox = scene(POOLED);
    embed(
        &sandbox,
        "-p native --chunk tokens --chunk-tokens 12 --late -o out.parquet",
    );
    embed(&sandbox, "-p native -o queries.jsonl");
    let server = Server::start(&sandbox, &["--like", "out.parquet"]);
    let said = server.messages();
    assert!(said.contains("queries are embedded whole"), "{said}");
    assert_eq!(server.vectors(&texts()), lines(&sandbox, "queries.jsonl"));
}

/// A prompt for documents is not one for queries: the model's own for these is taken, and said.
#[test]
fn queries_do_not_get_a_prompt_for_documents_without_a_word() {
    let sandbox = scene(PROMPTS);
    embed(&sandbox, "-p rten --prompt-name document -o out.parquet");
    embed(&sandbox, "-p rten --prompt-name query -o queries.jsonl");
    let server = Server::start(&sandbox, &["--like", "out.parquet"]);
    let said = server.messages();
    for words in [
        "prompt (\"passage: \" then, \"query: \" now): queries get the model's prompt `query`; --prompt gives",
        "queries get the prompt \"query: \"\n",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("warning"), "{said}");
    let served = server.vectors(&texts());
    for (served, batch) in served.iter().zip(lines(&sandbox, "queries.jsonl")) {
        assert!(served.iter().zip(&batch).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let info: Value = serde_json::from_str(&server.get("/info").1).unwrap();
    assert_eq!(info["like"]["prompt_differs"], true);
    drop(server);
    // What the user says counts.
    let server = Server::start(
        &sandbox,
        &["--like", "out.parquet", "--prompt", "passage: "],
    );
    let said = server.messages();
    assert!(
        said.contains("queries get the prompt \"passage: \"\n"),
        "{said}"
    );
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_model_without_a_prompt_for_queries_is_warned_about() {
    let sandbox = scene(MODEL);
    embed(&sandbox, "-p native --prompt passage: -o out.jsonl");
    let server = Server::start(&sandbox, &["--like", "out.jsonl"]);
    let said = server.messages();
    assert!(
        said.contains("warning: queries get the prompt of the output's texts, \"passage:\""),
        "{said}"
    );
    assert!(said.contains("--prompt"), "{said}");
    assert_eq!(server.vectors(&texts()), lines(&sandbox, "out.jsonl"));
    drop(server);
    embed(&sandbox, "-p native -o plain.jsonl");
    let server = Server::start(&sandbox, &["--like", "plain.jsonl"]);
    let said = server.messages();
    assert!(
        said.contains("queries get no prompt\n") && !said.contains("warning"),
        "{said}"
    );
}

/// Many models name prompts that are empty.
#[test]
fn an_empty_prompt_for_queries_is_none() {
    let sandbox = scene(MODEL);
    let prompts = json!({"prompts": {"query": "", "document": ""}, "default_prompt_name": null});
    sandbox.write(
        "model/config_sentence_transformers.json",
        prompts.to_string(),
    );
    embed(&sandbox, "-p native -o out.jsonl");
    let server = Server::start(&sandbox, &["--like", "out.jsonl"]);
    let said = server.messages();
    assert!(said.contains("queries get no prompt\n"), "{said}");
}
