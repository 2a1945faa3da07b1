//! The greatest magnitudes of products' inputs, by which 8-bit products are balanced.

use std::sync::Mutex;

use crate::packed::{InputRanges, Product};
use embedctl_common::threads::locked;
use embedctl_kernels::Matrix;

/// The greatest magnitudes of each product's inputs, where they are collected.
pub(super) type NotedRanges<'r> = Option<Mutex<&'r mut InputRanges>>;

/// Raises the greatest magnitudes of each channel of a product's inputs (empty at first) to those of `values`, where
/// they are collected.
pub(super) fn note(ranges: &NotedRanges<'_>, product: Product, matrix: &Matrix, values: &[f32]) {
    let Some(ranges) = ranges else {
        return;
    };
    let mut ranges = locked(ranges);
    let (range, channels) = (&mut ranges[product as usize], matrix.inputs());
    range.resize(channels, 0.0);
    for row in values.chunks_exact(channels) {
        for (most, value) in range.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
}
