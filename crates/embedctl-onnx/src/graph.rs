//! The header of an ONNX file: inputs, outputs, operators and external files, read without the weights.
//!
//! The messages below declare only the fields that are needed; prost skips the rest (the tensors' bytes
//! among them), so a file of gigabytes costs little memory. Field numbers: `onnx.proto3` of ONNX 1.x.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::Node;
use crate::ValueInfo;
use crate::skeleton;
use crate::token_table;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::folder::with_slashes;
use embedctl_common::setting::BATCH_SIZE;
use embedctl_common::small_file;
use prost::Message as _;

/// Element type of a graph's input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit float.
    F32,
    /// 16-bit float (IEEE half).
    F16,
    /// 16-bit float (bfloat16).
    Bf16,
    /// 64-bit float.
    F64,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// Boolean.
    Bool,
    /// Anything else, by its number in `TensorProto.DataType`.
    Other(i32),
}

impl From<i32> for ElementType {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::F32,
            6 => Self::I32,
            7 => Self::I64,
            9 => Self::Bool,
            10 => Self::F16,
            11 => Self::F64,
            16 => Self::Bf16,
            other => Self::Other(other),
        }
    }
}

/// A graph's input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Name in the graph.
    pub name: String,
    /// Element type.
    pub element: ElementType,
    /// Shape; `None` for a symbolic or unknown dimension.
    pub shape: Vec<Option<usize>>,
}

/// The declarations of an ONNX file.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Inputs that must be fed (initializers left out).
    pub inputs: Vec<Value>,
    /// Outputs.
    pub outputs: Vec<Value>,
    /// Operators used, as `domain:Type`, or `Type` in the standard domain; subgraphs included.
    pub operators: BTreeSet<String>,
    /// External weight files, relative to the ONNX file's folder.
    pub external: Vec<PathBuf>,
    /// How many bytes each of these files has at least: where the last of its weights ends.
    pub external_bytes: Vec<u64>,
    /// A matrix product in blocks (`MatMulNBits`) whose result depends on where in the batch a row stands.
    pub mixes_rows: bool,
    /// Weights are stored packed and unfolded by operators at load (`Cast` or `DequantizeLinear` of a
    /// stored tensor).
    pub packed: bool,
    /// Rows of the table of token vectors, where the graph shows them: token ids from this number on have none.
    pub token_rows: Option<usize>,
}

impl Graph {
    /// Reads the header of the ONNX file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read or is not an ONNX model.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = small_file::open(path).map_err(failed)?;
        let header = skeleton::ModelSkeleton::graph_of(&file).map_err(failed)?;
        let Some(graph) = header.filter(|graph| !graph.node.is_empty()) else {
            let mut start = Vec::new();
            let mut first = small_file::open(path).map_err(failed)?.take(64);
            first.read_to_end(&mut start).map_err(failed)?;
            let cause = small_file::lfs_pointer(&start).unwrap_or_else(|| {
                Cause::of("is not an ONNX model, or was cut short").with("fetch the file again")
            });
            return Err(Error::model(path.display(), cause));
        };
        let graph = Self::from_header(&graph);
        let leads_out = |file: &&PathBuf| {
            !(file.components())
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        if let Some(outside) = graph.external.iter().find(leads_out) {
            return Err(Error::model(
                path.display(),
                format!(
                    "keeps weights in '{}', which is not inside its own folder; embedctl does not follow such paths",
                    outside.display()
                ),
            ));
        }
        Ok(graph)
    }

    /// The declarations of a model in memory; `None` if these are not an ONNX model's bytes.
    #[must_use]
    pub fn of_bytes(model: &[u8]) -> Option<Self> {
        let model = skeleton::ModelSkeleton::decode(model).ok()?;
        Some(Self::from_header(&model.graph?))
    }

    fn from_header(graph: &skeleton::GraphSkeleton) -> Self {
        let stored: BTreeSet<&str> = graph
            .initializer
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        let mut read = Self {
            inputs: graph
                .input
                .iter()
                .filter(|value| !stored.contains(value.name.as_str()))
                .map(Value::from)
                .collect(),
            outputs: graph.output.iter().map(Value::from).collect(),
            token_rows: token_table::rows(graph, "input_ids"),
            ..Self::default()
        };
        read.packed = graph.node.iter().any(|node| {
            matches!(node.op_type.as_str(), "Cast" | "DequantizeLinear")
                && node
                    .input
                    .first()
                    .is_some_and(|input| stored.contains(input.as_str()))
        });
        let mut external = BTreeMap::new();
        read.collect(graph, &mut external);
        for (file, bytes) in external {
            read.external.push(file.into());
            read.external_bytes.push(bytes);
        }
        read
    }

    fn collect(&mut self, graph: &skeleton::GraphSkeleton, external: &mut BTreeMap<String, u64>) {
        let constants = graph
            .node
            .iter()
            .flat_map(|node| &node.attribute)
            .filter_map(|attribute| attribute.t.as_ref());
        for tensor in graph.initializer.iter().chain(constants) {
            let entry = |key: &str| {
                let mut entries = tensor.external_data.iter();
                entries.find(|entry| entry.key == key)
            };
            if let Some(location) = entry("location") {
                let number = |key| entry(key).and_then(|entry| entry.value.parse::<u64>().ok());
                let end = number("offset").unwrap_or(0);
                let end = end.saturating_add(number("length").unwrap_or(0));
                let bytes = external.entry(location.value.clone()).or_default();
                *bytes = end.max(*bytes);
            }
        }
        for node in &graph.node {
            self.mixes_rows |= node.mixes_rows();
            self.operators.insert(match node.domain.as_str() {
                "" | "ai.onnx" => node.op_type.clone(),
                domain => format!("{domain}:{}", node.op_type),
            });
            for subgraph in node
                .attribute
                .iter()
                .filter_map(|attribute| attribute.g.as_ref())
            {
                self.collect(subgraph, external);
            }
        }
    }

    /// The external weight files by their paths in a repository whose ONNX file is `onnx`.
    pub fn external_names(&self, onnx: &str) -> impl Iterator<Item = String> {
        let folder = Path::new(onnx).parent().unwrap_or(Path::new(""));
        let path = |part: &PathBuf| folder.join(part.strip_prefix(".").unwrap_or(part));
        self.external
            .iter()
            .map(move |file| with_slashes(&path(file)))
    }

    /// The input named `name`.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&Value> {
        self.inputs.iter().find(|value| value.name == name)
    }

    /// The output named `name`.
    #[must_use]
    pub fn output(&self, name: &str) -> Option<&Value> {
        self.outputs.iter().find(|value| value.name == name)
    }

    /// Whether activations are quantized with ranges taken from the whole batch, which makes a row's
    /// vector depend on the rows beside it.
    #[must_use]
    pub fn is_dynamically_quantized(&self) -> bool {
        self.operators.iter().any(|operator| {
            matches!(
                operator.rsplit(':').next(),
                Some("DynamicQuantizeLinear" | "DynamicQuantizeMatMul" | "DynamicQuantizeLSTM")
            )
        })
    }

    /// A warning about a graph whose vectors depend on the texts beside them.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let reason = if self.is_dynamically_quantized() {
            "this graph quantizes activations with ranges taken from the whole batch"
        } else if self.mixes_rows {
            "this graph multiplies with weights in large blocks (MatMulNBits), whose products depend on a row's place in \
             the batch"
        } else {
            return None;
        };
        Some(format!(
            "{reason}, so a text's vector depends on the texts beside it; {BATCH_SIZE} 1 embeds each text alone and makes \
             vectors repeatable"
        ))
    }
}

impl From<&ValueInfo> for Value {
    fn from(info: &ValueInfo) -> Self {
        let tensor = info
            .r#type
            .as_ref()
            .and_then(|kind| kind.tensor_type.as_ref());
        let dims = tensor
            .and_then(|tensor| tensor.shape.as_ref())
            .map(|shape| shape.dim.as_slice());
        Self {
            name: info.name.clone(),
            element: tensor.map_or(0, |tensor| tensor.elem_type).into(),
            shape: dims
                .unwrap_or_default()
                .iter()
                .map(|dim| dim.dim_value.and_then(|value| usize::try_from(value).ok()))
                .collect(),
        }
    }
}

impl Node {
    /// ONNX Runtime's kernels sum long blocks, and blocks of 64 four-bit weights, in another order for some
    /// rows of a batch than for others.
    fn mixes_rows(&self) -> bool {
        let integer = |name| self.integer(name).unwrap_or(0);
        self.op_type == "MatMulNBits"
            && (integer("block_size") >= 128
                || (integer("block_size") >= 64 && integer("bits") == 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a graph whose one node is `op`, with these integers.
    fn warning(op: &str, integers: &[(&str, i64)]) -> Option<String> {
        let attribute = integers.iter().map(|&(name, i)| crate::Attribute {
            name: name.into(),
            i: Some(i),
            ..Default::default()
        });
        let node = Node {
            op_type: op.into(),
            attribute: attribute.collect(),
            domain: "com.microsoft".into(),
            ..Default::default()
        };
        let graph = skeleton::GraphSkeleton {
            node: vec![node],
            ..Default::default()
        };
        Graph::from_header(&graph).warning()
    }

    #[test]
    fn graphs_whose_vectors_depend_on_their_batch_are_warned_of() {
        for (bits, block, warned) in [
            (8, 32, false),
            (8, 64, false),
            (8, 128, true),
            (4, 32, false),
            (4, 64, true),
            (4, 256, true),
        ] {
            let warning = warning("MatMulNBits", &[("bits", bits), ("block_size", block)]);
            assert_eq!(
                warning.is_some(),
                warned,
                "{bits} bits in blocks of {block}"
            );
            assert!(warning.is_none_or(|text| text.contains("--batch-size 1")));
        }
        assert!(warning("DynamicQuantizeMatMul", &[]).is_some());
        assert_eq!(warning("LayerNormalization", &[]), None);
    }
}
