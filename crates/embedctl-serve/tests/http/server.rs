//! A server on a thread, and clients that write what they like.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use serde_json::Value;

use crate::model::{FakeModel, Gate};
use embedctl_serve::{ApiKeys, Listen, Notice, ServerOptions, serve};

/// How long a test waits for an expected event.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running server, which is stopped when this is dropped.
pub struct Server {
    pub address: String,
    pub gate: Arc<Gate>,
    pub cancel: CancelToken,
    pub notices: Arc<Mutex<Vec<Notice>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Server {
    pub fn start(model: FakeModel, options: ServerOptions) -> Self {
        Self::start_on("127.0.0.1:0", model, options)
    }

    pub fn start_on(listen: &str, model: FakeModel, options: ServerOptions) -> Self {
        let listener = Listen::Tcp(listen.into()).bind().unwrap();
        let address = listener.address().replace("http://", "");
        let gate = Arc::clone(&model.gate);
        let cancel = CancelToken::new();
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let told = Arc::clone(&notices);
        let stop = cancel.clone();
        let thread = std::thread::spawn(move || {
            let notify = Arc::new(move |notice| told.lock().unwrap().push(notice));
            serve(Arc::new(model), listener, options, notify, &stop)
        });
        Self {
            address,
            gate,
            cancel,
            notices,
            thread: Some(thread),
        }
    }

    /// One worker, usual limits.
    pub fn usual() -> Self {
        Self::start(FakeModel::new(1), ServerOptions::default())
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends these bytes on a connection of its own, and reads all answers.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        // A server may refuse before all is sent.
        let _ = stream.write_all(bytes.as_ref());
        Answer::read(&mut stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        self.send(head)
    }

    /// Reads an answer of some length on a connection that is kept, with the interim ones before it.
    pub fn one_answer(stream: &mut TcpStream) -> Answer {
        let mut all = Vec::new();
        let mut byte = [0];
        let length = |head: &str| -> Option<usize> {
            let (_, rest) = head.split_once("content-length: ")?;
            rest.split("\r\n").next()?.parse().ok()
        };
        while !all.ends_with(b"\r\n\r\n") {
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "the connection ended");
            all.extend(byte);
        }
        let head = String::from_utf8(all).unwrap().to_ascii_lowercase();
        let mut body = vec![0; length(&head).unwrap_or(0)];
        stream.read_exact(&mut body).unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: String::from_utf8(body).unwrap(),
        }
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send(request(path, "application/json", body.as_ref()))
    }

    /// A metric's value.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.get("/metrics").body;
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or("0").parse().unwrap()
    }

    /// Waits until a metric has a value.
    pub fn wait_for(&self, name: &str, value: f64) {
        let start = Instant::now();
        while self.metric(name) != value {
            assert!(
                start.elapsed() < DEADLINE,
                "{name} is {}",
                self.metric(name)
            );
        }
    }

    /// Waits for the server's end.
    pub fn end(mut self) -> Result<()> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.gate.set(true);
        self.cancel.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

/// A file's keys, with this one alone.
pub fn key_of(key: &str) -> ApiKeys {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key).unwrap();
    ApiKeys::read(file.path()).unwrap()
}

/// The bytes of a request.
pub fn request(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// An answer; empty if there was none.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads one until the end of the connection.
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut all = Vec::new();
        // A connection that is reset has said what it had to say.
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
