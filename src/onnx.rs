//! The messages of ONNX's protobuf schema that several readers need. Field numbers: `onnx.proto3` of
//! ONNX 1.x.
//!
//! Graphs, nodes and tensors are not among them: each reader declares the fields of these that it wants,
//! since what is not declared is skipped, and a tensor's bytes can be gigabytes.

use prost::Message;

/// `StringStringEntryProto`: where external data lies, for one.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `ValueInfoProto`: an input or output of a graph.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// `TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`; one with a name instead of a number has no value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
}
