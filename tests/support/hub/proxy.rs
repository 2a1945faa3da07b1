//! A proxy that tunnels (`CONNECT host:port`), and remembers where to.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// The proxy, until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The value that `Proxy-Authorization` must have.
    wanted: Option<String>,
    /// Where every connection goes, whatever its name; none: where it asks to.
    to: Option<String>,
    stopping: AtomicBool,
    heads: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn start() -> Self {
        Self::with(Shared::default())
    }

    /// One that leads every connection to `host`.
    pub fn leading_to(host: &str) -> Self {
        Self::with(Shared {
            to: Some(host.to_owned()),
            ..Shared::default()
        })
    }

    /// A proxy with authentication (`Basic …`).
    pub fn wanting(authorization: &str) -> Self {
        Self::with(Shared {
            wanted: Some(authorization.to_owned()),
            ..Shared::default()
        })
    }

    fn with(shared: Shared) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::new(shared);
        let listener = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for stream in socket.incoming().flatten() {
                    if shared.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    let shared = Arc::clone(&shared);
                    // Ends with its connection.
                    thread::spawn(move || shared.serve(stream));
                }
            }
        });
        Self {
            address,
            shared,
            listener: Some(listener),
        }
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The hosts that were asked for, in order.
    pub fn targets(&self) -> Vec<String> {
        let heads = self.shared.heads.lock().unwrap();
        let targets = heads.iter().filter_map(|head| head.split(' ').nth(1));
        targets.map(str::to_owned).collect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // wakes the listener
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        for stream in self.shared.streams.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> Option<()> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.heads.lock().unwrap().push(head.clone());
        let target = head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
        let said = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("proxy-authorization"))
            .map(|(_, value)| value.to_owned());
        if self.wanted.is_some() && said != self.wanted {
            let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
            client.write_all(refusal.as_bytes()).ok()?;
            return None;
        }
        let server = TcpStream::connect(self.to.as_ref().unwrap_or(&target)).ok()?;
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .ok()?;
        let mut streams = self.streams.lock().unwrap();
        streams.push(client.try_clone().ok()?);
        streams.push(server.try_clone().ok()?);
        drop(streams);
        let up = (client.try_clone().ok()?, server.try_clone().ok()?);
        thread::spawn(move || pass(up.0, up.1));
        pass(server, client);
        Some(())
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    // Either side may go away at any time.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
