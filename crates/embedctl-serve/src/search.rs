//! `/search`: the rows of the server's corpus that are nearest to a query.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use embedctl_common::cancel::CancelToken;
use embedctl_common::setting::{API_KEY_FILE, LIKE};
use embedctl_vectors::RowVector;
use serde::{Deserialize, Serialize};

use crate::answer::{ApiError, ApiRefusal};
use crate::app::{App, long_answer, on_another_thread};
use crate::corpus::{CorpusRow, ServedCorpus};
use crate::rows::{self, RequestInputs, RequestRows};
use crate::tei::told_of_tokens;

/// Rows of an answer unless the request says how many.
const USUAL: usize = 10;

/// Rows of an answer at most.
const MOST: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    query: String,
    model: Option<String>,
    k: Option<usize>,
    prompt_name: Option<String>,
    truncate: Option<bool>,
}

#[derive(Serialize)]
struct SearchAnswer {
    /// The output.
    file: String,
    /// The prompt that was put before the query.
    prompt: String,
    hits: Vec<RankedRow>,
}

#[derive(Serialize)]
struct RankedRow {
    /// From 1.
    rank: usize,
    #[serde(flatten)]
    row: CorpusRow,
}

/// `POST /search`.
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    corpus(&app)?;
    let take = |app: &Arc<App>, request: SearchRequest| {
        rows::check_name(app, request.model.as_deref())?;
        let most = request.k.unwrap_or(USUAL);
        if !(1..=MOST).contains(&most) {
            let reason = format!("`k` must be from 1 to {MOST}");
            return Err(ApiError::invalid(reason).about("k"));
        }
        if request.query.trim().is_empty() {
            return Err(ApiError::invalid("`query` is empty").about("query"));
        }
        let corpus = corpus(app)?;
        let prompt_name = request.prompt_name;
        let prompt_name = prompt_name.or_else(|| corpus.prompt_name().map(str::to_owned));
        let prompt = rows::prompt(app, prompt_name.as_deref())?;
        let prompt = prompt.unwrap_or(&app.card().prompt).to_owned();
        let wanted = RequestRows {
            inputs: RequestInputs::One(request.query),
            prompt_name,
            refuses_long: request.truncate == Some(false),
            param: "query",
        };
        // Of a sparse vector, all entries are compared.
        let width = match app.card().form.is_sparse() {
            true => None,
            false => Some(rows::width(app, corpus.width())?),
        };
        Ok((rows::prepare(app, wanted)?, width, prompt, most))
    };
    let ((prepared, width, prompt, most), deadline) = rows::read(&app, request, take).await?;
    let (rows, room) = prepared.run_in_room(&app, deadline).await?;
    let (tokens, truncated) = (rows.all_tokens(), rows.truncated);
    let query = rows.numbers.into_iter().next().unwrap_or_default();
    let indices = query.indices;
    let (is_sparse, values) = match width {
        None => (true, query.values),
        Some(width) => (false, width.take_one(&app, 0, query.values)?),
    };
    let cancel = CancelToken::new();
    // A search that nobody waits for ends early.
    let _ended = CancelOnDrop(cancel.clone());
    let found = async {
        let turn = Arc::clone(&app.searching).acquire_owned().await.ok();
        let app = Arc::clone(&app);
        on_another_thread(move || {
            // Both are held by the work, which goes on a little when its request is given up.
            let _held = (room, turn);
            let (indices, values) = (&indices[..], &values[..]);
            let query = match is_sparse {
                true => RowVector::of_entries(indices, values),
                false => RowVector::of_vector(values),
            };
            let found = corpus(&app)?.nearest(query, most, &cancel);
            found.map_err(|error| ApiError::new(ApiRefusal::Engine, error.to_string()))
        })
        .await?
    };
    let found = deadline.within(&app, found).await??;
    let texts = found
        .iter()
        .map(|row| row.text.as_ref().map_or(0, String::len));
    let size = texts.sum();
    let hits = (1..).zip(found).map(|(rank, row)| RankedRow { rank, row });
    let answer = SearchAnswer {
        file: corpus(&app)?.name().to_owned(),
        prompt,
        hits: hits.collect(),
    };
    Ok(told_of_tokens(
        long_answer(size, answer).await?,
        tokens,
        truncated,
    ))
}

/// The rows that may be shown. Who may ask for vectors may not be meant to read the texts of the output beside them.
fn corpus(app: &App) -> Result<&dyn ServedCorpus, ApiError> {
    let corpus = app.model.corpus().ok_or_else(|| {
        let reason = format!(
            "this server has no rows to search: start it with {LIKE} and a file of its machine"
        );
        ApiError::new(ApiRefusal::Head, reason)
    })?;
    if !app.shows_rows {
        let reason = format!(
            "rows are shown only on a loopback address, on a socket in the file system, or to clients with a key \
             ({API_KEY_FILE}): anybody reaches this server"
        );
        return Err(ApiError::new(ApiRefusal::Open, reason));
    }
    Ok(corpus)
}

/// Ends a search.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
