//! The engines that run a model: one trait, three implementations.
//!
//! An [`Engine`] is an opened model. Each pipeline thread asks it for a [`Worker`] of its own, so that
//! `run` needs no lock. A worker returns token-level hidden states, or pooled rows where the graph or the
//! device pools; [`embedctl_model::pool`] finishes both.

use std::ops::Deref;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::arithmetic::{Arithmetic, Cosine, FinishRow, FloatType, Lengths, sample};

pub use crate::provider::{Provider, ProviderChoice, ProviderOption, SkippedCandidate};
pub use embedctl_model::batch::BatchLimits;

use crate::runtime::{Plugin, RuntimeOptions};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::DEVICE;
use embedctl_common::vectors::SparseRows;
use embedctl_model::batch::{Batch, TokenRows};

/// Default batches for ONNX graphs on a processor: few enough tokens for the activations to stay in the cache.
pub const CPU_LIMITS: BatchLimits = BatchLimits {
    tokens: 512,
    rows: 128,
    equal_lengths: false,
};

/// What the user said of an engine.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Providers in order of preference.
    pub providers: ProviderChoice,
    /// Device numbers for the provider; empty means the provider's default.
    pub devices: Vec<u32>,
    /// Whether to use all of the provider's devices; `devices` is ignored then.
    pub all_devices: bool,
    /// Provider options; those of other providers than the chosen one have no effect.
    pub provider_options: Vec<ProviderOption>,
    /// The most padded tokens in a batch; `None`: the engine's default, measured if necessary.
    pub batch_tokens: Option<usize>,
    /// The least cosine to exact vectors that reduced precision may have.
    pub min_cosine: Option<f64>,
    /// The folder in which the native engine keeps packed weights and measured cosines; `None`: it keeps none.
    pub weights_cache: Option<PathBuf>,
    /// The ONNX Runtime library, and how libraries are probed.
    pub runtime: RuntimeOptions,
    /// Workers, which share the engine's weights; 0: one per usable core, or the device's default.
    pub workers: usize,
    /// Stops an engine that is still being opened.
    pub cancel: CancelToken,
}

/// How an engine is opened: what the user said, and what follows from it and from the model's precision. The program
/// makes it in one place; everywhere else the options of the user are not enough to open an engine.
#[derive(Debug, Clone, Default)]
pub struct ResolvedEngine {
    /// What the user said; options of a provider that a precision stands for are among its own.
    pub options: EngineOptions,
    /// The numbers in which the native engine multiplies.
    pub arithmetic: Arithmetic,
    /// The numbers of a graph that is built from a checkpoint; `None`: single precision.
    pub float: Option<FloatType>,
}

impl Deref for ResolvedEngine {
    type Target = EngineOptions;

    fn deref(&self) -> &EngineOptions {
        &self.options
    }
}

/// A description of the opened engine for summaries and output files.
#[derive(Debug, Clone, Serialize)]
pub struct EngineInfo {
    /// `native`, `onnxruntime` or `rten`.
    pub engine: &'static str,
    /// The engine's own version.
    pub version: String,
    /// The provider that does the work.
    pub provider: Provider,
    /// The shared library, for engines that live in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// The plug-in that the provider comes from; `None`: the library's own build has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Plugin>,
    /// Numbers of the provider's devices in use; empty for engines on the processor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
    /// Options that the provider was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<ProviderOption>,
    /// The providers on which a batch's nodes ran, as measured; empty for engines without several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<PlacedWork>,
    /// The least cosine between a vector of a sample and the same one computed on the CPU, rounded to
    /// five digits; where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine_to_cpu: Option<f64>,
    /// The numbers that the graph computes in ([`FloatType::name`]), where it was built from the checkpoint; `None`: it is
    /// that of an ONNX file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_graph: Option<&'static str>,
    /// The numbers in which the built graph's products stay ([`FloatType::name`]), where each batch widens them; `None`:
    /// they are widened once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub narrow_weights: Option<&'static str>,
    /// ONNX Runtime's own operators in the built graph.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_operators: Vec<String>,
    /// The native engine's number format: one of [`Arithmetic::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<&'static str>,
    /// [`Arithmetic::version`], where it is not the first: vectors of two versions are not of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arithmetic: Option<u32>,
    /// The cosines to exact vectors, as measured on a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine: Option<Cosine>,
    /// Token budget of a batch, where it was found by measuring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// Settings of the model that neither this engine nor the reference reads: shown with `-v`.
    #[serde(skip)]
    pub ignored: Vec<String>,
    /// Whether only rows of equal length run together, because padding changes the model's vectors.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub equal_lengths: bool,
    /// Candidates that were passed over and why, in order: shown with `-v`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<SkippedCandidate>,
}

impl EngineInfo {
    /// Whether it computes in less than single precision.
    #[must_use]
    pub fn is_reduced(&self) -> bool {
        self.precision.is_some_and(|precision| precision != "fp32")
    }

    /// An engine without further details.
    #[must_use]
    pub fn new(engine: &'static str, version: String, provider: Provider) -> Self {
        Self {
            engine,
            version,
            provider,
            library: None,
            plugin: None,
            devices: Vec::new(),
            options: Vec::new(),
            placement: Vec::new(),
            cosine_to_cpu: None,
            built_graph: None,
            narrow_weights: None,
            own_operators: Vec::new(),
            precision: None,
            arithmetic: None,
            cosine: None,
            batch_tokens: None,
            ignored: Vec::new(),
            equal_lengths: false,
            passed_over: Vec::new(),
        }
    }
}

/// One provider's part of a batch's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedWork {
    /// The provider's name: one of [`Provider`]'s, or the library's own name for other providers.
    pub provider: String,
    /// Nodes of the graph that ran there; a graph that a provider compiled as a whole counts as one.
    pub nodes: usize,
    /// Its share of the time in matrix products, in percent.
    pub matrix_percent: u8,
}

/// Refuses device numbers that a provider with a single device does not have.
pub(crate) fn single_device(provider: Provider, options: &EngineOptions) -> Result<()> {
    if options.all_devices || matches!(options.devices[..], [] | [0]) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{DEVICE}: the provider {provider} has one device, number 0"
    ))
    .with_remedy(format!(
        "leave {DEVICE} out, or name a provider that has more"
    )))
}

/// A worker's result for a batch.
#[derive(Debug)]
pub enum Output<'a> {
    /// Hidden states of the batch's tokens, f32 `[tokens, width]`, row after row.
    Tokens {
        /// The states.
        states: &'a [f32],
        /// Width of a token's state.
        width: usize,
    },
    /// Hidden states of rows that the engine has padded on the right, f32 `[rows, length, width]`.
    Padded {
        /// The states.
        states: &'a [f32],
        /// Tokens of a row, padding included.
        length: usize,
        /// Width of a token's state.
        width: usize,
    },
    /// Finished rows, row-major `[rows, width]`.
    Pooled {
        /// The rows in the batch's order, f32.
        rows: &'a [f32],
        /// Width of a row.
        width: usize,
    },
    /// The entries of sparse rows.
    Entries {
        /// The rows in the batch's order.
        rows: &'a SparseRows,
        /// Width of a row in full.
        width: usize,
    },
}

impl<'a> Output<'a> {
    /// Width of a token's state, or of a finished row.
    #[must_use]
    pub fn width(&self) -> usize {
        match *self {
            Self::Tokens { width, .. }
            | Self::Padded { width, .. }
            | Self::Pooled { width, .. }
            | Self::Entries { width, .. } => width,
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn values(&self) -> usize {
        match *self {
            Self::Tokens { states, .. } | Self::Padded { states, .. } => states.len(),
            Self::Pooled { rows, .. } => rows.len(),
            Self::Entries { rows, .. } => rows.values().len(),
        }
    }

    /// Whether there are as many values as `batch` makes of this width.
    #[must_use]
    pub fn fits(&self, batch: &Batch) -> bool {
        let vectors = match *self {
            Self::Tokens { .. } => batch.ids.len(),
            Self::Padded { length, .. } if length < batch.longest() => return false,
            Self::Padded { length, .. } => batch.rows() * length,
            Self::Pooled { .. } => batch.rows(),
            Self::Entries { rows, .. } => return rows.len() == batch.rows(),
        };
        self.values() == vectors * self.width()
    }

    /// The values of row `index` of `batch`: the states of its tokens `[tokens, width]`, or the finished row, or those of
    /// its entries.
    ///
    /// # Panics
    /// If the output does not fit the batch, see [`Output::fits`].
    #[must_use]
    pub fn row(&self, batch: &Batch, index: usize) -> &'a [f32] {
        let span = batch.span(index);
        match *self {
            Self::Tokens { states, width } => &states[span.start * width..span.end * width],
            Self::Padded {
                states,
                length,
                width,
            } => {
                let start = index * length * width;
                &states[start..start + span.len() * width]
            }
            Self::Pooled { rows, width } => &rows[index * width..(index + 1) * width],
            Self::Entries { rows, .. } => rows.get(index).values,
        }
    }
}

/// An opened model.
pub trait Engine: Send + Sync {
    /// The description of the opened engine.
    fn info(&self) -> &EngineInfo;

    /// The best batch shapes for this engine and model.
    fn limits(&self) -> BatchLimits;

    /// Whether it runs rows of different lengths side by side, so that padding costs nothing.
    fn is_ragged(&self) -> bool {
        false
    }

    /// How many workers suit the engine; `None`: as many as there are cores.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Bytes of memory that the model takes with all its workers, about; `None` where that is not known beforehand.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// How many token ids the model has vectors for, where only the engine knows; an ONNX graph says it itself
    /// ([`embedctl_model::Graph::token_rows`]).
    fn token_rows(&self) -> Option<usize> {
        None
    }

    /// The cosines between this engine's vectors of `rows` and those in single precision, if it computes in reduced
    /// precision. `finish` turns one row's token states into its vector.
    ///
    /// # Errors
    /// If a row cannot be run.
    fn measure(&self, rows: &TokenRows, finish: FinishRow<'_>) -> Result<Option<Cosine>> {
        let _ = (rows, finish);
        Ok(None)
    }

    /// Multiplications and additions that a row of `tokens` tokens takes in single precision, about; 0 where an engine
    /// does not [measure](Self::measure).
    fn operations(&self, tokens: usize) -> u64 {
        let _ = tokens;
        0
    }

    /// A worker for one thread. Called once per thread, before the first batch.
    ///
    /// # Errors
    /// If the engine cannot make another instance (memory, device).
    fn worker(&self) -> Result<Box<dyn Worker>>;
}

/// One thread's way to run batches.
pub trait Worker: Send {
    /// Runs one batch; the result borrows the worker's own buffer.
    ///
    /// # Errors
    /// If the engine fails; the batch may be run again.
    fn run(&mut self, batch: &Batch) -> Result<Output<'_>>;
}
