//! Bodies of requests and answers, between `object_store`'s asynchronous kind and ureq's.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, RANGE};
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequestBody};
use tokio::sync::mpsc;

/// A request's body in one piece, as the signature needs it anyway.
pub(super) fn collected(mut body: HttpRequestBody) -> Result<Bytes, HttpError> {
    let mut context = Context::from_waker(Waker::noop());
    let mut whole: Vec<Bytes> = Vec::new();
    // Its bytes are in memory: it is never pending.
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
        whole.extend(frame?.into_data());
    }
    Ok(match whole.len() {
        0 => Bytes::new(),
        1 => whole.swap_remove(0),
        _ => whole.concat().into(),
    })
}

/// A response that begins at the requested byte, also of a server that sends files from their beginning only: then with
/// the number of bytes to skip.
pub(super) fn ranged(
    asked: &http::HeaderMap,
    response: http::Response<ureq::Body>,
) -> (http::Response<ureq::Body>, u64) {
    let from = || {
        let range = asked.get(RANGE)?.to_str().ok()?;
        let from = range.strip_prefix("bytes=")?.strip_suffix('-')?;
        let length = response.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
        Some((from.parse::<u64>().ok()?, length.parse::<u64>().ok()?))
    };
    if response.status() != StatusCode::OK {
        return (response, 0);
    }
    let Some((from, length)) = from().filter(|(from, length)| from < length) else {
        return (response, 0);
    };
    let (mut parts, body) = response.into_parts();
    parts.status = StatusCode::PARTIAL_CONTENT;
    let range = format!("bytes {from}-{}/{length}", length - 1);
    if let Ok(range) = HeaderValue::from_str(&range) {
        parts.headers.insert(CONTENT_RANGE, range);
    }
    parts.headers.insert(CONTENT_LENGTH, (length - from).into());
    (http::Response::from_parts(parts, body), from)
}

/// A body that comes from the thread that reads it.
#[derive(Debug)]
pub(super) struct StreamedBody {
    chunks: mpsc::Receiver<Result<Bytes, HttpError>>,
    left: Option<u64>,
}

impl StreamedBody {
    /// A body of `length` bytes, where that is known.
    pub(super) fn new(
        chunks: mpsc::Receiver<Result<Bytes, HttpError>>,
        length: Option<u64>,
    ) -> Self {
        let left = length;
        Self { chunks, left }
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.chunks.poll_recv(context).map(|chunk| {
            let chunk = chunk?;
            if let (Ok(chunk), Some(left)) = (&chunk, &mut self.left) {
                *left = left.saturating_sub(chunk.len() as u64);
            }
            Some(chunk.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Some(left) => SizeHint::with_exact(left),
            None => SizeHint::default(),
        }
    }
}
