//! Scores of pairs and of labels.

use serde_json::{Value, json};

use crate::model::FakeModel;
use crate::server::Server;
use embedctl_serve::ServerOptions;

/// The fake model's score of a pair: its length.
fn score(query: &str, text: &str) -> usize {
    query.chars().count() + 1 + text.chars().count()
}

#[test]
fn texts_are_ranked_by_their_scores() {
    let server = Server::start(FakeModel::scoring(1), ServerOptions::default());
    let texts: Vec<String> = (0..200).map(|at| "x".repeat((at * 37) % 101)).collect();
    for (members, factor) in [
        (json!({}), 10.0),
        (
            json!({"raw_scores": null, "return_text": null, "truncate": null}),
            10.0,
        ),
        (json!({"raw_scores": true, "return_text": true}), 1.0),
        (json!({"raw_scores": false}), -1.0),
    ] {
        let mut body = json!({"query": "a query", "texts": texts});
        let wanted = members.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(wanted);
        for path in ["/rerank", "/"] {
            let answer = server.post(path, body.to_string());
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(
                answer.head.contains("x-compute-tokens: "),
                "{}",
                answer.head
            );
            let expected = |index: usize| score("a query", &texts[index]) as f64 * factor;
            let mut order: Vec<usize> = (0..texts.len()).collect();
            order.sort_by(|&one, &other| expected(other).total_cmp(&expected(one)));
            let expected = order.iter().map(|&index| match members.get("return_text") {
                Some(Value::Bool(true)) => {
                    json!({"index": index, "text": texts[index], "score": expected(index)})
                }
                _ => json!({"index": index, "score": expected(index)}),
            });
            assert_eq!(answer.json(), Value::from_iter(expected), "{members}");
        }
    }
}

/// As Cohere's and Jina's clients ask.
#[test]
fn documents_are_ranked_by_their_relevance() {
    let server = Server::start(FakeModel::scoring(1), ServerOptions::default());
    let documents = json!(["aaa", {"text": "a"}, "aa"]);
    // The fake model's probability falls with the length.
    let relevance = |text: &str| -(score("q", text) as f64);
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let body = json!({"model": "fake", "query": "q", "documents": documents, "top_n": 2, "return_documents": true});
        let answer = server.post(path, body.to_string());
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let answer = answer.json();
        let expected = json!([
            {"index": 1, "relevance_score": relevance("a"), "document": {"text": "a"}},
            {"index": 2, "relevance_score": relevance("aa"), "document": {"text": "aa"}},
        ]);
        assert_eq!(answer["results"], expected, "{path}");
        assert_eq!(answer["model"], "org/fake");
        assert_eq!(answer["usage"]["total_tokens"], 3 + 4 + 5);
        let plain = json!({"query": "q", "documents": ["b"]});
        let answer = server.post(path, plain.to_string()).json();
        assert_eq!(
            answer["results"],
            json!([{"index": 0, "relevance_score": relevance("b")}])
        );
        let other = json!({"model": "rerank-v3.5", "query": "q", "documents": ["b"]});
        assert_eq!(server.post(path, other.to_string()).status, 404);
    }
    for (wrong, words) in [
        (json!({"query": "q"}), "must have `texts`, or `documents`"),
        (
            json!({"query": "q", "texts": ["a"], "documents": ["a"]}),
            "both `texts` and `documents`",
        ),
    ] {
        let answer = server.post("/rerank", wrong.to_string());
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.body.contains(words), "{answer:?}");
    }
}

#[test]
fn the_fields_that_a_request_names_are_scored() {
    let server = Server::start(FakeModel::scoring(1), ServerOptions::default());
    let documents = json!([
        {"title": "a", "text": "a long text", "page": 3},
        {"text": "bb", "title": null},
        "cccc",
    ]);
    let relevance = |text: &str| -(score("q", text) as f64);
    let ask = |members: Value| {
        let mut body = json!({"query": "q", "documents": documents});
        let members = members.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(members);
        server.post("/v1/rerank", body.to_string())
    };
    for (fields, texts) in [
        (json!(["title", "text"]), ["a\na long text", "bb", "cccc"]),
        (json!(["text", "title"]), ["a long text\na", "bb", "cccc"]),
        (Value::Null, ["a long text", "bb", "cccc"]),
    ] {
        let answer = ask(json!({"rank_fields": fields, "return_documents": true}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let results = answer.json()["results"].clone();
        for result in results.as_array().unwrap() {
            let index = usize::try_from(result["index"].as_u64().unwrap()).unwrap();
            assert_eq!(
                result["relevance_score"],
                relevance(texts[index]),
                "{fields}"
            );
            let expected = [
                json!({"title": "a", "text": "a long text"}),
                json!({"text": "bb"}),
                json!({"text": "cccc"}),
            ];
            assert_eq!(result["document"], expected[index], "{fields}");
        }
        let batches = server.gate.batches();
        let last = batches.last().unwrap();
        assert!(
            texts.iter().all(|text| last.contains(&format!("q|{text}"))),
            "{last:?}"
        );
    }
    for (fields, words) in [
        (json!([]), "`rank_fields` is empty"),
        (json!(["title"]), "document 1 has none of the fields"),
        (
            json!(["page"]),
            "document 0: its \\\"page\\\" is not a string",
        ),
    ] {
        let answer = ask(json!({"rank_fields": fields}));
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(words), "{answer:?}");
    }
}

#[test]
fn labels_are_ranked_by_their_scores_for_texts_and_pairs() {
    let server = Server::start(FakeModel::scoring(3), ServerOptions::default());
    let ask = |inputs: Value| {
        let answer = server.post("/predict", json!({"inputs": inputs}).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let label = |at: usize, score: u32| json!({"score": 10.0 * f64::from(score), "label": format!("label {at}")});
    let (a, b, bar) = (u32::from('a'), u32::from('b'), u32::from('|'));
    let one = json!([label(2, b), label(1, a), label(0, 2)]);
    let pair = json!([label(2, bar), label(1, a), label(0, 3)]);
    assert_eq!(ask(json!("ab")), one);
    assert_eq!(ask(json!(["ab"])), one);
    assert_eq!(ask(json!(["a", "b"])), pair);
    assert_eq!(
        ask(json!([["a", "b"], ["ab"], ["a", "b"]])),
        json!([pair, one, pair])
    );
    let info = server.get("/info").json();
    let labels = json!({"0": "label 0", "1": "label 1", "2": "label 2"});
    assert_eq!(info["model_type"]["classifier"]["id2label"], labels);
}

#[test]
fn wrong_requests_for_scores_are_refused_with_a_reason() {
    let options = ServerOptions {
        max_inputs: 3,
        ..ServerOptions::default()
    };
    let reranker = Server::start(FakeModel::scoring(1), options.clone());
    let classifier = Server::start(FakeModel::scoring(2), options);
    let texts = json!(["a", "b", "c", "d"]);
    for (server, path, body, status, words) in [
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": []}),
            422,
            "`texts` is empty",
        ),
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": texts}),
            413,
            "may have 3",
        ),
        (&reranker, "/rerank", json!({"texts": ["a"]}), 422, "query"),
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": ["a", "refuse"]}),
            422,
            "input 1: it is refused",
        ),
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": ["null"]}),
            422,
            "input 0: it has no numbers",
        ),
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": ["a"], "truncation_direction": "Left"}),
            422,
            "cut on the right",
        ),
        (
            &reranker,
            "/rerank",
            json!({"query": "q", "texts": ["x".repeat(5000)], "truncate": false}),
            413,
            "more than 4000 tokens",
        ),
        (
            &reranker,
            "/embed",
            json!({"inputs": "a"}),
            424,
            "use /rerank or /predict",
        ),
        (
            &reranker,
            "/v1/embeddings",
            json!({"input": "a"}),
            424,
            "gives scores of pairs",
        ),
        (
            &classifier,
            "/rerank",
            json!({"query": "q", "texts": ["a"]}),
            424,
            "use /predict",
        ),
        (
            &classifier,
            "/predict",
            json!({"inputs": []}),
            422,
            "input 0 has 0 texts",
        ),
        (
            &classifier,
            "/predict",
            json!({"inputs": [["a"], ["a", "b", "c"]]}),
            422,
            "input 1 has 3 texts",
        ),
        (
            &classifier,
            "/predict",
            json!({"inputs": 5}),
            422,
            "a string, a list of one or two strings",
        ),
        (
            &classifier,
            "/predict",
            json!({"inputs": ["fail"]}),
            424,
            "a wanted failure",
        ),
    ] {
        let answer = server.post(path, body.to_string());
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert!(answer.body.contains(words), "{path} {body}: {answer:?}");
    }
}

/// A long query stands before many texts; its bytes are held once.
#[test]
fn a_long_query_is_shared_by_its_pairs() {
    let server = Server::start(FakeModel::scoring(1), ServerOptions::default());
    let query = "q".repeat(2 << 20);
    let texts = vec!["a"; 2000];
    let before = peak_memory();
    let answer = server.post(
        "/rerank",
        json!({"query": query, "texts": texts}).to_string(),
    );
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert_eq!(answer.json().as_array().unwrap().len(), 2000);
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(
            after - before < 1 << 30,
            "{} MB more",
            (after - before) >> 20
        );
    }
}

/// Bytes of memory that this process has had at most, on Linux.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}
