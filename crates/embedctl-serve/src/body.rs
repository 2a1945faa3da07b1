//! Bodies of requests and answers: their size, their time, and the memory of all of them together.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::answer::{ApiError, ApiRefusal};
use crate::options::ServerOptions;

/// Bytes of all bodies together at most.
const MEMORY: usize = 512 << 20;

/// Of a body that is too large so many times the limit are read and dropped, so that the client reads the refusal.
const DISCARDED: usize = 8;

/// Bytes of an answer that are handed over to a connection at a time.
const PIECE: usize = 64 << 10;

/// Bytes of the bodies in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyMemory(Arc<AtomicUsize>);

impl BodyMemory {
    pub fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn hold(&self) -> HeldBytes {
        HeldBytes {
            memory: self.clone(),
            bytes: 0,
        }
    }

    /// Reads a request's body.
    pub async fn read(&self, body: Body, options: &ServerOptions) -> Result<HeldBody, ApiError> {
        let read = self.read_all(body, options.max_body);
        timeout(options.client_timeout, read)
            .await
            .unwrap_or_else(|_| {
                let seconds = options.client_timeout.as_secs();
                let reason = format!("the body did not arrive within {seconds} s");
                Err(ApiError::new(ApiRefusal::Slow, reason))
            })
    }

    async fn read_all(&self, mut body: Body, most: usize) -> Result<HeldBody, ApiError> {
        let mut held = self.hold();
        let mut bytes = Vec::new();
        let mut refused = None;
        let mut discarded = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| ApiError::invalid(format!("the body cannot be read: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if refused.is_none() && bytes.len() + data.len() > most {
                let reason = format!("the body is larger than {most} bytes; send fewer inputs");
                refused = Some(ApiError::new(ApiRefusal::TooLarge, reason));
            } else if refused.is_none() && !held.add(data.len()) {
                let reason = "too many large requests at the same time; try again later";
                refused = Some(ApiError::new(ApiRefusal::Full, reason).retry_after(1));
            }
            if refused.is_none() {
                bytes.extend_from_slice(&data);
                continue;
            }
            bytes = Vec::new();
            discarded += data.len();
            if discarded > most.saturating_mul(DISCARDED) {
                break;
            }
        }
        match refused {
            Some(refusal) => Err(refusal),
            None => Ok(HeldBody { bytes, _held: held }),
        }
    }

    /// The answer, whose bytes count until they are written.
    pub fn answer(&self, answer: Response) -> Response {
        answer.map(|body| {
            let mut held = self.hold();
            let bytes = body.size_hint().exact().unwrap_or_default();
            held.add_always(usize::try_from(bytes).unwrap_or(usize::MAX));
            Body::new(CountedBody {
                body,
                rest: Bytes::new(),
                _held: held,
            })
        })
    }
}

/// Bytes that count until this is dropped.
struct HeldBytes {
    memory: BodyMemory,
    bytes: usize,
}

impl HeldBytes {
    fn add(&mut self, bytes: usize) -> bool {
        let order = Ordering::Relaxed;
        let grown = |now: usize| Some(now + bytes).filter(|&sum| sum <= MEMORY);
        let added = self.memory.0.fetch_update(order, order, grown).is_ok();
        self.bytes += if added { bytes } else { 0 };
        added
    }

    fn add_always(&mut self, bytes: usize) {
        self.memory.0.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A request's body in memory.
pub(crate) struct HeldBody {
    bytes: Vec<u8>,
    _held: HeldBytes,
}

impl HeldBody {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Its JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let what = match error.classify() {
                serde_json::error::Category::Data => "the request is not as the route wants it",
                _ => "the body is not JSON",
            };
            ApiError::invalid(format!("{what}: {error}"))
        })
    }
}

/// An answer's body, whose bytes count until they are handed over to the connection, a piece at a time.
struct CountedBody {
    body: Body,
    rest: Bytes,
    _held: HeldBytes,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let length = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

/// Refuses a body before it is read: of another type than JSON, or declared to be too large.
pub(crate) fn check_head(headers: &HeaderMap, most: usize) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let reason = "the body must be JSON: send the header `Content-Type: application/json`";
        return Err(ApiError::new(ApiRefusal::MediaType, reason));
    }
    let expects = headers.contains_key(header::EXPECT);
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // The client asks before it sends; else it would not read the answer before all is sent.
    if expects && length.is_some_and(|length| length > most) {
        let reason = format!("the body is larger than {most} bytes; send fewer inputs");
        return Err(ApiError::new(ApiRefusal::TooLarge, reason));
    }
    Ok(())
}
