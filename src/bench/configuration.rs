//! One configuration: a model, its engine and their settings, as sent to a worker process and written to a report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::EngineOptions;
use crate::error::{Cause, Error, Result};
use crate::model::ModelOptions;
use crate::provider::{OptionValue, ProviderOption};
use crate::runtime::process::NO_TF32;
use crate::runtime::{RuntimeOptions, wants_no_tf32};

/// A configuration to measure. Missing settings have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// Hub id or folder of the model.
    pub model: String,
    /// Path of the ONNX file inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_file: Option<String>,
    /// The native engine's arithmetic or the kind of ONNX file, by its name on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Least cosine to fp32 that reduced precision may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cosine: Option<f64>,
    /// `auto`, or a provider.
    pub provider: String,
    /// Device numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<u32>,
    /// Whether to use all devices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_devices: bool,
    /// Options of the provider: `openvino.precision=bf16`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provider_options: Vec<ProviderOption>,
    /// ONNX Runtime library or its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ort_library: Option<PathBuf>,
    /// Worker threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Padded tokens in a batch at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tokens: Option<usize>,
    /// Rows in a batch at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<usize>,
    /// Records in a window at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// The Hub's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<PathBuf>,
    /// Pooling modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Vec<String>>,
    /// Tokens of a record at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// Kinds of vectors, which come from one pass of the network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<String>,
    /// What the texts are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl Configuration {
    /// The model's part.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn model_options(&self) -> Result<ModelOptions> {
        let pooling = self.pooling.as_ref().map(|modes| {
            let modes = modes.iter().map(|mode| mode.parse());
            modes.collect::<Result<_, Cause>>().map_err(Error::usage)
        });
        let precision = self.precision.as_ref().map(|name| name.parse());
        let kinds = self.vectors.iter().map(|kind| kind.parse());
        let task = self.task.as_ref().map(|task| task.parse());
        Ok(ModelOptions {
            model: self.model.clone(),
            model_file: self.model_file.clone(),
            precision: precision.transpose().map_err(Error::usage)?,
            cache_dir: self.cache_dir.clone(),
            pooling: pooling.transpose()?,
            max_length: self.max_length,
            vectors: kinds.collect::<Result<_, Cause>>().map_err(Error::usage)?,
            text_task: task.transpose().map_err(Error::usage)?,
            ..ModelOptions::default()
        })
    }

    /// The engine's part, for `workers` threads.
    ///
    /// # Errors
    /// If the name of the provider or of an option is unknown.
    pub fn engine_options(&self, workers: usize) -> Result<EngineOptions> {
        Ok(EngineOptions {
            providers: self.provider.parse().map_err(Error::usage)?,
            provider_options: self.provider_options.clone(),
            devices: self.devices.clone(),
            all_devices: self.all_devices,
            runtime: RuntimeOptions {
                library: self.ort_library.clone(),
                probe: None,
            },
            batch_tokens: self.batch_tokens,
            min_cosine: self.min_cosine,
            workers,
            ..EngineOptions::default()
        })
    }

    /// Environment variables that a process needs before it opens the engine.
    pub(super) fn variables(&self) -> Vec<(&'static str, &'static str)> {
        let no_tf32 = self
            .provider
            .parse()
            .is_ok_and(|providers| wants_no_tf32(&providers, &self.provider_options))
            && std::env::var_os(NO_TF32.0).is_none();
        no_tf32.then_some(NO_TF32).into_iter().collect()
    }

    /// The settings that are not left to the defaults, with their names as options.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let text = |value: Option<usize>| value.map(|value| value.to_string());
        let mut devices: Vec<String> = self.devices.iter().map(u32::to_string).collect();
        if self.all_devices {
            devices = vec!["all".to_owned()];
        }
        let options = self.provider_options.iter().map(ToString::to_string);
        let options = options.collect::<Vec<_>>().join(" ");
        [
            ("model", Some(self.model.clone())),
            ("model-file", self.model_file.clone()),
            ("precision", self.precision.clone()),
            ("provider", Some(self.provider.clone())),
            ("device", (!devices.is_empty()).then(|| devices.join(","))),
            ("provider-option", (!options.is_empty()).then_some(options)),
            ("threads", text(self.threads)),
            ("batch-tokens", text(self.batch_tokens)),
            ("batch-size", text(self.batch_size)),
            ("window", text(self.window)),
            ("max-length", text(self.max_length)),
            (
                "vectors",
                (!self.vectors.is_empty()).then(|| self.vectors.join(",")),
            ),
            ("task", self.task.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The value of the setting `name`, unless it is left to the defaults.
    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let found = self.settings().into_iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value)
    }

    /// The settings in which this configuration differs from any of `all`, for people: `cpu 512 tokens`.
    /// The provider is always named.
    #[must_use]
    pub fn label(&self, all: &[Self]) -> String {
        const NAMES: &str = "provider model model-file precision device provider-option threads
            batch-tokens batch-size window max-length";
        let mut parts = Vec::new();
        for name in NAMES.split_ascii_whitespace() {
            let own = self.setting(name);
            let differs = all.iter().any(|other| other.setting(name) != own);
            if !differs && name != "provider" {
                continue;
            }
            parts.push(match (name, own) {
                ("provider", own) => own.unwrap_or_default(),
                ("precision", None) => "fp32".to_owned(),
                ("model" | "model-file", Some(own)) => last_part(&own).to_owned(),
                ("model-file" | "provider-option", None) => continue,
                ("provider-option", Some(_)) => {
                    let options = self.provider_options.iter().map(short_option);
                    options.collect::<Vec<_>>().join(" ")
                }
                ("threads", Some(own)) if own == "1" => "1 thread".to_owned(),
                ("precision", Some(own)) => own,
                ("batch-tokens", Some(own)) => format!("{own} tokens"),
                ("batch-size", Some(own)) => format!("{own} rows"),
                (name, Some(own)) => format!("{own} {name}"),
                ("batch-tokens", None) => "default tokens".to_owned(),
                (name, None) => format!("default {name}"),
            });
        }
        parts.join(" ")
    }
}

/// `bf16` of `openvino.precision=bf16`, as the provider is named anyway; `tf32=true` of `cuda.tf32=true`.
fn short_option(option: &ProviderOption) -> String {
    match option.value {
        OptionValue::Word(word) => word.to_owned(),
        value => format!("{}={value}", option.name),
    }
}

/// The name of a model without the folders or the organisation before it.
pub(super) fn last_part(model: &str) -> &str {
    let short = model
        .trim_end_matches(['/', '\\'])
        .rsplit(['/', '\\'])
        .next();
    short.unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(provider: &str, batch_tokens: Option<usize>) -> Configuration {
        Configuration {
            model: "org/model".into(),
            provider: provider.into(),
            batch_tokens,
            ..Configuration::default()
        }
    }

    #[test]
    fn a_label_names_what_differs() {
        let all = [
            with("cpu", Some(256)),
            with("cpu", Some(512)),
            with("rten", None),
        ];
        let labels: Vec<String> = all.iter().map(|one| one.label(&all)).collect();
        assert_eq!(
            labels,
            ["cpu 256 tokens", "cpu 512 tokens", "rten default tokens"]
        );
        assert_eq!(all[0].label(&all[..1]), "cpu");
    }

    #[test]
    fn models_are_told_apart_by_their_last_name() {
        let mut other = with("cpu", None);
        other.model = "./models/small/".into();
        other.precision = Some("int8".into());
        let all = [with("cpu", None), other];
        assert_eq!(all[0].label(&all), "cpu model fp32");
        assert_eq!(all[1].label(&all), "cpu small int8");
    }

    #[test]
    fn options_are_told_apart_by_their_values() {
        let all = [
            "openvino.precision=fp32",
            "openvino.precision=bf16",
            "openvino.threads=4",
        ];
        let all = all.map(|option| {
            let mut one = with("openvino", None);
            one.provider_options.push(option.parse().unwrap());
            one
        });
        let labels: Vec<String> = all.iter().map(|one| one.label(&all)).collect();
        assert_eq!(
            labels,
            ["openvino fp32", "openvino bf16", "openvino threads=4"]
        );
    }

    #[test]
    fn it_survives_the_way_to_a_worker() {
        let mut configuration = with("rten", Some(64));
        configuration.pooling = Some(vec!["cls".into()]);
        configuration.precision = Some("fp16".into());
        let json = serde_json::to_string(&configuration).unwrap();
        let back: Configuration = serde_json::from_str(&json).unwrap();
        assert_eq!(back, configuration);
        assert!(back.model_options().is_ok());
        assert_eq!(back.engine_options(3).unwrap().workers, 3);
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(with("npu", None).engine_options(1).is_err());
        let mut wrong = with("cpu", None);
        wrong.precision = Some("fp8".into());
        assert!(wrong.model_options().is_err());
    }
}
