//! A model and its engine, opened together: all that workers share.

use std::sync::Arc;

use crate::batch::{self, BatchPlan, TokenRows};
use crate::engine::row_worker::RowBounds;
use crate::engine::row_worker::{RowWorker, not_finite_empty};
use crate::engine::{self, Engine, EngineInfo, EngineOptions};
use crate::error::{Cause, Result};
use crate::halving::TokenLimit;
use crate::model::{Model, ModelOptions};
use crate::pool::{Pooler, is_finite};
use crate::record::{RowVectors, Texts};
use crate::threads::usable_cores;
use crate::tokenize::TextTokenizer;

/// An opened model. Threads share it; each has a worker of its own.
pub(crate) struct LoadedModel {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: TextTokenizer,
    pub(crate) pooler: Arc<Pooler>,
    pub(crate) bounds: RowBounds,
    pub(crate) info: EngineInfo,
    engine: Box<dyn Engine>,
    /// Tokens of a batch that fit into memory, as the workers have found.
    fitting: Arc<TokenLimit>,
    threads: usize,
}

impl LoadedModel {
    /// Opens a model with an engine, see [`crate::Embedder::open`].
    pub(crate) fn open(model: &ModelOptions, engine: &EngineOptions) -> Result<Self> {
        let (model, mut options) = engine::settle(model, engine)?;
        let model = Arc::new(Model::open(&model)?);
        if options.workers == 0 {
            options.workers = usable_cores();
        }
        let tokenizer = TextTokenizer::new(&model, options.workers)?;
        let engine = engine::padding::open(&model, &options)?;
        let pooler = Arc::new(Pooler::new(&model.config, tokenizer.prompt_tokens()));
        let mut info = engine.info().clone();
        let bounds = RowBounds::of(engine.as_ref(), &model);
        let parts = (&tokenizer, &*pooler, &bounds);
        info.cosine = super::cosine_of_samples(engine.as_ref(), parts, &options)?;
        Ok(Self {
            threads: engine.workers().unwrap_or(options.workers),
            fitting: Arc::default(),
            model,
            tokenizer,
            pooler,
            bounds,
            info,
            engine,
        })
    }

    /// How many workers suit it.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// A worker for a thread of its own.
    pub(crate) fn worker(&self) -> Result<RowWorker> {
        let clocks = Arc::default();
        let engine = self.engine.as_ref();
        RowWorker::new(engine, &self.model, &self.pooler, &self.fitting, &clocks)
    }

    /// Bytes of memory that the model takes, about, where its engine knows.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.engine.memory()
    }

    /// Batches that suit the engine.
    #[cfg(feature = "serve")]
    pub(crate) fn limits(&self) -> engine::BatchLimits {
        self.engine.limits()
    }

    /// The batches of `tokens`.
    pub(crate) fn plan(&self, tokens: &TokenRows) -> Vec<BatchPlan> {
        batch::plan(tokens, self.engine.limits(), self.engine.is_ragged())
    }

    /// The tokens of `texts`, as they would be embedded; texts that cannot be are refused rows.
    pub(crate) fn tokenize(&self, texts: &Texts) -> TokenRows {
        let mut tokens = self.tokenizer.tokenize(texts);
        self.bounds.refuse(&mut tokens);
        tokens
    }

    /// The vector of a text without any token.
    pub(crate) fn vector_of_nothing(&self) -> Result<RowVectors, Cause> {
        let mut vector = self.pooler.no_rows();
        let width = self.model.config.hidden_width;
        self.pooler.add_empty(width, &mut vector);
        match vector.values().into_iter().all(is_finite) {
            true => Ok(vector),
            false => Err(not_finite_empty()),
        }
    }
}
