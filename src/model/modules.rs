//! `modules.json`: which modules follow the Transformer, with their weights.

use std::path::{Component, Path};

use safetensors::{Dtype, SafeTensors};

use super::PoolingMode;
use super::config::Step;
use super::layers::{Activation, Dense, LayerNorm, Residual};
use super::metadata::{self, DenseConfig, ModuleEntry, PoolingConfig, SentenceModuleConfig};
use crate::error::{Error, Result};
use crate::small_file;

/// What `modules.json` says.
#[derive(Debug, Default)]
pub(super) struct Modules {
    /// Folder of the Transformer's files inside the repository.
    pub transformer: String,
    /// Pooling, where there is such a module.
    pub pooling: Option<Pooling>,
    /// Modules after pooling.
    pub steps: Vec<Step>,
}

/// A Pooling module.
#[derive(Debug)]
pub(super) struct Pooling {
    pub modes: Vec<PoolingMode>,
    pub include_prompt: bool,
    pub width: Option<usize>,
}

/// Reads `modules.json` and the modules' own files; `None` where the repository has none.
pub(super) fn read(folder: &Path) -> Result<Option<Modules>> {
    let list = folder.join("modules.json");
    let Some(entries) = metadata::read::<Vec<ModuleEntry>>(&list)? else {
        return Ok(None);
    };
    let refuse = |reason: String| Error::model(list.display(), reason);
    let mut modules = Modules::default();
    for (index, entry) in entries.iter().enumerate() {
        let own = folder.join(&entry.path);
        let is_part = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&entry.path).components().all(is_part)
            || entry.path.split(['/', '\\']).any(|part| part == "..")
        {
            return Err(refuse(format!(
                "names the folder '{}' outside the repository",
                entry.path
            )));
        }
        let kind = entry
            .kind
            .strip_prefix("sentence_transformers.")
            .and_then(|rest| rest.rsplit('.').next())
            .ok_or_else(|| {
                refuse(format!(
                    "uses a module from the repository's own code ({}), which embedctl does not run",
                    entry.kind
                ))
            })?;
        match kind {
            "Transformer" | "StaticEmbedding" if index == 0 => {
                modules.transformer.clone_from(&entry.path);
            }
            "Pooling" if modules.pooling.is_none() && modules.steps.is_empty() && index > 0 => {
                modules.pooling = Some(pooling(&own)?);
            }
            "Dense" if index > 0 => modules.steps.push(Step::Dense(dense(&own)?)),
            "LayerNorm" if index > 0 => modules.steps.push(Step::LayerNorm(layer_norm(&own)?)),
            "Normalize" if index > 0 => {
                let file = own.join("config.json");
                let config = metadata::read::<SentenceModuleConfig>(&file)?.unwrap_or_default();
                only_sentences(&file, config.module_input_name, config.module_output_name)?;
                modules.steps.push(Step::Normalize);
            }
            // Dropout does nothing outside training.
            "Dropout" if index > 0 => {}
            other => {
                return Err(refuse(format!(
                    "has the module {other} in place {index}, which embedctl does not run; it runs a Transformer \
                     followed by Pooling, Dense, LayerNorm and Normalize"
                )));
            }
        }
    }
    Ok(Some(modules))
}

fn only_sentences(file: &Path, input: Option<String>, output: Option<String>) -> Result<()> {
    for name in [input, output].into_iter().flatten() {
        if name != "sentence_embedding" {
            return Err(Error::model(
                file.display(),
                format!(
                    "works on '{name}'; embedctl runs modules that work on 'sentence_embedding' only"
                ),
            ));
        }
    }
    Ok(())
}

fn pooling(folder: &Path) -> Result<Pooling> {
    let file = folder.join("config.json");
    let config = metadata::read::<PoolingConfig>(&file)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let mut modes = Vec::new();
    if let Some(names) = &config.pooling_mode {
        for name in names.names() {
            modes.push(
                name.parse()
                    .map_err(|reason: String| Error::model(file.display(), reason))?,
            );
        }
    } else {
        // The old schema's booleans, in the order in which the reference concatenates.
        let old = [
            (config.pooling_mode_cls_token, PoolingMode::Cls),
            (config.pooling_mode_max_tokens, PoolingMode::Max),
            (config.pooling_mode_mean_tokens, PoolingMode::Mean),
            (
                config.pooling_mode_mean_sqrt_len_tokens,
                PoolingMode::MeanSqrtLen,
            ),
            (
                config.pooling_mode_weightedmean_tokens,
                PoolingMode::WeightedMean,
            ),
            (config.pooling_mode_lasttoken, PoolingMode::LastToken),
        ];
        modes.extend(
            old.iter()
                .filter(|(on, _)| *on == Some(true))
                .map(|(_, mode)| *mode),
        );
    }
    if modes.is_empty() {
        modes.push(PoolingMode::Mean);
    }
    Ok(Pooling {
        modes,
        include_prompt: config.include_prompt.unwrap_or(true),
        width: config.embedding_dimension,
    })
}

fn dense(folder: &Path) -> Result<Dense> {
    let file = folder.join("config.json");
    let config = metadata::read::<DenseConfig>(&file)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    only_sentences(&file, config.module_input_name, config.module_output_name)?;
    let activation = match config.activation_function.as_deref() {
        None => Activation::Tanh,
        Some(name) => Activation::parse(name).ok_or_else(|| {
            Error::model(
                file.display(),
                format!("names the activation '{name}', which embedctl does not know"),
            )
        })?,
    };
    let weights = Weights::open(folder)?;
    let (input, output) = (config.in_features, config.out_features);
    let residual = match (config.use_residual, input == output) {
        (false, _) => Residual::None,
        (true, true) => Residual::Identity,
        (true, false) => Residual::Projected(weights.get("residual.weight", input * output)?),
    };
    Ok(Dense {
        weight: weights.get("linear.weight", input * output)?,
        bias: if config.bias {
            weights.get("linear.bias", output)?
        } else {
            Vec::new()
        },
        input,
        output,
        activation,
        residual,
    })
}

fn layer_norm(folder: &Path) -> Result<LayerNorm> {
    let weights = Weights::open(folder)?;
    let weight = weights.get("norm.weight", None)?;
    let bias = weights.get("norm.bias", weight.len())?;
    Ok(LayerNorm {
        weight,
        bias,
        // torch.nn.LayerNorm's default, which the reference's module never changes.
        epsilon: 1e-5,
    })
}

/// Bytes of a module's weights at most.
const MOST_WEIGHTS: u64 = 4 << 30;

/// The `model.safetensors` of a module.
struct Weights {
    file: std::path::PathBuf,
    bytes: Vec<u8>,
}

impl Weights {
    fn open(folder: &Path) -> Result<Self> {
        let file = folder.join("model.safetensors");
        match small_file::read(&file, MOST_WEIGHTS) {
            Ok(bytes) => Ok(Self { file, bytes }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let pickled = folder.join("pytorch_model.bin");
                Err(if pickled.exists() {
                    Error::model(
                        pickled.display(),
                        "holds the module's weights as a pickle, which embedctl does not execute; convert it once with \
                         Python: safetensors.torch.save_file(torch.load('pytorch_model.bin', weights_only=True), \
                         'model.safetensors')",
                    )
                } else {
                    Error::model(
                        file.display(),
                        "is missing: modules.json lists this module; fetch it",
                    )
                })
            }
            Err(error) => Err(Error::io("read", file, error)),
        }
    }

    /// A tensor as f32; `length` is its expected number of elements.
    fn get(&self, name: &str, length: impl Into<Option<usize>>) -> Result<Vec<f32>> {
        let refuse = |reason: String| Error::model(self.file.display(), reason);
        let tensors = SafeTensors::deserialize(&self.bytes)
            .map_err(|error| refuse(format!("is no safetensors file ({error})")))?;
        let tensor = tensors
            .tensor(name)
            .map_err(|_| refuse(format!("has no tensor '{name}'")))?;
        let data = tensor.data();
        let values: Vec<f32> = match tensor.dtype() {
            Dtype::F32 => words(data, f32::from_le_bytes),
            Dtype::F16 => words(data, |word| half::f16::from_le_bytes(word).to_f32()),
            Dtype::BF16 => words(data, |word| half::bf16::from_le_bytes(word).to_f32()),
            #[allow(clippy::cast_possible_truncation)]
            Dtype::F64 => words(data, |word| f64::from_le_bytes(word) as f32),
            other => {
                return Err(refuse(format!(
                    "stores '{name}' as {other:?}, which embedctl does not read"
                )));
            }
        };
        match length.into() {
            Some(length) if length != values.len() => Err(refuse(format!(
                "'{name}' has {} elements where config.json asks for {length}",
                values.len()
            ))),
            _ => Ok(values),
        }
    }
}

fn words<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    data.as_chunks::<N>()
        .0
        .iter()
        .map(|word| read(*word))
        .collect()
}
