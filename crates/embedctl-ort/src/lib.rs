//! ONNX Runtime and rten.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod arithmetic;
pub mod device;
pub mod engine;
mod feeds;
pub mod halving;
pub mod onnxruntime;
mod padded;
pub mod provider;
pub mod rten;
pub mod runtime;

pub use engine::*;

use embedctl_common::{
    Result, cancel, error, folder, hash, named, private_folder, remedies, size, small_file,
    threads, word_list,
};
use embedctl_model::{self as model, batch, pool};
use embedctl_onnx as onnx;
#[cfg(test)]
use embedctl_testing::mutation;
