//! Bodies of requests and answers: their size, their time, and the memory of all of them together.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use embedctl_common::threads::locked;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use crate::answer::{ApiError, ApiRefusal};
use crate::client::Client;
use crate::options::ServerOptions;

/// Of a refused body so many times the limit are read and dropped, so that the client reads the refusal.
const DISCARDED: usize = 8;

/// Bytes of an answer that are handed over to a connection at a time.
const PIECE: usize = 64 << 10;

/// Bytes of the bodies in memory: those of requests, and those of answers that their clients have not yet read. A slow
/// reader's answer is no reason to refuse the requests of others.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory(Arc<Held>);

#[derive(Debug)]
struct Held {
    /// Bytes of each of the two at most.
    most: usize,
    requests: AtomicUsize,
    answers: Mutex<Answers>,
}

/// Answers that are being read.
#[derive(Debug, Default)]
struct Answers {
    bytes: usize,
    count: usize,
}

impl BodyMemory {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Held {
            most,
            requests: AtomicUsize::new(0),
            answers: Mutex::default(),
        }))
    }

    pub fn used(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed) + locked(&self.0.answers).bytes
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
        let mut held = HeldBytes {
            memory: self.clone(),
            bytes: 0,
        };
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| ApiError::invalid(format!("the body cannot be read: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > most {
                let reason = format!("the body is larger than {most} bytes; send fewer inputs");
                return Err(ApiError::new(ApiRefusal::TooLarge, reason));
            }
            if !held.add(data.len()) {
                let reason = "too many large requests at the same time; try again later";
                return Err(ApiError::new(ApiRefusal::Full, reason).retry_after(1));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(HeldBody { bytes, _held: held })
    }

    /// Refuses an answer for which there is no room.
    ///
    /// Where answers take more than there is room for, each may still have its share of it: a large one that is read slowly
    /// is in the way of other large ones only.
    pub fn check(&self, answer: &Response) -> Result<(), ApiError> {
        let (bytes, most) = (size(answer), self.0.most);
        let answers = locked(&self.0.answers);
        let fits = answers.bytes.saturating_add(bytes) <= most;
        if fits || bytes <= most / (answers.count + 1) || bytes <= PIECE || answers.count == 0 {
            return Ok(());
        }
        let reason = "too many large answers are being read; send fewer inputs, or try again later";
        Err(ApiError::new(ApiRefusal::Full, reason).retry_after(1))
    }

    /// The answer, whose bytes count until they are handed over to the connection, and a flag that is set then.
    pub fn answer(&self, answer: Response) -> (Response, Arc<AtomicBool>) {
        let bytes = size(&answer);
        let mut answers = locked(&self.0.answers);
        answers.bytes += bytes;
        answers.count += 1;
        drop(answers);
        let handed_over = Arc::new(AtomicBool::new(false));
        let held = HeldAnswer {
            memory: self.clone(),
            bytes,
            handed_over: Arc::clone(&handed_over),
        };
        let answer = answer.map(|body| {
            Body::new(CountedBody {
                body,
                rest: Bytes::new(),
                _held: held,
            })
        });
        (answer, handed_over)
    }
}

/// Bytes of an answer.
fn size(answer: &Response) -> usize {
    let bytes = answer.body().size_hint().exact().unwrap_or_default();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes of a request that count until this is dropped.
struct HeldBytes {
    memory: BodyMemory,
    bytes: usize,
}

impl HeldBytes {
    fn add(&mut self, bytes: usize) -> bool {
        let (order, most) = (Ordering::Relaxed, self.memory.0.most);
        let grown = |now: usize| Some(now + bytes).filter(|&sum| sum <= most);
        let requests = &self.memory.0.requests;
        let added = requests.fetch_update(order, order, grown).is_ok();
        self.bytes += if added { bytes } else { 0 };
        added
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let requests = &self.memory.0.requests;
        requests.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes of an answer that count until this is dropped.
struct HeldAnswer {
    memory: BodyMemory,
    bytes: usize,
    handed_over: Arc<AtomicBool>,
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.handed_over.store(true, Ordering::Relaxed);
        let mut answers = locked(&self.memory.0.answers);
        answers.bytes -= self.bytes;
        answers.count -= 1;
    }
}

/// A request's body that the server still has where a route has not read it to its end.
#[derive(Clone)]
pub(crate) struct UnreadBody(Arc<Mutex<UnreadState>>);

struct UnreadState {
    body: Incoming,
    client: Arc<Client>,
    /// Whether the client waits for a word before it sends the body, and has not got it.
    waits: bool,
    ended: bool,
}

impl UnreadBody {
    /// The body of a request with these headers.
    pub fn new(body: Incoming, headers: &HeaderMap, client: &Arc<Client>) -> Self {
        let ended = body.is_end_stream();
        if ended {
            client.end_of_request();
        }
        Self(Arc::new(Mutex::new(UnreadState {
            body,
            client: Arc::clone(client),
            waits: headers.contains_key(header::EXPECT),
            ended,
        })))
    }

    /// Whether it was read to its end.
    pub fn is_read(&self) -> bool {
        locked(&self.0).ended
    }

    /// Reads what is left and drops it, so that the client reads the refusal: one that still sends would find its
    /// connection broken. Larger ones than the limit allow are not read to their end.
    pub async fn discard(mut self, options: &ServerOptions) {
        if locked(&self.0).waits {
            return;
        }
        let most = options.max_body.saturating_mul(DISCARDED);
        let read = async {
            let mut discarded = 0;
            while let Some(Ok(frame)) = self.frame().await {
                discarded += frame.data_ref().map_or(0, Bytes::len);
                if discarded > most {
                    break;
                }
            }
        };
        // Slow ones are left alone.
        let _ = timeout(options.client_timeout, read).await;
    }
}

impl HttpBody for UnreadBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut lent = locked(&self.0);
        // Asking for it tells the client to send it.
        lent.waits = false;
        let frame = Pin::new(&mut lent.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || lent.body.is_end_stream() {
            lent.ended = true;
            lent.client.end_of_request();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        locked(&self.0).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        locked(&self.0).body.size_hint()
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
        let first = self.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        // Of a list, fields would be taken in the order of the program's own.
        if first != Some(&b'{') && serde_json::from_slice::<IgnoredAny>(&self.bytes).is_ok() {
            let reason = "the request is not as the route wants it: expected an object";
            return Err(ApiError::invalid(reason));
        }
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
    _held: HeldAnswer,
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

/// Refuses a body before it is read: of another type than JSON, compressed, or declared to be too large.
pub(crate) fn check_head(headers: &HeaderMap, most: usize) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    // `curl -d` says so of any body. A page of another site can say so, too, without being asked for leave, and a browser
    // then sends that page's origin along.
    let is_unnamed = kind.is_empty() || is("application/x-www-form-urlencoded");
    if !is("application/json") && (!is_unnamed || headers.contains_key(header::ORIGIN)) {
        let reason = "the body must be JSON: send the header `Content-Type: application/json`";
        return Err(ApiError::new(ApiRefusal::MediaType, reason));
    }
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let encoding = String::from_utf8_lossy(encoding.as_bytes());
        let shown: String = encoding.chars().take(100).collect();
        let reason = format!(
            "the body has `Content-Encoding: {shown}`, which this server does not read; send it as it is"
        );
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
