//! Requests: the hosts that get the token, retries, and errors for refusals.
//!
//! Redirects are followed here and not by the HTTP library, since the token goes to the Hub's own origin
//! (scheme, host and port) alone, and since the Hub describes a file in the answer that redirects to its
//! storage.

use std::io::Read;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, select};
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, RANGE, RETRY_AFTER,
};
use ureq::http::{HeaderMap, Method, Request, StatusCode, Uri};

use super::Transfer;
use super::digest::Digest;
use super::refusal::{self, RefusedAnswer};
use super::settings::HubSettings;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::secrets::Secrets;
use embedctl_common::threads::spawn_scoped;
use embedctl_net::{
    Agents, RateCheckedBody, RedirectLimit, RequestFault, ResponseLimits, UrlOrigin, host,
    unreachable,
};

/// Redirects followed for one request.
const REDIRECTS: usize = 10;
/// Requests made again after the first.
const RETRIES: u32 = 3;
/// The longest pause a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Bytes that must arrive for a cut connection not to count against the retries.
const PROGRESS: u64 = 1 << 20;

/// Talks to the Hub.
pub(super) struct Client<'a> {
    settings: &'a HubSettings,
    origin: UrlOrigin,
    cancel: &'a CancelToken,
    agents: Agents,
}

/// An answer, before its body is read.
pub(super) struct HubAnswer {
    pub(super) status: StatusCode,
    /// The Hub's own response, before any redirect to its storage.
    pub(super) hub: HeaderMap,
    /// The last host's response.
    pub(super) headers: HeaderMap,
    body: ureq::Body,
    limits: ResponseLimits,
}

impl HubAnswer {
    /// A header that the Hub itself sets, or else the last host.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.hub
            .get(name)
            .or_else(|| self.headers.get(name))
            .and_then(|value| value.to_str().ok())
    }

    /// Where the body begins in the file, where the server heeded a range.
    pub(super) fn range_start(&self) -> Option<u64> {
        if self.status != StatusCode::PARTIAL_CONTENT {
            return None;
        }
        let range = self.headers.get(CONTENT_RANGE)?.to_str().ok()?;
        let (start, _) = range.strip_prefix("bytes ")?.split_once('-')?;
        start.trim().parse().ok()
    }

    /// How long the server says that the whole file is.
    pub(super) fn told_size(&self) -> Option<u64> {
        let text = |name| self.headers.get(name)?.to_str().ok();
        let size = match self.status {
            StatusCode::OK => text(CONTENT_LENGTH)?,
            _ => text(CONTENT_RANGE)?.rsplit_once('/')?.1,
        };
        size.trim().parse().ok()
    }

    /// The body, from its beginning, undecoded. It fails, as if it had been cut, where it comes too slowly.
    pub(super) fn reader(self) -> impl Read {
        let body = self.body.into_with_config().limit(u64::MAX).reader();
        RateCheckedBody::new(body, &self.limits)
    }
}

/// Does `work` with a client whose requests end at once when `cancel` is cancelled.
///
/// # Errors
/// As `work`; or [`ErrorKind::Interrupted`](embedctl_common::error::ErrorKind::Interrupted) if cancelled meanwhile.
pub(super) fn with_client<T>(
    settings: &HubSettings,
    cancel: &CancelToken,
    work: impl FnOnce(&Client) -> Result<T>,
) -> Result<T> {
    // Cancelled by the caller, or by the first of several requests that fails for good.
    let stop = CancelToken::new();
    let client = Client::new(settings, &stop)?;
    let (done, finished) = bounded::<()>(0);
    let result = thread::scope(|scope| {
        let watch = || {
            select! {
                recv(finished) -> _ => {}
                recv(cancel.channel()) -> _ => {
                    stop.cancel();
                    client.stop();
                }
            }
        };
        spawn_scoped(scope, "interrupts", watch)?;
        let result = work(&client);
        drop(done);
        result
    });
    if cancel.is_cancelled() {
        return Err(Error::interrupted());
    }
    // A server may repeat the request, secrets included, anywhere in its answer.
    result.map_err(|error| error.reworded(&|text| settings.secrets.redact(text).into_owned()))
}

impl<'a> Client<'a> {
    fn new(settings: &'a HubSettings, cancel: &'a CancelToken) -> Result<Self> {
        let origin = settings
            .endpoint
            .parse()
            .ok()
            .and_then(|uri| UrlOrigin::of(&uri))
            .ok_or_else(|| {
                Error::usage(format!(
                    "'{}' is not the address of a Hub",
                    settings.endpoint
                ))
            })?;
        Ok(Self {
            settings,
            origin,
            cancel,
            agents: Agents::new(settings.net.clone(), cancel.clone()),
        })
    }

    pub(super) fn settings(&self) -> &HubSettings {
        self.settings
    }

    pub(super) fn cancel(&self) -> &CancelToken {
        self.cancel
    }

    /// Makes one request to the Hub and follows redirects. A `HEAD` follows them only until a response has the hash: a
    /// storage need not answer it, since its addresses may be signed for `GET` alone. `model` is for messages.
    ///
    /// # Errors
    /// Everything but an answer of the 200s (and 416, which belongs to ranges) is a [`RequestFault`].
    pub(super) fn send(
        &self,
        model: &str,
        method: &Method,
        url: &str,
        from: Option<u64>,
    ) -> Result<HubAnswer, RequestFault> {
        let mut uri: Uri = url
            .parse()
            .map_err(|_| Error::model(model, format!("'{url}' is not an address")))?;
        let mut hub = None;
        let mut limit = RedirectLimit::default();
        for _ in 0..=REDIRECTS {
            let to_hub = UrlOrigin::of(&uri).as_ref() == Some(&self.origin);
            let (agent, proxy) = self.agents.agent_for(&uri, limit)?;
            let response = agent
                .run(self.request(model, method, &uri, from, to_hub)?)
                .map_err(|error| {
                    if self.cancel.is_cancelled() {
                        return RequestFault::Final(Error::interrupted());
                    }
                    let address = format!("HF_ENDPOINT ({})", self.settings.endpoint);
                    unreachable(model, &uri, proxy, &self.settings.net, &address, &error)
                })?;
            let (parts, body) = response.into_parts();
            let status = parts.status;
            let said = hub.get_or_insert_with(|| parts.headers.clone());
            let answer = |hub| HubAnswer {
                status,
                hub,
                headers: parts.headers.clone(),
                body,
                limits: self.settings.net.limits.clone(),
            };
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                let target;
                (target, limit) = (self.agents.redirected(&uri, &parts.headers, limit))
                    .map_err(|reason| Error::model(model, reason))?;
                // A renamed repository: the Hub answers at the new address.
                if UrlOrigin::of(&target).as_ref() == Some(&self.origin) {
                    hub = None;
                } else if method == Method::HEAD && says_hash(said) {
                    return Ok(answer(std::mem::take(said)));
                }
                uri = target;
                continue;
            }
            let hub = std::mem::take(said);
            let may_refuse = method == Method::HEAD && !to_hub && status.is_client_error();
            if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE || may_refuse {
                return Ok(answer(hub));
            }
            return Err(self.refused(model, url, &uri, status, &parts.headers));
        }
        let reason = format!(
            "{} redirects more than {REDIRECTS} times",
            self.settings.endpoint
        );
        Err(Error::model(model, reason).into())
    }

    /// Does `work` until it succeeds, fails for good, or has failed too often. `arrived` tells how many
    /// bytes have come so far: attempts that got somewhere don't count.
    ///
    /// # Errors
    /// The last fault; [`ErrorKind::Interrupted`](embedctl_common::error::ErrorKind::Interrupted) if cancelled meanwhile.
    pub(super) fn retrying<T>(
        &self,
        model: &str,
        what: &str,
        transfer: &dyn Transfer,
        arrived: &dyn Fn() -> u64,
        mut work: impl FnMut() -> Result<T, RequestFault>,
    ) -> Result<T> {
        let mut failures = 0;
        // Bytes that arrive again after a restart do not count: a server could cause restarts for ever.
        let mut furthest = arrived();
        loop {
            if self.cancel.is_cancelled() {
                return Err(Error::interrupted());
            }
            let (reason, after) = match work() {
                Ok(done) => return Ok(done),
                Err(RequestFault::Final(error)) => return Err(error),
                Err(RequestFault::Transient { reason, after }) => (reason, after),
            };
            if self.cancel.is_cancelled() {
                return Err(Error::interrupted());
            }
            let now = arrived();
            if now >= furthest.saturating_add(PROGRESS) {
                failures = 0;
            }
            furthest = furthest.max(now);
            if failures == RETRIES {
                let remedy = if now > 0 {
                    "the downloaded part is kept, and the next run resumes from it"
                } else {
                    "try again later"
                };
                let reason = format!("{what}: {reason}; tried {} times", RETRIES + 1);
                return Err(Error::model(model, reason).with_remedy(remedy));
            }
            let pause = after.unwrap_or(self.settings.net.pause * 2_u32.pow(failures));
            if pause > LONGEST_PAUSE {
                let reason = format!(
                    "{what}: {reason}, and asks to wait for {} minutes",
                    pause.as_secs().div_ceil(60)
                );
                return Err(Error::model(model, reason).with_remedy("try again then"));
            }
            failures += 1;
            transfer.retrying(what, &reason, pause);
            wait(self.cancel.channel(), pause);
        }
    }

    /// Interrupts requests that are waiting, on whatever thread.
    pub(super) fn stop(&self) {
        self.agents.stop();
    }

    fn request(
        &self,
        model: &str,
        method: &Method,
        uri: &Uri,
        from: Option<u64>,
        to_hub: bool,
    ) -> Result<Request<()>> {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            // Sizes and ranges are those of the file.
            .header(ACCEPT_ENCODING, "identity");
        if let Some(from) = from {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(token) = self.settings.token.as_ref().filter(|_| to_hub) {
            request = request.header(AUTHORIZATION, token.authorization());
        }
        request
            .body(())
            .map_err(|_| Error::model(model, format!("'{}' is not an address", host(uri))))
    }

    fn refused(
        &self,
        model: &str,
        asked: &str,
        uri: &Uri,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> RequestFault {
        let after = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.trim().parse().ok())
            .map(Duration::from_secs);
        let reason = format!("{} answers {status}", host(uri));
        // 408: the server waited for us; 429: too many requests.
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return RequestFault::Transient { reason, after };
        }
        // A server may send back the signed address that the Hub redirected to.
        let mut secrets = Secrets::default();
        secrets.add_address(&uri.to_string());
        let header = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.map(|value| secrets.redact(value).into_owned())
        };
        let (code, message) = (header("x-error-code"), header("x-error-message"));
        RequestFault::Final(refusal::error(&RefusedAnswer {
            model,
            file: asked
                .split_once("/resolve/")
                .and_then(|(_, rest)| rest.split_once('/'))
                .map_or("a file", |(_, path)| path),
            status,
            reason: &reason,
            by_hub: UrlOrigin::of(uri).as_ref() == Some(&self.origin),
            code: code.as_deref(),
            message: message.as_deref(),
            settings: self.settings,
        }))
    }
}

/// Whether an answer tells the hash of a file's content.
fn says_hash(headers: &HeaderMap) -> bool {
    ["x-linked-etag", "etag"]
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok())
        .any(|etag| Digest::parse(etag).is_some())
}

/// Waits, or until cancelled.
fn wait(cancelled: &Receiver<()>, pause: Duration) {
    // Nothing is ever sent: disconnected means cancelled.
    let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
        cancelled.recv_timeout(pause);
}
