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
    /// Clients send none, or an empty one, to have the model loaded.
    input: Option<RequestInputs>,
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
    #[serde(default)]
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
        let prepare = |inputs| {
            let wanted = RequestRows {
                inputs,
                prompt_name: None,
                refuses_long: request.truncate == Some(false),
                param: "input",
            };
            rows::prepare(app, wanted)
        };
        let inputs = request.input.filter(|inputs| !is_nothing(inputs));
        Ok((inputs.map(prepare).transpose()?, width))
    };
    let ((prepared, width), deadline) = rows::read(&app, request, take).await?;
    let (mut vectors, mut size, mut tokens, mut truncated) = Default::default();
    if let Some(prepared) = prepared {
        let rows = prepared.run(&app, deadline).await?;
        (size, tokens, truncated) = (rows.size(), rows.all_tokens(), rows.truncated);
        vectors = width.take(&app, rows.into_vectors())?;
    }
    let answer = OllamaEmbedAnswer {
        model: app.served_name(),
        embeddings: vectors,
        total_duration: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
        load_duration: 0,
        prompt_eval_count: tokens,
    };
    let answer = long_answer(size, answer).await?;
    Ok(told_of_truncation(answer, truncated))
}

/// Whether a request has no text at all; Ollama answers such a one with an empty list.
fn is_nothing(inputs: &RequestInputs) -> bool {
    match inputs {
        RequestInputs::One(text) => text.is_empty(),
        inputs => inputs.len() == 0,
    }
}

/// `POST /api/embeddings`.
pub(crate) async fn embeddings(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let take = |app: &Arc<App>, request: OllamaEmbeddingsRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let prompt = Some(request.prompt).filter(|prompt| !prompt.is_empty());
        let prepare = |prompt| {
            let wanted = RequestRows {
                inputs: RequestInputs::One(prompt),
                prompt_name: None,
                refuses_long: false,
                param: "prompt",
            };
            rows::prepare(app, wanted)
        };
        Ok((prompt.map(prepare).transpose()?, rows::width(app, None)?))
    };
    let ((prepared, width), deadline) = rows::read(&app, request, take).await?;
    let (mut embedding, mut size, mut truncated) = Default::default();
    if let Some(prepared) = prepared {
        let rows = prepared.run(&app, deadline).await?;
        (size, truncated) = (rows.size(), rows.truncated);
        let vectors = width.take(&app, rows.into_vectors())?;
        embedding = vectors.into_iter().next().unwrap_or_default();
    }
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

/// `GET /api/tags`: the model by each of its names. Its digest is a hash of the model's files, whose size is not told.
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
            "digest": app.card().digest,
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
        "quantization_level": app.card().dtype(),
    })
}
