//! The modules' own files: settings, and weights.

use std::path::Path;

use serde::Deserialize;

use super::{ModuleInput, Pooling};
use crate::metadata::{self, AutoEncoderConfig, DenseConfig, PoolingConfig, SpladeConfig};
use embedctl_checkpoint::safetensors::{Checkpoint, missing};
use embedctl_common::error::{Error, Result};
use embedctl_kernels::TermPooling;
use embedctl_rows::{AutoEncoder, Dense, DenseActivation, LayerNorm, PoolingMode, Residual};

/// Keys of a Pooling module's config.json.
const POOLING_KEYS: &str = "embedding_dimension include_prompt pooling_mode pooling_mode_cls_token
    pooling_mode_lasttoken pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_mean_tokens
    pooling_mode_weightedmean_tokens word_embedding_dimension";

/// Keys of a Dense module's config.json.
const DENSE_KEYS: &str = "activation_function bias in_features module_input_name module_output_name
    out_features use_residual";

pub(super) fn pooling(folder: &Path) -> Result<Pooling> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<PoolingConfig>(&file, POOLING_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let mut modes = Vec::new();
    if let Some(names) = &config.pooling_mode {
        for name in names.names() {
            let mode = PoolingMode::ALL
                .into_iter()
                .find(|mode| mode.name() == name);
            modes.push(mode.ok_or_else(|| {
                let known = PoolingMode::ALL.map(PoolingMode::name).join(", ");
                Error::model(
                    file.display(),
                    format!("names the pooling_mode '{name}'; the modes are {known}"),
                )
            })?);
        }
        if modes.is_empty() {
            return Err(Error::model(
                file.display(),
                "has an empty pooling_mode, so it does not say how tokens become a vector",
            ));
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
        modes.extend(old.iter().filter(|(on, _)| *on).map(|(_, mode)| *mode));
    }
    if modes.is_empty() {
        modes.push(PoolingMode::Mean);
    }
    let width = config
        .embedding_dimension
        .or(config.word_embedding_dimension);
    let width = width
        .ok_or_else(|| Error::model(file.display(), "does not state its embedding_dimension"))?;
    Ok(Pooling {
        modes,
        include_prompt: config.include_prompt,
        width: Some(width),
    })
}

/// `scores`: whether its output may be scores.
pub(super) fn dense(folder: &Path, scores: bool, works_on: ModuleInput) -> Result<Dense> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<DenseConfig>(&file, DENSE_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let output = config.module_output_name;
    let output = output.filter(|name| !(scores && name == "scores"));
    works_on.check(&file, config.module_input_name, output)?;
    let activation = match &config.activation_function {
        None => DenseActivation::Tanh,
        Some(named) => named.as_str().and_then(DenseActivation::parse).ok_or_else(|| {
            Error::model(
                file.display(),
                format!(
                    "names the activation {named}, which embedctl does not know; it knows the classes of torch.nn that \
                     need no arguments and no weights, by their full path (torch.nn.modules.activation.Tanh)"
                ),
            )
        })?,
    };
    let weights = ModuleWeights::open(folder)?;
    let (input, output) = (config.in_features, config.out_features);
    let residual = match (config.use_residual, input == output) {
        (false, _) => Residual::None,
        (true, true) => Residual::Identity,
        (true, false) => {
            Residual::Projected(weights.get("residual.weight", input * output)?.into())
        }
    };
    Ok(Dense {
        weight: weights.get("linear.weight", input * output)?.into(),
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

/// Keys of a `SpladePooling` module's config.json.
const SPLADE_KEYS: &str =
    "activation_function embedding_dimension pooling_strategy word_embedding_dimension";

pub(super) fn splade_pooling(folder: &Path) -> Result<TermPooling> {
    let file = folder.join("config.json");
    let config = metadata::read_known::<SpladeConfig>(&file, SPLADE_KEYS)?.ok_or_else(|| {
        Error::model(file.display(), "is missing: modules.json lists this module")
    })?;
    let refuse = |key: &str, value: &str, known: &str| {
        let reason = format!("names the {key} '{value}'; sentence-transformers knows {known}");
        Error::model(file.display(), reason)
    };
    Ok(TermPooling {
        sums: match config.pooling_strategy.as_deref().unwrap_or("max") {
            "max" => false,
            "sum" => true,
            other => return Err(refuse("pooling_strategy", other, "max and sum")),
        },
        twice: match config.activation_function.as_deref().unwrap_or("relu") {
            "relu" => false,
            "log1p_relu" => true,
            other => return Err(refuse("activation_function", other, "relu and log1p_relu")),
        },
    })
}

/// Keys of a `SparseAutoEncoder` module's config.json.
const AUTO_ENCODER_KEYS: &str = "dead_threshold hidden_dim input_dim k k_aux normalize";

/// `most`: components that are kept, where the user or the whole model's file says so.
pub(super) fn auto_encoder(folder: &Path, most: Option<usize>) -> Result<AutoEncoder> {
    let file = folder.join("config.json");
    let config =
        metadata::read_known::<AutoEncoderConfig>(&file, AUTO_ENCODER_KEYS)?.ok_or_else(|| {
            Error::model(file.display(), "is missing: modules.json lists this module")
        })?;
    let (input, output) = (config.input_dim, config.hidden_dim);
    if input == 0 || output == 0 || output > metadata::MOST_WIDTH {
        return Err(Error::model(
            file.display(),
            format!("has input_dim {input} and hidden_dim {output}"),
        )
        .with_remedy("fetch the file again"));
    }
    let weights = ModuleWeights::open(folder)?;
    Ok(AutoEncoder {
        pre_bias: weights.get("pre_bias", input)?,
        // The decoder shares it: of the two names one is stored.
        weight: weights.get_any(&["encoder.weight", "decoder.linear.weight"], input * output)?,
        latent_bias: weights.get("latent_bias", output)?,
        input,
        output,
        kept: most.unwrap_or(config.k),
        normalize: config.normalize,
    })
}

/// `config.json` of a `LogitScore` module.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LogitScore {
    /// The token whose logit is the score.
    pub true_token_id: u32,
    /// The token whose logit is taken from it.
    #[serde(default)]
    pub false_token_id: Option<u32>,
}

/// Keys of a `LogitScore` module's config.json.
const LOGIT_SCORE_KEYS: &str = "true_token_id false_token_id module_input_name";

pub(super) fn logit_score(folder: &Path) -> Result<LogitScore> {
    let file = folder.join("config.json");
    metadata::read_known(&file, LOGIT_SCORE_KEYS)?
        .ok_or_else(|| Error::model(file.display(), "is missing: modules.json lists this module"))
}

pub(super) fn layer_norm(folder: &Path) -> Result<LayerNorm> {
    let weights = ModuleWeights::open(folder)?;
    let weight = weights.get("norm.weight", None)?;
    let bias = weights.get("norm.bias", weight.len())?;
    Ok(LayerNorm {
        weight,
        bias,
        // torch.nn.LayerNorm's default, which the reference's module never changes.
        epsilon: 1e-5,
    })
}

/// The `model.safetensors` of a module.
pub(crate) struct ModuleWeights(Checkpoint);

impl ModuleWeights {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let file = folder.join("model.safetensors");
        // Any other obstacle is reported when it is opened.
        if file.try_exists().unwrap_or(true) {
            return Checkpoint::open_files(&[file]).map(Self);
        }
        let pickled = folder.join("pytorch_model.bin");
        Err(if pickled.exists() {
            Error::model(
                pickled.display(),
                "holds the module's weights as a pickle, which embedctl does not execute",
            )
            .with_remedy(
                "convert it once with Python: safetensors.torch.save_file(torch.load('pytorch_model.bin', \
                 weights_only=True), 'model.safetensors')",
            )
        } else {
            Error::model(file.display(), "is missing: modules.json lists this module")
                .with_remedy("fetch it")
        })
    }

    /// The same of the first of these names that is there.
    fn get_any(&self, names: &[&str], length: usize) -> Result<Vec<f32>> {
        let found = names.iter().find(|name| self.0.get(name).is_some());
        self.get(found.unwrap_or(&names[0]), length)
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<Vec<usize>> {
        let tensor = self.0.get(name).ok_or_else(|| missing(&self.0, name))?;
        Ok(tensor.shape().to_vec())
    }

    /// A tensor as f32; `length` is its expected number of elements.
    pub(crate) fn get(&self, name: &str, length: impl Into<Option<usize>>) -> Result<Vec<f32>> {
        let tensor = self.0.get(name).ok_or_else(|| missing(&self.0, name))?;
        let mut sides = tensor.shape().iter();
        let elements = sides.try_fold(1, |all: usize, &side| all.checked_mul(side));
        match length.into() {
            Some(length) if elements != Some(length) => Err(tensor.wrong(format!(
                "has the shape {:?} where config.json asks for {length} elements",
                tensor.shape()
            ))),
            _ => tensor.floats(),
        }
    }
}
