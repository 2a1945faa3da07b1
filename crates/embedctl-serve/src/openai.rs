//! OpenAI's protocol: `/v1/embeddings`, `/v1/models` and `/v1/models/{model}`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{ApiError, json_answer};
use crate::app::{App, long_answer};
use crate::rows::{self, RequestInputs, RequestRows};
use crate::tei::told_of_truncation;

#[derive(Deserialize)]
struct EmbeddingsRequest {
    input: RequestInputs,
    model: Option<String>,
    encoding_format: Option<Encoding>,
    dimensions: Option<usize>,
    /// Not OpenAI's: the prompt's name, as in text-embeddings-inference.
    prompt_name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

#[derive(Serialize)]
struct EmbeddingsAnswer {
    object: &'static str,
    data: Vec<EmbeddingObject>,
    model: String,
    usage: Usage,
}

#[derive(Serialize)]
struct EmbeddingObject {
    object: &'static str,
    index: usize,
    embedding: EncodedVector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EncodedVector {
    Float(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

impl EncodedVector {
    fn new(vector: Vec<f32>, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Float => Self::Float(vector),
            Encoding::Base64 => {
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                Self::Base64(STANDARD.encode(bytes))
            }
        }
    }
}

/// `POST /v1/embeddings`.
pub(crate) async fn embeddings(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let take = |app: &Arc<App>, request: EmbeddingsRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let width = rows::width(app, request.dimensions)?;
        let prepared = rows::prepare(
            app,
            RequestRows {
                inputs: request.input,
                prompt_name: request.prompt_name,
                refuses_long: false,
                param: "input",
            },
        )?;
        Ok((prepared, width, request.encoding_format.unwrap_or_default()))
    };
    let ((prepared, width, encoding), deadline) = rows::read(&app, request, take).await?;
    let rows = prepared.run(&app, deadline).await?;
    let (size, tokens, truncated) = (rows.size(), rows.all_tokens(), rows.truncated);
    let vectors = width.take(&app, rows.into_vectors())?;
    let data = vectors.into_iter().enumerate();
    let data = data.map(|(index, vector)| EmbeddingObject {
        object: "embedding",
        index,
        embedding: EncodedVector::new(vector, encoding),
    });
    let answer = EmbeddingsAnswer {
        object: "list",
        data: data.collect(),
        model: app.served_name(),
        usage: Usage {
            prompt_tokens: tokens,
            total_tokens: tokens,
        },
    };
    let answer = long_answer(size, answer).await?;
    Ok(told_of_truncation(answer, truncated))
}

/// `GET /v1/models`.
pub(crate) async fn models(State(app): State<Arc<App>>) -> Response {
    let models: Vec<_> = app.served_names().into_iter().map(described).collect();
    json_answer(&json!({"object": "list", "data": models}))
}

/// `GET /v1/models/{model}`.
pub(crate) async fn model(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    rows::check_name(&app, Some(&name))?;
    Ok(json_answer(&described(&name)))
}

fn described(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "embedctl"})
}
