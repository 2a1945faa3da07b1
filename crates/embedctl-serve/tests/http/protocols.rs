//! Both protocols: answers, and errors in their shapes.

use serde_json::{Value, json};

use crate::model::{FakeModel, numbers};
use crate::server::{Server, key_of, request};
use embedctl_serve::ServerOptions;
use embedctl_vectors::{RowForm, Terms};

/// The options of a server with this key.
fn with_key(key: &str) -> ServerOptions {
    ServerOptions {
        keys: Some(key_of(key)),
        ..ServerOptions::default()
    }
}

#[test]
fn vectors_come_in_the_order_of_texts_in_both_protocols() {
    let server = Server::usual();
    let texts: Vec<String> = (0..300).map(|at| format!("text {at}")).collect();
    let answer = server.post("/embed", json!({"inputs": texts}).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected: Vec<_> = texts.iter().map(|text| numbers(text)).collect();
    assert_eq!(answer.json(), json!(expected));
    for path in ["/", "/embed"] {
        let answer = server.post(path, r#"{"inputs": "one"}"#);
        assert_eq!(answer.json(), json!([numbers("one")]));
    }
    let body = json!({"input": texts, "model": "fake", "user": "somebody"});
    let answer = server.post("/v1/embeddings", body.to_string()).json();
    let tokens: usize = texts.iter().map(String::len).sum();
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": tokens, "total_tokens": tokens})
    );
    assert_eq!(answer["model"], "org/fake");
    for (index, (one, text)) in answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&texts)
        .enumerate()
    {
        let object = json!({"object": "embedding", "index": index, "embedding": numbers(text)});
        assert_eq!(*one, object);
    }
}

#[test]
fn openai_requests_choose_form_width_and_tokens() {
    let server = Server::usual();
    let ask = |body: Value| server.post("/v1/embeddings", body.to_string()).json();
    let base64 = ask(json!({"input": "ab", "encoding_format": "base64"}));
    let bytes: Vec<u8> = numbers("ab")
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    use base64::Engine as _;
    let expected = base64::engine::general_purpose::STANDARD.encode(bytes);
    assert_eq!(base64["data"][0]["embedding"], expected);
    let cut = ask(json!({"input": "ab", "dimensions": 2}));
    assert_eq!(cut["data"][0]["embedding"], json!([2.0, 97.0]));
    let whole = ask(json!({"input": "ab", "dimensions": 4}));
    assert_eq!(whole["data"][0]["embedding"], json!(numbers("ab")));
    for (input, count) in [(json!([97, 98]), 1), (json!([[97, 98], [99]]), 2)] {
        let answer = ask(json!({"input": input}));
        assert_eq!(answer["data"].as_array().unwrap().len(), count);
        assert_eq!(answer["data"][0]["embedding"], json!(numbers("ab")));
    }
    // Clients write what they leave open in either way.
    let open = json!({
        "input": "ab", "model": null, "encoding_format": null, "dimensions": null, "prompt_name": null,
    });
    assert_eq!(ask(open), ask(json!({"input": "ab"})));
    let prompted = ask(json!({"input": "ab", "prompt_name": "query"}));
    assert_eq!(prompted["data"][0]["embedding"], json!(numbers("q: ab")));
}

#[test]
fn wrong_requests_are_refused_with_a_reason_in_their_protocols_shape() {
    let options = ServerOptions {
        max_body: 2000,
        max_inputs: 3,
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let many = json!(["a", "b", "c", "d"]).to_string();
    let large = json!("x".repeat(3000)).to_string();
    for (input, tei, openai, words) in [
        ("\"refuse\"", 422, 400, "input 0: it is refused"),
        ("[\"a\", \"null\"]", 422, 400, "input 1: it has no numbers"),
        ("[]", 422, 400, "is empty; send at least one text"),
        (
            "17",
            422,
            400,
            "the input must be a string, a list of strings",
        ),
        ("[\"a\", 5]", 422, 400, "the input must be a string"),
        ("{\"text\": \"a\"}", 422, 400, "the input must be a string"),
        ("null", 422, 400, "the input must be a string"),
        ("\"\u{1}\"", 422, 400, "not JSON"),
        ("\"a\"}, ", 422, 400, "not JSON"),
        ("\"\\ud800\"", 422, 400, "not JSON"),
        ("\"fail\"", 424, 500, "a wanted failure"),
        (&many, 413, 413, "4 inputs, but a request may have 3"),
        (&large, 413, 413, "larger than 2000 bytes"),
    ] {
        let answer = server.post("/embed", format!("{{\"inputs\": {input}}}"));
        assert_eq!(answer.status, tei, "{input}: {answer:?}");
        let error = answer.json();
        assert!(
            error["error"].as_str().unwrap().contains(words),
            "{input}: {error}"
        );
        assert!(error["error_type"].is_string(), "{error}");
        let answer = server.post("/v1/embeddings", format!("{{\"input\": {input}}}"));
        assert_eq!(answer.status, openai, "{input}: {answer:?}");
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{input}: {error}");
        assert!(
            error["type"].is_string() && error.get("code").is_some(),
            "{error}"
        );
    }
    // Other JSON than an object, in words that have nothing of the program's own.
    for body in ["17", "[\"a\", true]", " \"text\"", "null"] {
        for path in [
            "/embed",
            "/v1/embeddings",
            "/tokenize",
            "/api/embed",
            "/similarity",
        ] {
            let answer = server.post(path, body);
            assert!(
                [400, 422].contains(&answer.status),
                "{path} {body}: {answer:?}"
            );
            assert!(
                answer.body.contains("expected an object"),
                "{path} {body}: {answer:?}"
            );
            assert!(!answer.body.contains("struct"), "{path} {body}: {answer:?}");
        }
    }
    let nested = server.post("/similarity", r#"{"inputs": "a"}"#);
    assert!(!nested.body.contains("struct"), "{nested:?}");
    // A compressed body.
    for (encoding, status) in [("gzip", 415), ("br", 415), ("identity", 200)] {
        let bytes = request("/embed", "application/json", br#"{"inputs": "a"}"#);
        let text = String::from_utf8(bytes).unwrap();
        let head = format!("Host: x\r\nContent-Encoding: {encoding}");
        let answer = server.send(text.replacen("Host: x", &head, 1));
        assert_eq!(answer.status, status, "{answer:?}");
        let is_named = answer
            .body
            .contains(&format!("Content-Encoding: {encoding}"));
        assert_eq!(is_named, status == 415, "{answer:?}");
    }
    // Bytes that are no text.
    let answer = server.post("/embed", b"{\"inputs\": \"\xff\xfe\"}");
    assert!(
        answer.status == 422 && answer.body.contains("not JSON"),
        "{answer:?}"
    );
}

#[test]
fn settings_that_would_give_other_vectors_are_refused() {
    let server = Server::usual();
    for (path, body, status, words) in [
        (
            "/embed",
            json!({"inputs": "a", "normalize": true}),
            422,
            "normalize",
        ),
        (
            "/embed",
            json!({"inputs": "a", "truncation_direction": "Left"}),
            422,
            "cut on the right",
        ),
        (
            "/embed",
            json!({"inputs": "a", "prompt_name": "passage"}),
            422,
            "it has query",
        ),
        (
            "/embed",
            json!({"inputs": [1, 2], "prompt_name": "query"}),
            422,
            "send text",
        ),
        (
            "/embed",
            json!({"inputs": "a".repeat(5000), "truncate": false}),
            413,
            "4000 tokens",
        ),
        (
            "/embed",
            json!({"inputs": "a", "dimensions": 5}),
            422,
            "ask for 1 to 4",
        ),
        (
            "/embed",
            json!({"inputs": "a", "dimensions": 0}),
            422,
            "ask for 1 to 4",
        ),
        (
            "/v1/embeddings",
            json!({"input": "a", "model": "ada"}),
            404,
            "no model \"ada\"",
        ),
        (
            "/v1/embeddings",
            json!({"input": "a", "encoding_format": "hex"}),
            400,
            "hex",
        ),
    ] {
        let answer = server.post(path, body.to_string());
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(
            answer.body.replace("\\\"", "\"").contains(words),
            "{answer:?}"
        );
    }
    for body in [
        json!({"inputs": "a", "normalize": false, "truncation_direction": "Right"}),
        json!({"inputs": "a", "truncate": false, "dimensions": 4}),
    ] {
        assert_eq!(
            server.post("/embed", body.to_string()).status,
            200,
            "{body}"
        );
    }
    let cut = server.post(
        "/embed",
        json!({"inputs": ["a".repeat(5000), "b".to_owned()]}).to_string(),
    );
    assert!(cut.head.contains("x-truncated-inputs: 1"), "{}", cut.head);
    assert_eq!(server.metric("embedctl_serve_truncated_total"), 1.0);
}

#[test]
fn the_document_describes_routes_that_answer() {
    let server = Server::usual();
    let document = server.get("/openapi.json").json();
    // Every reference leads somewhere.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = &path.replace("{model}", "org/fake");
        for (method, answer) in [("get", server.get(path)), ("post", server.post(path, "{}"))] {
            match methods.get(method) {
                Some(_) => assert!(![404, 405].contains(&answer.status), "{path}: {answer:?}"),
                None => assert_eq!(answer.status, 405, "{path}: {answer:?}"),
            }
        }
    }
    // Refusals that a whole server is set up for.
    let locked = Server::start(FakeModel::scoring(1), with_key("right"));
    let scores = Server::start(FakeModel::scoring(1), ServerOptions::default());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let ask = |server: &Server| match method.as_str() {
                "get" => server.get(path).status,
                _ => server.post(path, "{}").status,
            };
            for status in [ask(&locked), ask(&scores)] {
                let described = &operation["responses"][status.to_string()];
                assert!(described.is_object(), "{method} {path}: {status}");
            }
        }
    }
    let lost = server.get("/nowhere");
    let kind = lost.json()["error_type"].clone();
    assert_eq!((lost.status, kind), (404, json!("not_found")));
}

#[test]
fn a_route_without_its_head_says_which_the_model_has() {
    let server = Server::usual();
    for path in ["/rerank", "/predict", "/embed_sparse"] {
        let answer = server.post(path, r#"{"inputs": "a", "query": "a", "texts": ["b"]}"#);
        let error = answer.json();
        assert_eq!(
            (answer.status, &error["error_type"]),
            (424, &json!("backend")),
            "{error}"
        );
        let message = error["error"].as_str().unwrap();
        assert!(
            message.contains("org/fake has no head") && message.contains("/embed"),
            "{message}"
        );
    }
}

#[test]
fn sparse_vectors_are_entries_of_index_and_value() {
    let mut model = FakeModel::new(1);
    model.card.form = RowForm::Sparse(Terms::new(1000));
    let server = Server::start(model, ServerOptions::default());
    let expected = |text: &str| {
        let entries = (0..).step_by(7).zip(numbers(text));
        let entry = |(index, value): (u32, f32)| json!({"index": index, "value": value});
        entries.map(entry).collect::<Value>()
    };
    for path in ["/embed_sparse", "/"] {
        let answer = server.post(path, r#"{"inputs": ["one", "two"]}"#);
        assert_eq!(answer.json(), json!([expected("one"), expected("two")]));
        let one = server.post(path, r#"{"inputs": "one"}"#);
        assert_eq!(one.json(), json!([expected("one")]));
    }
    let dense = server.post("/embed", r#"{"inputs": "one"}"#);
    assert!(
        dense.status == 424 && dense.body.contains("use /embed_sparse"),
        "{dense:?}"
    );
    let info = server.get("/info").json();
    assert!(info["model_type"]["sparse"].is_object(), "{info}");
}

#[test]
fn a_server_with_keys_serves_nobody_else() {
    let server = Server::start(FakeModel::new(1), with_key("right"));
    assert_eq!(server.get("/health").status, 200);
    for path in [
        "/info",
        "/metrics",
        "/v1/models",
        "/openapi.json",
        "/nowhere",
    ] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    let with = |key: &str| {
        let bytes = request("/v1/embeddings", "application/json", br#"{"input": "a"}"#);
        let text = String::from_utf8(bytes).unwrap();
        server.send(text.replacen("Host: x", &format!("Host: x\r\nAuthorization: {key}"), 1))
    };
    assert_eq!(with("Bearer right").status, 200);
    let refused = with("Bearer wrong");
    assert_eq!(refused.json()["error"]["code"], "invalid_api_key");
    assert!(
        refused.head.contains("www-authenticate: bearer"),
        "{}",
        refused.head
    );
}

#[test]
fn tokens_info_and_models_describe_the_model() {
    let server = Server::usual();
    let tokens = server
        .post("/tokenize", r#"{"inputs": ["ab", "c"]}"#)
        .json();
    assert_eq!(
        tokens[0][1],
        json!({"id": 98, "text": "b", "special": false, "start": 1, "stop": 2})
    );
    let open = json!({"inputs": ["ab", "c"], "add_special_tokens": null, "prompt_name": null});
    assert_eq!(server.post("/tokenize", open.to_string()).json(), tokens);
    let info = server.get("/info").json();
    assert_eq!(
        info["model_type"],
        json!({"embedding": {"pooling": "mean"}})
    );
    assert_eq!(info["max_input_length"], 4000);
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "org/fake");
}

#[test]
fn a_model_has_the_names_that_it_was_given() {
    let options = ServerOptions {
        served_names: vec!["first".to_owned(), "second".to_owned()],
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let models = server.get("/v1/models").json();
    let ids: Vec<&Value> = (models["data"].as_array().unwrap().iter())
        .map(|model| &model["id"])
        .collect();
    assert_eq!(ids, ["first", "second"]);
    for (name, status) in [
        ("first", 200),
        ("second", 200),
        ("second:latest", 200),
        ("org/fake", 404),
        ("fake", 404),
    ] {
        let body = json!({"input": "a", "model": name}).to_string();
        for path in ["/v1/embeddings", "/api/embed"] {
            let answer = server.post(path, &body);
            assert_eq!(answer.status, status, "{path} {name}: {answer:?}");
            match status {
                200 => assert_eq!(answer.json()["model"], "first"),
                _ => assert!(answer.body.contains("first"), "{answer:?}"),
            }
        }
    }
}

#[test]
fn ollamas_routes_give_the_same_vectors() {
    let server = Server::usual();
    let answer = server.post(
        "/api/embed",
        r#"{"model": "fake", "input": ["one", "two"]}"#,
    );
    let answer = answer.json();
    assert_eq!(
        answer["embeddings"],
        json!([numbers("one"), numbers("two")])
    );
    assert_eq!(answer["prompt_eval_count"], 6);
    let one = server.post(
        "/api/embed",
        r#"{"input": "one", "dimensions": 2, "options": {}, "keep_alive": "5m"}"#,
    );
    assert_eq!(one.json()["embeddings"], json!([numbers("one")[..2]]));
    let old = server.post(
        "/api/embeddings",
        r#"{"model": "org/fake", "prompt": "one"}"#,
    );
    assert_eq!(old.json(), json!({"embedding": numbers("one")}));
    let long = json!({"input": "x".repeat(5000), "truncate": false}).to_string();
    let refused = server.post("/api/embed", long);
    assert_eq!(refused.status, 413, "{refused:?}");
    assert!(refused.json()["error"].is_string(), "{refused:?}");
}

/// A request without text has the model loaded, as Ollama's clients ask for it.
#[test]
fn ollamas_routes_answer_a_request_without_text() {
    let server = Server::usual();
    for body in [
        r#"{"model": "fake"}"#,
        r#"{"input": []}"#,
        r#"{"input": ""}"#,
        r#"{"input": null}"#,
    ] {
        let answer = server.post("/api/embed", body);
        assert_eq!(
            (answer.status, &answer.json()["embeddings"]),
            (200, &json!([])),
            "{body}"
        );
    }
    for body in [r#"{"model": "fake"}"#, r#"{"prompt": ""}"#] {
        let answer = server.post("/api/embeddings", body);
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({"embedding": []})),
            "{body}"
        );
    }
    let answer = server.post("/api/embed", r#"{"input": [""]}"#);
    assert_eq!(answer.json()["embeddings"], json!([numbers("")]));
}

/// Settings of other servers that ask for other vectors are refused; those that ask for these are taken.
#[test]
fn settings_of_other_servers_are_not_passed_over() {
    let server = Server::usual();
    for (settings, status) in [
        (
            json!({"normalize": false, "normalized": false, "late_chunking": false}),
            200,
        ),
        (
            json!({"embedding_type": "float", "truncate_prompt_tokens": -1}),
            200,
        ),
        (
            json!({"truncation_direction": "Right", "truncate_prompt_tokens": 5000}),
            200,
        ),
        (json!({"normalize": true}), 400),
        (json!({"normalized": true}), 400),
        (json!({"late_chunking": true}), 400),
        (json!({"embedding_type": "ubinary"}), 400),
        (json!({"truncation_direction": "left"}), 400),
        (json!({"truncate_prompt_tokens": 3}), 400),
    ] {
        let mut body = json!({"input": [{"text": "one"}]});
        for (name, value) in settings.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = server.post("/v1/embeddings", body.to_string());
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        match status {
            200 => assert_eq!(answer.json()["data"][0]["embedding"], json!(numbers("one"))),
            _ => {
                let param = answer.json()["error"]["param"].clone();
                assert!(
                    settings.get(param.as_str().unwrap()).is_some(),
                    "{answer:?}"
                );
            }
        }
    }
    let image = server.post("/v1/embeddings", r#"{"input": [{"image": "x"}]}"#);
    assert!(matches!(image.status, 400 | 422), "{image:?}");
}

/// Answers like an output in float16 are rounded; a query is not.
#[test]
fn numbers_are_rounded_as_those_of_an_output_in_half_precision() {
    let mut model = FakeModel::new(1);
    model.card.is_half = true;
    let server = Server::start(model, ServerOptions::default());
    let long = "\u{10ffff}".repeat(3);
    let rounded: Vec<f32> = numbers(&long)
        .iter()
        .map(|it| half::f16::from_f32(*it).to_f32())
        .collect();
    assert_ne!(rounded, numbers(&long));
    let answer = server.post("/api/embed", json!({"input": [long]}).to_string());
    assert_eq!(server.get("/info").json()["model_dtype"], "float16");
    let first = answer.json()["embeddings"][0].clone();
    let first: Vec<Option<f64>> = first
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_f64)
        .collect();
    assert_eq!(first[0], Some(3.0));
    assert_eq!(first[1].is_none(), rounded[1].is_infinite());
}

#[test]
fn ollamas_clients_find_the_model_first() {
    let options = ServerOptions {
        served_names: vec!["mine".to_owned()],
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let tags = server.get("/api/tags").json();
    assert_eq!(tags["models"][0]["name"], "mine");
    assert_eq!(tags["models"][0]["model"], "mine");
    assert_eq!(tags["models"].as_array().unwrap().len(), 1);
    for body in [r#"{"model": "mine"}"#, r#"{"name": "mine:latest"}"#] {
        let shown = server.post("/api/show", body).json();
        assert_eq!(shown["capabilities"], json!(["embedding"]), "{body}");
        assert_eq!(shown["model_info"]["embedctl.embedding_length"], 4);
        assert_eq!(shown["model_info"]["embedctl.context_length"], 4000);
    }
    let other = server.post("/api/show", r#"{"model": "llama3"}"#);
    assert_eq!(other.status, 404, "{other:?}");
    assert!(other.json()["error"].is_string(), "{other:?}");
    let version = server.get("/api/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn similarities_are_cosines_in_the_order_of_sentences() {
    let server = Server::usual();
    let cosine = |one: &[f32], other: &[f32]| {
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(&a, &b)| f64::from(a * b)).sum()
        };
        dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
    };
    let body = json!({"inputs": {"source_sentence": "one", "sentences": ["one", "zz", "a"]}});
    let answer = server.post("/similarity", body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    // As `huggingface_hub` sends it, to the server's address.
    let mut to_root = body.clone();
    to_root["parameters"] = json!({});
    for body in [&body, &to_root] {
        let root = server.post("/", body.to_string());
        assert_eq!((root.status, root.json()), (200, answer.json()), "{root:?}");
    }
    let wrong = server.post("/", r#"{"inputs": {"source_sentence": "one"}}"#);
    let words = "an object with `source_sentence` and `sentences`";
    assert!(
        wrong.status == 422 && wrong.body.contains(words),
        "{wrong:?}"
    );
    let found: Vec<f64> = serde_json::from_value(answer.json()).unwrap();
    assert_eq!(found.len(), 3);
    for (found, text) in found.iter().zip(["one", "zz", "a"]) {
        let expected = cosine(&numbers("one"), &numbers(text));
        assert!(
            (found - expected).abs() < 1e-6,
            "{text}: {found}, {expected}"
        );
    }
    let body = json!({"inputs": {"source_sentence": "one", "sentences": []}});
    let refused = server.post("/similarity", body.to_string());
    assert_eq!(refused.status, 422, "{refused:?}");
}
