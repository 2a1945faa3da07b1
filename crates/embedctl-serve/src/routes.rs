//! A request's way: keys, the route, its answer, and the numbers about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::answer::{ApiError, ApiRefusal};
use crate::answers::OpenAnswer;
use crate::app::{App, CountedRequest};
use crate::body::UnreadBody;
use crate::client::Client;
use crate::metrics::Gauges;
use crate::options::Notice;
use crate::{browsers, ollama, openai, page, root, scores, search, similarity, tei};

/// Routes with their methods, for metrics and messages. A name in braces stands for the rest of a path.
pub(crate) const ROUTES: [(&str, &str); 25] = [
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{model}"),
    ("POST", "/"),
    ("POST", "/embed"),
    ("POST", "/embed_sparse"),
    ("POST", "/rerank"),
    ("POST", "/predict"),
    ("POST", "/tokenize"),
    ("GET", "/info"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("POST", "/embeddings"),
    ("POST", "/v1/rerank"),
    ("POST", "/v2/rerank"),
    ("POST", "/similarity"),
    ("POST", "/api/embed"),
    ("POST", "/api/embeddings"),
    ("GET", "/api/tags"),
    ("GET", "/api/ps"),
    ("POST", "/api/show"),
    ("GET", "/api/version"),
    ("GET", "/"),
    ("POST", "/search"),
];

/// Whether a route is that of `path`.
fn is_of(route: &str, path: &str) -> bool {
    match route.split_once('{') {
        Some((start, _)) => path
            .strip_prefix(start)
            .is_some_and(|rest| !rest.is_empty()),
        None => route == path,
    }
}

impl App {
    /// Answers a request.
    pub async fn answer(
        self: Arc<Self>,
        router: Router,
        request: hyper::Request<Incoming>,
        client: &Arc<Client>,
    ) -> Response {
        let start = Instant::now();
        let count = CountedRequest::new(&self);
        let is_ambiguous = client.begin();
        let (head, body) = request.into_parts();
        let body = UnreadBody::new(body, &head.headers, client);
        let (method, path) = (head.method.clone(), head.uri.path().to_owned());
        let route = ROUTES.iter().find(|(_, route)| is_of(route, &path));
        let route = route.map_or("other", |(_, route)| route);
        let is_openai =
            ["/v1/", "/v2/"].iter().any(|it| path.starts_with(it)) || path == "/embeddings";
        let is_page = method == Method::GET && path == "/";
        let origin = browsers::allowed(&head.headers, &self.options);
        // Requests behind one in chunks are not looked at.
        let mut closes = head.headers.contains_key(header::TRANSFER_ENCODING);
        let mut answer = match (
            self.admit(&head, is_ambiguous),
            browsers::preflight(&head, &self.options),
        ) {
            // A router has an answer to everything: its error type has no values.
            (Ok(()), None) => {
                let request = Request::from_parts(head, Body::new(body.clone()));
                route_request(router, request).await
            }
            (Err(error), None) => error.into_response(),
            (_, Some(answer)) => answer,
        };
        if let Some(error) = answer.extensions_mut().remove::<ApiError>() {
            let allow = answer.headers_mut().remove(header::ALLOW);
            if !body.is_read() {
                closes = true;
                if error.refusal != ApiRefusal::Slow && !is_ambiguous {
                    body.discard(&self.options).await;
                }
            }
            answer = self.refuse(&error, is_openai);
            if let Some(allow) = allow {
                answer.headers_mut().insert(header::ALLOW, allow);
            }
            if error.refusal == ApiRefusal::Key && is_page {
                // A browser asks a person for it. It does not for other routes, which programs ask.
                let scheme =
                    HeaderValue::from_static("Basic realm=\"embedctl: any name, and a key\"");
                answer
                    .headers_mut()
                    .append(header::WWW_AUTHENTICATE, scheme);
            }
        }
        if let Err(error) = self.bodies.check(&answer) {
            answer = self.refuse(&error, is_openai);
        }
        let (mut answer, handed_over) = self.bodies.answer(answer);
        browsers::allow(&mut answer, origin, &self.options);
        if closes || self.is_stopping() {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(header::CONNECTION, close);
        }
        let took = start.elapsed();
        self.metrics.request(route, answer.status().as_u16(), took);
        if self.options.tell_requests {
            let path: String = path.chars().take(200).collect();
            let (status, time) = (answer.status().as_u16(), took.as_secs_f64() * 1e3);
            let line = format!("{method} {path:?} {status} {time:.1} ms");
            (self.notify)(Notice::Request(line));
        }
        client.answer(OpenAnswer::new(&self.answers, handed_over));
        drop(count);
        answer
    }

    /// The answer to a refused request, which counts.
    fn refuse(&self, error: &ApiError, is_openai: bool) -> Response {
        match error.refusal {
            ApiRefusal::Full | ApiRefusal::Late | ApiRefusal::Engine => {
                self.refused(error.refusal.name(), &error.message);
            }
            other => self.metrics.refused(other.name()),
        }
        error.answer(is_openai)
    }

    /// Refuses a request that cannot be read in one way only, one without a key, one by a strange name, and those that come
    /// while the server stops.
    fn admit(&self, head: &Parts, is_ambiguous: bool) -> Result<(), ApiError> {
        if is_ambiguous {
            let reason = "a request must not have both `Content-Length` and `Transfer-Encoding`";
            return Err(ApiError::new(ApiRefusal::Ambiguous, reason));
        }
        // A load balancer asks for it without a key.
        if head.uri.path() == "/health" {
            return Ok(());
        }
        if self.is_private {
            browsers::check_host(head, &self.options)?;
        }
        if let Some(keys) = &self.options.keys {
            let header = head.headers.get(header::AUTHORIZATION);
            if !keys.allow(header.map(HeaderValue::as_bytes)) {
                let reason = match header {
                    None => "this server wants a key: send `Authorization: Bearer KEY`",
                    Some(_) => "the key is wrong",
                };
                return Err(ApiError::new(ApiRefusal::Key, reason));
            }
        }
        match head.method == Method::POST {
            true => self.readiness_to_work(),
            false => Ok(()),
        }
    }

    fn readiness_to_work(&self) -> Result<(), ApiError> {
        match self.is_stopping() {
            true => self.readiness(),
            false => Ok(()),
        }
    }
}

async fn route_request(router: Router, request: Request) -> Response {
    match TowerToHyperService::new(router).call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/embeddings", post(openai::embeddings))
        .route("/embeddings", post(openai::embeddings))
        .route("/v1/models", get(openai::models))
        // Names of models have slashes.
        .route("/v1/models/{*model}", get(openai::model))
        .route("/", get(page::page).post(root))
        .route("/embed", post(tei::embed))
        .route("/embed_sparse", post(tei::embed_sparse))
        .route("/rerank", post(scores::rerank))
        .route("/v1/rerank", post(scores::rerank))
        .route("/v2/rerank", post(scores::rerank))
        .route("/predict", post(scores::predict))
        .route("/similarity", post(similarity::similarity))
        .route("/api/embed", post(ollama::embed))
        .route("/api/embeddings", post(ollama::embeddings))
        .route("/api/tags", get(ollama::tags))
        .route("/api/ps", get(ollama::running))
        .route("/api/show", post(ollama::show))
        .route("/api/version", get(ollama::version))
        .route("/search", post(search::search))
        .route("/tokenize", post(tei::tokenize))
        .route("/info", get(tei::info))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(app)
}

/// `POST /`: the route of the model's type.
async fn root(state: State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    match state.card().model_type() {
        "sparse" => tei::embed_sparse(state, request).await,
        "reranker" => scores::rerank(state, request).await,
        "classifier" => scores::predict(state, request).await,
        _ => root::embed_or_compare(state, request).await,
    }
}

async fn health(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    app.readiness()?;
    Ok(().into_response())
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let gauges = Gauges {
        connections: app.connections.load(Ordering::Relaxed),
        requests: app.requests(),
        inputs: app.queue.inputs(),
        waiting_tokens: app.queue.tokens(),
        body_bytes: app.bodies.used(),
        ready: app.readiness().is_ok(),
    };
    let version = env!("CARGO_PKG_VERSION");
    let text = app.metrics.text(&app.card().id, version, &gauges);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn openapi() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, include_str!("openapi.json")).into_response()
}

async fn no_route(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(100).collect();
    let reason = format!("there is no route {path:?}; GET /openapi.json lists all");
    ApiError::new(ApiRefusal::Route, reason)
}

async fn no_method(request: Request) -> ApiError {
    let path = request.uri().path();
    let methods = ROUTES.iter().filter(|(_, route)| is_of(route, path));
    let methods: Vec<&str> = methods.map(|(method, _)| *method).collect();
    let reason = format!("{path} takes {}", methods.join(", "));
    ApiError::new(ApiRefusal::Method, reason)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_describes_all_routes() {
        let document: serde_json::Value =
            serde_json::from_str(include_str!("openapi.json")).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let methods = methods.as_object().unwrap().keys();
            described.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
        }
        let own = ROUTES.map(|(method, path)| (method.to_owned(), path.to_owned()));
        assert_eq!(described, BTreeSet::from(own));
    }
}
