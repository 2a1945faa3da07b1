//! What all requests share: the model, the queue, limits and numbers; and a request's way through the routes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use embedctl_common::threads::{guarded, locked};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Notify as Wakeup;

use crate::answer::{ApiError, Refusal, json_answer};
use crate::body::BodyMemory;
use crate::metrics::{Gauges, Metrics};
use crate::model::{ModelCard, ServedModel};
use crate::options::{Notice, Notify, ServerOptions};
use crate::queue::Queue;
use crate::{openai, tei};

/// Routes with their methods, for metrics and messages.
pub(crate) const ROUTES: [(&str, &str); 13] = [
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
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
];

/// How often refusals that the operator can do something about are told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What all requests share.
pub(crate) struct App {
    pub model: Arc<dyn ServedModel>,
    pub queue: Arc<Queue>,
    pub metrics: Arc<Metrics>,
    pub options: ServerOptions,
    pub bodies: BodyMemory,
    pub connections: AtomicUsize,
    pub notify: Notify,
    requests: AtomicUsize,
    idle: Wakeup,
    stopping: AtomicBool,
    told: Mutex<BTreeMap<&'static str, Instant>>,
}

impl App {
    pub fn new(
        model: Arc<dyn ServedModel>,
        queue: Arc<Queue>,
        metrics: Arc<Metrics>,
        options: ServerOptions,
        notify: Notify,
    ) -> Self {
        Self {
            model,
            queue,
            metrics,
            options,
            bodies: BodyMemory::default(),
            connections: AtomicUsize::new(0),
            notify,
            requests: AtomicUsize::new(0),
            idle: Wakeup::new(),
            stopping: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    pub fn card(&self) -> &ModelCard {
        self.model.card()
    }

    /// Requests without an answer yet.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// From now on only requests that were begun are answered.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until no request is without an answer.
    pub async fn idle(&self) {
        loop {
            let woken = self.idle.notified();
            if self.requests() == 0 {
                return;
            }
            woken.await;
        }
    }

    /// Whether it takes requests; if not, why.
    pub fn readiness(&self) -> Result<(), ApiError> {
        let reason = match (self.is_stopping(), self.queue.is_healthy()) {
            (true, _) => "the server is stopping",
            (_, false) => "the engine failed on the last batches",
            _ => return Ok(()),
        };
        Err(ApiError::new(Refusal::Unready, reason).retry_after(1))
    }

    /// Counts a refusal, and tells of it unless the same was told a moment ago.
    pub fn refused(&self, kind: &'static str, message: &str) {
        self.metrics.refused(kind);
        let now = Instant::now();
        let mut told = locked(&self.told);
        let is_new = (told.get(kind)).is_none_or(|last| now - *last >= TOLD_EVERY);
        if is_new {
            told.insert(kind, now);
            drop(told);
            (self.notify)(Notice::Warning(format!(
                "requests are refused: {message} (told once a minute; /metrics counts them)"
            )));
        }
    }

    /// Answers a request.
    pub async fn answer(self: Arc<Self>, router: Router, request: Request) -> Response {
        let start = Instant::now();
        let count = Counted::new(&self);
        let (method, path) = (request.method().clone(), request.uri().path());
        let route = ROUTES.iter().find(|(_, route)| *route == path);
        let route = route.map_or("other", |(_, route)| route);
        let is_openai = path.starts_with("/v1/") || path == "/embeddings";
        let shown = self.options.tell_requests.then(|| path.to_owned());
        let mut answer = match self.admit(&request) {
            // A router has an answer to everything: its error type has no values.
            Ok(()) => route_request(router, request).await,
            Err(error) => error.into_response(),
        };
        if let Some(error) = answer.extensions_mut().remove::<ApiError>() {
            let allow = answer.headers_mut().remove(header::ALLOW);
            match error.refusal {
                Refusal::Full | Refusal::Late | Refusal::Engine => {
                    self.refused(error.refusal.name(), &error.message);
                }
                other => self.metrics.refused(other.name()),
            }
            answer = error.answer(is_openai);
            if let Some(allow) = allow {
                answer.headers_mut().insert(header::ALLOW, allow);
            }
        }
        if self.is_stopping() {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(header::CONNECTION, close);
        }
        let took = start.elapsed();
        self.metrics.request(route, answer.status().as_u16(), took);
        if let Some(path) = shown {
            let path: String = path.chars().take(200).collect();
            let (status, time) = (answer.status().as_u16(), took.as_secs_f64() * 1e3);
            let line = format!("{method} {path:?} {status} {time:.1} ms");
            (self.notify)(Notice::Request(line));
        }
        drop(count);
        self.bodies.answer(answer)
    }

    /// Refuses a request without a key, and those that come while the server stops.
    fn admit(&self, request: &Request) -> Result<(), ApiError> {
        let path = request.uri().path();
        // A load balancer asks for it without a key.
        if path == "/health" {
            return Ok(());
        }
        if let Some(keys) = &self.options.keys {
            let header = request.headers().get(header::AUTHORIZATION);
            if !keys.allow(header.map(HeaderValue::as_bytes)) {
                let reason = match header {
                    None => "this server wants a key: send `Authorization: Bearer KEY`",
                    Some(_) => "the key is wrong",
                };
                return Err(ApiError::new(Refusal::Key, reason));
            }
        }
        match request.method() == Method::POST {
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

/// A request without an answer.
struct Counted(Arc<App>);

impl Counted {
    fn new(app: &Arc<App>) -> Self {
        app.requests.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(app))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

/// All routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/embeddings", post(openai::embeddings))
        .route("/embeddings", post(openai::embeddings))
        .route("/v1/models", get(openai::models))
        .route("/", post(tei::embed))
        .route("/embed", post(tei::embed))
        .route("/embed_sparse", post(tei::embed_sparse))
        .route("/rerank", post(tei::rerank))
        .route("/predict", post(tei::predict))
        .route("/tokenize", post(tei::tokenize))
        .route("/info", get(tei::info))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(app)
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
    ApiError::new(Refusal::Route, reason)
}

async fn no_method(request: Request) -> ApiError {
    let path = request.uri().path();
    let methods = ROUTES.iter().filter(|(_, route)| *route == path);
    let methods: Vec<&str> = methods.map(|(method, _)| *method).collect();
    let reason = format!("{path} takes {}", methods.join(", "));
    ApiError::new(Refusal::Method, reason)
}

/// Runs `work` on this thread if it is short, else on one where it holds nobody up. `size` is of a body, in bytes.
pub(crate) async fn off_thread<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    /// Tokenizing so much takes well below a millisecond.
    const SHORT: usize = 16 << 10;
    let failed = |reason| ApiError::new(Refusal::Engine, reason);
    let work = move || guarded(|| Ok(work()), failed);
    if size <= SHORT {
        return work();
    }
    let ended = |_| failed("reading the request failed".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

/// An answer that may be long, in JSON.
pub(crate) async fn long_answer<T: serde::Serialize + Send + 'static>(
    size: usize,
    value: T,
) -> Result<Response, ApiError> {
    off_thread(size, move || json_answer(&value)).await
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
