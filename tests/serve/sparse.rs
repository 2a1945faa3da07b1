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
            let (status, answer) = server.post("/embed_sparse", &json!({"inputs": texts}));
            assert_eq!(status, 200, "{name}: {answer}");
            let rows: Vec<Vec<Value>> = serde_json::from_str(&answer).unwrap();
            let served = |row: Vec<Value>| {
                entries_of(
                    row.into_iter()
                        .map(|it| (it["index"].clone(), it["value"].clone())),
                )
            };
            let served: Vec<Entries> = rows.into_iter().map(served).collect();
            assert_eq!(served, expected, "{name}");
            assert!(served.iter().any(|row| !row.is_empty()), "{name}");
        }
    }
}
