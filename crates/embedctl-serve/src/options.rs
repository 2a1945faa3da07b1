//! The server's limits, and the messages to its caller.

use std::sync::Arc;
use std::time::Duration;

use crate::keys::ApiKeys;
use crate::listen::{BoundListener, Reach};

/// Limits and keys of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Bytes of a request's body at most.
    pub max_body: usize,
    /// Inputs of a request at most.
    pub max_inputs: usize,
    /// Inputs in the server at most, waiting or running. Further requests are refused with 429.
    pub max_queue: usize,
    /// How long a request may take, from its last byte to its answer.
    pub timeout: Duration,
    /// How long a client may take for a request's head, for its body, and between two reads of the answer.
    pub client_timeout: Duration,
    /// How long requests in the server may take once it is to stop.
    pub drain: Duration,
    /// Connections at the same time at most; `None`: as many as the process may have open files.
    pub max_connections: Option<usize>,
    /// Bytes of all requests in memory at most, and as many of all answers that are being read.
    pub memory: usize,
    /// Names that requests may give to the model; empty: its id, and the last part of it.
    pub served_names: Vec<String>,
    /// Origins of web pages whose scripts may read answers, such as `https://example.org`; `*` for all.
    pub allow_origins: Vec<String>,
    /// Names in `Host` that requests to a listener of this machine may have beside `localhost` and addresses.
    pub allow_hosts: Vec<String>,
    /// Keys of clients; `None`: anybody who reaches the server is served.
    pub keys: Option<ApiKeys>,
    /// Whether each request is told as a [`Notice::Request`].
    pub tell_requests: bool,
}

impl ServerOptions {
    /// Whether clients of this listener may read the rows of the output that the server is like.
    #[must_use]
    pub fn shows_rows(&self, listener: &BoundListener) -> bool {
        self.shows_rows_to(listener.reach())
    }

    pub(crate) fn shows_rows_to(&self, reach: Reach) -> bool {
        reach != Reach::Network || self.keys.is_some()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_body: 8 << 20,
            max_inputs: 2048,
            max_queue: 4096,
            timeout: Duration::from_secs(60),
            client_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(60),
            max_connections: None,
            memory: 512 << 20,
            served_names: Vec::new(),
            allow_origins: Vec::new(),
            allow_hosts: Vec::new(),
            keys: None,
            tell_requests: false,
        }
    }
}

/// A message of the server to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It accepts connections at this address: `http://127.0.0.1:8080`, `unix:PATH`.
    Listening(String),
    /// It was asked to stop, and finishes so many requests.
    Draining(usize),
    /// Something that the operator should know.
    Warning(String),
    /// A request and its answer: `POST /embed 200 3.1 ms`.
    Request(String),
}

/// Takes the server's messages.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;
