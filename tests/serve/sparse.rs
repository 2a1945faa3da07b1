//! A text's sparse vector is the same in the batch job's output and in the server's answer, bit by bit.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, in_repository};
use crate::server::Server;

type Entries = Vec<(u64, u32)>;

/// Index and bits of each entry of a list.
fn entries_of(pairs: impl Iterator<Item = (Value, Value)>) -> Entries {
    let bits = |value: Value| serde_json::from_value::<f32>(value).unwrap().to_bits();
    pairs
        .map(|(index, value)| (index.as_u64().unwrap(), bits(value)))
        .collect()
}

/// The entries that the batch job writes for each text.
fn embedded(sandbox: &Sandbox, model: &str, more: &str) -> Vec<Entries> {
    let run = sandbox.run(&format!(
        "embed texts.txt -o out.jsonl --force -p native -m {model} {more}"
    ));
    assert_eq!(run.code, Some(0), "{model}: {run}");
    let lines = std::fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
    let entries = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let of = |name: &str| row["embedding"][name].as_array().unwrap().clone();
        entries_of(of("indices").into_iter().zip(of("values")))
    };
    lines.lines().map(entries).collect()
}

/// The entries that a server gives for each text.
fn served(server: &Server, texts: &[&str]) -> Vec<Entries> {
    let (status, answer) = server.post("/embed_sparse", &json!({"inputs": texts}));
    assert_eq!(status, 200, "{answer}");
    let rows: Vec<Vec<Value>> = serde_json::from_str(&answer).unwrap();
    let entries = |row: Vec<Value>| {
        let entries = row.into_iter();
        entries_of(entries.map(|it| (it["index"].clone(), it["value"].clone())))
    };
    rows.into_iter().map(entries).collect()
}

#[test]
fn the_server_gives_the_batch_jobs_entries_bit_by_bit() {
    let texts = [
        "a cat sat on a mat",
        "x",
        "The quick brown fox",
        "a cat sat",
    ];
    for (name, more) in [
        ("bert", ""),
        ("distilbert", "--precision int8 --min-cosine 0.5"),
        ("max-log1p_relu", ""),
        ("modernbert", ""),
        ("normalized-terms", ""),
        ("route-query", "--task query"),
        ("weights-by-token", ""),
        ("autoencoder", ""),
        ("masked-model-without-modules", "--vectors sparse"),
    ] {
        let model = in_repository("fixtures/sparse").join(name).join("model");
        let model = model.display().to_string();
        let sandbox = Sandbox::new();
        sandbox.write("texts.txt", texts.join("\n"));
        let expected = embedded(&sandbox, &model, more);
        let mut setting = vec!["-m", &model, "-p", "native"];
        setting.extend(more.split_whitespace());
        let by_options = Server::start(&sandbox, &setting);
        let by_output = Server::start(&sandbox, &["--like", "out.jsonl"]);
        for server in [by_options, by_output] {
            let served = served(&server, &texts);
            assert_eq!(served, expected, "{name}");
            assert!(served.iter().any(|row| !row.is_empty()), "{name}");
        }
    }
}

/// Documents and queries have routes of their own, from files of their own.
#[test]
fn a_server_like_documents_gives_the_entries_of_queries() {
    let texts = ["a cat sat on a mat", "The quick brown fox"];
    let model = in_repository("fixtures/sparse/route-query/model");
    let model = model.display().to_string();
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", texts.join("\n"));
    let queries = embedded(&sandbox, &model, "--task query");
    let documents = embedded(&sandbox, &model, "--task document");
    assert_ne!(queries, documents);
    for (more, expected) in [(&[][..], documents), (&["--task", "query"], queries)] {
        let server = Server::start(&sandbox, &[&["--like", "out.jsonl"], more].concat());
        assert_eq!(served(&server, &texts), expected, "{more:?}");
        let role = server.messages().contains("sparse.role");
        assert_eq!(role, !more.is_empty(), "{}", server.messages());
    }
    // Queries may have fewer entries than documents.
    let few = ["--task", "query", "--max-active-dims", "2"];
    let server = Server::start(&sandbox, &[&["--like", "out.jsonl"], &few[..]].concat());
    assert!(
        server.messages().contains("--max-active-dims was given"),
        "{}",
        server.messages()
    );
    let expected = embedded(&sandbox, &model, &few.join(" "));
    assert!(expected.iter().all(|row| row.len() == 2), "{expected:?}");
    assert_eq!(served(&server, &texts), expected);
    let run = sandbox.run("serve --like out.jsonl --listen 127.0.0.1:0 --max-length 7");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("max_length"), "{run}");
}

/// Of an output with vectors of several kinds, a server gives one.
#[test]
fn a_server_like_an_output_of_several_kinds_gives_the_one_that_is_asked_for() {
    let texts = ["a cat sat on a mat", "The quick brown fox"];
    let model = in_repository("fixtures/heads/bert/model");
    let model = model.display().to_string();
    let sandbox = Sandbox::new();
    sandbox.write("texts.txt", texts.join("\n"));
    let sparse = embedded(&sandbox, &model, "--vectors sparse");
    // Cut dense vectors: that setting is not about the sparse ones.
    for (kinds, more) in [
        ("dense,sparse", "--dimensions 8"),
        ("dense,sparse,multi", ""),
    ] {
        let run = sandbox.run(&format!(
            "embed texts.txt -o out.jsonl --force -p native -m {model} --vectors {kinds} {more}"
        ));
        assert_eq!(run.code, Some(0), "{run}");
        let lines = std::fs::read_to_string(sandbox.path("out.jsonl")).unwrap();
        let dense = |line: &str| {
            let row: Value = serde_json::from_str(line).unwrap();
            serde_json::from_value(row["embedding"].clone()).unwrap()
        };
        let dense: Vec<Vec<f32>> = lines.lines().map(dense).collect();
        let like = |kind| Server::start(&sandbox, &["--like", "out.jsonl", "--vectors", kind]);
        assert_eq!(served(&like("sparse"), &texts), sparse, "{kinds}");
        assert_eq!(
            like("dense").vectors(&texts.map(str::to_owned)),
            dense,
            "{kinds}"
        );
    }
    for (options, words) in [
        (
            "",
            "several kinds (dense, sparse, multi), but a server gives one; choose the kind with --vectors",
        ),
        ("--vectors dense,sparse", "choose the kind with --vectors"),
        ("--vectors multi", "the model gives each token a vector"),
        ("--vectors sparse --precision int8", "engine.precision"),
    ] {
        let run = sandbox.run(&format!(
            "serve --like out.jsonl --listen 127.0.0.1:0 {options}"
        ));
        assert_eq!(run.code, Some(2), "{options}: {run}");
        assert!(run.stderr.contains(words), "{options}: {run}");
    }
    embedded(&sandbox, &model, "--vectors sparse");
    let run = sandbox.run("serve --like out.jsonl --listen 127.0.0.1:0 --vectors dense");
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("--vectors dense: out.jsonl has sparse"),
        "{run}"
    );
}
