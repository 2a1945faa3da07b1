//! `/similarity` of text-embeddings-inference: the cosines between a sentence and others.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;

use crate::answer::ApiError;
use crate::app::{App, long_answer};
use crate::rows::{self, Deadline, PreparedRows, RequestInputs, RequestRows, Width};
use crate::tei::{check_side, told_of_tokens};

#[derive(Deserialize)]
pub(crate) struct SimilarityRequest {
    pub inputs: SimilarityInputs,
    pub parameters: Option<SimilarityParameters>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `source_sentence` and `sentences`")]
pub(crate) struct SimilarityInputs {
    source_sentence: String,
    sentences: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct SimilarityParameters {
    truncate: Option<bool>,
    truncation_direction: Option<String>,
    prompt_name: Option<String>,
}

/// `POST /similarity`.
pub(crate) async fn similarity(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let (taken, deadline) = rows::read(&app, request, take).await?;
    compared(&app, taken, deadline).await
}

/// The rows of a request, the source's first.
pub(crate) fn take(
    app: &Arc<App>,
    request: SimilarityRequest,
) -> Result<(PreparedRows, Width), ApiError> {
    let parameters = request.parameters.unwrap_or_default();
    check_side(app, parameters.truncation_direction.as_deref())?;
    let SimilarityInputs {
        source_sentence,
        sentences,
    } = request.inputs;
    rows::check_count(app, sentences.len(), "sentences")?;
    let mut texts = vec![source_sentence];
    texts.extend(sentences);
    let wanted = RequestRows {
        inputs: RequestInputs::Many(texts),
        prompt_name: parameters.prompt_name,
        refuses_long: parameters.truncate == Some(false),
        param: "inputs",
    };
    Ok((rows::prepare(app, wanted)?, rows::width(app, None)?))
}

/// The answer once these rows are computed.
pub(crate) async fn compared(
    app: &App,
    (prepared, width): (PreparedRows, Width),
    deadline: Deadline,
) -> Result<Response, ApiError> {
    let rows = prepared.run(app, deadline).await?;
    let (tokens, truncated) = (rows.all_tokens(), rows.truncated);
    let vectors = width.take(app, rows.into_vectors())?;
    let cosines: Vec<f32> = match vectors.split_first() {
        Some((source, others)) => others.iter().map(|other| cosine(source, other)).collect(),
        None => Vec::new(),
    };
    let answer = long_answer(cosines.len(), cosines).await?;
    Ok(told_of_tokens(answer, tokens, truncated))
}

/// The cosine of the angle between two vectors; 0 where one of them is 0.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        let products = one.iter().zip(other);
        products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let lengths = (dot(one, one) * dot(other, other)).sqrt();
    match lengths > 0.0 {
        true => (dot(one, other) / lengths) as f32,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_has_no_part_in_lengths() {
        assert_eq!(cosine(&[3.0, 0.0], &[5.0, 0.0]), 1.0);
        assert_eq!(cosine(&[3.0, 0.0], &[0.0, 5.0]), 0.0);
        assert_eq!(cosine(&[1.0, 1.0], &[-2.0, -2.0]), -1.0);
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 1.0]), 0.0);
    }
}
