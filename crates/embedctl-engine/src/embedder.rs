//! A model ready to embed: tokenizer, engine and pooling put together.
//!
//! [`Embedder`] is the library's front door for programs that hold their texts in memory; the pipeline
//! uses the same parts for streams that don't fit there. [`Scorer`] does the same for models that score.

mod scorer;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use self::scorer::Scorer;
use crate::halving::Finished;
use crate::{EngineInfo, LoadedModel, Resolved, RowWorker};
use embedctl_common::Texts;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Place, Result};
use embedctl_common::setting::VECTORS;
use embedctl_common::stage::Clock;
use embedctl_common::threads::{panic_message, spawn_scoped};
use embedctl_model::Model;
use embedctl_rows::batch::TokenRows;
use embedctl_rows::tokenize::TextTokenizer;
use embedctl_rows::tokenize::chunks::{Chunked, Chunks};
use embedctl_vectors::{Numbers, RowParts, RowVectors};

/// Texts that [`Embedder::stream`] takes at a time.
const STREAM_WINDOW: usize = 4096;

/// Embeds texts held in memory.
pub struct Embedder {
    loaded: LoadedModel,
    workers: Vec<RowWorker>,
    overflowed: u64,
}

impl Embedder {
    /// Opens a model with its engine. As many threads will run it as were asked for, or one a core.
    ///
    /// # Errors
    /// As [`LoadedModel::open`].
    pub fn open(resolved: Resolved, cancel: &CancelToken) -> Result<Self> {
        Self::of(LoadedModel::open(resolved, cancel)?)
    }

    /// With a model that is ready to run.
    ///
    /// # Errors
    /// If the engine cannot make as many workers as the model has.
    pub fn of(loaded: LoadedModel) -> Result<Self> {
        let workers = (0..loaded.threads()).map(|_| loaded.worker());
        Ok(Self {
            workers: workers.collect::<Result<_>>()?,
            loaded,
            overflowed: 0,
        })
    }

    /// Width of a vector; where several widths were asked for, they follow one another in it.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.loaded.pooler().width()
    }

    /// The engine that runs the model.
    #[must_use]
    pub fn engine(&self) -> &EngineInfo {
        self.loaded.info()
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.loaded.model()
    }

    /// Bytes of memory that the model takes, about, where its engine knows.
    pub fn memory(&self) -> Option<u64> {
        self.loaded.memory()
    }

    /// How many of the texts so far overflowed in fp16 and were computed in bf16.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        self.loaded.tokenizer()
    }

    /// The tokens of `texts`, as they would be embedded; texts that cannot be are refused rows.
    pub fn tokenize(&self, texts: &Texts) -> TokenRows {
        self.tokenize_by(self.tokenizer(), texts)
    }

    /// The same by another tokenizer.
    pub fn tokenize_by(&self, tokenizer: &TextTokenizer, texts: &Texts) -> TokenRows {
        let mut tokens = tokenizer.tokenize(texts);
        self.loaded.bounds().refuse(&mut tokens);
        tokens
    }

    /// The chunks of `texts`, with their tokens as they would be embedded.
    pub fn chunk(&self, texts: &Texts, how: Chunked) -> Chunks {
        let mut chunks = self.loaded.tokenizer().chunk(texts, how, &Clock::default());
        self.loaded.bounds().refuse(&mut chunks.tokens);
        chunks
    }

    /// Embeds `texts`; vectors come in their order.
    ///
    /// # Errors
    /// If the engine fails, or a text (the error names its index) gets no finite vector or does not fit into
    /// memory.
    pub fn embed<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Vec<Vec<f32>>> {
        self.check_one_kind()?;
        if self.model().config.sparse.is_some() {
            return Err(
                Error::usage("this model gives sparse vectors, not dense ones")
                    .with_remedy("call `Embedder::embed_sparse`"),
            );
        }
        if self.model().config.multi.is_some() {
            return Err(Error::usage("this model gives a vector for each token")
                .with_remedy("call `Embedder::embed_tokens`"));
        }
        let rows = self.embed_rows(texts)?;
        Ok(rows
            .iter()
            .map(|row| row.first().values().to_vec())
            .collect())
    }

    /// Embeds `texts` with a model of sparse vectors ([`ModelConfig::sparse`](embedctl_rows::ModelConfig::sparse)); rows come
    /// in their order. Of each row the entries that are not zero are kept:
    /// [`get(row).entries()`](embedctl_vectors::RowVector::entries) gives the index of each, in ascending order, and its value.
    ///
    /// # Errors
    /// As [`Embedder::embed`]; or if the model's vectors are given in full.
    pub fn embed_sparse<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Numbers> {
        self.check_one_kind()?;
        if self.model().config.sparse.is_none() {
            return Err(
                Error::usage("this model gives dense vectors, not sparse ones")
                    .with_remedy("call `Embedder::embed`"),
            );
        }
        self.embed_rows_of_one_form(texts)
    }

    /// Embeds `texts` with a model of a vector for each token ([`ModelConfig::multi`](embedctl_rows::ModelConfig::multi)); rows
    /// come in their order. A row is `[tokens, dimensions]`:
    /// [`get(row).vectors()`](embedctl_vectors::RowVector::vectors) gives them one after another, and
    /// [`get(row).values()`](embedctl_vectors::RowVector::values) side by side.
    ///
    /// # Errors
    /// As [`Embedder::embed`]; or if the model gives one vector for a text.
    pub fn embed_tokens<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Numbers> {
        self.check_one_kind()?;
        if self.model().config.multi.is_none() {
            return Err(Error::usage(
                "this model gives one vector for each text, not for each token",
            )
            .with_remedy("call `Embedder::embed` or `Embedder::embed_sparse`"));
        }
        self.embed_rows_of_one_form(texts)
    }

    fn embed_rows_of_one_form<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<Numbers> {
        let rows = self.embed_rows(texts)?.into_one();
        rows.ok_or_else(|| Error::internal("numbers of several forms of one kind"))
    }

    /// Refuses a model that was opened for several kinds of vectors.
    fn check_one_kind(&self) -> Result<()> {
        if self.model().config.beside.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{VECTORS}: this call returns vectors of one kind, but the model was opened for several"
        ))
        .with_remedy("call `Embedder::embed_rows` for all of them"))
    }

    /// Embeds `texts` with a model of any kind, or of several kinds at once; rows come in their order. There is a
    /// [part](RowVectors::parts) for each kind, in the order of [`ModelConfig::forms`](embedctl_rows::ModelConfig::forms), with
    /// as many rows as there are texts.
    ///
    /// # Errors
    /// As [`Embedder::embed`], but for the kinds.
    pub fn embed_rows<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<RowVectors> {
        let tokens = self.tokenize(&texts.iter().collect::<Texts>());
        if let Some((row, cause)) = tokens.refusals().next() {
            let place = Place::file(format!("text {row}"));
            return Err(Error::record(place, cause.clone()));
        }
        let plans = self.loaded.plan(&tokens);
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
        let mut places: Vec<Option<RowParts<'_>>> = vec![None; texts.len()];
        for finished in &finished {
            self.overflowed += finished.overflowed.len() as u64;
            if let Some((row, cause)) = finished.failed.first() {
                let place = Place::file(format!("text {row}"));
                return Err(Error::record(place, cause.clone()));
            }
            for (&row, vector) in finished.rows.iter().zip(finished.vectors.iter()) {
                places[row as usize] = Some(vector);
            }
        }
        let mut vectors = self.loaded.pooler().no_rows();
        for (text, place) in places.into_iter().enumerate() {
            match place {
                Some(vector) => vectors.push(vector),
                None => {
                    let nothing = self.loaded.vector_of_nothing().map_err(|cause| {
                        let place = Place::file(format!("text {text}"));
                        Error::record(place, cause)
                    })?;
                    vectors.push(nothing.get(0));
                }
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
