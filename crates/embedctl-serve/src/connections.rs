//! Connections: accepting them, and their number.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::Version;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::AsyncWrite;
use tokio::time::sleep;

use crate::app::App;
use crate::client::{Client, ClientStream, Stream};
use crate::listen::BoundSocket;

/// Bytes of a request's head at most.
const HEAD: usize = 64 << 10;

/// Files that stay free for everything but connections.
#[cfg(unix)]
const FILES_LEFT: usize = 64;

/// Connections at most, however many files the process may open.
const MOST: usize = 1 << 16;

/// The pause after connections could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The answer to a connection too many.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
Connection: close\r\nContent-Length: 69\r\n\r\n{\"error\":\"too many connections; try again\",\"error_type\":\"overloaded\"}\n";

/// A listener of the runtime.
pub(crate) enum Listener {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

impl Listener {
    /// The listener of this address, which must be kept meanwhile.
    pub fn new(bound: &BoundSocket) -> io::Result<Self> {
        Ok(match bound {
            BoundSocket::Tcp(listener) => {
                Self::Tcp(tokio::net::TcpListener::from_std(listener.try_clone()?)?)
            }
            #[cfg(unix)]
            BoundSocket::Unix(socket) => {
                let listener = socket.listener.try_clone()?;
                Self::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole: waiting for more would delay them.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            #[cfg(unix)]
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Accepts connections for as long as it is polled.
pub(crate) async fn accept(
    app: Arc<App>,
    router: Router,
    listener: Listener,
    connections: Arc<GracefulShutdown>,
) {
    let most = app.options.max_connections.unwrap_or_else(open_files);
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                // A client that is gone already, or no file is left.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    let reason = format!("a connection cannot be accepted: {error}");
                    app.refused("connection", &reason);
                    sleep(PAUSE).await;
                }
                continue;
            }
        };
        let open = OpenConnection::new(&app);
        if app.connections.load(Ordering::Relaxed) > most {
            let reason = format!("{most} connections are open, so no more are accepted");
            app.refused("connection", &reason);
            tokio::spawn(refuse(stream, open));
            continue;
        }
        tokio::spawn(connection(
            stream,
            open,
            router.clone(),
            connections.watcher(),
        ));
    }
}

/// A connection that counts.
struct OpenConnection(Arc<App>);

impl OpenConnection {
    fn new(app: &Arc<App>) -> Self {
        app.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(app))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn refuse(mut stream: Box<dyn Stream>, _open: OpenConnection) {
    let write = std::future::poll_fn(|context| Pin::new(&mut stream).poll_write(context, TOO_MANY));
    // A new connection takes so little at once.
    let _ = tokio::time::timeout(PAUSE, write).await;
}

/// Answers the requests of a connection.
async fn connection(
    stream: Box<dyn Stream>,
    open: OpenConnection,
    router: Router,
    watcher: Watcher,
) {
    let app = Arc::clone(&open.0);
    let limit = app.options.client_timeout;
    let client = Client::new(stream, limit);
    let metrics = Arc::clone(&app.metrics);
    let stream = ClientStream(Arc::clone(&client));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (app, router, client) = (Arc::clone(&app), router.clone(), Arc::clone(&client));
        async move {
            // Clients of older versions know no interim answers.
            let asks = request.version() == Version::HTTP_11;
            let answer = app.answer(router, request, &client);
            let gone = || io::Error::from(io::ErrorKind::ConnectionAborted);
            client.unless_gone(asks, answer).await.ok_or_else(gone)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(HEAD)
        // The client's going away is found in another way.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // Its errors are the client's: it went away, was too slow, or does not speak HTTP.
    if let Err(error) = watcher.watch(serving).await
        && error.is_parse()
    {
        metrics.refused("not_http");
    }
    drop(open);
}

/// Connections that the process's open files allow. The soft limit is raised first, as far as the hard one lets it.
#[cfg(unix)]
fn open_files() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills in the struct that it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return MOST;
    }
    let wanted = limit.rlim_max.min((MOST + FILES_LEFT) as libc::rlim_t);
    if wanted > limit.rlim_cur {
        let raised = libc::rlimit {
            rlim_cur: wanted,
            ..limit
        };
        // SAFETY: the call reads the struct that it is given.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    let files = usize::try_from(limit.rlim_cur).unwrap_or(MOST);
    files.saturating_sub(FILES_LEFT).clamp(1, MOST)
}

#[cfg(not(unix))]
fn open_files() -> usize {
    MOST
}
