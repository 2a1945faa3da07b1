//! The routes of text-embeddings-inference that answer with scores.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use embedctl_model::score::ScoreForm;
use serde::{Deserialize, Serialize};

use crate::answer::ApiError;
use crate::app::{App, long_answer};
use crate::model::{ModelHead, ServedRow};
use crate::rows::{self, PreparedRows, RequestInputs, Rows, ScoredInput, Wanted};
use crate::tei::{check_side, told_of_tokens};

/// Bytes of an answer that stand for a score, its label or its number.
const BYTES_OF_SCORE: usize = 48;

#[derive(Deserialize)]
struct RerankRequest {
    query: String,
    texts: Vec<String>,
    return_text: Option<bool>,
    #[serde(flatten)]
    settings: ScoreRequestSettings,
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

/// `POST /rerank`: the texts by their scores for the query, the best first.
pub(crate) async fn rerank(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    rows::check_model(&app, &[ModelHead::Reranker])?;
    let take = |app: &Arc<App>, request: RerankRequest| {
        let query: Arc<str> = request.query.into();
        let returns_text = request.return_text.unwrap_or_default();
        let texts = returns_text.then(|| request.texts.clone());
        let pair = |text| ScoredInput::Pair(Arc::clone(&query), text);
        let pairs = request.texts.into_iter().map(pair).collect();
        let prepared = prepare(app, pairs, &request.settings, "texts")?;
        Ok((prepared, texts, request.settings.form()))
    };
    let (prepared, texts, form) = rows::read(&app, request, take).await?;
    let rows = run(&app, prepared, form).await?;
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
    answer(&rows, size, ranked).await
}

/// `POST /predict`: the labels of a text or of a pair with their scores, the best first.
pub(crate) async fn predict(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    rows::check_model(&app, &[ModelHead::Classifier, ModelHead::Reranker])?;
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
    let (prepared, is_one, form) = rows::read(&app, request, take).await?;
    let rows = run(&app, prepared, form).await?;
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
            Err(ApiError::invalid(reason).of("inputs"))
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
        Wanted {
            inputs: RequestInputs::Scored(inputs),
            prompt_name: None,
            refuses_long: settings.truncate == Some(false),
            param,
        },
    )
}

/// Waits for the scores of these rows, in this form.
async fn run(app: &App, prepared: PreparedRows, form: ScoreForm) -> Result<Rows, ApiError> {
    let mut rows = prepared.run(app).await?;
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
