//! Clients that are slow, rude, or many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::model::FakeModel;
use crate::server::{Answer, Server, request};
use embedctl_serve::ServerOptions;

fn impatient() -> Server {
    let options = ServerOptions {
        client_timeout: Duration::from_millis(200),
        max_body: 64 << 20,
        ..ServerOptions::default()
    };
    Server::start(FakeModel::new(1), options)
}

/// Reads until the server ends the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let server = impatient();
    for begun in [
        "",
        "POST /embed HT",
        "POST /embed HTTP/1.1\r\nHost: x\r\nA: ",
    ] {
        let mut stream = server.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        rest(&mut stream);
    }
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn slow_bodies_are_refused() {
    let server = impatient();
    let whole = request("/embed", "application/json", br#"{"inputs": "a"}"#);
    let mut stream = server.connect();
    stream.write_all(&whole[..whole.len() - 5]).unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 408, "{answer:?}");
    assert!(answer.body.contains("did not arrive within"), "{answer:?}");
}

#[test]
fn a_client_that_does_not_read_loses_its_connection() {
    let server = impatient();
    // Several megabytes of tokens, more than the buffers of a connection hold.
    let body = json!({"inputs": vec!["x".repeat(1000); 400]}).to_string();
    let mut stream = server.connect();
    let bytes = request("/tokenize", "application/json", body.as_bytes());
    stream.write_all(&bytes).unwrap();
    server.wait_for("embedctl_serve_connections", 2.0);
    // The connection that asks for the metric is the other one.
    server.wait_for("embedctl_serve_connections", 1.0);
    server.wait_for("embedctl_serve_body_bytes", 0.0);
    assert!(rest(&mut stream).len() < 20_000_000);
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let server = Server::usual();
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n",
        "a".repeat(200_000)
    );
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000));
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], // TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /embed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nzz\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ] {
        let answer = server.send(bytes);
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{answer:?}");
    }
    // All but the one with a wrong body.
    server.wait_for("embedctl_serve_refused_total{reason=\"not_http\"}", 8.0);
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
    ] {
        let answer = server.send(request("/embed", kind, br#"{"inputs": "a"}"#));
        assert_eq!(answer.status, 415, "{kind}");
    }
    let charset = "application/json; charset=utf-8";
    let answer = server.send(request("/embed", charset, br#"{"inputs": "a"}"#));
    assert_eq!(answer.status, 200);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn deep_and_endless_bodies_are_refused() {
    let options = ServerOptions {
        max_body: 1 << 20,
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let deep = format!("{{\"inputs\": {}", "[".repeat(200_000));
    assert_eq!(server.post("/embed", deep).status, 422);
    // A body without an announced length: nine times the limit are read, and no more.
    let mut stream = server.connect();
    let head = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 1 << 30 && stream.write_all(&chunk).is_ok() {
        sent += 0x10000;
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    // A client that asks first sends nothing.
    let asks = "POST /embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n\
                Content-Type: application/json\r\nContent-Length: 999999999\r\n\r\n";
    let answer = server.send(asks);
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(server.metric("embedctl_serve_body_bytes"), 0.0);
}

#[test]
fn connections_beyond_the_limit_are_told_so_and_idle_ones_do_no_harm() {
    let options = ServerOptions {
        max_connections: Some(100),
        ..ServerOptions::default()
    };
    let server = Server::start(FakeModel::new(1), options);
    let idle: Vec<TcpStream> = (0..99).map(|_| server.connect()).collect();
    server.wait_for("embedctl_serve_connections", 100.0);
    assert_eq!(server.post("/embed", r#"{"inputs": "a"}"#).status, 200);
    let last = server.connect();
    let start = std::time::Instant::now();
    loop {
        let answer = server.get("/health");
        if answer.status == 503 {
            assert!(answer.body.contains("too many connections"), "{answer:?}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{answer:?}");
    }
    drop((idle, last));
    let start = std::time::Instant::now();
    while server.get("/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn killed_clients_leave_nothing_behind() {
    let server = Server::usual();
    for length in [1, 30, 90, 1000] {
        for _ in 0..20 {
            let body = json!({"inputs": vec!["some text"; 50]}).to_string();
            let bytes = request("/embed", "application/json", body.as_bytes());
            let mut stream = server.connect();
            let _ = stream.write_all(&bytes[..length.min(bytes.len())]);
        }
    }
    server.wait_for("embedctl_serve_connections", 1.0);
    server.wait_for("embedctl_serve_queue_inputs", 0.0);
    assert_eq!(server.metric("embedctl_serve_body_bytes"), 0.0);
    assert_eq!(server.metric("embedctl_serve_requests_in_flight"), 1.0);
}
