//! The engine's arithmetic: products, norms, activations and attention, for each instruction set.
//!
//! SIMD and `unsafe` live here alone, behind functions that check their arguments. An [`Isa`] says which instructions
//! may run; it is found once and passed explicitly. Weights are packed once into a [`Matrix`] that all workers share;
//! activations are rows of floats that an [`Operand`] turns into what the matrix multiplies. Batches are ragged: rows
//! of all texts follow each other, and only [`Attention`] knows where a text begins.
//!
//! Every result depends on its own row (or, in attention, its own text) alone, bit for bit: sums are
//! accumulated in an order that neither the rows beside it nor the threads can change. NaN in gives NaN out
//! everywhere; in integer arithmetic, and in single precision by tiles, an infinity does too. Nothing is allocated in steady state.

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

#[cfg_attr(not(kernels = "amx"), allow(dead_code))] // nothing else has tiles
mod amx;
mod attention;
mod delta;
mod detection;
mod isa;
mod linear;
mod lines;
mod math;
mod matrix;
mod norm;
mod operand;
pub mod peak;
mod preparation;
mod rotary;
mod rounding;
mod simd;
mod terms;
mod tile;
mod tile_layout;
mod tile_pairs;
mod tile_parts;
#[cfg_attr(not(kernels = "amx"), allow(dead_code))]
mod tile_products;

pub use attention::{Attention, AttentionScratch, HeadsInput, ScoreBias, Sight};
pub use delta::{DeltaHead, delta_rule};
pub use embedctl_common::Arithmetic;
pub use isa::{HOW_TO_BUILD_ALL, Isa};
pub use linear::{ProductFinish, linear, linear_part};
pub use lines::CacheLines;
pub use math::{activate_all, gate_by_activation, gate_by_sigmoid};
pub use matrix::{Matrix, PackedLayout};
pub use norm::Norm;
pub use operand::{Converted, Operand};
pub use rotary::rotary;
pub use terms::TermPooling;
