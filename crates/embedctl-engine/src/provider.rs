//! The vocabulary of providers: their names and options, and the choice among them.
//!
//! The engines and the search for libraries share this module.

mod options;

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use options::{NARROW_WEIGHTS, OptionValue, POOLING, ProviderOption, value_of};

use crate::FloatType;
use embedctl_common::error::{Cause, Error, ErrorKind};
use embedctl_common::named::named;
use embedctl_model::{Model, Precision, WeightsKind};

named! {
    /// The provider of the arithmetic: an execution provider of ONNX Runtime, or an engine built into the program:
    /// `native` for checkpoints of known architectures, `rten` for ONNX files.
    pub enum Provider("provider", "choose auto or any of") {
        Native = "native",
        Cpu = "cpu",
        Cuda = "cuda" | "gpu",
        TensorRt = "tensorrt" | "trt",
        TensorRtRtx = "tensorrt-rtx" | "trt-rtx" | "nvtensorrtrtx",
        DirectMl = "directml" | "dml",
        CoreMl = "coreml",
        OpenVino = "openvino",
        WebGpu = "webgpu",
        Xnnpack = "xnnpack",
        MiGraphX = "migraphx" | "rocm",
        Rten = "rten" | "tract", // the engine that rten replaced; for one version
    }
}

impl Provider {
    /// The kind of weights that it is made for. What it runs of a model is [`Provider::weights_of`].
    fn made_for(self) -> WeightsKind {
        match self {
            Self::Native => WeightsKind::Checkpoint,
            _ => WeightsKind::Onnx,
        }
    }

    /// The kind of weights that it runs of `model`, where both are there or one: the one that it
    /// [prefers](Self::prefers_checkpoint).
    #[must_use]
    pub fn weights_of(self, model: &Model) -> WeightsKind {
        let prefers = || self.prefers_checkpoint(model.options.precision);
        let builds = model.has_network() && (model.onnx.is_err() || prefers());
        match self.made_for() {
            WeightsKind::Onnx if builds => WeightsKind::Checkpoint,
            kind => kind,
        }
    }

    /// Whether it takes a checkpoint rather than an ONNX file for this precision: the native engine, which reads no other,
    /// and GPUs, as a graph that is built in the numbers asked for. Files of other repositories are mostly written for the
    /// processor.
    #[must_use]
    pub fn prefers_checkpoint(self, precision: Option<Precision>) -> bool {
        let builds = |float| self.computes_in(float);
        self == Self::Native || self.is_gpu() && FloatType::built(precision).is_some_and(builds)
    }

    /// Whether it computes on a graphics card, or a device like one.
    #[must_use]
    pub fn is_gpu(self) -> bool {
        match self {
            Self::Cuda
            | Self::TensorRt
            | Self::TensorRtRtx
            | Self::DirectMl
            | Self::CoreMl
            | Self::WebGpu
            | Self::MiGraphX => true,
            Self::Native | Self::Cpu | Self::OpenVino | Self::Xnnpack | Self::Rten => false,
        }
    }

    /// Whether it computes a checkpoint in numbers of this type: itself, or as a graph that is built of it.
    #[must_use]
    pub fn computes_in(self, float: FloatType) -> bool {
        match (self, float) {
            (Self::Native, float) => float != FloatType::F16,
            (_, FloatType::F32) => true,
            (Self::Cpu | Self::Rten | Self::Xnnpack, _) => false,
            (_, FloatType::F16) => true,
            (_, FloatType::Bf16) => {
                matches!(self, Self::Cuda | Self::TensorRt | Self::TensorRtRtx)
            }
        }
    }

    /// Whether it is an engine built into this program, on the processor.
    #[must_use]
    pub fn is_inside(self) -> bool {
        matches!(self, Self::Native | Self::Rten)
    }

    /// Whether it may come as a plug-in.
    #[must_use]
    pub fn may_be_plugged_in(self) -> bool {
        !self.is_on_worker()
    }

    /// Whether it computes on the thread that calls it.
    #[must_use]
    pub fn is_on_worker(self) -> bool {
        self.is_inside() || self == Self::Cpu
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
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

impl ProviderChoice {
    /// Whether it allows a provider that runs weights of this kind.
    #[must_use]
    pub fn may_use(&self, weights: WeightsKind) -> bool {
        match self {
            Self::Auto => true,
            Self::List(list) => list.iter().any(|provider| provider.made_for() == weights),
        }
    }
}

impl FromStr for ProviderChoice {
    type Err = Cause;

    fn from_str(list: &str) -> Result<Self, Cause> {
        if list.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        list.split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self::List)
    }
}

/// A library or provider that was considered and not taken.
#[derive(Debug, Clone, Serialize)]
pub struct SkippedCandidate {
    /// Path or provider name.
    pub candidate: String,
    /// The reason, in the loader's or provider's own words.
    pub reason: String,
    /// Whether it is a provider that the user named: its place is taken by another of the list, and that is
    /// to be told without being asked.
    #[serde(skip)]
    pub named: bool,
}

impl SkippedCandidate {
    /// One that `error` keeps from working: its reason and remedy, without the engine's name, which stands beside them.
    #[must_use]
    pub fn failed(candidate: String, error: &Error, named: bool) -> Self {
        let reason = match (error.kind(), error.remedy()) {
            (ErrorKind::Engine | ErrorKind::NoLibrary | ErrorKind::Provider, remedy) => {
                let remedy = remedy.map(|remedy| format!("; {remedy}"));
                format!("{}{}", error.reason(), remedy.unwrap_or_default())
            }
            _ => error.to_string(),
        };
        Self {
            candidate,
            reason,
            named,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_understood() {
        for provider in Provider::ALL {
            assert_eq!(provider.name().parse(), Ok(provider));
        }
        for (alias, provider) in [
            ("gpu", Provider::Cuda),
            (" TRT ", Provider::TensorRt),
            ("trt-rtx", Provider::TensorRtRtx),
            ("dml", Provider::DirectMl),
            ("ROCm", Provider::MiGraphX),
            ("tract", Provider::Rten),
        ] {
            assert_eq!(alias.parse(), Ok(provider));
        }
        let reason = "npu".parse::<Provider>().unwrap_err().to_string();
        assert!(
            reason.contains("'npu'") && reason.contains("rten"),
            "{reason}"
        );
    }

    #[test]
    fn a_choice_is_auto_or_a_list_in_its_order() {
        assert_eq!("Auto".parse(), Ok(ProviderChoice::Auto));
        assert_eq!(
            "tensorrt,gpu, cpu".parse(),
            Ok(ProviderChoice::List(vec![
                Provider::TensorRt,
                Provider::Cuda,
                Provider::Cpu
            ]))
        );
        assert!("cpu,auto".parse::<ProviderChoice>().is_err());
        assert!("".parse::<ProviderChoice>().is_err());
    }
}
