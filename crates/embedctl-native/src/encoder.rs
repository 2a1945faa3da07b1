//! A transformer opened from a folder.

use std::path::Path;
use std::sync::Arc;

use embedctl_common::threads::exhausted;
use embedctl_common::{Error, ErrorKind, Result};
use embedctl_common::{machine, remedies, size, small_file};
use embedctl_vectors::RowVector;

use crate::loader::Loader;
use crate::masked_head::{HeadScratch, MaskedHead};
use crate::need::{self, Need, StoredWeights};
use crate::network::{EncoderWorker, Network};
use crate::network_weights::NetworkWeights;
use crate::prepared::PreparedCache;
use crate::scratch::{Rows, Scratch, ThreadCrew};
use crate::term_worker::{TermHead, TermWorker};
use embedctl_checkpoint::Adapter;
use embedctl_checkpoint::architecture::{Architecture, LARGEST_CONFIG};
use embedctl_kernels::{Arithmetic, Isa, TermPooling};

/// The engine's name in messages.
const NAME: &str = "native";

/// A transformer with its weights, shared by all threads. Cloning it is cheap.
#[derive(Clone)]
pub struct Encoder {
    weights: Arc<NetworkWeights>,
    network: Arc<Network>,
    isa: Isa,
    arithmetic: Arithmetic,
    threads: usize,
    crew: Arc<ThreadCrew>,
    need: u64,
    terms: Option<Arc<TermHead>>,
}

impl Encoder {
    /// Opens the `config.json` and the safetensors checkpoint in `folder`, changed by `adapter` where there is one.
    /// Products are computed in `arithmetic`, or in 16 bits where 8 are asked for and the processor has no instructions
    /// for them (they would be slower and less exact). Weights packed in 8 or 16 bits are kept in `cache` and taken from
    /// there, where one is given.
    ///
    /// At most `threads` threads pack weights at a time, and so many workers are expected. Of these threads, those whose
    /// workers run nothing help with batches of many tokens (more than 512).
    ///
    /// # Errors
    /// If there is not enough memory, config.json has a setting that the engine does not support, or the checkpoint
    /// does not fit it; the message names the file and the setting or tensor.
    pub fn open(
        folder: &Path,
        adapter: Option<&Adapter>,
        arithmetic: Arithmetic,
        threads: usize,
        cache: Option<&PreparedCache>,
    ) -> Result<Self> {
        let failed = |reason: String| Error::engine(NAME, reason);
        let isa = Isa::here().map_err(Error::usage)?;
        let architecture =
            Architecture::read(folder).map_err(|unsupported| failed(unsupported.to_string()))?;
        let weights = NetworkWeights::open(folder, adapter, &architecture)?;
        let mut weights = weights.ok_or_else(|| {
            failed(format!(
                "{} has no model.safetensors and no model.safetensors.index.json",
                folder.display()
            ))
        })?;
        let arithmetic = match arithmetic {
            Arithmetic::Int8 if !isa.speeds_up(Arithmetic::Int8) => Arithmetic::Int16,
            other => other,
        };
        let tables = Loader::new(&architecture, &weights, isa)?.table_bytes();
        let stored = StoredWeights {
            tables,
            changes: weights.low_rank_bytes(),
            fit_tiles: isa.has_tiles() && weights.are_bf16(),
        };
        let needs = |arithmetic| Need::of(&architecture, stored, arithmetic, threads);
        need::check(needs, arithmetic)?;
        let need = needs(arithmetic).bytes();
        if let Some(cache) = cache.filter(|_| arithmetic != Arithmetic::Fp32) {
            let path = folder.join("config.json");
            let read = |error| Error::io("read", &path, error);
            let config = small_file::read(&path, LARGEST_CONFIG).map_err(read)?;
            let hashes = weights.hashes(&config)?;
            weights.prepared = Some(cache.weights(isa, arithmetic, &hashes));
        }
        let network = with_threads(threads, || {
            Network::open(architecture, &weights, isa, arithmetic)
        })?;
        Ok(Self {
            weights: Arc::new(weights),
            network: Arc::new(network),
            isa,
            arithmetic,
            threads,
            crew: Arc::new(ThreadCrew::new(threads)),
            need,
            terms: None,
        })
    }

    /// The same with the masked-LM head of the checkpoint in `folder`, whose logits are pooled into weights of terms.
    ///
    /// # Errors
    /// If the architecture has no such head that the engine knows, the checkpoint lacks one of its tensors, or there is not
    /// enough memory.
    pub fn with_terms(self, folder: &Path, pooling: TermPooling) -> Result<Self> {
        let config_file = folder.join("config.json");
        let network = &self.network;
        let vocabulary = network.token_rows() as u64 * network.architecture.embeddings.width as u64;
        let bytes = match self.arithmetic {
            Arithmetic::Fp32 => 4 * vocabulary,
            Arithmetic::Bf16 | Arithmetic::Int16 => 2 * vocabulary,
            Arithmetic::Int8 => vocabulary,
        };
        if let Some(room) = machine::room().filter(|room| room.bytes < bytes) {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                NAME,
                format!(
                    "the masked-LM head needs about {} of memory, but {} {}",
                    size::words(bytes),
                    room.bound.words(),
                    size::words(room.bytes)
                ),
            )
            .with_remedy(remedies::more_memory()));
        }
        let head = network.masked_head(&config_file, &self.weights, self.arithmetic)?;
        let mut network = self.network;
        // A network that others run already keeps its table.
        let freed = Arc::get_mut(&mut network).map_or(0, |network| network.share_tokens(&head));
        Ok(Self {
            need: (self.need + head.bytes() as u64).saturating_sub(freed as u64),
            network,
            terms: Some(Arc::new(TermHead {
                head,
                pooling,
                config_file,
            })),
            ..self
        })
    }

    /// Terms of the vocabulary, where the encoder has a head that gives them.
    #[must_use]
    pub fn terms(&self) -> Option<usize> {
        self.terms.as_ref().map(|terms| terms.head.terms())
    }

    /// Settings of config.json that transformers' class for the model's type does not read either.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.network.architecture.ignored
    }

    /// Whether rows of `tokens` tokens may have tokens that no token attends to ([`Rows::seen`]): not where scores depend
    /// on padding, or where a token's window may hold none that is seen.
    #[must_use]
    pub fn takes_unseen(&self, tokens: usize) -> bool {
        let architecture = &self.network.architecture;
        let far = |reach: usize| reach.saturating_add(1) >= tokens;
        architecture.attention.disentangled.is_none()
            && (architecture.layers.iter()).all(|layer| layer.reach.is_none_or(far))
    }

    /// Width of a token's state.
    #[must_use]
    pub fn width(&self) -> usize {
        self.network.architecture.hidden
    }

    /// Rows of the table of tokens: token ids from this number on have no vector.
    #[must_use]
    pub fn token_rows(&self) -> usize {
        self.network.token_rows()
    }

    /// Multiplications and additions that a row of `tokens` tokens takes in single precision, about.
    #[must_use]
    pub fn operations(&self, tokens: usize) -> u64 {
        self.network.operations(tokens)
    }

    /// The instructions that run.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The numbers that products are computed in.
    #[must_use]
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Bytes of memory that the network takes with all its workers, about.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.need
    }

    /// Whether the packed weights were taken from the cache.
    #[must_use]
    pub fn is_from_cache(&self) -> bool {
        self.network.is_from_cache()
    }

    /// Whether the encoder was opened with a cache, and so keeps notes.
    #[must_use]
    pub fn keeps_notes(&self) -> bool {
        self.weights.prepared.is_some()
    }

    /// The note that an encoder of the same weights, arithmetic and instructions has kept under `name`.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<String> {
        self.weights.prepared.as_ref()?.note(name)
    }

    /// Keeps a note of at most 64 KiB under `name` in the cache that the encoder was opened with, if it has one.
    pub fn keep_note(&self, name: &str, note: &str) {
        if let Some(prepared) = &self.weights.prepared {
            prepared.keep_note(name, note);
        }
    }

    /// Memory for one thread that runs this transformer.
    #[must_use]
    pub fn worker(&self) -> EncoderWorker {
        EncoderWorker {
            network: Arc::clone(&self.network),
            crew: Arc::clone(&self.crew),
            scratch: Scratch::default(),
            terms: self.terms.as_ref().map(TermWorker::new),
        }
    }

    /// For each of `rows`, the value that `compare` makes of its terms here and of those in single precision; no value
    /// where the encoder has no head.
    ///
    /// # Errors
    /// As [`Encoder::compare_with_exact`].
    pub fn compare_terms_with_exact<'a, T: Send>(
        &self,
        rows: impl Iterator<Item = &'a [u32]> + Send,
        compare: impl Fn(RowVector<'_>, RowVector<'_>) -> T + Sync + Send,
    ) -> Result<Vec<T>> {
        let Some(TermHead {
            head,
            pooling,
            config_file,
        }) = self.terms.as_deref()
        else {
            return Ok(Vec::new());
        };
        let single = Arithmetic::Fp32;
        let exact_head = (self.network).masked_head(config_file, &self.weights, single)?;
        let width = self.width();
        self.compare_with_exact(rows, |ours, exact| {
            let run = |head: &MaskedHead, states: &[f32]| {
                let ids = vec![0; states.len() / width];
                let rows = Rows {
                    ids: &ids,
                    types: &[],
                    ends: &[ids.len()],
                    seen: &[],
                };
                let mut scratch = HeadScratch::default();
                head.run(states, rows, *pooling, &mut scratch).clone()
            };
            let (ours, exact) = (run(head, ours), run(&exact_head, exact));
            compare(ours.get(0), exact.get(0))
        })
    }

    /// For each of `rows`, the value that `compare` makes of its token states `[tokens, width]` here and of those
    /// in single precision. Exact weights are read again, half a layer at a time.
    ///
    /// # Errors
    /// If the checkpoint cannot be read, or a row cannot be run.
    pub fn compare_with_exact<'a, T: Send>(
        &self,
        rows: impl Iterator<Item = &'a [u32]> + Send,
        compare: impl Fn(&[f32], &[f32]) -> T + Sync + Send,
    ) -> Result<Vec<T>> {
        with_threads(self.threads, || {
            self.network
                .compare_with_exact(&self.weights, rows, compare)
        })
    }
}

/// Runs `work` with at most so many threads for its parallel parts, since each thread has memory of its own.
fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("weights-{index}"))
        .build()
        .map_err(exhausted)?;
    pool.install(work)
}
