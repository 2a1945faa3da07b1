//! ONNX files, read without their weights: inputs, outputs, operators and the files that hold external data.
//!
//! ```text
//!  lib ── messages of ONNX's protobuf schema (field numbers: onnx.proto3 of ONNX 1.x), small graphs written
//!  skeleton ── a whole graph without the bytes of its tensors
//!  token_table ── how many token ids a graph has vectors for
//!  graph ── Graph: a model's declarations, from the header alone
//! ```
//!
//! A file of gigabytes costs little memory, as only the fields that are declared here are decoded.
//!
//! ```
//! use embedctl_onnx::graph::Graph;
//!
//! # fn main() -> embedctl_common::Result<()> {
//! let graph = Graph::read("../../fixtures/parity/bert-cls/model/onnx/model.onnx".as_ref())?;
//! assert!(graph.inputs.iter().any(|input| input.name == "input_ids"));
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]
// Fields of messages are documented in onnx.proto3.
#![allow(missing_docs)]

pub mod graph;
pub mod skeleton;
mod token_table;

use prost::Message;
use prost::encoding::{WireType, decode_varint, encode_key, encode_varint};

/// `StringStringEntryProto`: where external data lies, for one.
#[derive(Clone, PartialEq, Message)]
pub struct StringEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `ValueInfoProto`: an input or output of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`; one with a name instead of a number has no value.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// `TensorProto.DataType`.
pub const FLOAT: i32 = 1;
/// `TensorProto.DataType`.
pub const INT64: i32 = 7;
/// `TensorProto.DataType`.
pub const FLOAT16: i32 = 10;
/// `TensorProto.DataType`.
pub const BFLOAT16: i32 = 16;
/// `TensorProto.DataLocation`.
pub const EXTERNAL: i32 = 1;

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(string, tag = "3")]
    pub producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// `NodeProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

impl Node {
    /// An attribute that is an integer.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        let mut attributes = self.attribute.iter();
        attributes.find(|one| one.name == name)?.i
    }
}

/// `AttributeProto`: numbers, a tensor or a graph.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(message, optional, tag = "5")]
    pub t: Option<skeleton::TensorSkeleton>,
    #[prost(message, optional, tag = "6")]
    pub g: Option<skeleton::GraphSkeleton>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub kind: i32,
}

/// `TensorProto`: elements as bytes, of bfloat16 also as words, or in a file.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "vec", tag = "9")]
    pub raw_data: Vec<u8>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringEntry>,
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A float32 input or output.
#[must_use]
pub fn float_value(name: &str, dims: &[Option<usize>]) -> ValueInfo {
    let dim = dims
        .iter()
        .map(|dim| Dimension {
            dim_value: dim.map(|size| size as i64),
            dim_param: None,
        })
        .collect();
    ValueInfo {
        name: name.into(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type: FLOAT,
                shape: Some(Shape { dim }),
            }),
        }),
    }
}

impl Attribute {
    /// A number.
    #[must_use]
    pub fn float(name: &str, value: f32) -> Self {
        Self {
            name: name.into(),
            f: Some(value),
            kind: 1,
            ..Self::default()
        }
    }

    /// An integer.
    #[must_use]
    pub fn int(name: &str, value: i64) -> Self {
        Self {
            name: name.into(),
            i: Some(value),
            kind: 2,
            ..Self::default()
        }
    }

    /// A list of integers.
    #[must_use]
    pub fn ints(name: &str, values: &[i64]) -> Self {
        Self {
            name: name.into(),
            ints: values.to_vec(),
            kind: 7,
            ..Self::default()
        }
    }
}

/// A message of the schema that holds tensors, or others that do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
}

impl MessageKind {
    /// The message in its field `number`, if that is one of these.
    #[must_use]
    pub fn field(self, number: u32) -> Option<Self> {
        match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Some(Self::Graph),
            (Self::Graph, 1) => Some(Self::Node),
            (Self::Node, 5) => Some(Self::Attribute),
            (Self::Graph | Self::Attribute, 5) | (Self::Attribute, 10) => Some(Self::Tensor),
            _ => None,
        }
    }

    /// Whether its field `number` holds a tensor's elements, which can have gigabytes.
    #[must_use]
    pub fn has_elements_in(self, number: u32) -> bool {
        self == Self::Tensor && matches!(number, 4 | 5 | 7 | 9 | 10 | 11)
    }
}

/// A field of a serialized message.
pub struct Field<'a> {
    pub number: u32,
    /// Key and content as they stand there.
    pub whole: &'a [u8],
    /// A message's or string's bytes; empty for numbers.
    pub content: &'a [u8],
}

/// The fields of a serialized message, in their order.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = Result<Field<'_>, String>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next_field(rest);
        rest = match &field {
            Some(field) => &rest[field.whole.len()..],
            None => &[],
        };
        Some(field.ok_or_else(|| "the file is damaged".to_owned()))
    })
}

fn next_field(bytes: &[u8]) -> Option<Field<'_>> {
    let mut rest = bytes;
    let key = decode_varint(&mut rest).ok()?;
    let mut content: &[u8] = &[];
    match key & 7 {
        0 => {
            decode_varint(&mut rest).ok()?;
        }
        1 => rest = rest.get(8..)?,
        2 => {
            let length = decode_varint(&mut rest).ok()?;
            (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        }
        5 => rest = rest.get(4..)?,
        _ => return None,
    }
    Some(Field {
        number: u32::try_from(key >> 3).ok()?,
        whole: &bytes[..bytes.len() - rest.len()],
        content,
    })
}

/// Appends a field that holds a message or bytes.
pub fn append(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

impl GraphProto {
    /// Adds a node; returns its output's name.
    pub fn add_node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        name: &str,
        attribute: Vec<Attribute>,
    ) -> String {
        let output = format!("embedctl/{name}");
        self.node.push(Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.clone()],
            name: output.clone(),
            op_type: operator.to_owned(),
            attribute,
            ..Node::default()
        });
        output
    }

    /// Adds a list of integers; returns its name.
    pub fn add_integers(&mut self, name: &str, values: &[i64]) -> String {
        self.add_constant(
            name,
            vec![values.len()],
            INT64,
            values.iter().flat_map(|value| value.to_le_bytes()),
        )
    }

    /// Adds a tensor of `data_type` from its little-endian bytes; returns its name.
    pub fn add_constant(
        &mut self,
        name: &str,
        dims: Vec<usize>,
        data_type: i32,
        bytes: impl Iterator<Item = u8>,
    ) -> String {
        let name = format!("embedctl/{name}");
        self.initializer.push(Tensor {
            dims: dims.into_iter().map(|dim| dim as i64).collect(),
            data_type,
            name: name.clone(),
            raw_data: bytes.collect(),
            ..Tensor::default()
        });
        name
    }
}
