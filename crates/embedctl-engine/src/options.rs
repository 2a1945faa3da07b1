//! What the user said of an engine, and what follows from it.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Arithmetic, FloatType, ProviderChoice, ProviderOption};

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

/// The library to use, and how to probe it.
#[derive(Debug, Clone, Default)]
pub struct RuntimeOptions {
    /// An ONNX Runtime library or the folder that holds it; `None`: libraries are searched for.
    pub library: Option<PathBuf>,
    /// The command that probes a library in a process of its own. Without it libraries are not probed: the first
    /// library that has the wanted provider is loaded into this process, and no plug-in is used.
    pub probe: Option<ProbeCommand>,
}

/// How long a library may take to load and to try all its providers. CUDA's first start on a machine with
/// many devices takes seconds, a TensorRT engine for the small graph some more.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The command that starts a probe. The library crate never runs a program on its own: without a command it loads
/// libraries into its own process.
#[derive(Debug, Clone)]
pub struct ProbeCommand {
    /// The program, which hands the arguments that follow to the probe of libraries.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// How long one library may take.
    pub time_limit: Duration,
}

impl ProbeCommand {
    /// A command with the usual time limit.
    #[must_use]
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            program,
            arguments,
            time_limit: TIME_LIMIT,
        }
    }
}
