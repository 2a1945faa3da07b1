//! The routes that answer with scores: text-embeddings-inference's, and reranking as Cohere and Jina have it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use embedctl_rows::score::ScoreForm;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::ApiError;
use crate::app::{App, long_answer};
use crate::documents::{self, RerankDocument};
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
    rank_fields: Option<Vec<String>>,
    model: Option<String>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
    #[serde(flatten)]
    settings: ScoreRequestSettings,
}

/// How an answer lists its texts, with those that it returns.
enum RerankShape {
    /// All of them.
    Texts(Option<Vec<String>>),
    /// So many at most.
    Documents(usize, Option<Vec<Map<String, Value>>>),
}

impl RerankShape {
    /// The member of the request that holds the texts.
    const fn param(&self) -> &'static str {
        match self {
            Self::Texts(_) => "texts",
            Self::Documents(..) => "documents",
        }
    }
}

impl RerankRequest {
    /// The texts to score, the answer's shape, and the form of the scores.
    fn take(self, app: &App) -> Result<(Vec<String>, RerankShape, ScoreForm), ApiError> {
        let form = self.settings.form();
        match (self.texts, self.documents) {
            (Some(texts), None) => {
                let returned = self.return_text.unwrap_or_default().then(|| texts.clone());
                Ok((texts, RerankShape::Texts(returned), form))
            }
            (None, Some(documents)) => {
                rows::check_count(app, documents.len(), "documents")?;
                let texts = documents::texts(&documents, self.rank_fields.as_deref())?;
                let returns = self.return_documents.unwrap_or_default();
                let returned = documents.into_iter().map(RerankDocument::returned);
                let returned = returns.then(|| returned.collect());
                let shape = RerankShape::Documents(self.top_n.unwrap_or(usize::MAX), returned);
                // Relevance is between 0 and 1 in this shape.
                let form = match self.settings.raw_scores {
                    None => ScoreForm::Probability,
                    Some(_) => form,
                };
                Ok((texts, shape, form))
            }
            (texts, _) => {
                let reason = match texts {
                    Some(_) => "the request has both `texts` and `documents`; send one of them",
                    None => {
                        "the request must have `texts`, or `documents` in the shape of Cohere and Jina"
                    }
                };
                Err(ApiError::invalid(reason).about("texts"))
            }
        }
    }
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
    document: Option<Map<String, Value>>,
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
#[derive(Clone, Deserialize)]
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
    let take = |app: &Arc<App>, mut request: RerankRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let query: Arc<str> = std::mem::take(&mut request.query).into();
        let settings = request.settings.clone();
        let (texts, shape, form) = request.take(app)?;
        let pair = |text| ScoredInput::Pair(Arc::clone(&query), text);
        let pairs = texts.into_iter().map(pair).collect();
        Ok((prepare(app, pairs, &settings, shape.param())?, shape, form))
    };
    let ((prepared, shape, form), deadline) = rows::read(&app, request, take).await?;
    let rows = run(&app, prepared, form, deadline).await?;
    match shape {
        RerankShape::Texts(texts) => ranked_texts(&rows, texts).await,
        RerankShape::Documents(most, documents) => {
            ranked_documents(&app, &rows, most, documents).await
        }
    }
}

/// The numbers of rows with their scores, the best first.
fn ranked(rows: &Rows) -> Vec<(usize, f32)> {
    let scores = rows.numbers.iter().map(|row| row.values.first().copied());
    let scores = scores.map(Option::unwrap_or_default);
    let mut ranked: Vec<_> = scores.enumerate().collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
    ranked
}

/// The answer as text-embeddings-inference has it.
async fn ranked_texts(rows: &Rows, texts: Option<Vec<String>>) -> Result<Response, ApiError> {
    let mut texts = texts.unwrap_or_default();
    let size: usize = texts.iter().map(String::len).sum();
    let ranked = ranked(rows).into_iter().map(|(index, score)| RankedText {
        index,
        text: texts.get_mut(index).map(std::mem::take),
        score,
    });
    let ranked: Vec<_> = ranked.collect();
    answer(rows, size + BYTES_OF_SCORE * ranked.len(), ranked).await
}

/// The answer as Cohere and Jina have it.
async fn ranked_documents(
    app: &App,
    rows: &Rows,
    most: usize,
    documents: Option<Vec<Map<String, Value>>>,
) -> Result<Response, ApiError> {
    let mut documents = documents.unwrap_or_default();
    let size: usize = documents.iter().map(documents::size).sum();
    let ranked = ranked(rows).into_iter().take(most);
    let ranked = ranked.map(|(index, relevance_score)| RankedDocument {
        index,
        relevance_score,
        document: documents.get_mut(index).map(std::mem::take),
    });
    let tokens = rows.all_tokens();
    let body = RerankAnswer {
        object: "list",
        model: app.served_name(),
        results: ranked.collect(),
        usage: RerankUsage {
            prompt_tokens: tokens,
            total_tokens: tokens,
        },
    };
    answer(rows, size + BYTES_OF_SCORE * rows.numbers.len(), body).await
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
