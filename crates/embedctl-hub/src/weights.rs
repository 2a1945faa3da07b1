//! Where a model's weights may come from: an ONNX file, or the checkpoint that it was exported from.

use serde_json::Value;

use super::gguf::{is_gguf, refuses_gguf};
use super::onnx_file::OnnxChoice;
use embedctl_common::error::Cause;
use embedctl_common::named::named;
use embedctl_common::remedies::MERGE_ADAPTER;
use embedctl_common::setting::{MODEL, MODEL_FILE, PROVIDER, WEIGHTS};

/// Whether an engine runs checkpoints with this `config.json`; if not, the reason.
pub type Knows = fn(&Value) -> Result<(), String>;

named! {
    /// The two kinds of weights that a model's folder may hold: safetensors files with their `config.json`, or an ONNX
    /// file, which ONNX Runtime and rten run.
    pub enum WeightsKind("kind of weights", "choose one of") {
        Checkpoint = "safetensors",
        Onnx = "onnx",
    }
}

/// The kinds of weights to look for, in order of preference.
#[derive(Debug, Clone, Copy, Default)]
pub enum WeightsPreference {
    /// An ONNX file.
    #[default]
    Onnx,
    /// A checkpoint.
    Checkpoint(Knows),
    /// A checkpoint, or else an ONNX file; both where both are here.
    CheckpointFirst(Knows),
    /// An ONNX file, or else a checkpoint; both where both are here.
    OnnxFirst(Knows),
}

impl WeightsPreference {
    /// Whether an ONNX file would do.
    #[must_use]
    pub fn or_onnx(self) -> bool {
        !matches!(self, Self::Checkpoint(_))
    }

    /// The other kind alone, where either would do.
    pub(crate) fn instead(self) -> Option<Self> {
        match self {
            Self::Onnx | Self::Checkpoint(_) => None,
            Self::CheckpointFirst(_) => Some(Self::Onnx),
            Self::OnnxFirst(knows) => Some(Self::Checkpoint(knows)),
        }
    }

    /// The check of a checkpoint, if this request accepts one.
    #[must_use]
    pub fn knows(self) -> Option<Knows> {
        match self {
            Self::Onnx => None,
            Self::Checkpoint(knows) | Self::CheckpointFirst(knows) | Self::OnnxFirst(knows) => {
                Some(knows)
            }
        }
    }
}

/// A choice among a repository's files with weights.
#[derive(Debug, Clone, Default)]
pub struct FileChoice {
    /// The kinds that would do.
    pub weights: WeightsPreference,
    /// The ONNX file.
    pub onnx: OnnxChoice,
}

impl FileChoice {
    /// The other kind of weights alone, where either would do.
    #[must_use]
    pub fn instead(&self) -> Option<Self> {
        Some(Self {
            weights: self.weights.instead()?,
            onnx: self.onnx.clone(),
        })
    }
}

/// Names of a checkpoint's files in a repository with `paths`, whose Transformer lies in the folder
/// `transformer` (empty: the root).
///
/// # Errors
/// If it has none; the reason names the expected file, and the remedy is there if it has the weights as a pickle.
pub fn checkpoint(paths: &[&str], transformer: &str) -> Result<Vec<String>, Cause> {
    let prefix = match transformer {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let own = |path: &&&str| {
        let name = path.strip_prefix(prefix.as_str());
        name.is_some_and(|name| !name.contains('/'))
    };
    let whole = format!("{prefix}model.safetensors");
    if paths.contains(&whole.as_str()) {
        return Ok(vec![whole]);
    }
    let index = format!("{prefix}model.safetensors.index.json");
    if !paths.contains(&index.as_str()) {
        let pickled = |path: &&&str| {
            let name = &path[prefix.len()..];
            name == "pytorch_model.bin" || name == "pytorch_model.bin.index.json"
        };
        return Err(match paths.iter().filter(own).find(pickled) {
            Some(pickled) => Cause::of(format!(
                "has no {whole}, only {pickled}, whose pickles embedctl does not execute"
            ))
            .with(format!(
                "save the weights as safetensors with Python \
                 (SentenceTransformer('NAME').save_pretrained('FOLDER')) and name the folder with {MODEL}"
            )),
            None => match paths.iter().find(|path| is_gguf(path)) {
                Some(file) => refuses_gguf(file),
                None => format!("has no {whole}").into(),
            },
        });
    }
    let mut parts: Vec<String> = (paths.iter().filter(own))
        .filter(|path| path[prefix.len()..].starts_with("model-") && path.ends_with(".safetensors"))
        .map(ToString::to_string)
        .collect();
    parts.sort_unstable();
    parts.insert(0, index);
    Ok(parts)
}

/// Why a checkpoint cannot be run whose config.json is refused for this `reason`.
#[must_use]
pub fn unknown_settings(reason: &str) -> Cause {
    format!("has settings that the native engine does not run ({reason})").into()
}

/// Why a model cannot be run, where either kind of weights would do.
#[must_use]
pub fn neither(onnx: Cause, checkpoint: Cause) -> Cause {
    if onnx.reason == checkpoint.reason {
        return checkpoint;
    }
    Cause {
        reason: format!(
            "{}; and its checkpoint cannot be run in its place: it {}",
            onnx.reason, checkpoint.reason
        ),
        // Weights are saved anew more easily than a graph is exported.
        remedy: match (checkpoint.remedy, onnx.remedy) {
            (Some(first), Some(second)) => Some(format!("{first}; or {second}")),
            (first, second) => first.or(second),
        },
    }
}

/// Why a model cannot be run, where a checkpoint alone would do; `onnx` is its ONNX file, or why it has none.
#[must_use]
pub fn not_native(checkpoint: Cause, onnx: Result<String, Cause>) -> Cause {
    let other = match onnx {
        Ok(file) => Some(format!(
            "another provider runs its ONNX file, {file}: leave {PROVIDER} out"
        )),
        Err(cause) => cause.remedy,
    };
    let remedies: Vec<String> = checkpoint.remedy.into_iter().chain(other).collect();
    Cause {
        reason: format!(
            "cannot be run by {PROVIDER} native: it {}",
            checkpoint.reason
        ),
        remedy: (!remedies.is_empty()).then(|| remedies.join("; or ")),
    }
}

/// The settings of a LoRA adapter.
pub const ADAPTER_SETTINGS: &str = "adapter_config.json";

/// The weights of a LoRA adapter.
pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";

/// The refusal of an ONNX file beside an adapter.
#[must_use]
pub fn refuses_onnx() -> Cause {
    Cause::of(format!(
        "holds an adapter ({ADAPTER_SETTINGS}), which is applied to a checkpoint only: an ONNX file would run without it"
    ))
    .with(format!(
        "leave {MODEL_FILE} and {WEIGHTS} out, or {MERGE_ADAPTER} and export the result"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_one_file_or_an_index_and_its_parts() {
        let paths = [
            "model.safetensors",
            "0_Transformer/model-00002-of-00002.safetensors",
            "0_Transformer/model-00001-of-00002.safetensors",
            "0_Transformer/model.safetensors.index.json",
            "0_Transformer/other.safetensors",
            "2_Dense/model.safetensors",
        ];
        assert_eq!(
            checkpoint(&paths, ""),
            Ok(vec!["model.safetensors".to_owned()])
        );
        assert_eq!(
            checkpoint(&paths, "0_Transformer").unwrap(),
            [
                "0_Transformer/model.safetensors.index.json",
                "0_Transformer/model-00001-of-00002.safetensors",
                "0_Transformer/model-00002-of-00002.safetensors",
            ]
        );
        let reason = checkpoint(&paths[5..], "").unwrap_err();
        assert!(reason.reason.contains("model.safetensors"), "{reason}");
        assert_eq!(reason.remedy, None);
        for pickled in ["pytorch_model.bin", "pytorch_model.bin.index.json"] {
            let cause = checkpoint(&["config.json", pickled], "").unwrap_err();
            assert!(cause.reason.contains(pickled), "{cause}");
            assert!(
                cause
                    .remedy
                    .is_some_and(|it| it.contains("save_pretrained"))
            );
        }
    }
}
