//! A model ready to embed: tokenizer, engine and pooling put together.
//!
//! [`Embedder`] is the library's front door for programs that hold their texts in memory; the pipeline
//! uses the same parts for streams that don't fit there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::batch::{self, Batch, BatchLimits, Plan, TokenRows};
use crate::engine::{self, Cosine, Engine, EngineInfo, EngineOptions, Output, Provider, Worker};
use crate::error::{Error, Place, Result};
use crate::halving::{Fitted, TokenLimit};
use crate::model::{Frame, Model, ModelOptions};
use crate::pool::{Pooler, is_finite};
use crate::record::Texts;
use crate::stage::{Clocks, Watch};
use crate::threads::{panic_message, spawn_scoped, usable_cores};
use crate::tokenize::TextTokenizer;

/// Texts that [`Embedder::stream`] takes at a time.
const STREAM_WINDOW: usize = 4096;

/// Embeds texts held in memory.
///
/// ```
/// use embedctl::engine::EngineOptions;
/// use embedctl::model::ModelOptions;
/// use embedctl::Embedder;
///
/// # fn main() -> embedctl::Result<()> {
/// let model = ModelOptions {
///     model: "fixtures/models/all-MiniLM-L6-v2".into(),
///     ..ModelOptions::default()
/// };
/// let engine = EngineOptions {
///     providers: "rten".parse().expect("a provider's name"),
///     ..EngineOptions::default()
/// };
/// let mut embedder = Embedder::open(&model, &engine)?;
/// let vectors = embedder.embed(&["A cat sits on a mat.", "On a rug there is a cat.", "Interest rates rose."])?;
/// let similarity = |a: usize, b: usize| -> f32 { vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum() };
/// assert_eq!(vectors[0].len(), 384);
/// assert!(similarity(0, 1) > similarity(0, 2));
/// # Ok(())
/// # }
/// ```
pub struct Embedder {
    model: Arc<Model>,
    tokenizer: TextTokenizer,
    pooler: Arc<Pooler>,
    limits: BatchLimits,
    ragged: bool,
    workers: Vec<RowWorker>,
    info: EngineInfo,
}

impl Embedder {
    /// Opens a model with an engine. [`EngineOptions::workers`] threads will run it; 0 means one a core.
    ///
    /// # Errors
    /// If the model's files or the engine cannot be had, or reduced precision is farther from fp32 than
    /// [`EngineOptions::min_cosine`] allows.
    pub fn open(model: &ModelOptions, engine: &EngineOptions) -> Result<Self> {
        let (model, mut options) = engine::settle(model, engine)?;
        let model = Arc::new(Model::open(&model)?);
        if options.workers == 0 {
            options.workers = usable_cores();
        }
        let tokenizer = TextTokenizer::new(&model, options.workers)?;
        let engine = crate::padding::open(&model, &options)?;
        let pooler = Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens()));
        let mut info = engine.info().clone();
        info.cosine = cosine_of_samples(engine.as_ref(), &tokenizer, &pooler, &options)?;
        let limit = Arc::default();
        let workers = (0..engine.workers().unwrap_or(options.workers))
            .map(|_| RowWorker::new(engine.as_ref(), &model, &pooler, &limit, &Arc::default()))
            .collect::<Result<_>>()?;
        Ok(Self {
            limits: engine.limits(),
            ragged: engine.is_ragged(),
            model,
            tokenizer,
            pooler,
            workers,
            info,
        })
    }

    /// Width of a vector; where several widths were asked for, they follow one another in it.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.pooler.width()
    }

    /// What runs the model.
    #[must_use]
    pub fn engine(&self) -> &EngineInfo {
        &self.info
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens of `texts`, as they would be embedded.
    pub(crate) fn tokenize(&self, texts: &Texts) -> Result<TokenRows> {
        self.tokenizer.tokenize(texts)
    }

    /// Embeds `texts`; vectors come in their order.
    ///
    /// # Errors
    /// If the engine fails, or a text (the error names its index) gets no finite vector or does not fit into
    /// the device's memory.
    pub fn embed<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Vec<Vec<f32>>> {
        let tokens = self.tokenizer.tokenize(&texts.iter().collect::<Texts>())?;
        let plans = batch::plan(&tokens, self.limits, self.ragged);
        let next = AtomicUsize::new(0);
        let finished: Vec<Finished> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    let (next, plans, tokens) = (&next, &plans, &tokens);
                    spawn_scoped(scope, "embed", move || {
                        let mut done = Vec::new();
                        while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                            done.push(worker.run(plan, tokens)?);
                        }
                        Ok(done)
                    })
                })
                .collect();
            let mut all = Vec::new();
            for thread in threads {
                let done: Result<Vec<Finished>> = thread?
                    .join()
                    .unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic))));
                all.append(&mut done?);
            }
            Ok::<_, Error>(all)
        })?;
        let width = self.dimensions();
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for finished in finished {
            if let Some((row, reason)) = finished.failed.first() {
                return Err(Error::record(Place::file(format!("text {row}")), reason));
            }
            for (&row, vector) in finished
                .rows
                .iter()
                .zip(finished.vectors.chunks_exact(width))
            {
                vectors[row as usize] = vector.to_vec();
            }
        }
        let empty = vectors.iter_mut().enumerate();
        for (text, vector) in empty.filter(|(_, vector)| vector.is_empty()) {
            self.pooler
                .finish_empty(self.model.config.hidden_width, vector);
            if !is_finite(vector) {
                let place = Place::file(format!("text {text}"));
                return Err(Error::record(place, NOT_FINITE_EMPTY));
            }
        }
        Ok(vectors)
    }

    /// Embeds a stream of texts, some thousands at a time; vectors come in its order. The stream ends
    /// after the first error.
    pub fn stream<S: AsRef<str>>(
        &mut self,
        texts: impl IntoIterator<Item = S>,
    ) -> impl Iterator<Item = Result<Vec<f32>>> {
        let mut texts = texts.into_iter();
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let window: Vec<S> = texts.by_ref().take(STREAM_WINDOW).collect();
            if window.is_empty() {
                return None;
            }
            Some(match self.embed(&window) {
                Ok(vectors) => vectors.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => {
                    failed = true;
                    vec![Err(error)]
                }
            })
        })
        .flatten()
    }
}

/// Why a row has no vector.
const NOT_FINITE: &str = "the model gives NaN or infinity for this text, also when it runs alone; try another \
                          export of the model (--model-file) or another engine (--provider)";

/// The same, of a text without any token.
pub(crate) const NOT_FINITE_EMPTY: &str = "this text has no token under the model's tokenizer, and the modules after \
                                           pooling make NaN or infinity of that; their weights are damaged";

/// How close an engine's vectors of the built-in texts are to those in fp32, where it computes in less.
///
/// # Errors
/// If they are not as close as [`EngineOptions::min_cosine`] asks for.
pub(crate) fn cosine_of_samples(
    engine: &dyn Engine,
    tokenizer: &TextTokenizer,
    pooler: &Pooler,
    options: &EngineOptions,
) -> Result<Option<Cosine>> {
    if !engine.info().is_reduced() {
        return Ok(None);
    }
    let rows = tokenizer.tokenize(&engine::sample().collect::<Texts>())?;
    cosine(engine, pooler, &rows, None, options)
}

/// The same for `rows`, joined with what was measured `before`.
pub(crate) fn cosine(
    engine: &dyn Engine,
    pooler: &Pooler,
    rows: &TokenRows,
    before: Option<Cosine>,
    options: &EngineOptions,
) -> Result<Option<Cosine>> {
    let measured = engine.measure(rows, &|states, width| {
        let mut vector = Vec::with_capacity(pooler.width());
        pooler.pool_states(states, width, &(0..states.len() / width), &mut vector);
        vector
    })?;
    let Some(measured) = measured else {
        return Ok(before);
    };
    let joined = before.map_or(measured, |before| before.join(measured));
    joined.check(options.arithmetic, options.min_cosine)?;
    Ok(Some(joined))
}

/// A batch's finished rows.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Indices into the window, as in the plan, without the failed ones.
    pub rows: Vec<u32>,
    /// Their vectors, row-major.
    pub vectors: Vec<f32>,
    /// Rows for which there is no vector, and why.
    pub failed: Vec<(u32, String)>,
    /// What a user should be told once.
    pub warning: Option<String>,
}

/// One thread's way from a plan to finished rows.
pub(crate) struct RowWorker {
    worker: Box<dyn Worker>,
    pooler: Arc<Pooler>,
    limit: Arc<TokenLimit>,
    padding_id: u32,
    model: String,
    /// Tokens of a row at most, where the network has no positions for more.
    positions: Option<usize>,
    frame: Frame,
    batch: Batch,
    clocks: Arc<Clocks>,
}

impl RowWorker {
    pub fn new(
        engine: &dyn Engine,
        model: &Model,
        pooler: &Arc<Pooler>,
        limit: &Arc<TokenLimit>,
        clocks: &Arc<Clocks>,
    ) -> Result<Self> {
        Ok(Self {
            worker: engine.worker()?,
            pooler: Arc::clone(pooler),
            limit: Arc::clone(limit),
            padding_id: model.config.padding_id,
            model: model
                .weights_file(engine.info().provider == Provider::Native)
                .map_or_else(|| model.id.clone(), |file| file.display().to_string()),
            positions: model.config.positions_limit,
            frame: model.config.frame.clone(),
            batch: Batch::default(),
            clocks: Arc::clone(clocks),
        })
    }

    /// Runs one plan. A row without a finite vector is run again alone before it is given up.
    pub fn run(&mut self, plan: &Plan, tokens: &TokenRows) -> Result<Finished> {
        match self.positions.filter(|&positions| plan.length > positions) {
            None => self.run_within(plan, tokens),
            Some(positions) => {
                let length = |row: &u32| tokens.get(*row as usize).len();
                let (within, beyond): (Vec<u32>, Vec<u32>) =
                    plan.rows.iter().partition(|row| length(row) <= positions);
                let mut finished = match within.iter().map(length).max() {
                    Some(length) => self.run_within(
                        &Plan {
                            rows: within,
                            length,
                        },
                        tokens,
                    )?,
                    None => Finished::default(),
                };
                finished.failed.extend(beyond.into_iter().map(|row| {
                    let reason = format!(
                        "the text has {} tokens and the model has {positions} positions; --max-length {positions} cuts \
                         such texts",
                        length(&row)
                    );
                    (row, reason)
                }));
                Ok(finished)
            }
        }
    }

    /// Runs a plan whose rows have a position for each token.
    fn run_within(&mut self, plan: &Plan, tokens: &TokenRows) -> Result<Finished> {
        let Fitted {
            rows,
            vectors,
            failed,
        } = self.fitting(plan, tokens)?;
        let warning = self.limit.warning();
        let width = self.pooler.width();
        let mut watch = Watch::start();
        let all_finite = is_finite(&vectors);
        watch.lap(&self.clocks.pool);
        if all_finite {
            return Ok(Finished {
                rows,
                vectors,
                failed,
                warning,
            });
        }
        let mut finished = Finished {
            failed,
            warning,
            ..Finished::default()
        };
        for (&row, vector) in rows.iter().zip(vectors.chunks_exact(width)) {
            let mut again = Fitted::default();
            let mut vector = vector;
            if !is_finite(vector) && plan.rows.len() > 1 {
                let alone = Plan {
                    rows: vec![row],
                    length: tokens.get(row as usize).len(),
                };
                again = self.fitting(&alone, tokens)?;
                vector = &again.vectors;
            }
            if !again.failed.is_empty() {
                finished.failed.append(&mut again.failed);
            } else if is_finite(vector) {
                finished.rows.push(row);
                finished.vectors.extend_from_slice(vector);
            } else {
                finished.failed.push((row, NOT_FINITE.into()));
            }
        }
        Ok(finished)
    }

    /// The vectors of a plan's rows, in parts where they don't fit into memory together.
    fn fitting(&mut self, plan: &Plan, tokens: &TokenRows) -> Result<Fitted> {
        let limit = Arc::clone(&self.limit);
        let mut fitted = limit.run(plan, &mut |part| self.vectors(part, tokens))?;
        // What was too long with the padding of its batch may fit without.
        for (row, reason) in std::mem::take(&mut fitted.failed) {
            let length = tokens.get(row as usize).len();
            if length == plan.length {
                fitted.failed.push((row, reason));
                continue;
            }
            let rows = vec![row];
            let mut alone = self.fitting(&Plan { rows, length }, tokens)?;
            fitted.rows.append(&mut alone.rows);
            fitted.vectors.append(&mut alone.vectors);
            fitted.failed.append(&mut alone.failed);
        }
        Ok(fitted)
    }

    fn vectors(&mut self, plan: &Plan, tokens: &TokenRows) -> Result<Vec<f32>> {
        let mut watch = Watch::start();
        self.batch.fill(plan, tokens, self.padding_id, &self.frame);
        let rows = self.batch.rows;
        let mut vectors = Vec::with_capacity(rows * self.pooler.width());
        let (pooler, model) = (&self.pooler, &self.model);
        let unexpected = |width: usize, values: usize| {
            let fits = pooler.accepts(width) || pooler.accepts_pooled(width);
            if fits {
                return Error::internal(format!(
                    "a batch of {rows} rows of {} tokens came back as {values} values of width {width}",
                    plan.length
                ));
            }
            Error::model(
                model,
                format!(
                    "gives vectors of {width} components, which is not what config.json, modules.json and the \
                     modules' files lead to; fetch them again, from one revision"
                ),
            )
        };
        watch.lap(&self.clocks.pool);
        let output = self.worker.run(&self.batch)?;
        watch.lap(&self.clocks.infer);
        match output {
            Output::Hidden(hidden) => {
                if !self.pooler.accepts(hidden.width)
                    || hidden.states.len() != rows * plan.length * hidden.width
                {
                    return Err(unexpected(hidden.width, hidden.states.len()));
                }
                (0..rows).for_each(|row| self.pooler.pool(&self.batch, &hidden, row, &mut vectors));
            }
            Output::Packed(hidden) => {
                let width = hidden.width;
                let tokens: usize = (0..rows).map(|row| self.batch.real(row).len()).sum();
                if !self.pooler.accepts(width) || hidden.states.len() != tokens * width {
                    return Err(unexpected(width, hidden.states.len()));
                }
                let mut states = hidden.states;
                for row in 0..rows {
                    let own;
                    let real = 0..self.batch.real(row).len();
                    (own, states) = states.split_at(real.len() * width);
                    self.pooler.pool_states(own, width, &real, &mut vectors);
                }
            }
            Output::Pooled {
                rows: pooled,
                width,
            } => {
                if !self.pooler.accepts_pooled(width) || pooled.len() != rows * width {
                    return Err(unexpected(width, pooled.len()));
                }
                pooled
                    .chunks_exact(width)
                    .for_each(|row| self.pooler.finish_pooled(row, &mut vectors));
            }
        }
        watch.lap(&self.clocks.pool);
        Ok(vectors)
    }
}
