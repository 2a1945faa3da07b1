//! The vocabulary of providers and the choice among them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::{Engine, EngineOptions, PassedOver};
use crate::error::{Error, Result};
use crate::model::Model;

/// What does the arithmetic: an execution provider of ONNX Runtime, or the embedded engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Provider {
    Cpu,
    Cuda,
    TensorRt,
    DirectMl,
    CoreMl,
    OpenVino,
    WebGpu,
    Xnnpack,
    MiGraphX,
    Tract,
}

impl Provider {
    /// All providers, in the order in which they are listed to people.
    pub const ALL: [Self; 10] = [
        Self::Cpu,
        Self::Cuda,
        Self::TensorRt,
        Self::DirectMl,
        Self::CoreMl,
        Self::OpenVino,
        Self::WebGpu,
        Self::Xnnpack,
        Self::MiGraphX,
        Self::Tract,
    ];

    /// The name used on the command line, in summaries and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::TensorRt => "tensorrt",
            Self::DirectMl => "directml",
            Self::CoreMl => "coreml",
            Self::OpenVino => "openvino",
            Self::WebGpu => "webgpu",
            Self::Xnnpack => "xnnpack",
            Self::MiGraphX => "migraphx",
            Self::Tract => "tract",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let lower = name.trim().to_ascii_lowercase();
        let canonical = match lower.as_str() {
            "gpu" => "cuda",
            "trt" => "tensorrt",
            "dml" => "directml",
            "rocm" => "migraphx",
            other => other,
        };
        Self::ALL
            .into_iter()
            .find(|provider| provider.name() == canonical)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.iter().map(|provider| provider.name()).collect();
                format!(
                    "unknown provider '{name}'; choose auto or any of {}",
                    names.join(", ")
                )
            })
    }
}

/// `auto`, or providers in order of preference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProviderChoice {
    /// The best that works on this machine.
    #[default]
    Auto,
    /// The first of these that works, and nothing else.
    List(Vec<Provider>),
}

impl FromStr for ProviderChoice {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        if list.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        list.split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self::List)
    }
}

/// Opens the first provider of the choice that works, remembering why others were passed over.
pub(super) fn open(model: &Model, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let (providers, auto) = match &options.providers {
        ProviderChoice::Auto => (vec![Provider::Cpu, Provider::Tract], true),
        ProviderChoice::List(list) => (list.clone(), false),
    };
    let mut passed_over: Vec<PassedOver> = Vec::new();
    let mut last = None;
    for provider in providers {
        let opened = match provider {
            Provider::Tract => super::tract::open(model, options, &passed_over),
            other => super::ort::open(model, options, other, &passed_over),
        };
        match opened {
            Ok(engine) => return Ok(engine),
            // A library that the user named must work: falling back would hide that it does not.
            Err(error) if auto && options.ort_library.is_some() => return Err(error),
            Err(error) => {
                passed_over.push(PassedOver {
                    candidate: provider.to_string(),
                    reason: error.to_string(),
                });
                last = Some(error);
            }
        }
    }
    Err(match (passed_over.len(), last) {
        (1, Some(error)) => error,
        _ => Error::Engine {
            engine: "embedctl",
            reason: format!(
                "no provider of the list works here: {}",
                passed_over
                    .iter()
                    .map(|one| format!("{}: {}", one.candidate, one.reason))
                    .collect::<Vec<_>>()
                    .join("; ")
            ),
        },
    })
}
