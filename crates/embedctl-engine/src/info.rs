//! What an opened engine says of itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Arithmetic, Cosine, Provider, ProviderOption, SkippedCandidate};

/// A description of the opened engine for summaries and output files.
#[derive(Debug, Clone, Serialize)]
pub struct EngineInfo {
    /// `native`, `onnxruntime`, `rten`, or `cuda` for embedctl's own engine for NVIDIA GPUs.
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
    /// The numbers that the network computes in (`FloatType::name`), where a graph or the engine `cuda` has it from the
    /// checkpoint; `None`: it is that of an ONNX file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_graph: Option<&'static str>,
    /// The numbers in which the built graph's products stay (`FloatType::name`), where each batch widens them; `None`:
    /// they are widened once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub narrow_weights: Option<&'static str>,
    /// The algorithm of each product, of the engine `cuda`: another one may round otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub algorithms: Vec<String>,
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

    /// The native engine, which computes in this arithmetic.
    #[must_use]
    pub fn native(arithmetic: Arithmetic, version: String, provider: Provider) -> Self {
        Self {
            precision: Some(arithmetic.name()),
            arithmetic: arithmetic.version(),
            ..Self::new("native", version, provider)
        }
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
            algorithms: Vec::new(),
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

/// The plug-in that a provider comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugin {
    /// Its file.
    pub library: PathBuf,
    /// Its version, as it states it: `1.8.1`.
    pub version: Option<String>,
}
