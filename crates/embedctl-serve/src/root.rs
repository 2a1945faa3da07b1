//! `POST /` of a model with vectors, as text-embeddings-inference and its clients have it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Deserialize;

use crate::answer::ApiError;
use crate::app::App;
use crate::rows::{self, RequestInputs};
use crate::similarity::{self, SimilarityInputs, SimilarityParameters, SimilarityRequest};
use crate::tei::{self, EmbedRequest, EmbedSettings};

/// A request for vectors or, as clients of sentence similarity send it to the server's address, for cosines.
#[derive(Deserialize)]
struct RootRequest {
    inputs: RootInputs,
    parameters: Option<SimilarityParameters>,
    #[serde(flatten)]
    settings: EmbedSettings,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the input must be a string, a list of strings or of objects with `text` alone, a list of token ids, a list of lists of token ids, or an object with `source_sentence` and `sentences`"
)]
enum RootInputs {
    Embed(RequestInputs),
    Similarity(SimilarityInputs),
}

/// `POST /` of a model with vectors: as `/embed` or `/similarity`.
pub(crate) async fn embed_or_compare(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    app.card().check_type(&["embedding"])?;
    let take = |app: &Arc<App>, request: RootRequest| {
        let RootRequest {
            inputs,
            parameters,
            settings,
        } = request;
        Ok(match inputs {
            RootInputs::Similarity(inputs) => {
                let request = SimilarityRequest { inputs, parameters };
                (similarity::take(app, request)?, true)
            }
            RootInputs::Embed(inputs) => {
                (tei::take(app, EmbedRequest { inputs, settings })?, false)
            }
        })
    };
    let ((taken, is_compared), deadline) = rows::read(&app, request, take).await?;
    match is_compared {
        true => similarity::compared(&app, taken, deadline).await,
        false => tei::embedded(&app, taken, deadline).await,
    }
}
