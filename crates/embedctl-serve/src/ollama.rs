//! Ollama's routes for vectors, `/api/embed` and the older `/api/embeddings`, and those by which its clients look for a
//! model first: `/api/tags`, `/api/ps`, `/api/show` and `/api/version`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{ApiError, json_answer};
use crate::app::{App, long_answer};
use crate::rows::{self, RequestInputs, RequestRows};
use crate::tei::told_of_truncation;

#[derive(Deserialize)]
struct OllamaEmbedRequest {
    model: Option<String>,
    input: RequestInputs,
    truncate: Option<bool>,
    dimensions: Option<usize>,
}

/// Times are in nanoseconds.
#[derive(Serialize)]
struct OllamaEmbedAnswer {
    model: String,
    embeddings: Vec<Vec<f32>>,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
}

#[derive(Deserialize)]
struct OllamaEmbeddingsRequest {
    model: Option<String>,
    prompt: String,
}

#[derive(Serialize)]
struct OllamaEmbeddingsAnswer {
    embedding: Vec<f32>,
}

/// `POST /api/embed`.
pub(crate) async fn embed(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let start = Instant::now();
    app.card().check_type(&["embedding"])?;
    let take = |app: &Arc<App>, request: OllamaEmbedRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let width = rows::width(app, request.dimensions)?;
        let wanted = RequestRows {
            inputs: request.input,
            prompt_name: None,
            refuses_long: request.truncate == Some(false),
            param: "input",
        };
        Ok((rows::prepare(app, wanted)?, width))
    };
    let ((prepared, width), deadline) = rows::read(&app, request, take).await?;
    let rows = prepared.run(&app, deadline).await?;
    let (size, tokens, truncated) = (rows.size(), rows.all_tokens(), rows.truncated);
    let answer = OllamaEmbedAnswer {
        model: app.served_name(),
        embeddings: width.take(&app, rows.into_vectors())?,
        total_duration: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        load_duration: 0,
        prompt_eval_count: tokens,
    };
    let answer = long_answer(size, answer).await?;
    Ok(told_of_truncation(answer, truncated))
}

/// `POST /api/embeddings`.
pub(crate) async fn embeddings(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let take = |app: &Arc<App>, request: OllamaEmbeddingsRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let wanted = RequestRows {
            inputs: RequestInputs::One(request.prompt),
            prompt_name: None,
            refuses_long: false,
            param: "prompt",
        };
        Ok((rows::prepare(app, wanted)?, rows::width(app, None)?))
    };
    let ((prepared, width), deadline) = rows::read(&app, request, take).await?;
    let rows = prepared.run(&app, deadline).await?;
    let (size, truncated) = (rows.size(), rows.truncated);
    let vectors = width.take(&app, rows.into_vectors())?;
    let embedding = vectors.into_iter().next().unwrap_or_default();
    let answer = long_answer(size, OllamaEmbeddingsAnswer { embedding }).await?;
    Ok(told_of_truncation(answer, truncated))
}

/// The model that a client asks for; older ones say `name`.
#[derive(Deserialize)]
struct OllamaShowRequest {
    model: Option<String>,
    name: Option<String>,
}

/// The time of a model's last change, which is not known, as clients can read it.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// When a model is to be unloaded that stays.
const NEVER: &str = "9999-12-31T23:59:59Z";

/// `GET /api/tags`: the model by each of its names. It is no file of Ollama's, so it has no size and no digest.
pub(crate) async fn tags(State(app): State<Arc<App>>) -> Response {
    listed(&app, &json!({"modified_at": UNKNOWN_TIME}))
}

/// `GET /api/ps`: the same, since the model stays loaded as long as the server runs.
pub(crate) async fn running(State(app): State<Arc<App>>) -> Response {
    let length = app.card().max_length;
    listed(
        &app,
        &json!({"expires_at": NEVER, "size_vram": 0, "context_length": length}),
    )
}

/// The model by each of its names, with these members.
fn listed(app: &App, members: &Value) -> Response {
    let details = details(app);
    let model = |name| {
        let mut model = json!({
            "name": name,
            "model": name,
            "size": 0,
            "digest": "",
            "details": details,
        });
        for (key, value) in members.as_object().into_iter().flatten() {
            model[key] = value.clone();
        }
        model
    };
    let models: Vec<Value> = app.served_names().into_iter().map(model).collect();
    json_answer(&json!({"models": models}))
}

/// `POST /api/show`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let take = |app: &Arc<App>, request: OllamaShowRequest| {
        rows::check_name(app, request.model.or(request.name).as_deref())
    };
    let ((), _) = rows::read(&app, request, take).await?;
    let card = app.card();
    let capabilities = match card.model_type() {
        "embedding" => vec!["embedding"],
        _ => Vec::new(),
    };
    Ok(json_answer(&json!({
        "modelfile": "",
        "parameters": "",
        "template": "",
        "modified_at": UNKNOWN_TIME,
        "details": details(&app),
        // Clients look for the numbers of a model below the name of its architecture.
        "model_info": {
            "general.architecture": "embedctl",
            "general.basename": card.id,
            "embedctl.context_length": card.max_length,
            "embedctl.embedding_length": card.form.widths().last(),
        },
        "capabilities": capabilities,
    })))
}

/// `GET /api/version`.
pub(crate) async fn version() -> Response {
    json_answer(&json!({"version": env!("CARGO_PKG_VERSION")}))
}

fn details(app: &App) -> Value {
    json!({
        "parent_model": "",
        "format": "",
        "family": app.card().model_type(),
        "families": [app.card().model_type()],
        "parameter_size": "",
        "quantization_level": app.card().dtype,
    })
}
