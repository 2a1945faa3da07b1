//! As much of a model as tells what it computes and where its weights lie: no weights. What is not declared
//! is skipped, so a file of gigabytes is read in milliseconds.

use std::fs::File;
use std::io;

use prost::Message;

use super::{Node, StringEntry, ValueInfo};

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
}

impl Model {
    /// The graph of an open file; `None` where that is no ONNX model.
    pub fn graph_of(file: &File) -> io::Result<Option<Graph>> {
        // SAFETY: the mapping is only read, once, right here. It is the file itself: what another process
        // writes into it would be seen, and cutting it would end this process by a signal. Models are
        // replaced by renaming, and whoever cuts one in place ends every reader of its weights as well.
        let bytes = unsafe { memmap2::Mmap::map(file) }?;
        let model = Self::decode(&bytes[..]).ok();
        Ok(model.and_then(|model| model.graph))
    }
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// `TensorProto` without its elements.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringEntry>,
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}
