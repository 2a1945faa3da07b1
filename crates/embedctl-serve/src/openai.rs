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
use crate::tei::{check_length, check_side, told_of_truncation};

#[derive(Deserialize)]
struct EmbeddingsRequest {
    input: RequestInputs,
    model: Option<String>,
    encoding_format: Option<Encoding>,
    dimensions: Option<usize>,
    /// Not OpenAI's: the prompt's name, as in text-embeddings-inference.
    prompt_name: Option<String>,
    #[serde(flatten)]
    others: OthersSettings,
}

/// Settings of other servers with this route, by which vectors would be others: they are taken where they ask for what the
/// server does.
#[derive(Deserialize)]
struct OthersSettings {
    normalize: Option<bool>,
    /// Jina's.
    normalized: Option<bool>,
    /// Jina's.
    embedding_type: Option<String>,
    /// Jina's.
    late_chunking: Option<bool>,
    truncation_direction: Option<String>,
    /// vLLM's.
    truncate_prompt_tokens: Option<i64>,
}

impl OthersSettings {
    fn check(&self, app: &App) -> Result<(), ApiError> {
        check_length(app, "normalize", self.normalize)?;
        check_length(app, "normalized", self.normalized)?;
        check_side(app, self.truncation_direction.as_deref())?;
        let refuse = |name, reason: String| Err(ApiError::invalid(reason).about(name));
        if let Some(other) = self.embedding_type.as_deref()
            && !["float", "base64"].contains(&other)
        {
            let reason = format!("this server answers with floats, not with {other:?}");
            return refuse("embedding_type", reason);
        }
        if self.late_chunking == Some(true) {
            let reason = "this server embeds each input by itself; leave `late_chunking` out";
            return refuse("late_chunking", reason.to_owned());
        }
        let most = app.card().max_length;
        if let (Some(asked), Some(most)) = (self.truncate_prompt_tokens, most)
            && usize::try_from(asked).is_ok_and(|asked| asked < most)
        {
            let reason = format!("this server cuts texts at {most} tokens; leave it out");
            return refuse("truncate_prompt_tokens", reason);
        }
        Ok(())
    }
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
        request.others.check(app)?;
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
        let is_text = request.others.embedding_type.as_deref() == Some("base64");
        let usual = if is_text {
            Encoding::Base64
        } else {
            Encoding::Float
        };
        Ok((prepared, width, request.encoding_format.unwrap_or(usual)))
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
