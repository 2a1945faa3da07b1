//! The routes of text-embeddings-inference.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer::{ApiError, ApiRefusal, json_answer};
use crate::app::{App, SHORT, long_answer, off_thread};
use crate::model::{ServedRow, Token};
use crate::rows::{self, Deadline, PreparedRows, RequestInputs, RequestRows, Width};

/// Bytes of text in a request whose tokens are listed one by one.
const LISTED: usize = 1 << 20;

/// Tells how many inputs were cut to the model's length; absent if none was.
const TRUNCATED: &str = "x-truncated-inputs";

#[derive(Deserialize)]
pub(crate) struct EmbedRequest {
    pub inputs: RequestInputs,
    #[serde(flatten)]
    pub settings: EmbedSettings,
}

/// Settings of a request for vectors.
#[derive(Deserialize)]
pub(crate) struct EmbedSettings {
    truncate: Option<bool>,
    truncation_direction: Option<String>,
    normalize: Option<bool>,
    prompt_name: Option<String>,
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct TokenizeRequest {
    inputs: RequestInputs,
    add_special_tokens: Option<bool>,
    prompt_name: Option<String>,
}

/// `POST /embed`.
pub(crate) async fn embed(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let (taken, deadline) = rows::read(&app, request, take).await?;
    embedded(&app, taken, deadline).await
}

/// The rows of a request for vectors, and what it gets of them.
pub(crate) fn take(
    app: &Arc<App>,
    request: EmbedRequest,
) -> Result<(PreparedRows, Width), ApiError> {
    let width = rows::width(app, request.settings.dimensions)?;
    Ok((prepare(app, request)?, width))
}

/// The answer once these rows are computed.
pub(crate) async fn embedded(
    app: &App,
    (prepared, width): (PreparedRows, Width),
    deadline: Deadline,
) -> Result<Response, ApiError> {
    let rows = prepared.run(app, deadline).await?;
    let (size, tokens, truncated) = (rows.size(), rows.all_tokens(), rows.truncated);
    let vectors = width.take(app, rows.into_vectors())?;
    let answer = long_answer(size, vectors).await?;
    Ok(told_of_tokens(answer, tokens, truncated))
}

/// The rows of a request for vectors.
fn prepare(app: &Arc<App>, request: EmbedRequest) -> Result<PreparedRows, ApiError> {
    let EmbedRequest { inputs, settings } = request;
    check_settings(app, &settings)?;
    rows::prepare(
        app,
        RequestRows {
            inputs,
            prompt_name: settings.prompt_name,
            refuses_long: settings.truncate == Some(false),
            param: "inputs",
        },
    )
}

/// Refuses settings by which vectors would differ from those of the server's identity.
fn check_settings(app: &App, request: &EmbedSettings) -> Result<(), ApiError> {
    check_length(app, "normalize", request.normalize)?;
    check_side(app, request.truncation_direction.as_deref())
}

/// Refuses vectors of another length than the server's, which a request asks for in the member `name`.
pub(crate) fn check_length(
    app: &App,
    name: &'static str,
    normalize: Option<bool>,
) -> Result<(), ApiError> {
    let own = app.card().normalized;
    if normalize.is_none_or(|wanted| wanted == own) {
        return Ok(());
    }
    let reason = format!(
        "this server's vectors are made with \"{name}\": {own}, as the batch job makes them; leave `{name}` out, or \
         start the server with the other setting"
    );
    Err(ApiError::invalid(reason).about(name))
}

/// Refuses another side than that on which long texts are cut.
pub(crate) fn check_side(app: &App, wanted: Option<&str>) -> Result<(), ApiError> {
    let own = app.card().truncation;
    match wanted {
        Some(side) if !side.eq_ignore_ascii_case(own) => {
            let reason = format!("this model's texts are cut on the {own}; leave it out");
            Err(ApiError::invalid(reason).about("truncation_direction"))
        }
        _ => Ok(()),
    }
}

/// An entry of a sparse vector.
#[derive(Serialize)]
struct SparseEntry {
    index: u32,
    value: f32,
}

/// `POST /embed_sparse`: each text's entries, by ascending index.
pub(crate) async fn embed_sparse(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["sparse"])?;
    let (prepared, deadline) = rows::read(&app, request, prepare).await?;
    let rows = prepared.run(&app, deadline).await?;
    let (size, tokens, truncated) = (rows.size(), rows.all_tokens(), rows.truncated);
    let entries = |row: ServedRow| {
        let entries = row.indices.into_iter().zip(row.values);
        let entry = |(index, value)| SparseEntry { index, value };
        entries.map(entry).collect::<Vec<_>>()
    };
    let vectors: Vec<_> = rows.numbers.into_iter().map(entries).collect();
    let answer = long_answer(size, vectors).await?;
    Ok(told_of_tokens(answer, tokens, truncated))
}

/// `POST /tokenize`. Listing a text's tokens takes up to 300 times its bytes, and cannot be given up: a request may have
/// [`LISTED`] of text, and takes its room in the queue until its tokens are listed.
pub(crate) async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let take = |app: &Arc<App>, request: TokenizeRequest| {
        rows::check_count(app, request.inputs.len(), "inputs")?;
        let texts = match request.inputs {
            RequestInputs::One(text) => vec![text],
            RequestInputs::Many(texts) => texts,
            _ => {
                let reason = "`inputs` must be a string or a list of strings";
                return Err(ApiError::invalid(reason).about("inputs"));
            }
        };
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > LISTED {
            let reason = format!(
                "`inputs` has {bytes} bytes of text, but tokens are listed of {LISTED} at a time; send fewer or shorter texts"
            );
            return Err(ApiError::new(ApiRefusal::TooLarge, reason).about("inputs"));
        }
        let prompt = rows::prompt(app, request.prompt_name.as_deref())?;
        let special = request.add_special_tokens.unwrap_or(true);
        let room = rows::enter(app, texts.len())?;
        Ok((texts, prompt.map(str::to_owned), special, bytes, room))
    };
    let (taken, deadline) = rows::read(&app, request, take).await?;
    let (texts, prompt, special, bytes, room) = taken;
    let listed = async {
        let place = match bytes <= SHORT {
            true => None,
            false => app.listing.enter(bytes).await,
        };
        let app = Arc::clone(&app);
        off_thread(bytes, move || {
            // Both are held by the work, which goes on when its request is given up.
            let _held = (room, place);
            let tokens = |(index, text): (usize, &String)| {
                if deadline.is_over() {
                    return Err(deadline.late(&app));
                }
                let tokens = app.model.tokens(text, prompt.as_deref(), special);
                tokens.map_err(|cause| ApiError::input(index, &cause))
            };
            let tokens = texts.iter().enumerate().map(tokens);
            let tokens = tokens.collect::<Result<Vec<Vec<Token>>, _>>()?;
            Ok(json_answer(&tokens))
        })
        .await
    };
    deadline.within(&app, listed).await??
}

/// `GET /info`.
pub(crate) async fn info(State(app): State<Arc<App>>) -> Response {
    let (card, options) = (app.card(), &app.options);
    let about = match card.labels.is_empty() {
        true => json!({"pooling": card.pooling}),
        false => {
            let numbered = card.labels.iter().enumerate();
            let names = numbered
                .clone()
                .map(|(at, label)| (at.to_string(), json!(label)));
            let numbers = numbered.map(|(at, label)| (label.clone(), json!(at.to_string())));
            json!({"id2label": Map::from_iter(names), "label2id": Map::from_iter(numbers)})
        }
    };
    let model_type = json!({card.model_type(): about});
    let members = json!({
        "model_id": card.id,
        "model_sha": card.revision,
        "model_dtype": card.dtype(),
        "model_type": model_type,
        "max_concurrent_requests": options.max_queue,
        "max_input_length": card.max_length,
        "max_batch_tokens": card.limits.tokens,
        "max_batch_requests": card.limits.rows,
        "max_client_batch_size": options.max_inputs,
        "auto_truncate": true,
        "tokenization_workers": card.workers,
        "version": env!("CARGO_PKG_VERSION"),
        "sha": null,
        "docker_label": null,
        "server": "embedctl",
        "dimensions": card.form.widths(),
        "normalized": card.normalized,
        "prompt": card.prompt,
        "prompts": card.prompts,
        "wants_keys": options.keys.is_some(),
        "search": app.model.corpus().map(|corpus| json!({
            "file": corpus.name(),
            "prompt_name": corpus.prompt_name(),
            "is_open": app.shows_rows,
        })),
    });
    let mut all: Map<String, Value> = match members {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    all.extend(card.details.clone());
    json_answer(&all)
}

/// `answer`, with how many tokens were computed and how many inputs were cut to the model's length.
pub(crate) fn told_of_tokens(answer: Response, tokens: usize, truncated: usize) -> Response {
    let mut answer = told_of_truncation(answer, truncated);
    let tokens = HeaderValue::from(tokens);
    answer.headers_mut().insert("x-compute-tokens", tokens);
    answer
}

/// `answer`, with how many inputs were cut to the model's length.
pub(crate) fn told_of_truncation(mut answer: Response, truncated: usize) -> Response {
    if truncated > 0 {
        let name = header::HeaderName::from_static(TRUNCATED);
        answer.headers_mut().insert(name, truncated.into());
    }
    answer
}
