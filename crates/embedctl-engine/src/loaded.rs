//! A model ready to run: its files, its tokenizer, its engine and its pooling, put together once. Everything that runs a
//! model takes a [`LoadedModel`].

use std::sync::{Arc, OnceLock};

use embedctl_common::Texts;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Result};
use embedctl_common::stage::Clocks;
use embedctl_common::threads::usable_cores;
use embedctl_model::{Model, ModelProvenance, WeightsKind};
use embedctl_rows::batch::{self, BatchLimits, BatchPlan, TokenRows};
use embedctl_rows::pool::Pooler;
use embedctl_rows::tokenize::TextTokenizer;
use embedctl_vectors::RowVectors;
use embedctl_vectors::is_finite;

use crate::halving::TokenLimit;
use crate::identity::VectorIdentity;
use crate::opening::Opening;
use crate::row_bounds::RowBounds;
use crate::row_worker::{RowWorker, not_finite_empty};
use crate::{Cosine, Engine, EngineInfo, FinishRow, Resolved, padding, sample};

/// A model ready to run. Threads share it; each has a worker of its own.
pub struct LoadedModel {
    model: Arc<Model>,
    tokenizer: Arc<TextTokenizer>,
    pooler: Arc<Pooler>,
    bounds: RowBounds,
    info: EngineInfo,
    engine: Arc<dyn Engine>,
    resolved: Resolved,
    threads: usize,
    /// Tokens of a batch that fit into memory, as the workers have found.
    fitting: Arc<TokenLimit>,
    /// Hashes of the model's files, once somebody has asked for them.
    hashes: OnceLock<ModelProvenance>,
}

impl LoadedModel {
    /// Opens what was resolved. The engine's [workers](crate::EngineOptions::workers) will run it; 0 means one a core.
    ///
    /// # Errors
    /// If the model's files or the engine cannot be had, or reduced precision is farther from fp32 than
    /// [`min_cosine`](crate::EngineOptions::min_cosine) allows; or if `cancel` is cancelled.
    pub fn open(resolved: Resolved, cancel: &CancelToken) -> Result<Self> {
        Self::open_through(resolved, cancel, |engine| engine)
    }

    /// The same with an engine that `wrap` makes of the opened one.
    ///
    /// # Errors
    /// As [`LoadedModel::open`].
    pub fn open_through(
        resolved: Resolved,
        cancel: &CancelToken,
        wrap: impl FnOnce(Box<dyn Engine>) -> Box<dyn Engine>,
    ) -> Result<Self> {
        let resolved = resolved.with_workers(usable_cores());
        let model = Arc::new(resolved.open_files()?);
        let tokenizer = model.text_tokenizer(resolved.engine().workers)?;
        let engine = padding::open(&model, &resolved, cancel)?;
        let loaded = Self::assemble(model, Arc::new(tokenizer), wrap(engine), &resolved);
        loaded.measured()
    }

    /// A model that an engine of the caller's runs; its precision is taken as it is.
    ///
    /// # Errors
    /// If the model's files cannot be had.
    pub fn with_engine(resolved: Resolved, engine: Box<dyn Engine>) -> Result<Self> {
        let resolved = resolved.with_workers(usable_cores());
        let model = Arc::new(resolved.open_files()?);
        let tokenizer = model.text_tokenizer(resolved.engine().workers)?;
        Ok(Self::assemble(
            model,
            Arc::new(tokenizer),
            engine,
            &resolved,
        ))
    }

    /// The only place where the parts of a model ready to run come together.
    fn assemble(
        model: Arc<Model>,
        tokenizer: Arc<TextTokenizer>,
        engine: Box<dyn Engine>,
        resolved: &Resolved,
    ) -> Self {
        // Each device has a worker, or it would do nothing.
        let least = engine.info().devices.len().max(1);
        let asked = resolved.asked_workers().map(|asked| asked.max(least));
        let engines = asked.or(engine.workers());
        Self {
            threads: engines.unwrap_or(resolved.engine().workers),
            pooler: Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens())),
            bounds: RowBounds::of(engine.as_ref(), &model),
            info: engine.info().clone(),
            engine: engine.into(),
            resolved: resolved.clone(),
            fitting: Arc::default(),
            hashes: OnceLock::new(),
            model,
            tokenizer,
        }
    }

    /// Measures reduced precision on the built-in texts.
    fn measured(mut self) -> Result<Self> {
        if self.info.is_reduced() {
            let mut rows = (self.tokenizer).tokenize(&sample().collect::<Texts>());
            self.bounds.refuse(&mut rows);
            self.info.cosine = self.cosine(&rows, None)?;
        }
        Ok(self)
    }

    /// How close the engine's vectors of `rows` are to those in fp32, where it computes in less, joined with what was
    /// measured `before`.
    ///
    /// # Errors
    /// If they are not as close as [`min_cosine`](crate::EngineOptions::min_cosine) asks for.
    pub fn cosine(&self, rows: &TokenRows, before: Option<Cosine>) -> Result<Option<Cosine>> {
        let pooler = &*self.pooler;
        let finish = |states: &[f32], width| {
            let mut vector = Vec::with_capacity(pooler.width());
            pooler.compared(states, width, &mut vector);
            vector
        };
        let finish = FinishRow {
            finish: &finish,
            digest: &pooler.digest(),
        };
        let Some(measured) = self.engine.measure(rows, finish)? else {
            return Ok(before);
        };
        let joined = before.map_or(measured, |before| before.join(measured));
        let engine = self.resolved.engine();
        joined.check(engine.arithmetic, engine.min_cosine)?;
        Ok(Some(joined))
    }

    /// The model's files and settings.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The engine that runs it, as it was opened.
    #[must_use]
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// Its tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<TextTokenizer> {
        &self.tokenizer
    }

    /// The same with another pooling of the same states.
    #[must_use]
    pub fn with_pooler(self, pooler: Pooler) -> Self {
        Self {
            pooler: Arc::new(pooler),
            ..self
        }
    }

    /// Its pooling.
    #[must_use]
    pub fn pooler(&self) -> &Arc<Pooler> {
        &self.pooler
    }

    /// The rows that it can run.
    #[must_use]
    pub fn bounds(&self) -> &RowBounds {
        &self.bounds
    }

    /// Its engine.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// The kind of weights that the engine runs of the model.
    #[must_use]
    pub fn weights(&self) -> WeightsKind {
        self.info.provider.weights_of(&self.model)
    }

    /// The model's files with their hashes, which are made once.
    ///
    /// # Errors
    /// If a file cannot be read, or has changed since it was opened.
    pub fn provenance(&self) -> Result<&ModelProvenance> {
        if let Some(hashes) = self.hashes.get() {
            return Ok(hashes);
        }
        let hashes = self.model.provenance(self.weights())?;
        Ok(self.hashes.get_or_init(|| hashes))
    }

    /// The identity of its vectors.
    ///
    /// # Errors
    /// As [`LoadedModel::provenance`].
    pub fn identity(&self) -> Result<VectorIdentity> {
        let identity = VectorIdentity::new(&self.model);
        Ok(identity.with_engine(&self.model, self.provenance()?, &self.info))
    }

    /// How many workers suit it: as many as were asked for, else as the engine says.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A worker for a thread of its own.
    ///
    /// # Errors
    /// If the engine cannot make one.
    pub fn worker(&self) -> Result<RowWorker> {
        self.worker_of(&self.fitting, &Arc::default())
    }

    /// The same for one run, with the run's own limit and clocks.
    ///
    /// # Errors
    /// As [`LoadedModel::worker`].
    pub fn worker_of(&self, fitting: &Arc<TokenLimit>, clocks: &Arc<Clocks>) -> Result<RowWorker> {
        RowWorker::new(self.engine(), &self.model, &self.pooler, fitting, clocks)
    }

    /// Bytes of memory that the model takes, about, where its engine knows.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        self.engine.memory()
    }

    /// What it was opened from.
    #[must_use]
    pub fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// Batches of as many tokens as were asked for, else as suit the engine.
    #[must_use]
    pub fn limits(&self) -> BatchLimits {
        let suits = self.engine.limits();
        let asked = self.resolved.engine().batch_tokens;
        BatchLimits {
            tokens: asked.unwrap_or(suits.tokens),
            ..suits
        }
    }

    /// The batches of `tokens`.
    #[must_use]
    pub fn plan(&self, tokens: &TokenRows) -> Vec<BatchPlan> {
        batch::plan(tokens, self.limits(), self.engine.is_ragged())
    }

    /// The tokens of `texts`, as they would be embedded; texts that cannot be are refused rows.
    #[must_use]
    pub fn tokenize(&self, texts: &Texts) -> TokenRows {
        let mut tokens = self.tokenizer.tokenize(texts);
        self.bounds.refuse(&mut tokens);
        tokens
    }

    /// The vector of a text without any token.
    ///
    /// # Errors
    /// If it is not finite.
    pub fn vector_of_nothing(&self) -> Result<RowVectors, Cause> {
        let mut vector = self.pooler.no_rows();
        let width = self.model.config.hidden_width;
        self.pooler.add_empty(width, &mut vector);
        let is_finite = vector.values().all(is_finite);
        match is_finite {
            true => Ok(vector),
            false => Err(not_finite_empty()),
        }
    }
}

/// A model whose files are open, and whose engine is being opened on a thread of its own; or one that is ready.
pub struct OpeningModel {
    model: Arc<Model>,
    tokenizer: Arc<TextTokenizer>,
    state: OpeningState,
}

enum OpeningState {
    Opening(Opening, Box<Resolved>),
    Ready(Arc<LoadedModel>),
}

impl OpeningModel {
    /// Begins to open the engine of `model`, whose files are those of `resolved`.
    ///
    /// # Errors
    /// If the tokenizer cannot be used.
    pub fn begin(model: Arc<Model>, resolved: Resolved) -> Result<Self> {
        let resolved = resolved.with_workers(usable_cores());
        let tokenizer = model.text_tokenizer(resolved.engine().workers)?;
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            state: OpeningState::Opening(Opening::begin(&model, &resolved)?, Box::new(resolved)),
            model,
        })
    }

    /// One that is ready.
    #[must_use]
    pub fn ready(loaded: Arc<LoadedModel>) -> Self {
        Self {
            model: Arc::clone(&loaded.model),
            tokenizer: Arc::clone(&loaded.tokenizer),
            state: OpeningState::Ready(loaded),
        }
    }

    /// The model's files and settings.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Its tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Arc<TextTokenizer> {
        &self.tokenizer
    }

    /// Whether the precision is still to be measured, on the built-in texts and on those of a run.
    #[must_use]
    pub fn measures(&self) -> bool {
        matches!(self.state, OpeningState::Opening(..))
    }

    /// Waits until the model is ready to run.
    ///
    /// # Errors
    /// If the engine cannot be had, its precision is not what was asked for, or `cancel` is cancelled.
    pub fn wait(self, cancel: &CancelToken) -> Result<Arc<LoadedModel>> {
        let (opening, resolved) = match self.state {
            OpeningState::Ready(loaded) => return Ok(loaded),
            OpeningState::Opening(opening, resolved) => (opening, resolved),
        };
        let engine = opening.wait(cancel)?;
        let loaded = LoadedModel::assemble(self.model, self.tokenizer, engine, &resolved);
        Ok(Arc::new(loaded.measured()?))
    }
}
