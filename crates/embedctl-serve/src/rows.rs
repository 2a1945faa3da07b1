//! From a request's inputs to rows of numbers, for every route alike.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use embedctl_common::Texts;
use embedctl_common::pair::TextPair;
use embedctl_rows::batch::TokenRows;
use half::f16;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::answer::{ApiError, ApiRefusal};
use crate::app::{App, SHORT, off_thread};
use crate::body::check_head;
use crate::model::ServedRow;
use crate::queue::Room;

/// The inputs of a request: text, or tokens of the model's own tokenizer.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "the input must be a string, a list of strings or of objects with `text` alone, a list of token ids, or a list of lists of token ids"
)]
pub(crate) enum RequestInputs {
    One(String),
    Many(Vec<String>),
    Tokens(Vec<u32>),
    ManyTokens(Vec<Vec<u32>>),
    /// As Jina's clients write texts.
    Objects(Vec<TextObject>),
    #[serde(skip)]
    Scored(Vec<ScoredInput>),
}

/// A text in an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextObject {
    text: String,
}

/// An input that is scored.
#[derive(Debug, Clone)]
pub(crate) enum ScoredInput {
    Text(String),
    /// A pair of texts. Many pairs share the first one.
    Pair(Arc<str>, String),
}

impl RequestInputs {
    pub fn len(&self) -> usize {
        match self {
            Self::One(_) | Self::Tokens(_) => 1,
            Self::Many(texts) => texts.len(),
            Self::ManyTokens(rows) => rows.len(),
            Self::Objects(texts) => texts.len(),
            Self::Scored(inputs) => inputs.len(),
        }
    }
}

/// The inputs of a request, and how they become rows.
pub(crate) struct RequestRows {
    pub inputs: RequestInputs,
    /// The prompt's name, where the request has one.
    pub prompt_name: Option<String>,
    /// Whether texts that are too long are refused.
    pub refuses_long: bool,
    /// The member of the request that holds the inputs.
    pub param: &'static str,
}

/// The rows of a request.
pub(crate) struct Rows {
    /// Each input's numbers.
    pub numbers: Vec<ServedRow>,
    /// Tokens of each input, special ones counted.
    pub tokens: Vec<usize>,
    /// How many inputs were cut to the model's length.
    pub truncated: usize,
}

impl Rows {
    /// Tokens of all inputs.
    pub fn all_tokens(&self) -> usize {
        self.tokens.iter().sum()
    }

    /// Numbers of all inputs.
    pub fn size(&self) -> usize {
        let size = |row: &ServedRow| row.values.len() + row.indices.len();
        self.numbers.iter().map(size).sum()
    }

    /// The components of each input's vectors.
    pub fn into_vectors(self) -> Vec<Vec<f32>> {
        self.numbers.into_iter().map(|row| row.values).collect()
    }
}

/// When a request must have its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// That of a request that was just read.
    fn from_now(app: &App) -> Self {
        let limit = app.options.timeout;
        Self {
            at: Instant::now() + limit,
            limit,
        }
    }

    /// Whether it is over; work that cannot be given up looks at it between its parts.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// What a request is told that was not done in time.
    pub fn late(&self, app: &App) -> ApiError {
        let seconds = self.limit.as_secs_f64();
        let reason = format!("the request was not done within {seconds} s");
        ApiError::new(ApiRefusal::Late, reason).retry_after(app.queue.seconds())
    }

    /// The outcome of `work`, if it is done in time.
    pub async fn within<T>(&self, app: &App, work: impl Future<Output = T>) -> Result<T, ApiError> {
        timeout_at(self.at, work).await.map_err(|_| self.late(app))
    }
}

/// Reads a request in JSON, and lets `take` make something of it: of a long one off this thread, and a few at a time.
pub(crate) async fn read<R, T>(
    app: &Arc<App>,
    request: Request,
    take: impl FnOnce(&Arc<App>, R) -> Result<T, ApiError> + Send + 'static,
) -> Result<(T, Deadline), ApiError>
where
    R: DeserializeOwned,
    T: Send + 'static,
{
    check_head(request.headers(), app.options.max_body)?;
    let body = app.bodies.read(request.into_body(), &app.options).await?;
    let deadline = Deadline::from_now(app);
    let taken = async {
        let room = match body.len() <= SHORT {
            true => None,
            false => app.reading.enter(body.len()).await,
        };
        let app = Arc::clone(app);
        off_thread(body.len(), move || {
            // Held by the work, which goes on when its request is given up.
            let _room = room;
            take(&app, body.json()?)
        })
        .await
    };
    Ok((deadline.within(app, taken).await???, deadline))
}

/// A request's rows of tokens, with the room that they have in the queue.
pub(crate) struct PreparedRows {
    rows: TokenRows,
    room: Room,
}

/// Room in the queue for so many inputs.
pub(crate) fn enter(app: &App, inputs: usize) -> Result<Room, ApiError> {
    app.queue.enter(inputs).map_err(|seconds| {
        let most = app.options.max_queue;
        let reason = format!("the queue is full ({most} inputs); try again in {seconds} s");
        ApiError::new(ApiRefusal::Full, reason).retry_after(seconds)
    })
}

/// Tokenizes the inputs of a request, if there is room for them.
pub(crate) fn prepare(app: &Arc<App>, wanted: RequestRows) -> Result<PreparedRows, ApiError> {
    let RequestRows {
        inputs,
        prompt_name,
        refuses_long,
        param,
    } = wanted;
    check_count(app, inputs.len(), param)?;
    let prompt = prompt(app, prompt_name.as_deref())?;
    let room = enter(app, inputs.len())?;
    let tokenize = |texts: Texts| app.model.tokenize(&texts, prompt);
    let frame = |ids: Vec<Vec<u32>>| {
        if prompt_name.is_some() {
            let reason = "tokens cannot be put behind a prompt; send text, or leave the prompt out";
            return Err(ApiError::invalid(reason).about(param));
        }
        let refused = |cause| ApiError::invalid(format!("{cause}")).about(param);
        app.model.frame(&ids).map_err(refused)
    };
    let rows = match inputs {
        RequestInputs::One(text) => tokenize([text].iter().collect()),
        RequestInputs::Many(texts) => tokenize(texts.iter().collect()),
        RequestInputs::Objects(texts) => tokenize(texts.iter().map(|it| &it.text).collect()),
        RequestInputs::Tokens(ids) => frame(vec![ids])?,
        RequestInputs::ManyTokens(ids) => frame(ids)?,
        RequestInputs::Scored(inputs) => tokenize_scored(app, &inputs),
    };
    if let Some((index, cause)) = rows.refusals().next() {
        return Err(ApiError::input(index, cause).about(param));
    }
    if refuses_long && let Some(index) = (0..rows.len()).find(|&row| rows.is_truncated(row)) {
        let most = app.card().max_length.unwrap_or_default();
        let reason = format!(
            "input {index} has more than {most} tokens; shorten it, or let it be cut with \"truncate\": true"
        );
        return Err(ApiError::new(ApiRefusal::TooLarge, reason).about(param));
    }
    Ok(PreparedRows { rows, room })
}

/// The rows of texts and of pairs, in their order.
fn tokenize_scored(app: &App, inputs: &[ScoredInput]) -> TokenRows {
    let (mut texts, mut pairs) = (Texts::default(), Vec::new());
    for input in inputs {
        match input {
            ScoredInput::Text(text) => texts.push(text),
            ScoredInput::Pair(first, second) => pairs.push(TextPair { first, second }),
        }
    }
    let texts = app.model.tokenize(&texts, None);
    let pairs = app.model.tokenize_pairs(&pairs);
    let mut rows = TokenRows::default();
    let (mut text, mut pair) = (0, 0);
    for input in inputs {
        let (kind, next) = match input {
            ScoredInput::Text(_) => (&texts, &mut text),
            ScoredInput::Pair(..) => (&pairs, &mut pair),
        };
        rows.push_row(kind, *next);
        *next += 1;
    }
    rows
}

/// The name that requests of text-embeddings-inference's documentation give to every model.
const ANY_MODEL: &str = "text-embeddings-inference";

/// Refuses the name of another model: its vectors would be other ones.
pub(crate) fn check_name(app: &App, name: Option<&str>) -> Result<(), ApiError> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    // As Ollama's clients write a name.
    let names = [name, name.strip_suffix(":latest").unwrap_or(name)];
    let id = &app.card().id;
    let last = id.trim_end_matches('/').rsplit('/').next();
    let served = app.served_names();
    let is_own = |name: &&str| {
        let is_short = app.options.served_names.is_empty() && Some(*name) == last;
        is_short || served.contains(name) || *name == ANY_MODEL
    };
    if names.iter().any(is_own) {
        return Ok(());
    }
    let reason = format!(
        "this server has no model {name:?}: it has {}",
        quoted(&served)
    );
    Err(ApiError::new(ApiRefusal::Model, reason).about("model"))
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

/// Refuses a request without inputs, or with too many.
pub(crate) fn check_count(app: &App, inputs: usize, param: &'static str) -> Result<(), ApiError> {
    let most = app.options.max_inputs;
    if inputs == 0 {
        let reason = format!("`{param}` is empty; send at least one text");
        return Err(ApiError::invalid(reason).about(param));
    }
    if inputs > most {
        let reason = format!("{inputs} inputs, but a request may have {most}; send them in parts");
        return Err(ApiError::new(ApiRefusal::TooLarge, reason).about(param));
    }
    Ok(())
}

/// The prompt of this name; `None` where the request names none.
pub(crate) fn prompt<'a>(app: &'a App, name: Option<&str>) -> Result<Option<&'a str>, ApiError> {
    let Some(name) = name else {
        return Ok(None);
    };
    let prompts = &app.card().prompts;
    if let Some(prompt) = prompts.get(name) {
        return Ok(Some(prompt));
    }
    let names: Vec<&str> = prompts.keys().map(String::as_str).collect();
    let reason = match names.is_empty() {
        true => "this model's prompt cannot be chosen by requests; leave `prompt_name` out".into(),
        false => format!(
            "the model has no prompt {name:?}; it has {}",
            names.join(", ")
        ),
    };
    Err(ApiError::invalid(reason).about("prompt_name"))
}

impl PreparedRows {
    /// Waits for the numbers of these rows, as they are answered.
    pub async fn run(self, app: &App, deadline: Deadline) -> Result<Rows, ApiError> {
        let (mut rows, _) = self.run_in_room(app, deadline).await?;
        if app.card().is_half {
            let values = rows.numbers.iter_mut().flat_map(|row| &mut row.values);
            values.for_each(|value| *value = f16::from_f32(*value).to_f32());
        }
        Ok(rows)
    }

    /// The same in full, with the room that they have in the queue, for work that is still to be done with them.
    pub async fn run_in_room(
        self,
        app: &App,
        deadline: Deadline,
    ) -> Result<(Rows, Room), ApiError> {
        let Self { rows, room } = self;
        let tokens: Vec<usize> = (0..rows.len()).map(|row| rows.get(row).len()).collect();
        let truncated = rows.truncated();
        let ticket = app.queue.put(rows);
        let numbers = deadline.within(app, ticket.numbers()).await??;
        let rows = Rows {
            numbers,
            tokens,
            truncated,
        };
        app.metrics.inputs.add(rows.numbers.len() as u64);
        app.metrics.tokens.add(rows.all_tokens() as u64);
        app.metrics.truncated.add(truncated as u64);
        Ok((rows, room))
    }
}

/// Refuses a cut to a width that the model's vectors do not have; else the way to get it from a row.
pub(crate) fn width(app: &App, dimensions: Option<usize>) -> Result<Width, ApiError> {
    let card = app.card();
    let (all, own) = (card.form.width(), card.form.widths());
    let last = own.last().copied().unwrap_or(all);
    let Some(wanted) = dimensions else {
        return Ok(Width::Part(all - last..all));
    };
    let mut start = 0;
    for &width in own {
        if width == wanted {
            return Ok(Width::Part(start..start + width));
        }
        start += width;
    }
    if card.cuts && wanted > 0 && wanted < all {
        return Ok(Width::Cut(wanted));
    }
    let widths: Vec<String> = own.iter().map(ToString::to_string).collect();
    let reason = match card.cuts {
        true => format!("vectors have {all} components; ask for 1 to {all}"),
        false => format!(
            "this server's vectors have {} components; leave `dimensions` out, or ask for these",
            widths.join(" or ")
        ),
    };
    Err(ApiError::invalid(reason).about("dimensions"))
}

/// The components of a row that a request gets.
#[derive(Debug, Clone)]
pub(crate) enum Width {
    /// One of the row's vectors.
    Part(std::ops::Range<usize>),
    /// The beginning of the vector.
    Cut(usize),
}

impl Width {
    /// The vectors of this width.
    pub fn take(&self, app: &App, rows: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, ApiError> {
        let rows = rows.into_iter().enumerate();
        rows.map(|(index, row)| self.take_one(app, index, row))
            .collect()
    }

    /// That of the row of this number.
    pub fn take_one(&self, app: &App, index: usize, row: Vec<f32>) -> Result<Vec<f32>, ApiError> {
        match self {
            Self::Part(part) if part.len() == row.len() => Ok(row),
            Self::Part(part) => Ok(row[part.clone()].to_vec()),
            Self::Cut(dimensions) => app.model.cut(&row, *dimensions).ok_or_else(|| {
                let reason = format!("input {index}: its first {dimensions} components are all 0");
                ApiError::invalid(reason).about("dimensions")
            }),
        }
    }
}
