//! A pair's score is the same in the batch job's output and in the server's answer, bit by bit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, in_repository};
use crate::server::Server;
use crate::support::npy::Matrix;

/// A case of `fixtures/scores`: its folder, its records, and the options of `score` about them.
struct ScoreCase {
    folder: String,
    records: Vec<Value>,
    args: Vec<String>,
}

impl ScoreCase {
    fn read(name: &str) -> Self {
        let folder = in_repository("fixtures/scores").join(name);
        let records = std::fs::read_to_string(folder.join("records.jsonl")).unwrap();
        let case = std::fs::read_to_string(folder.join("case.json")).unwrap();
        let case: Value = serde_json::from_str(&case).unwrap();
        let args = case["args"].as_array().unwrap().iter();
        Self {
            folder: folder.display().to_string(),
            records: records
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
            args: args.map(|arg| arg.as_str().unwrap().to_owned()).collect(),
        }
    }

    /// The value of an option of the case.
    fn arg(&self, name: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == name)?;
        Some(&self.args[at + 1])
    }

    /// The records as inputs of `/predict`: pairs or single texts.
    fn inputs(&self) -> Vec<Value> {
        let text = self.arg("--text-field").unwrap_or("text");
        let input = |record: &Value| match self.arg("--query-field") {
            Some(query) => json!([record[query], record[text]]),
            None => json!([record[text]]),
        };
        self.records.iter().map(input).collect()
    }

    /// The scores that the batch job writes, and the options for a server like it.
    fn score(&self, sandbox: &Sandbox, out: &str) -> Matrix {
        let mut command = sandbox.command(["score", "-o", out, "-p", "native", "--force"]);
        command.arg(format!("{}/records.jsonl", self.folder));
        command.args(["-m", &format!("{}/model", self.folder)]);
        let run = sandbox.finish(command.args(&self.args));
        assert_eq!(run.code, Some(0), "{}: {run}", self.folder);
        Matrix::read(&sandbox.path(out))
    }

    /// A server of the model.
    fn serve(&self, sandbox: &Sandbox) -> Server {
        let model = format!("{}/model", self.folder);
        let mut setting = vec!["-m", &model, "-p", "native"];
        let own = ["--query-field", "--text-field", "--id-field"];
        let mut args = self.args.iter();
        while let Some(arg) = args.next() {
            match own.contains(&arg.as_str()) {
                true => drop(args.next()),
                false => setting.push(arg),
            }
        }
        Server::start(sandbox, &setting)
    }
}

/// The scores of an answer of `/predict`, by label.
fn by_label(answer: &Value) -> BTreeMap<String, u32> {
    let score = |it: &Value| {
        let score: f32 = serde_json::from_value(it["score"].clone()).unwrap();
        (it["label"].as_str().unwrap().to_owned(), score.to_bits())
    };
    answer.as_array().unwrap().iter().map(score).collect()
}

#[test]
fn the_server_gives_the_batch_jobs_scores_bit_by_bit() {
    for name in [
        "bert",
        "bert-three-labels",
        "roberta",
        "distilbert",
        "xlm-roberta",
        "modernbert-mean",
        "qwen3",
        "activation-of-the-saved-model",
        "prompt-before-the-query",
        "cut-on-the-left",
        "logit-score-capped",
        "logit-score-chat-cut",
        "softmax",
        "single-texts",
        "single-texts-qwen3",
    ] {
        let case = ScoreCase::read(name);
        let sandbox = Sandbox::new();
        let expected = case.score(&sandbox, "scores.npy");
        let server = Arc::new(case.serve(&sandbox));
        let inputs = case.inputs();
        let (status, answer) = server.post("/predict", &json!({"inputs": inputs}));
        assert_eq!(status, 200, "{name}: {answer}");
        let all: Vec<Value> = serde_json::from_str(&answer).unwrap();
        assert_eq!(all.len(), expected.rows, "{name}");
        let (_, info) = server.get("/info");
        let info: Value = serde_json::from_str(&info).unwrap();
        let kind = ["reranker", "classifier"][usize::from(expected.width > 1)];
        let labels = &info["model_type"][kind]["id2label"];
        for (row, answer) in all.iter().enumerate() {
            let scores = by_label(answer);
            for (label, score) in expected.row(row).iter().enumerate() {
                let label = labels[label.to_string()].as_str().unwrap();
                assert_eq!(scores[label], score.to_bits(), "{name}: row {row}, {label}");
            }
        }
        // One by one at the same time: rows of several requests run together.
        let threads = inputs.into_iter().zip(all).map(|(input, expected)| {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                let (status, answer) = server.post("/predict", &json!({"inputs": input}));
                let answer: Value = serde_json::from_str(&answer).unwrap();
                assert_eq!((status, answer), (200, expected));
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
    }
}

/// Single texts and pairs in one batch keep their own token types.
#[test]
fn texts_and_pairs_of_one_request_are_scored_as_each_alone() {
    let case = ScoreCase::read("bert-three-labels");
    let sandbox = Sandbox::new();
    let server = case.serve(&sandbox);
    let mixed: Vec<Value> = (case.inputs().into_iter())
        .flat_map(|pair| [pair.clone(), json!([pair[1]])])
        .collect();
    let ask = |inputs: &Value| -> Value {
        let (status, answer) = server.post("/predict", &json!({"inputs": inputs}));
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    };
    let together = ask(&json!(mixed));
    for (index, input) in mixed.iter().enumerate() {
        assert_eq!(together[index], ask(input), "{input}");
    }
    // As the batch job classifies single texts.
    let texts: Vec<String> = case
        .inputs()
        .iter()
        .map(|pair| json!({"text": pair[1]}).to_string())
        .collect();
    sandbox.write("texts.jsonl", texts.join("\n"));
    let run = sandbox.run(&format!(
        "score texts.jsonl -o texts.npy -p native -m {}/model",
        case.folder
    ));
    assert_eq!(run.code, Some(0), "{run}");
    let matrix = Matrix::read(&sandbox.path("texts.npy"));
    for row in 0..matrix.rows {
        let mut own: Vec<u32> = matrix.row(row).iter().map(|it| it.to_bits()).collect();
        let mut served: Vec<u32> = by_label(&together[2 * row + 1]).into_values().collect();
        own.sort_unstable();
        served.sort_unstable();
        assert_eq!(own, served, "row {row}");
    }
}

/// The server that is to be like an output of `score` ranks as its column does, and the forms of a score are those of
/// text-embeddings-inference.
#[test]
fn a_server_like_an_output_of_score_ranks_texts() {
    let case = ScoreCase::read("bert");
    let sandbox = Sandbox::new();
    let scores = case.score(&sandbox, "scores.npy");
    let server = Server::start(&sandbox, &["--like", "scores.npy"]);
    let (query, text) = (
        case.arg("--query-field").unwrap(),
        case.arg("--text-field").unwrap_or("text"),
    );
    let query = case.records[0][query].clone();
    let query_of = |it: &&(usize, &Value)| it.1[case.arg("--query-field").unwrap()] == query;
    let numbered: Vec<(usize, &Value)> = case.records.iter().enumerate().collect();
    let same: Vec<&(usize, &Value)> = numbered.iter().filter(query_of).collect();
    let texts: Vec<Value> = same.iter().map(|it| it.1[text].clone()).collect();
    let ask = |more: Value| -> Vec<(usize, f32)> {
        let mut body = json!({"query": query, "texts": texts});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (status, answer) = server.post("/rerank", &body);
        assert_eq!(status, 200, "{answer}");
        let ranked: Vec<Value> = serde_json::from_str(&answer).unwrap();
        let score = |it: &Value| serde_json::from_value::<f32>(it["score"].clone()).unwrap();
        ranked
            .iter()
            .map(|it| (it["index"].as_u64().unwrap() as usize, score(it)))
            .collect()
    };
    let own = ask(json!({}));
    assert!(own.is_sorted_by(|one, other| one.1 >= other.1), "{own:?}");
    for (index, score) in &own {
        let (row, _) = same[*index];
        assert_eq!(
            score.to_bits(),
            scores.row(*row)[0].to_bits(),
            "text {index}"
        );
    }
    // This model's function is the sigmoid.
    let raw: BTreeMap<usize, f32> = ask(json!({"raw_scores": true})).into_iter().collect();
    assert_eq!(ask(json!({"raw_scores": false})), own);
    for (index, score) in own {
        let sigmoid = 1.0 / (1.0 + (-raw[&index]).exp());
        assert!((sigmoid - score).abs() < 1e-6, "text {index}");
    }
}
