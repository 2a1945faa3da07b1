//! The engine inside: embedding models straight from their checkpoints, on the processor's own units.

pub mod kernels;
