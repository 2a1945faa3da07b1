//! Enough of an HTTP/1.1 server for tests: one thread a connection, connections kept for further requests,
//! and answers that can be spoiled at any byte.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A request, as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Path without the query, percent-escapes as they came.
    pub path: String,
    /// The part after the question mark.
    pub query: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The first byte that is asked for, where only the rest of a file is.
    pub fn range(&self) -> Option<usize> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        range.strip_suffix('-')?.parse().ok()
    }

    /// The part of a file of so many bytes that is asked for.
    pub fn part(&self, size: usize) -> Option<Range<usize>> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        let (from, to) = range.split_once('-')?;
        let end = to.parse::<usize>().map_or(size, |last| last + 1);
        Some(from.parse().ok()?..end.min(size))
    }

    /// The same request for all of the file.
    pub fn without_range(&self) -> Self {
        let mut whole = self.clone();
        whole
            .headers
            .retain(|(name, _)| !name.eq_ignore_ascii_case("range"));
        whole
    }
}

/// Called while a body is being sent.
pub type Hook = Arc<dyn Fn() + Send + Sync>;

/// The event after so many bytes of a body.
#[derive(Clone)]
pub enum Step {
    /// The connection ends.
    Cut,
    /// Nothing more comes until the server is shut down.
    Stall,
    /// Something is done, and sending continues.
    Call(Hook),
}

/// An answer.
#[derive(Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// By the number of bytes of the body after which they happen.
    pub steps: Vec<(usize, Step)>,
    /// Bytes sent at a time, each with a short wait behind it.
    pub trickle: Option<usize>,
    /// The body's length is not told: it ends with the connection.
    pub unmeasured: bool,
    /// The connection ends, or falls silent, without an answer.
    pub instead: Option<Step>,
}

impl Reply {
    /// Content, or the part of it that is asked for.
    pub fn ranged(request: &Request, content: &[u8]) -> Self {
        let size = content.len();
        match request.part(size) {
            None => Self::new(200).body(content),
            Some(part) if part.is_empty() => {
                Self::new(416).with("Content-Range", format!("bytes */{size}"))
            }
            Some(part) => {
                let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
                Self::new(206)
                    .with("Content-Range", range)
                    .body(&content[part])
            }
        }
    }

    pub fn new(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A server on a port of its own. It ends, with all its connections, when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    handler: Box<Handler>,
    tls: Option<Arc<rustls::ServerConfig>>,
    stopping: AtomicBool,
    stopped: Mutex<bool>,
    stop: Condvar,
    connections: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

impl Server {
    pub fn start(
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            tls,
            stopping: AtomicBool::new(false),
            stopped: Mutex::new(false),
            stop: Condvar::new(),
            connections: Mutex::default(),
        });
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for stream in socket.incoming() {
                    if shared.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    let mut connections = shared.connections.lock().unwrap();
                    let copy = stream.try_clone().unwrap();
                    let worker = Arc::clone(&shared);
                    let thread = thread::spawn(move || worker.serve(stream));
                    connections.push((copy, thread));
                }
            }
        });
        Self {
            address,
            shared,
            listener: Some(listener),
        }
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Takes no more connections and ends those there are.
    pub fn stop(&mut self) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        self.shared.stopping.store(true, Ordering::SeqCst);
        *self.shared.stopped.lock().unwrap() = true;
        self.shared.stop.notify_all();
        let _ = TcpStream::connect(self.address); // wakes the listener
        let _ = listener.join();
        let connections = std::mem::take(&mut *self.shared.connections.lock().unwrap());
        for (stream, thread) in connections {
            let _ = stream.shutdown(Shutdown::Both);
            // A handler's panic has been printed, and the client has missed its answer.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection, encrypted or not.
trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let socket = stream.try_clone().unwrap();
        let mut connection: Box<dyn Connection> = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let session = rustls::ServerConnection::new(Arc::clone(config)).unwrap();
                Box::new(rustls::StreamOwned::new(session, stream))
            }
        };
        let mut pending = Vec::new();
        // A client that goes away is no concern of the server's.
        while let Ok(Some(request)) = read_request(&mut connection, &mut pending) {
            let reply = (self.handler)(&request);
            if !matches!(self.answer(&mut connection, &request, &reply), Ok(true)) {
                break;
            }
        }
        let _ = connection.flush();
        let _ = socket.shutdown(Shutdown::Both);
    }

    /// Sends an answer; returns whether the connection stays open.
    fn answer(
        &self,
        connection: &mut dyn Connection,
        request: &Request,
        reply: &Reply,
    ) -> io::Result<bool> {
        if let Some(step) = &reply.instead {
            return Ok(self.take(step));
        }
        let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if reply.unmeasured {
            head.push_str("Connection: close\r\n");
        } else if !reply
            .headers
            .iter()
            .any(|(name, _)| name == "Content-Length")
        {
            head.push_str(&format!("Content-Length: {}\r\n", reply.body.len()));
        }
        connection.write_all(format!("{head}\r\n").as_bytes())?;
        connection.flush()?;
        if request.method == "HEAD" {
            return Ok(true);
        }
        let mut sent = 0;
        let mut steps = reply.steps.clone();
        steps.sort_by_key(|(after, _)| *after);
        for (after, step) in steps {
            let upto = after.clamp(sent, reply.body.len());
            self.send(connection, &reply.body[sent..upto], reply.trickle)?;
            sent = upto;
            if !self.take(&step) {
                return Ok(false);
            }
        }
        self.send(connection, &reply.body[sent..], reply.trickle)?;
        Ok(!reply.unmeasured)
    }

    fn send(
        &self,
        connection: &mut dyn Connection,
        bytes: &[u8],
        trickle: Option<usize>,
    ) -> io::Result<()> {
        for piece in bytes.chunks(trickle.unwrap_or(usize::MAX)) {
            connection.write_all(piece)?;
            connection.flush()?;
            if trickle.is_some() {
                thread::sleep(Duration::from_micros(500)); // else the kernel joins the pieces
            }
        }
        Ok(())
    }

    /// Returns whether the connection stays open.
    fn take(&self, step: &Step) -> bool {
        match step {
            Step::Cut => false,
            Step::Stall => {
                let stopped = self.stopped.lock().unwrap();
                drop(self.stop.wait_while(stopped, |stopped| !*stopped).unwrap());
                false
            }
            Step::Call(call) => {
                call();
                true
            }
        }
    }
}

/// The next request; none where the connection has ended.
fn read_request(
    connection: &mut dyn Connection,
    pending: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    const END: &[u8] = b"\r\n\r\n";
    let end = loop {
        if let Some(end) = pending.windows(END.len()).position(|bytes| bytes == END) {
            break end;
        }
        let mut buffer = [0; 4096];
        let count = connection.read(&mut buffer)?;
        if count == 0 {
            return Ok(None);
        }
        pending.extend_from_slice(&buffer[..count]);
        // The beginning of TLS, for one.
        if !pending[0].is_ascii_alphabetic() {
            connection.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&pending[..end]).into_owned();
    pending.drain(..end + END.len());
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    let request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers.collect(),
    };
    pass_body(connection, pending, &request)?;
    Ok(Some(request))
}

/// Reads the body of a request, which no handler looks at.
fn pass_body(
    connection: &mut dyn Connection,
    pending: &mut Vec<u8>,
    request: &Request,
) -> io::Result<()> {
    let length = (request.header("content-length")).and_then(|length| length.parse().ok());
    let length: usize = length.unwrap_or(0);
    let here = length.min(pending.len());
    pending.drain(..here);
    let mut rest = connection.take((length - here) as u64);
    io::copy(&mut rest, &mut io::sink()).map(drop)
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        302 => "Found",
        307 => "Temporary Redirect",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
