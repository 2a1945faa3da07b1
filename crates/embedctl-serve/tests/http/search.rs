//! Searches of the server's rows: their answers, their room and their time, and who may ask for them.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_serve::{CorpusRow, ServedCorpus, ServerOptions};
use embedctl_vectors::{RowForm, RowVector, Terms};
use serde_json::{Value, json};

use crate::model::{FakeModel, numbers};
use crate::server::{Server, key_of, request};

/// A query of so many characters is searched for until it is given up.
const LONG: usize = 1000;

/// Rows that are as near as their number says. Queries without a prompt are broken.
#[derive(Default)]
struct FakeCorpus {
    state: Mutex<FakeState>,
    changed: Condvar,
}

#[derive(Default)]
struct FakeState {
    queries: Vec<Vec<f32>>,
    running: usize,
    most_running: usize,
    given_up: usize,
}

impl FakeCorpus {
    /// Waits until its state is as `is_so` wants it.
    fn wait_for(&self, is_so: impl Fn(&FakeState) -> bool) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| !is_so(state))
                .unwrap(),
        );
    }

    fn change(&self, change: impl FnOnce(&mut FakeState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }
}

impl ServedCorpus for FakeCorpus {
    fn name(&self) -> &str {
        "corpus.parquet"
    }

    fn width(&self) -> Option<usize> {
        None
    }

    fn prompt_name(&self) -> Option<&str> {
        Some("query")
    }

    fn nearest(
        &self,
        query: RowVector<'_>,
        most: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<CorpusRow>> {
        let width = query.indices().map_or(0, |indices| indices[3] + 1);
        let query = query.in_full(width as usize);
        let length = query[0] as usize;
        self.change(|state| {
            state.queries.push(query);
            state.running += 1;
            state.most_running = state.most_running.max(state.running);
        });
        if length >= LONG {
            // It ends when the token is cancelled.
            let _ = cancel.channel().recv();
        }
        self.change(|state| {
            state.running -= 1;
            state.given_up += usize::from(cancel.is_cancelled());
        });
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        if length == "q: broken".len() {
            return Err(Error::usage("the file is not what it was"));
        }
        let row = |row: u64| CorpusRow {
            row,
            id: (row > 0).then(|| json!(row * 10)),
            chunk: None,
            text: (row > 0).then(|| format!("text {row}")),
            score: 1.0 - row as f32 / 4.0,
        };
        Ok((0..20).take(most).map(row).collect())
    }
}

fn searching(options: ServerOptions) -> (Server, Arc<FakeCorpus>) {
    let (model, corpus) = model();
    (Server::start(model, options), corpus)
}

fn model() -> (FakeModel, Arc<FakeCorpus>) {
    let corpus = Arc::new(FakeCorpus::default());
    let mut model = FakeModel::new(1);
    model.corpus = Some(Arc::clone(&corpus) as Arc<dyn ServedCorpus>);
    (model, corpus)
}

fn brief() -> ServerOptions {
    ServerOptions {
        timeout: Duration::from_millis(300),
        ..ServerOptions::default()
    }
}

fn long() -> String {
    json!({"query": "x".repeat(LONG)}).to_string()
}

#[test]
fn the_nearest_rows_come_with_ids_texts_and_scores() {
    let (server, corpus) = searching(ServerOptions::default());
    let answer = server.post("/search", r#"{"query": "one", "k": 2}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
    let hits = json!([
        {"rank": 1, "row": 0, "id": null, "text": null, "score": 1.0},
        {"rank": 2, "row": 1, "id": 10, "text": "text 1", "score": 0.75},
    ]);
    let expected = json!({"file": "corpus.parquet", "prompt": "q: ", "hits": hits});
    assert_eq!(answer.json(), expected);
    assert_eq!(
        corpus.state.lock().unwrap().queries,
        [numbers("q: one")],
        "the query's prompt is that of a search"
    );
    let usual = server.post("/search", r#"{"query": "one", "prompt_name": "query"}"#);
    assert_eq!(usual.json()["hits"].as_array().unwrap().len(), 10);
    let info = server.get("/info").json();
    let expected = json!({"file": "corpus.parquet", "prompt_name": "query", "is_open": true});
    assert_eq!(info["search"], expected);
}

#[test]
fn a_sparse_query_has_all_its_entries() {
    let (mut model, corpus) = model();
    model.card.form = RowForm::Sparse(Terms::new(30_000));
    let server = Server::start(model, ServerOptions::default());
    let answer = server.post("/search", r#"{"query": "one"}"#);
    assert_eq!(answer.status, 200, "{answer:?}");
    let queries = corpus.state.lock().unwrap().queries.clone();
    let mut expected = vec![0.0; 22];
    for (at, number) in numbers("q: one").into_iter().enumerate() {
        expected[at * 7] = number;
    }
    assert_eq!(queries, [expected]);
}

#[test]
fn wrong_searches_are_refused() {
    let (server, _) = searching(ServerOptions::default());
    for (body, status, words) in [
        (r#"{"query": "one", "k": 0}"#, 422, "from 1 to"),
        (r#"{"query": "one", "k": 100000}"#, 422, "from 1 to"),
        (r#"{"k": 1}"#, 422, "query"),
        (
            r#"{"query": "one", "prompt_name": "none"}"#,
            422,
            "it has query",
        ),
        (r#"{"query": "one", "model": "other"}"#, 404, "no model"),
        (r#"{"query": "broken"}"#, 424, "not what it was"),
    ] {
        let answer = server.post("/search", body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(words), "{body}: {answer:?}");
    }
    let none = Server::usual().post("/search", r#"{"query": "one"}"#);
    assert_eq!(none.status, 424, "{none:?}");
    assert!(none.body.contains("no rows to search"), "{none:?}");
    assert_eq!(Server::usual().get("/info").json()["search"], Value::Null);
}

/// Whoever may ask for vectors may not be meant to read the texts of the output.
#[test]
fn rows_are_not_shown_to_anybody_on_the_network() {
    let body = r#"{"query": "one"}"#;
    let local = |server: &mut Server| {
        let port = server.address.rsplit(':').next().unwrap().to_owned();
        server.address = format!("127.0.0.1:{port}");
    };
    let mut server = Server::start_on("0.0.0.0:0", model().0, ServerOptions::default());
    local(&mut server);
    let refused = server.post("/search", body);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("--api-key-file"), "{refused:?}");
    assert_eq!(server.get("/info").json()["search"]["is_open"], false);
    assert_eq!(server.post("/embed", r#"{"inputs": "one"}"#).status, 200);

    let options = ServerOptions {
        keys: Some(key_of("right")),
        ..ServerOptions::default()
    };
    let mut server = Server::start_on("0.0.0.0:0", model().0, options);
    local(&mut server);
    assert_eq!(server.post("/search", body).status, 401);
    let bytes = request("/search", "application/json", body.as_bytes());
    let keyed = String::from_utf8(bytes).unwrap().replacen(
        "Host: x",
        "Host: x\r\nAuthorization: Bearer right",
        1,
    );
    assert_eq!(server.send(keyed).status, 200);
}

#[test]
fn a_search_keeps_its_room_and_ends_when_its_time_is_over() {
    let options = ServerOptions {
        max_queue: 1,
        ..brief()
    };
    let (server, corpus) = searching(options);
    let mut held = server.connect();
    held.write_all(&request("/search", "application/json", long().as_bytes()))
        .unwrap();
    corpus.wait_for(|state| state.running == 1);
    let full = server.post("/embed", r#"{"inputs": "one"}"#);
    let late = crate::server::Answer::read(&mut held);
    assert_eq!(full.status, 429, "{full:?}");
    assert_eq!(late.status, 503, "{late:?}");
    corpus.wait_for(|state| state.given_up == 1);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
    assert_eq!(server.post("/embed", r#"{"inputs": "one"}"#).status, 200);
}

#[test]
fn a_client_that_goes_away_takes_its_search_along() {
    let (server, corpus) = searching(ServerOptions::default());
    let mut held = server.connect();
    held.write_all(&request("/search", "application/json", long().as_bytes()))
        .unwrap();
    corpus.wait_for(|state| state.running == 1);
    drop(held);
    corpus.wait_for(|state| state.given_up == 1);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
}

#[test]
fn searches_take_turns() {
    let (server, corpus) = searching(brief());
    std::thread::scope(|scope| {
        let asks: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| server.post("/search", long()).status))
            .collect();
        for ask in asks {
            assert_eq!(ask.join().unwrap(), 503);
        }
    });
    corpus.wait_for(|state| state.running == 0);
    assert_eq!(corpus.state.lock().unwrap().most_running, 1);
    assert_eq!(server.post("/search", r#"{"query": "one"}"#).status, 200);
}
