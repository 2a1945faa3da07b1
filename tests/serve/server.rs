//! The program as a server, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::support::DEADLINE;

/// A server, which is killed when this is dropped.
pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`, or the address as it was told.
    pub address: String,
    messages: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts `serve` with the native engine, and waits until it listens.
    pub fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut command = sandbox.command(["serve", "--threads", "2"]);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        Self::spawn(command.args(arguments))
    }

    /// Starts a command, and waits until it listens.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let start = said.len();
            assert!(
                stderr.read_line(&mut said).unwrap() > 0,
                "it does not listen: {said}"
            );
            if let Some(address) = said[start..].trim().strip_prefix("listening on ") {
                break address.replace("http://", "");
            }
        };
        let messages = Arc::new(Mutex::new(said));
        let all = Arc::clone(&messages);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                all.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self {
            child,
            address,
            messages,
            reader: Some(reader),
        }
    }

    /// Its messages so far.
    pub fn messages(&self) -> String {
        self.messages.lock().unwrap().clone()
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ))
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, String) {
        self.post_with(path, body, "")
    }

    /// A request with more header lines.
    pub fn post_with(&self, path: &str, body: &Value, headers: &str) -> (u16, String) {
        let body = body.to_string();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        answer(&mut stream, request)
    }

    /// The vectors of texts, by `/embed`.
    pub fn vectors(&self, texts: &[String]) -> Vec<Vec<f32>> {
        let (status, body) = self.post("/embed", &serde_json::json!({"inputs": texts}));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Sends a signal, and waits for the end; the exit code and all messages.
    #[cfg(unix)]
    pub fn signal(mut self, signal: i32) -> (Option<i32>, String) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        (status.code(), self.messages())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Sends a request and reads the answer to the end of the connection.
pub fn answer(stream: &mut (impl Read + Write), request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
