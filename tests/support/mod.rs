//! What integration tests share.
#![allow(dead_code)]
pub mod npy;
pub fn onnxruntime(_: &str) -> Option<std::path::PathBuf> { std::env::var_os("VIRTUAL_ENV").map(Into::into) }
