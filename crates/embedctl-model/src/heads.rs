//! Linear layers beside a network, as FlagEmbedding saves them with bge-m3: one gives each token a weight, from which
//! sparse vectors are made, the other one a vector. And the layer that a checkpoint has among the network's tensors: behind
//! the states of networks that look both ways in Voyage's repositories, and Stanford's projection of tokens.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::CheckpointFiles;
use crate::tokenizer::TokenizerFiles;
use embedctl_checkpoint::safetensors::Checkpoint;
use embedctl_checkpoint::{is_own_code, torch_file};
use embedctl_common::error::{Error, Result};
use embedctl_rows::{Dense, DenseActivation, Residual};
use embedctl_vectors::{RowForm, Terms};
use serde_json::Value;

/// The layer that gives each token a weight.
pub(crate) const SPARSE_HEAD: &str = "sparse_linear.pt";

/// The layer that gives each token a vector.
pub(crate) const TOKEN_HEAD: &str = "colbert_linear.pt";

/// The tensor of the layer that a checkpoint has among the network's.
pub(crate) const INNER_PROJECTION: &str = "linear.weight";

/// Special tokens that have no weight.
const WITHOUT_WEIGHT: [&str; 4] = ["cls_token", "eos_token", "pad_token", "unk_token"];

/// The file of such a layer in a model's folder, if it is there.
pub(crate) fn head(root: &Path, name: &str) -> Option<PathBuf> {
    Some(root.join(name)).filter(|path| path.is_file())
}

/// The forms of the vectors that layers in a model's folder make, without sizes.
pub(crate) fn forms(root: &Path) -> Vec<RowForm> {
    let layers = [
        (SPARSE_HEAD, RowForm::Sparse(Terms::default())),
        (TOKEN_HEAD, RowForm::Tokens(0)),
    ];
    let present = layers
        .into_iter()
        .filter(|(name, _)| head(root, name).is_some());
    present.map(|(_, form)| form).collect()
}

/// Reads a layer.
///
/// # Errors
/// If the file is damaged, or holds something else than a linear layer.
pub(crate) fn layer(file: &Path, activation: DenseActivation) -> Result<Dense> {
    let mut tensors = torch_file::read(file, &["weight", "bias"])?;
    let refuse =
        |reason: String| Error::model(file.display(), reason).with_remedy("fetch it again");
    let weight = tensors.remove("weight");
    let weight = weight.ok_or_else(|| refuse("has no tensor 'weight'".into()))?;
    let [output, input] = weight.shape[..] else {
        return Err(refuse(format!(
            "has a weight of the shape {:?}",
            weight.shape
        )));
    };
    let bias = tensors
        .remove("bias")
        .map_or_else(Vec::new, |bias| bias.values);
    if output == 0 || input == 0 || !(bias.is_empty() || bias.len() == output) {
        let reason = format!(
            "has {} biases for {output} outputs of {input} inputs",
            bias.len()
        );
        return Err(refuse(reason));
    }
    Ok(Dense {
        weight: weight.values.into(),
        bias,
        input,
        output,
        activation,
        residual: Residual::None,
    })
}

/// Whether config.json names the class of Stanford's checkpoints.
pub(crate) fn is_stanford(config: &Value) -> bool {
    let classes = config["architectures"].as_array();
    classes.is_some_and(|classes| classes.iter().any(|class| class == "HF_ColBERT"))
}

/// Whether a layer behind the network may be among its tensors, by the code of the repository that config.json describes.
fn has_own_projection(config: &Value) -> bool {
    config["use_bidirectional_attention"] == true && is_own_code(config)
}

/// The tensors of a checkpoint that layers behind its network take.
pub(crate) fn taken(config: &Value) -> &'static [&'static str] {
    match is_stanford(config) || has_own_projection(config) {
        true => &[INNER_PROJECTION],
        false => &[],
    }
}

/// The layer behind a network that looks both ways by its repository's own code, where its checkpoint has one.
///
/// # Errors
/// If the checkpoint cannot be read, or the tensor is no layer's.
pub(crate) fn projection(files: &CheckpointFiles) -> Result<Option<Dense>> {
    if !has_own_projection(&files.config) {
        return Ok(None);
    }
    let checkpoint = Checkpoint::open(&files.folder)?;
    let tensor = checkpoint.as_ref().and_then(|it| it.get(INNER_PROJECTION));
    let Some(tensor) = tensor else {
        return Ok(None);
    };
    let &[output, input] = tensor.shape() else {
        let shape = tensor.shape();
        return Err(tensor.wrong(format!(
            "has the shape {shape:?}, which is no linear layer's"
        )));
    };
    Ok(Some(Dense {
        weight: tensor.floats()?.into(),
        bias: Vec::new(),
        input,
        output,
        activation: DenseActivation::Identity,
        residual: Residual::None,
    }))
}

/// Reads the layer that gives each token a weight.
///
/// # Errors
/// As [`layer`], or if it gives several.
pub(crate) fn weights(file: &Path) -> Result<Dense> {
    let layer = layer(file, DenseActivation::Relu)?;
    match layer.output {
        1 => Ok(layer),
        output => Err(Error::model(
            file.display(),
            format!("gives a token {output} weights, but one is expected"),
        )),
    }
}

/// The tokens that have no weight.
pub(crate) fn without_weight(tokenizer: &TokenizerFiles) -> BTreeSet<u32> {
    let names = tokenizer.names.iter();
    let special = names.filter(|(name, _)| WITHOUT_WEIGHT.contains(&name.as_str()));
    special
        .filter_map(|(_, token)| tokenizer.tokenizer.token_to_id(token))
        .collect()
}
