//! Reads NPY matrices of float32 without numpy, so that parity needs no Python.

use std::path::Path;

/// A matrix, row-major.
pub struct Matrix {
    pub rows: usize,
    pub width: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// Every `step`-th row, from the first on.
    pub fn step_by(&self, step: usize) -> Self {
        let rows: Vec<&[f32]> = (0..self.rows)
            .step_by(step)
            .map(|row| self.row(row))
            .collect();
        Self {
            rows: rows.len(),
            width: self.width,
            values: rows.concat(),
        }
    }

    /// Reads a two-dimensional little-endian float32 array in C order.
    pub fn read(path: &Path) -> Self {
        let bytes =
            std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(
            header.contains("'<f4'") && header.contains("'fortran_order': False"),
            "{header}"
        );
        let shape = header
            .split_once("'shape': (")
            .unwrap()
            .1
            .split_once(')')
            .unwrap()
            .0;
        let shape: Vec<usize> = shape
            .split(',')
            .map(|dim| dim.trim().parse().unwrap())
            .collect();
        let values: Vec<f32> = bytes[10 + length..]
            .chunks_exact(4)
            .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(values.len(), shape[0] * shape[1], "{}", path.display());
        Self {
            rows: shape[0],
            width: shape[1],
            values,
        }
    }

    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..(index + 1) * self.width]
    }
}

/// Cosine similarity, in double precision: single has an error of its own at the seventh digit.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The largest difference between two rows; a NaN is the largest of all.
pub fn apart(a: &[f32], b: &[f32]) -> f32 {
    let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    apart.max_by(f32::total_cmp).unwrap()
}
