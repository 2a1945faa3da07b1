//! The routes that answer with scores: text-embeddings-inference's, and reranking as Cohere and Jina have it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use embedctl_model::score::ScoreForm;
use serde::{Deserialize, Serialize};

use crate::answer::ApiError;
use crate::app::{App, long_answer};
use crate::model::ServedRow;
use crate::rows::{self, Deadline, PreparedRows, RequestInputs, RequestRows, Rows, ScoredInput};
use crate::tei::{check_side, told_of_tokens};

/// Bytes of an answer that stand for a score, its label or its number.
const BYTES_OF_SCORE: usize = 48;

/// A request in one of two shapes: with `texts` that of text-embeddings-inference, with `documents` that of Cohere and
/// Jina.
#[derive(Deserialize)]
struct RerankRequest {
    query: String,
    texts: Option<Vec<String>>,
    return_text: Option<bool>,
    documents: Option<Vec<RerankDocument>>,
    model: Option<String>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
    #[serde(flatten)]
    settings: ScoreRequestSettings,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a document must be a string, or an object with a string `text`"
)]
enum RerankDocument {
    Text(String),
    Object { text: String },
}

impl From<RerankDocument> for String {
    fn from(document: RerankDocument) -> Self {
        match document {
            RerankDocument::Text(text) | RerankDocument::Object { text } => text,
        }
    }
}

/// How an answer lists its texts.
enum RerankShape {
    /// All of them.
    Texts,
    /// So many at most.
    Documents(usize),
}

/// An answer as Cohere and Jina have it.
#[derive(Serialize)]
struct RerankAnswer {
    object: &'static str,
    model: String,
    results: Vec<RankedDocument>,
    usage: RerankUsage,
}

#[derive(Serialize)]
struct RankedDocument {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentText>,
}

#[derive(Serialize)]
struct DocumentText {
    text: String,
}

#[derive(Serialize)]
struct RerankUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Deserialize)]
struct PredictRequest {
    inputs: PredictInputs,
    #[serde(flatten)]
    settings: ScoreRequestSettings,
}

/// Settings that both requests have.
#[derive(Deserialize)]
struct ScoreRequestSettings {
    raw_scores: Option<bool>,
    truncate: Option<bool>,
    truncation_direction: Option<String>,
}

impl ScoreRequestSettings {
    /// The form of the scores: as `embedctl score` writes them unless the request says otherwise.
    fn form(&self) -> ScoreForm {
        match self.raw_scores {
            None => ScoreForm::Written,
            Some(true) => ScoreForm::Raw,
            Some(false) => ScoreForm::Probability,
        }
    }
}

/// A text, a list of one text or of two (a pair), or a list of such lists.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the input must be a string, a list of one or two strings (a pair), or a list of such lists"
)]
enum PredictInputs {
    Text(String),
    One(Vec<String>),
    Many(Vec<Vec<String>>),
}

/// A text's place in the order of scores.
#[derive(Serialize)]
struct RankedText {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    score: f32,
}

/// A label and its score.
#[derive(Serialize)]
struct LabelScore {
    score: f32,
    label: String,
}

/// `POST /rerank`, `/v1/rerank` and `/v2/rerank`: the texts by their scores for the query, the best first.
pub(crate) async fn rerank(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["reranker"])?;
    let take = |app: &Arc<App>, request: RerankRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let query: Arc<str> = request.query.into();
        let settings = request.settings;
        let (texts, returns_text, shape, form) = match (request.texts, request.documents) {
            (Some(texts), None) => (
                texts,
                request.return_text,
                RerankShape::Texts,
                settings.form(),
            ),
            (None, Some(documents)) => {
                let most = request.top_n.unwrap_or(usize::MAX);
                let texts: Vec<String> = documents.into_iter().map(String::from).collect();
                // Relevance is between 0 and 1 in this shape.
                let form = match settings.raw_scores {
                    None => ScoreForm::Probability,
                    Some(_) => settings.form(),
                };
                (
                    texts,
                    request.return_documents,
                    RerankShape::Documents(most),
                    form,
                )
            }
            _ => {
                let reason =
                    "the request must have `texts`, or `documents` in the shape of Cohere and Jina";
                return Err(ApiError::invalid(reason).about("texts"));
            }
        };
        let param = match shape {
            RerankShape::Texts => "texts",
            RerankShape::Documents(_) => "documents",
        };
        let returned = returns_text.unwrap_or_default().then(|| texts.clone());
        let pair = |text| ScoredInput::Pair(Arc::clone(&query), text);
        let pairs = texts.into_iter().map(pair).collect();
        let prepared = prepare(app, pairs, &settings, param)?;
        Ok((prepared, returned, shape, form))
    };
    let ((prepared, texts, shape, form), deadline) = rows::read(&app, request, take).await?;
    let rows = run(&app, prepared, form, deadline).await?;
    let mut texts = texts.unwrap_or_default().into_iter();
    let scores = rows.numbers.iter().map(|row| row.values.first().copied());
    let ranked = scores.enumerate().map(|(index, score)| RankedText {
        index,
        text: texts.next(),
        score: score.unwrap_or_default(),
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|one, other| other.score.total_cmp(&one.score));
    let text = |it: &RankedText| it.text.as_ref().map_or(0, String::len);
    let size = ranked.iter().map(|it| BYTES_OF_SCORE + text(it)).sum();
    let most = match shape {
        RerankShape::Texts => return answer(&rows, size, ranked).await,
        RerankShape::Documents(most) => most,
    };
    let document = |it: RankedText| RankedDocument {
        index: it.index,
        relevance_score: it.score,
        document: it.text.map(|text| DocumentText { text }),
    };
    let tokens = rows.all_tokens();
    let body = RerankAnswer {
        object: "list",
        model: app.served_name(),
        results: ranked.into_iter().take(most).map(document).collect(),
        usage: RerankUsage {
            prompt_tokens: tokens,
            total_tokens: tokens,
        },
    };
    answer(&rows, size, body).await
}

/// `POST /predict`: the labels of a text or of a pair with their scores, the best first.
pub(crate) async fn predict(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["classifier", "reranker"])?;
    let take = |app: &Arc<App>, request: PredictRequest| {
        let is_one = !matches!(request.inputs, PredictInputs::Many(_));
        let inputs = match request.inputs {
            PredictInputs::Text(text) => vec![ScoredInput::Text(text)],
            PredictInputs::One(texts) => vec![scored(0, texts)?],
            PredictInputs::Many(all) => {
                let all = all.into_iter().enumerate();
                let all = all.map(|(index, texts)| scored(index, texts));
                all.collect::<Result<_, _>>()?
            }
        };
        let prepared = prepare(app, inputs, &request.settings, "inputs")?;
        Ok((prepared, is_one, request.settings.form()))
    };
    let ((prepared, is_one, form), deadline) = rows::read(&app, request, take).await?;
    let rows = run(&app, prepared, form, deadline).await?;
    let labels = &app.card().labels;
    let labelled = |row: &ServedRow| {
        let both = row.values.iter().zip(labels);
        let both = both.map(|(&score, label)| LabelScore {
            score,
            label: label.clone(),
        });
        let mut all: Vec<_> = both.collect();
        all.sort_by(|one, other| other.score.total_cmp(&one.score));
        all
    };
    let mut all: Vec<Vec<LabelScore>> = rows.numbers.iter().map(labelled).collect();
    let size = BYTES_OF_SCORE * rows.size();
    match is_one {
        true => answer(&rows, size, all.pop().unwrap_or_default()).await,
        false => answer(&rows, size, all).await,
    }
}

/// An input of one text or of two.
fn scored(index: usize, texts: Vec<String>) -> Result<ScoredInput, ApiError> {
    let (count, mut texts) = (texts.len(), texts.into_iter());
    match (count, texts.next(), texts.next()) {
        (1, Some(text), None) => Ok(ScoredInput::Text(text)),
        (2, Some(first), Some(second)) => Ok(ScoredInput::Pair(first.into(), second)),
        _ => {
            let reason =
                format!("input {index} has {count} texts; it must have one, or two for a pair");
            Err(ApiError::invalid(reason).about("inputs"))
        }
    }
}

fn prepare(
    app: &Arc<App>,
    inputs: Vec<ScoredInput>,
    settings: &ScoreRequestSettings,
    param: &'static str,
) -> Result<PreparedRows, ApiError> {
    check_side(app, settings.truncation_direction.as_deref())?;
    rows::prepare(
        app,
        RequestRows {
            inputs: RequestInputs::Scored(inputs),
            prompt_name: None,
            refuses_long: settings.truncate == Some(false),
            param,
        },
    )
}

/// Waits for the scores of these rows, in this form.
async fn run(
    app: &App,
    prepared: PreparedRows,
    form: ScoreForm,
    deadline: Deadline,
) -> Result<Rows, ApiError> {
    let mut rows = prepared.run(app, deadline).await?;
    for row in &mut rows.numbers {
        app.model.finish(form, &mut row.values);
    }
    Ok(rows)
}

/// `body` with the numbers about its rows in headers; it has about `size` bytes.
async fn answer<T: Serialize + Send + 'static>(
    rows: &Rows,
    size: usize,
    body: T,
) -> Result<Response, ApiError> {
    let (tokens, truncated) = (rows.all_tokens(), rows.truncated);
    let answer = long_answer(size, body).await?;
    Ok(told_of_tokens(answer, tokens, truncated))
}
