//! The vocabulary of providers and the choice among them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ort::{Failure, Selection};
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

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
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
    /// This one, or else what [`ProviderChoice::Auto`] takes: a tuned profile's choice.
    Preferably(Provider),
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
///
/// `auto` goes through [`super::auto::order`], and falls back from a provider that does not work here or
/// does not do the work. It does not fall back from the CPU because of the model: one that ONNX Runtime
/// refuses there is an error, since falling back would hide it. A list falls back from each of its members
/// to the next, and to nothing else. A library that the user named must work wherever it is needed.
pub(super) fn open(model: &Model, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let probing = options.probe.is_some();
    let order = super::auto::order(probing);
    let (providers, auto) = match &options.providers {
        ProviderChoice::Auto => (order.to_vec(), true),
        ProviderChoice::Preferably(first) => {
            let others = order.iter().filter(|provider| *provider != first);
            (
                std::iter::once(first).chain(others).copied().collect(),
                true,
            )
        }
        ProviderChoice::List(list) => (list.clone(), false),
    };
    let selection = Selection::new(options, auto);
    let mut passed_over: Vec<PassedOver> = Vec::new();
    let passed = |provider: Provider, reason: String| PassedOver {
        candidate: provider.to_string(),
        reason,
    };
    if auto && let Some((provider, reason)) = super::auto::left_out(probing) {
        passed_over.push(passed(provider, reason.to_owned()));
    }
    let mut last = None;
    for provider in providers {
        if auto
            && !matches!(provider, Provider::Cpu | Provider::Tract)
            && let Some(reason) = super::auto::hopeless(provider, || selection.may_have(provider))
        {
            passed_over.push(passed(provider, reason));
            continue;
        }
        let opened = match provider {
            Provider::Tract => super::tract::open(model, options, &passed_over),
            other => match super::ort::open(model, options, other, &selection, &passed_over) {
                Err(Failure::NamedLibrary(error)) => return Err(error),
                Err(Failure::Other(error)) if auto => return Err(error),
                opened => opened.map_err(Failure::into_error),
            },
        };
        match opened {
            Ok(engine) => return Ok(engine),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                passed_over.push(passed(provider, reason(&error)));
                last = Some(error);
            }
        }
    }
    Err(match last {
        // What is wrong with the model itself is wrong for every engine.
        Some(error @ (Error::Model { .. } | Error::Io { .. })) => error,
        Some(error) if passed_over.len() == 1 => error,
        _ => Error::Engine {
            engine: "embedctl",
            reason: none_works(&passed_over),
        },
    })
}

/// An error's reason without the engine's name, which stands beside it.
fn reason(error: &Error) -> String {
    match error {
        Error::Engine { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

fn none_works(passed_over: &[PassedOver]) -> String {
    let reasons: Vec<String> = passed_over
        .iter()
        .map(|one| format!("{}: {}", one.candidate, one.reason))
        .collect();
    format!("no provider works here ({})", reasons.join("; "))
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
            ("dml", Provider::DirectMl),
            ("ROCm", Provider::MiGraphX),
        ] {
            assert_eq!(alias.parse(), Ok(provider));
        }
        let reason = "npu".parse::<Provider>().unwrap_err();
        assert!(
            reason.contains("'npu'") && reason.contains("tract"),
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
