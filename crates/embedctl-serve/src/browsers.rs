//! Requests of web pages: which pages' scripts may read answers (CORS), and which names of the server they may use.
//!
//! A page of any site can ask a browser for `http://127.0.0.1:8080`, and by a name that it controls and that it lets lead
//! there (DNS rebinding) it can read the answers, too: such a request has that name in `Host`.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use crate::answer::{ApiError, ApiRefusal};
use crate::options::ServerOptions;
use embedctl_common::setting::{ALLOW_HOST, API_KEY_FILE};

/// How many seconds a browser may remember what it was allowed.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// Headers of answers that scripts may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("x-truncated-inputs, x-compute-tokens, retry-after");

/// Refuses a request that calls a server of this machine by a name that anybody could own.
pub(crate) fn check_host(head: &Parts, options: &ServerOptions) -> Result<(), ApiError> {
    let header = head.headers.get(header::HOST).map(HeaderValue::as_bytes);
    let header = header.map(String::from_utf8_lossy);
    let named = head.uri.host().map(Into::into).into_iter().chain(header);
    for authority in named {
        let host = host_of(&authority);
        let is_allowed = |allowed: &String| allowed.eq_ignore_ascii_case(host);
        if !is_local(host) && !options.allow_hosts.iter().any(is_allowed) {
            let shown: String = host.chars().take(100).collect();
            let reason = format!(
                "this server takes requests to `localhost` and to addresses, not to {shown:?}: another site's page may have \
                 made that name lead here; use 127.0.0.1, or start the server with {ALLOW_HOST} or with keys ({API_KEY_FILE})"
            );
            return Err(ApiError::new(ApiRefusal::Host, reason));
        }
    }
    Ok(())
}

/// A host without its port.
fn host_of(authority: &str) -> &str {
    if authority.parse::<IpAddr>().is_ok() {
        return authority;
    }
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Whether no stranger can own this name: public names have a dot, and `.internal` and `.localhost` are nobody's.
fn is_local(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if bare.unwrap_or(host).parse::<IpAddr>().is_ok() {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    !host.contains('.') || host.ends_with(".localhost") || host.ends_with(".internal")
}

/// The answer to a browser that asks whether a page may send a request, unless it may not.
pub(crate) fn preflight(head: &Parts, options: &ServerOptions) -> Option<Response> {
    let asks = head.method == Method::OPTIONS
        && (head.headers).contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !asks || allowed(&head.headers, options).is_none() {
        return None;
    }
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if let Some(wanted) = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(answer)
}

/// The page's origin as its answer names it, if its scripts may read that.
pub(crate) fn allowed(headers: &HeaderMap, options: &ServerOptions) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let is_named = |allowed: &String| allowed.as_bytes() == origin.as_bytes();
    let all = options.allow_origins.iter().any(|allowed| allowed == "*");
    match all {
        true => Some(HeaderValue::from_static("*")),
        false => (options.allow_origins.iter().any(is_named)).then(|| origin.clone()),
    }
}

/// Lets the scripts of this origin read an answer.
pub(crate) fn allow(answer: &mut Response, origin: Option<HeaderValue>, options: &ServerOptions) {
    let headers = answer.headers_mut();
    if !options.allow_origins.is_empty() {
        // What is said to one page must not be kept for others.
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_else_can_own_are_local() {
        for authority in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[::1]",
            "::1",
            "LOCALHOST:80",
            "localhost.",
            "app.localhost:8080",
            "192.168.0.7:8080",
            "host.docker.internal",
            "embeddings:8080",
            "",
        ] {
            assert!(is_local(host_of(authority)), "{authority}");
        }
        for authority in [
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.xlocalhost",
            "evil.example.",
            "[::1].evil.example",
        ] {
            assert!(!is_local(host_of(authority)), "{authority}");
        }
    }
}
