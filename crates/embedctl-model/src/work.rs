//! How much arithmetic a text needs: floating-point operations of a model's matrix products, read from its
//! ONNX graph or from its checkpoint's headers.
//!
//! A row of *n* real tokens counts as
//!
//! ```text
//!     n · Σ 2·|W|        for every product with a stored matrix W (MatMul, Gemm and their quantized and
//!                        fused relatives), |W| its number of elements
//!   + n² · 4·L·d         for L attention layers of width d (heads × width of a head): QKᵀ and the
//!                        product with V take 2·n²·d each
//! ```
//!
//! Only operators that the wanted output depends on are counted. Padding is left out, so the count is *useful* work.
//! Layers are counted by their softmax or by their fused attention operator. Element-wise operators, normalization and
//! look-ups are left out (a few percent), and so are convolutions, subgraphs, and the extra products of relative
//! positions in DeBERTa.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::Path;

use serde::{Deserialize, Serialize};

use embedctl_checkpoint::safetensors;
use embedctl_common::error::{Error, Result};
use embedctl_common::small_file;
use embedctl_onnx::Node;
use embedctl_onnx::skeleton::{self, GraphSkeleton, TensorSkeleton};

use crate::{CheckpointFiles, Model};

/// The work of a model, per row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations a real token.
    pub per_token: f64,
    /// Floating-point operations for each pair of real tokens in a row.
    pub per_pair: f64,
}

impl Work {
    /// Counts the work of `model`.
    ///
    /// # Errors
    /// If its graph, or its checkpoint's headers, cannot be read.
    pub fn of(model: &Model) -> Result<Self> {
        let width = attention_width(&model.network().join("config.json"));
        let width = width.unwrap_or(model.config.hidden_width);
        if let Ok(checkpoint) = &model.checkpoint {
            return Self::of_checkpoint(checkpoint, width);
        }
        let graph = read(&model.onnx()?.path)?;
        Ok(Self::of_graph(&graph, model.config.output.name(), width))
    }

    /// The work of the nodes that `output` depends on.
    fn of_graph(graph: &GraphSkeleton, output: &str, attention_width: usize) -> Self {
        let constants = constants(graph);
        let mut work = Self {
            per_token: 0.0,
            per_pair: 0.0,
        };
        for node in needed(graph, output) {
            work.per_token += 2.0 * weight(node, &constants).unwrap_or(0) as f64;
            if is_attention_layer(node) {
                work.per_pair += 4.0 * attention_width as f64;
            }
        }
        work
    }

    /// Every matrix of a layer is multiplied with once a token, and there is one attention a layer.
    fn of_checkpoint(checkpoint: &CheckpointFiles, width: usize) -> Result<Self> {
        let number = |names: &[&str]| {
            let value = names.iter().find_map(|name| checkpoint.config.get(*name));
            value.and_then(serde_json::Value::as_f64)
        };
        let layers = number(&["num_hidden_layers", "n_layers", "n_layer"]).unwrap_or(0.0);
        // ALBERT's layers share weights.
        let stored = number(&["num_hidden_groups"]).unwrap_or(layers);
        let mut weights = 0.0;
        for file in &checkpoint.files {
            if file
                .extension()
                .is_some_and(|ending| ending == "safetensors")
            {
                weights += matrices(file)?;
            }
        }
        let repeated = if stored > 0.0 { layers / stored } else { 1.0 };
        Ok(Self {
            per_token: 2.0 * weights * repeated,
            per_pair: 4.0 * width as f64 * layers,
        })
    }

    /// Operations for rows with `tokens` real tokens together, and `pairs` pairs of them (the sum of the
    /// squares of the rows' lengths).
    #[must_use]
    pub fn total(&self, tokens: f64, pairs: f64) -> f64 {
        self.per_token * tokens + self.per_pair * pairs
    }
}

/// Elements of the matrices in a checkpoint's file that tokens are multiplied with: those of layers, which
/// all have the number of theirs in their names.
fn matrices(path: &Path) -> Result<f64> {
    let of_layer = |name: &str| {
        !name.contains("embed") && name.split('.').any(|part| part.parse::<u32>().is_ok())
    };
    let header = safetensors::outlines(path)?;
    let tensors = header.iter().filter(|(name, _)| of_layer(name));
    let matrices = tensors.filter(|(_, tensor)| tensor.shape.len() == 2);
    Ok(matrices
        .map(|(_, tensor)| tensor.shape.iter().product::<u64>() as f64)
        .sum())
}

/// Heads times the width of a head, as config.json has it.
fn attention_width(config: &Path) -> Option<usize> {
    let text = fs::read(config).ok()?;
    let config: serde_json::Value = serde_json::from_slice(small_file::without_mark(&text)).ok()?;
    let number = |names: &[&str]| {
        let value = names.iter().find_map(|name| config.get(name)?.as_u64())?;
        usize::try_from(value).ok()
    };
    let heads = number(&["num_attention_heads", "n_heads", "n_head"]);
    match (heads, number(&["head_dim"])) {
        (Some(heads), Some(width)) => Some(heads * width),
        _ => number(&["hidden_size", "dim", "d_model", "n_embd"]),
    }
}

fn read(path: &Path) -> Result<GraphSkeleton> {
    let file = File::open(path);
    file.and_then(|file| skeleton::ModelSkeleton::graph_of(&file))
        .map_err(|error| Error::io("read", path, error))?
        .ok_or_else(|| Error::model(path.display(), "is not an ONNX model"))
}

/// Nodes that `output` depends on; all of them, if no node makes it.
fn needed<'g>(graph: &'g GraphSkeleton, output: &str) -> Vec<&'g Node> {
    let makers: HashMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.output.iter().map(move |name| (name.as_str(), index)))
        .collect();
    if !makers.contains_key(output) {
        return graph.node.iter().collect();
    }
    let mut needed = HashSet::new();
    let mut open = vec![output];
    while let Some(name) = open.pop() {
        if let Some(&index) = makers.get(name)
            && needed.insert(index)
        {
            open.extend(graph.node[index].input.iter().map(String::as_str));
        }
    }
    graph
        .node
        .iter()
        .enumerate()
        .filter(|(index, _)| needed.contains(index))
        .map(|(_, node)| node)
        .collect()
}

/// Elements of every stored tensor, and of tensors that are only unpacked or rearranged from these. An ONNX graph's
/// nodes are in topological order.
fn constants(graph: &GraphSkeleton) -> HashMap<&str, u64> {
    let mut constants: HashMap<&str, u64> = graph
        .initializer
        .iter()
        .map(|tensor| (tensor.name.as_str(), elements(tensor)))
        .collect();
    for node in &graph.node {
        let elements = match node.op_type.as_str() {
            "Constant" => node
                .attribute
                .iter()
                .find_map(|one| one.t.as_ref().map(elements)),
            "Cast" | "Identity" | "DequantizeLinear" | "Transpose" | "Reshape" | "Squeeze"
            | "Unsqueeze" | "Flatten" => node
                .input
                .first()
                .and_then(|input| constants.get(input.as_str()).copied()),
            // Scales and zero points, applied by hand.
            "Mul" | "Add" | "Sub" | "Div" => {
                let inputs = node.input.iter().map(|input| constants.get(input.as_str()));
                inputs
                    .collect::<Option<Vec<_>>>()
                    .and_then(|all| all.into_iter().max().copied())
            }
            _ => None,
        };
        if let (Some(elements), Some(output)) = (elements, node.output.first()) {
            constants.insert(output, elements);
        }
    }
    constants
}

/// Elements of the stored matrix that every token is multiplied with, if this is such a product.
fn weight(node: &Node, constants: &HashMap<&str, u64>) -> Option<u64> {
    let constant = |index: usize| constants.get(node.input.get(index)?.as_str()).copied();
    let between = |left: usize, right: usize| match (constant(left), constant(right)) {
        // Both stored: computed once for all inputs.
        (Some(_), Some(_)) | (None, None) => None,
        (one, other) => one.or(other),
    };
    match node.op_type.as_str() {
        "MatMul"
        | "Gemm"
        | "FusedMatMul"
        | "FusedGemm"
        | "MatMulInteger"
        | "MatMulFpQ4"
        | "DynamicQuantizeMatMul"
        | "MatMulIntegerToFloat"
        | "GemmFloat8" => between(0, 1),
        "QLinearMatMul" => between(0, 3),
        // a, a_scale, a_zero_point, b, …
        "QGemm" => between(0, 3),
        // Packed: the attributes say how many elements there are.
        "MatMulNBits" | "MatMulBnb4" => Some(count(node, "K")? * count(node, "N")?),
        // The operator holds the projections to Q, K and V.
        "Attention" | "QAttention" if node.domain == "com.microsoft" => constant(1),
        _ => None,
    }
}

fn count(node: &Node, name: &str) -> Option<u64> {
    u64::try_from(node.integer(name)?).ok()
}

/// Every layer has one softmax, or one operator that does all of it.
fn is_attention_layer(node: &Node) -> bool {
    matches!(
        node.op_type.as_str(),
        "Softmax"
            | "Attention"
            | "QAttention"
            | "MultiHeadAttention"
            | "GroupQueryAttention"
            | "PackedAttention"
            | "PackedMultiHeadAttention"
    )
}

fn elements(tensor: &TensorSkeleton) -> u64 {
    tensor
        .dims
        .iter()
        .map(|&dim| u64::try_from(dim).unwrap_or(0))
        .product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelOptions, Precision, WeightsPreference};
    use embedctl_onnx::Attribute;

    fn work(folder: &str) -> Work {
        work_of(folder, None)
    }

    fn work_of(folder: &str, precision: Option<Precision>) -> Work {
        let options = ModelOptions {
            model: folder.into(),
            precision,
            ..ModelOptions::default()
        };
        Work::of(&Model::open(&options, WeightsPreference::Onnx).unwrap()).unwrap()
    }

    /// Of a BERT: four square matrices and two of the feed-forward part in each layer.
    fn bert(layers: f64, width: f64, inner: f64) -> Work {
        Work {
            per_token: layers * 2.0 * (4.0 * width * width + 2.0 * width * inner),
            per_pair: layers * 4.0 * width,
        }
    }

    #[test]
    fn a_small_bert_is_counted_by_hand() {
        assert_eq!(
            work("../../fixtures/parity/bert-mean-legacy/model"),
            bert(2.0, 48.0, 96.0)
        );
    }

    /// Stored as int8 with scales, unpacked by operators: the same work.
    #[test]
    fn packed_weights_count_as_what_they_are() {
        assert_eq!(
            work("../../fixtures/models/all-MiniLM-L6-v2"),
            bert(6.0, 384.0, 1536.0)
        );
    }

    #[test]
    fn half_precision_counts_as_much_as_single() {
        let half = work_of(
            "../../fixtures/parity/weights-fp16/model",
            Some(Precision::Fp16),
        );
        assert_eq!(half, bert(2.0, 24.0, 32.0));
    }

    /// Fewer heads for keys and values, heads wider than the model divided by them, a gated
    /// feed-forward part.
    #[test]
    fn a_decoder_has_the_width_of_its_heads() {
        let counted = work("../../fixtures/parity/family-qwen3/model");
        let attention = 24.0 * 32.0 + 2.0 * 24.0 * 16.0 + 32.0 * 24.0;
        let gated = 3.0 * 24.0 * 32.0;
        assert_eq!(counted.per_token, 2.0 * 2.0 * (attention + gated));
        assert_eq!(counted.per_pair, 2.0 * 4.0 * 32.0);
    }

    fn node(op_type: &str, input: &[&str], output: &str) -> Node {
        Node {
            op_type: op_type.into(),
            input: input.iter().map(ToString::to_string).collect(),
            output: vec![output.into()],
            ..Node::default()
        }
    }

    fn stored(name: &str, dims: &[i64]) -> TensorSkeleton {
        TensorSkeleton {
            name: name.into(),
            dims: dims.to_vec(),
            ..TensorSkeleton::default()
        }
    }

    #[test]
    fn what_the_output_does_not_need_is_not_counted() {
        let graph = GraphSkeleton {
            initializer: vec![stored("w", &[4, 8]), stored("pooler", &[8, 8])],
            node: vec![
                node("MatMul", &["x", "w"], "hidden"),
                node("Gemm", &["hidden", "pooler"], "pooled"),
            ],
            ..GraphSkeleton::default()
        };
        assert_eq!(Work::of_graph(&graph, "hidden", 8).per_token, 64.0);
        assert_eq!(Work::of_graph(&graph, "pooled", 8).per_token, 64.0 + 128.0);
        assert_eq!(
            Work::of_graph(&graph, "elsewhere", 8).per_token,
            64.0 + 128.0
        );
    }

    #[test]
    fn quantized_and_fused_operators_are_known() {
        let mut nbits = node("MatMulNBits", &["x", "packed", "scales"], "a");
        let integer = |name: &str, i| Attribute {
            name: name.into(),
            i: Some(i),
            ..Attribute::default()
        };
        nbits.attribute = vec![integer("K", 16), integer("N", 4)];
        let mut fused = node("Attention", &["a", "qkv"], "out");
        fused.domain = "com.microsoft".into();
        let graph = GraphSkeleton {
            initializer: vec![
                stored("packed", &[4, 1, 8]),
                stored("scales", &[4]),
                stored("b", &[16, 16]),
                stored("qkv", &[4, 12]),
            ],
            node: vec![node("MatMulInteger", &["x8", "b"], "x"), nbits, fused],
            ..GraphSkeleton::default()
        };
        let work = Work::of_graph(&graph, "out", 4);
        assert_eq!(work.per_token, 2.0 * (256.0 + 64.0 + 48.0));
        assert_eq!(work.per_pair, 16.0);
        assert_eq!(work.total(10.0, 100.0), 10.0 * work.per_token + 1600.0);
    }
}
