//! One request of `object_store`'s by ureq, on a thread of its own.

use std::io::{self, Read, Seek};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{Method, Request, StatusCode};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody};
use tokio::sync::{mpsc, oneshot};
use ureq::{Agent, AsSendBody};

use super::{ServiceKind, StoreConnections, is_fine, is_metadata};
use crate::body::{StreamedBody, collected, ranged};
use crate::failure::LARGEST_REFUSAL;
use crate::version::FetchedBody;
use embedctl_common::error::{Error, ErrorKind};
use embedctl_common::secrets::Secrets;
use embedctl_common::threads::locked;
use embedctl_hub::Token;
use embedctl_net::{
    Agents, RateCheckedBody, RedirectLimit, RequestFault, ResponseLimits, UrlOrigin, host,
    unreachable,
};

/// Bytes of a body that travel together, and how many such may wait for their reader.
const CHUNK: usize = 128 << 10;
const WAITING: usize = 4;
/// Bytes of an answer that `object_store` reads whole, at most: a page of a listing has some MiB.
const LARGEST_ANSWER: u64 = 64 << 20;
/// Redirects followed for one request.
const REDIRECTS: usize = 10;
/// How long such a place may take to answer.
const METADATA_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that an answer may have; `None` where it is read as it comes: an object's content, from some byte to its end.
fn most_bytes(request: &HttpRequest) -> Option<u64> {
    let query = request.uri().query().unwrap_or_default();
    let mut names = query.split('&').map(|pair| pair.split('=').next());
    let lists =
        names.any(|name| matches!(name, Some("list-type" | "comp" | "restype" | "uploads")));
    if request.method() != Method::GET || lists || is_metadata(request.uri()) {
        return Some(LARGEST_ANSWER);
    }
    let range = request.headers().get(RANGE)?.to_str().ok()?;
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    Some(end.saturating_sub(start).saturating_add(1))
}

/// The requests that were made for one answer.
#[derive(Debug, Clone, Default)]
pub(super) struct SentRequests {
    pub secrets: Secrets,
    /// The host of the last one, behind redirects.
    pub host: String,
    /// Whether its answer was a whole file in place of a part.
    pub no_parts: bool,
}

/// Where the head of an answer is awaited.
type Head = oneshot::Sender<Result<HttpResponse, HttpError>>;

/// No room on this machine for a file that has to be fetched whole.
fn no_room(reason: &str) -> Error {
    Error::new(ErrorKind::Storage, "", reason).with_remedy(format!(
        "set TMPDIR to a folder with room for all of it (now it is {}), or fetch it first and name the file",
        std::env::temp_dir().display()
    ))
}

/// A request, from its first byte to the last of its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    pub connections: Arc<StoreConnections>,
    pub kind: ServiceKind,
    /// Only a part of a file is an answer.
    pub is_part: bool,
    /// An interrupt does not end it.
    pub is_lasting: bool,
}

impl Exchange {
    /// Blocks until all of the answer was passed on.
    pub(super) fn run(&self, request: HttpRequest, head: Head, sent: &Mutex<SentRequests>) {
        let is_head = request.method() == Method::HEAD;
        let most = most_bytes(&request);
        let is_web = self.kind == ServiceKind::Web;
        let is_whole = is_web && !is_head && !request.headers().contains_key(RANGE);
        let (response, skip) = match self.request(request, sent) {
            Ok(answer) => answer,
            Err(error) => {
                let _ = head.send(Err(error));
                return;
            }
        };
        let (parts, body) = response.into_parts();
        if is_whole && parts.status == StatusCode::OK && !parts.headers.contains_key(CONTENT_LENGTH)
        {
            self.send_whole(parts, body, head);
            return;
        }
        let length = (parts.headers.get(CONTENT_LENGTH))
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse::<u64>().ok());
        if is_head || length == Some(0) || parts.status == StatusCode::NO_CONTENT {
            let empty = HttpResponse::from_parts(parts, Bytes::new().into());
            let _ = head.send(Ok(empty));
            return;
        }
        // Of a refusal the beginning is enough; how long it is does not matter.
        let is_refusal = !is_fine(parts.status);
        let length = length.filter(|_| !is_refusal);
        let (chunks, received) = mpsc::channel(WAITING);
        let streamed = HttpResponseBody::new(StreamedBody::new(received, length));
        let sent = head.send(Ok(HttpResponse::from_parts(parts, streamed)));
        if sent.is_ok() {
            let body = body.into_with_config().limit(u64::MAX).reader();
            let body = RateCheckedBody::new(body, self.limits());
            match is_refusal {
                true => self.stream(body.take(LARGEST_REFUSAL), (skip, None), None, &chunks),
                false => self.stream(body, (skip, most), length, &chunks),
            }
        }
    }

    /// Fetches the body of an answer that does not say how long it is, and sends it on with its length.
    fn send_whole(&self, mut parts: http::response::Parts, body: ureq::Body, head: Head) {
        let body = body.into_with_config().limit(u64::MAX).reader();
        let mut body = RateCheckedBody::new(body, self.limits());
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let mut here = true;
        let fetched = tempfile::tempfile().and_then(|mut file| {
            let copied = io::copy(&mut body, &mut file);
            here = copied
                .as_ref()
                .is_err_and(|error| full.contains(&error.kind()));
            let length = copied?;
            file.rewind()?;
            Ok((file, length))
        });
        let (file, length) = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                let reason = format!(
                    "its length is not known, and it could not be fetched into a temporary file ({error})"
                );
                let failed = match here {
                    // Another try would fail in the same way.
                    true => HttpError::new(HttpErrorKind::Unknown, no_room(&reason)),
                    false => self.broken(&reason),
                };
                let _ = head.send(Err(failed));
                return;
            }
        };
        parts.headers.insert(CONTENT_LENGTH, length.into());
        let answer = FetchedBody::new(file);
        parts.extensions.insert(answer.clone());
        let (chunks, received) = mpsc::channel(WAITING);
        let streamed = HttpResponseBody::new(StreamedBody::new(received, Some(length)));
        let sent = head.send(Ok(HttpResponse::from_parts(parts, streamed)));
        if sent.is_ok() {
            self.stream(answer, (0, None), Some(length), &chunks);
        }
    }

    fn limits(&self) -> &ResponseLimits {
        &self.connections.settings.net.limits
    }

    /// Sends a body on, without its first `skip` bytes, and `most` bytes at most.
    fn stream(
        &self,
        mut body: impl Read,
        (mut skip, most): (u64, Option<u64>),
        length: Option<u64>,
        chunks: &mpsc::Sender<Result<Bytes, HttpError>>,
    ) {
        let mut left = length;
        let mut sent = 0_u64;
        loop {
            let mut chunk = vec![0; CHUNK];
            let mut filled = 0;
            let end = loop {
                match body.read(&mut chunk[filled..]) {
                    Ok(0) => break Some(None),
                    Ok(count) => filled += count,
                    Err(error) => break Some(Some(error.to_string())),
                }
                if filled == chunk.len() {
                    break None;
                }
            };
            chunk.truncate(filled);
            let mut chunk = Bytes::from(chunk);
            let passed = skip.min(chunk.len() as u64);
            skip -= passed;
            let _ = chunk.split_to(usize::try_from(passed).unwrap_or(0));
            left = left.map(|left| left.saturating_sub(chunk.len() as u64));
            sent += chunk.len() as u64;
            if let Some(most) = most.filter(|most| sent > *most) {
                let reason = format!("its answer is longer than {most} bytes, and may have no end");
                let _ = chunks.blocking_send(Err(fatal(reason)));
                return;
            }
            // Nobody reads any more.
            if !chunk.is_empty() && chunks.blocking_send(Ok(chunk)).is_err() {
                return;
            }
            let reason = match end {
                None => continue,
                Some(Some(reason)) => reason,
                Some(None) if left.is_some_and(|left| left > 0) => {
                    format!("{} bytes are missing", left.unwrap_or(0))
                }
                Some(None) => return,
            };
            let _ = chunks.blocking_send(Err(
                self.broken(&format!("the connection was cut before its end ({reason})"))
            ));
            return;
        }
    }

    /// Whether the run was cancelled and has ended this request.
    fn was_ended(&self) -> bool {
        self.connections.cancel.is_cancelled() && !self.is_lasting
    }

    /// An error that may pass, unless the run was cancelled.
    fn broken(&self, reason: &str) -> HttpError {
        if self.was_ended() {
            return HttpError::new(HttpErrorKind::Unknown, Error::interrupted());
        }
        HttpError::new(
            HttpErrorKind::Interrupted,
            Error::new(ErrorKind::Storage, "", reason),
        )
    }

    /// The answer (at the end of redirects, if they are followed) and the bytes of its body before the requested
    /// ones; of a request for a part only such an answer. `sent` receives the secrets that were sent and
    /// their host.
    fn request(
        &self,
        request: HttpRequest,
        sent: &Mutex<SentRequests>,
    ) -> Result<(http::Response<ureq::Body>, u64), HttpError> {
        let (mut parts, body) = request.into_parts();
        let body = collected(body)?;
        let kind = self.kind;
        if kind == ServiceKind::Hub {
            // The commit says which content is meant; its storage has etags of its own.
            parts.headers.remove(IF_MATCH);
            parts.headers.remove(IF_UNMODIFIED_SINCE);
        }
        let mut uri = parts.uri.clone();
        for name in [AUTHORIZATION.as_str(), "x-amz-security-token"] {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            locked(sent)
                .secrets
                .add_authorization(value.unwrap_or_default());
        }
        let mut limit = RedirectLimit::default();
        for _ in 0..=REDIRECTS {
            {
                let mut sent = locked(sent);
                sent.secrets.add_address(&uri.to_string());
                sent.host = host(&uri);
            }
            let mut request = Request::builder().method(&parts.method).uri(&uri);
            if let Some(headers) = request.headers_mut() {
                headers.clone_from(&parts.headers);
                let to_hub =
                    kind == ServiceKind::Hub && UrlOrigin::of(&uri) == self.connections.hub;
                let token = self.connections.settings.token.as_ref().filter(|_| to_hub);
                if let Some(token) = token.map(Token::authorization)
                    && let Ok(mut token) = HeaderValue::from_str(&token)
                {
                    token.set_sensitive(true);
                    headers.insert(AUTHORIZATION, token);
                }
            }
            let request = request
                .body(body.clone())
                .map_err(|_| fatal(format!("{} is not an address", host(&uri))))?;
            let (response, agents) = self.ask(request, limit)?;
            let status = response.status();
            let moved = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
            if kind != ServiceKind::Store && moved {
                (uri, limit) =
                    (agents.redirected(&uri, response.headers(), limit)).map_err(fatal)?;
                continue;
            }
            if self.is_part && status == StatusCode::OK {
                locked(sent).no_parts = true;
                return Err(fatal("its server gives no parts of a file"));
            }
            return Ok(ranged(&parts.headers, response));
        }
        Err(fatal(format!(
            "{} redirects more than {REDIRECTS} times",
            host(&parts.uri)
        )))
    }

    /// One request within the limit of earlier redirects: the answer, and the agents that have asked.
    fn ask(
        &self,
        request: Request<Bytes>,
        limit: RedirectLimit,
    ) -> Result<(http::Response<ureq::Body>, &Agents), HttpError> {
        let connections = &self.connections;
        let uri = request.uri().clone();
        let metadata = is_metadata(&uri);
        if metadata && connections.no_metadata && uri.path().starts_with("/latest/") {
            return Err(fatal("AWS_EC2_METADATA_DISABLED forbids to ask for them"));
        }
        let agents = match self.is_lasting {
            true => &connections.lasting,
            false => &connections.agents,
        };
        let (agent, proxy) = agents
            .agent_for(&uri, limit)
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let (parts, body) = request.into_parts();
        let bodiless =
            body.is_empty() && !matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
        let answer = match bodiless {
            true => ask(&agent, Request::from_parts(parts, ()), metadata),
            false => ask(&agent, Request::from_parts(parts, &body[..]), metadata),
        };
        let answer = answer.map_err(|error| {
            if self.was_ended() {
                return HttpError::new(HttpErrorKind::Unknown, Error::interrupted());
            }
            if metadata {
                return fatal(error.to_string());
            }
            // A store that is started again refuses connections for a while.
            let kind = match is_refused(&error) {
                true => HttpErrorKind::Connect,
                false => HttpErrorKind::Unknown,
            };
            match unreachable(
                "",
                &uri,
                proxy,
                &connections.settings.net,
                "the address",
                &error,
            ) {
                RequestFault::Transient { reason, .. } => self.broken(&reason),
                RequestFault::Final(error) => HttpError::new(
                    kind,
                    Error::new(ErrorKind::Storage, "", error.reason())
                        .with_remedy_if(error.remedy()),
                ),
            }
        });
        answer.map(|answer| (answer, agents))
    }
}

/// Sends a request; to addresses that may have no server, with a short timeout.
fn ask(
    agent: &Agent,
    mut request: Request<impl AsSendBody>,
    hurried: bool,
) -> Result<http::Response<ureq::Body>, ureq::Error> {
    if hurried {
        request = agent
            .configure_request(request)
            .timeout_connect(Some(METADATA_PATIENCE))
            .timeout_recv_response(Some(METADATA_PATIENCE))
            .build();
    }
    agent.run(request)
}

/// Whether the server's machine has refused the connection: nothing was sent.
fn is_refused(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(cause) => cause.kind() == io::ErrorKind::ConnectionRefused,
        error => matches!(error, ureq::Error::ConnectionFailed),
    }
}

/// An error that asking again does not mend.
fn fatal(reason: impl Into<String>) -> HttpError {
    let error = Error::new(ErrorKind::Storage, "", reason);
    HttpError::new(HttpErrorKind::Unknown, error)
}
