//! From float32 to the type of a vector's components in the output, value by value as
//! `sentence_transformers.util.quantize_embeddings` (6.2.0) does it.

use half::f16;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::json_values::push;
use arrow::array::{ArrayRef, Float16Array, Float32Array, Int8Array, UInt8Array};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use embedctl_common::named::named;

named! {
    /// The type of a vector's components in the output, as `--dtype` and the provenance call it. Other tools' names are
    /// understood, too.
    #[derive(Default)]
    pub enum Dtype("type", "choose") {
        /// float32, as the model gives them.
        #[default]
        F32 = "f32" | "float32",
        /// float16, rounded to the nearest.
        F16 = "f16" | "float16" | "half",
        /// 256 steps between a component's least and greatest value ([`Ranges`]), from -128.
        Int8 = "int8",
        /// The same, from 0.
        Uint8 = "uint8",
        /// A bit for each component, 1 where it is above zero, eight in an int8: what `ubinary` gives less 128.
        Binary = "binary",
        /// A bit for each component, the first one the highest of a uint8; the last one is filled up with zeros.
        Ubinary = "ubinary",
    }
}

impl Dtype {
    /// Whether it divides ranges into steps.
    #[must_use]
    pub const fn needs_ranges(self) -> bool {
        matches!(self, Self::Int8 | Self::Uint8)
    }

    /// Elements of a vector of so many components.
    #[must_use]
    pub const fn width(self, dimensions: usize) -> usize {
        match self {
            Self::Binary | Self::Ubinary => dimensions.div_ceil(8),
            _ => dimensions,
        }
    }

    /// Arrow's type of an element.
    #[must_use]
    pub const fn element(self) -> DataType {
        match self {
            Self::F32 => DataType::Float32,
            Self::F16 => DataType::Float16,
            Self::Int8 | Self::Binary => DataType::Int8,
            Self::Uint8 | Self::Ubinary => DataType::UInt8,
        }
    }

    /// Bytes of a vector of so many components, as it is stored.
    #[must_use]
    pub const fn vector_bytes(self, dimensions: usize) -> usize {
        self.width(dimensions) * self.bytes()
    }

    /// Replaces a vector's components by the elements that a reader of this type finds. `ranges` are given where the type
    /// needs them.
    pub fn round_trip(self, vector: &mut Vec<f32>, ranges: Option<&Ranges>) {
        let dimensions = vector.len();
        let values = std::mem::take(vector);
        match Elements::new(values, dimensions, self, ranges) {
            Elements::F32(values) => *vector = values,
            Elements::F16(values) => vector.extend(values.into_iter().map(f16::to_f32)),
            Elements::I8(values) => vector.extend(values.into_iter().map(f32::from)),
            Elements::U8(values) => vector.extend(values.into_iter().map(f32::from)),
        }
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            _ => 1,
        }
    }
}

/// Least and greatest value of each component, over some vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    /// The least.
    pub min: Vec<f32>,
    /// The greatest.
    pub max: Vec<f32>,
}

impl Ranges {
    /// Of no vector yet, of so many components.
    #[must_use]
    pub fn new(dimensions: usize) -> Self {
        Self {
            min: vec![f32::INFINITY; dimensions],
            max: vec![f32::NEG_INFINITY; dimensions],
        }
    }

    /// Takes a vector in.
    pub fn add(&mut self, vector: &[f32]) {
        let ranges = self.min.iter_mut().zip(&mut self.max);
        for ((min, max), &value) in ranges.zip(vector) {
            *min = min.min(value);
            *max = max.max(value);
        }
    }
}

/// Vectors of one column, row-major, in the type they are written in.
#[derive(Debug)]
pub enum Elements {
    /// float32.
    F32(Vec<f32>),
    /// float16.
    F16(Vec<f16>),
    /// int8.
    I8(Vec<i8>),
    /// uint8.
    U8(Vec<u8>),
}

impl Elements {
    /// Those of `values`, vectors of `dimensions` components; `ranges` are given where the type needs them.
    pub fn new(values: Vec<f32>, dimensions: usize, dtype: Dtype, ranges: Option<&Ranges>) -> Self {
        let steps = || {
            let ranges = ranges.expect("such an output is not made without ranges");
            in_steps(&values, dimensions, ranges)
        };
        match dtype {
            Dtype::F32 => Self::F32(values),
            Dtype::F16 => Self::F16(values.into_iter().map(f16::from_f32).collect()),
            Dtype::Uint8 => Self::U8(steps()),
            Dtype::Int8 => Self::I8(steps().into_iter().map(less_128).collect()),
            Dtype::Ubinary => Self::U8(bits(&values, dimensions)),
            Dtype::Binary => {
                let bits = bits(&values, dimensions);
                Self::I8(bits.into_iter().map(less_128).collect())
            }
        }
    }

    /// As a column of single elements.
    #[must_use]
    pub fn into_array(self) -> ArrayRef {
        match self {
            Self::F32(values) => Arc::new(Float32Array::from(values)),
            Self::F16(values) => Arc::new(Float16Array::from(values)),
            Self::I8(values) => Arc::new(Int8Array::from(values)),
            Self::U8(values) => Arc::new(UInt8Array::from(values)),
        }
    }

    /// Their bytes, little-endian; a copy only where the machine has them the other way round.
    #[must_use]
    pub fn into_little_endian(self) -> Buffer {
        let big = cfg!(target_endian = "big");
        match self {
            Self::F32(values) if big => {
                let bits = values.iter().map(|value| value.to_bits().to_le());
                Buffer::from_vec(bits.collect::<Vec<u32>>())
            }
            Self::F16(values) if big => {
                let bits = values.iter().map(|value| value.to_bits().to_le());
                Buffer::from_vec(bits.collect::<Vec<u16>>())
            }
            Self::F32(values) => Buffer::from_vec(values),
            Self::F16(values) => Buffer::from_vec(values),
            Self::I8(values) => Buffer::from_vec(values),
            Self::U8(values) => Buffer::from_vec(values),
        }
    }

    /// Appends the number of row `row` in JSON, where a row has one.
    pub fn push_number(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::F32(values) => push(out, &values[row]),
            Self::F16(values) => push(out, &values[row].to_f32()),
            Self::I8(values) => push(out, &values[row]),
            Self::U8(values) => push(out, &values[row]),
        }
    }

    /// Appends row `row`, `width` elements wide, as a list in JSON.
    pub fn push_json(&self, row: usize, width: usize, out: &mut Vec<u8>) {
        let range = row * width..(row + 1) * width;
        match self {
            Self::F32(values) => push(out, &values[range]),
            Self::F16(values) => {
                let values: Vec<f32> = values[range].iter().map(|value| value.to_f32()).collect();
                push(out, &values);
            }
            Self::I8(values) => push(out, &values[range]),
            Self::U8(values) => push(out, &values[range]),
        }
    }
}

/// `clip(floor((x − min) / step), 0, 255)`, with a step of `(max − min) / 255`, or 1 where that is zero.
fn in_steps(values: &[f32], dimensions: usize, ranges: &Ranges) -> Vec<u8> {
    let ranges = ranges.min.iter().zip(&ranges.max);
    let steps: Vec<(f32, f32)> = ranges
        .map(|(&min, &max)| match (max - min) / 255.0 {
            0.0 => (min, 1.0),
            step => (min, step),
        })
        .collect();
    let rows = values.chunks_exact(dimensions.max(1));
    let of_row = |row| std::iter::zip(row, &steps);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // clamped to the range of a byte
    rows.flat_map(of_row)
        .map(|(&value, &(min, step))| ((value - min) / step).floor().clamp(0.0, 255.0) as u8)
        .collect()
}

/// Whether each component is above zero, eight to a byte, as `numpy.packbits`.
fn bits(values: &[f32], dimensions: usize) -> Vec<u8> {
    let rows = values.chunks_exact(dimensions.max(1));
    let byte = |eight: &[f32]| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (place, &value)| {
            byte | u8::from(value > 0.0) << (7 - place)
        })
    };
    rows.flat_map(|row| row.chunks(8).map(byte)).collect()
}

fn less_128(value: u8) -> i8 {
    value.wrapping_sub(128).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_packed_as_numpy_packs_them() {
        let row: Vec<f32> = [1., -1., 0., 2., 0., 0., 0., 1e-9, 3., f32::MIN_POSITIVE]
            .into_iter()
            .collect();
        assert_eq!(bits(&row, 10), [0b1001_0001, 0b1100_0000]);
        assert_eq!(bits(&[row.clone(), row].concat(), 10).len(), 4);
        assert_eq!(Dtype::Binary.width(10), 2);
        assert_eq!([0, 127, 128, 255].map(less_128), [-128, -1, 0, 127]);
    }

    #[test]
    fn steps_end_at_a_byte_and_a_constant_component_has_steps_of_one() {
        let mut ranges = Ranges::new(2);
        ranges.add(&[-55.0, 0.5]);
        ranges.add(&[200.0, 0.5]);
        let values = [-56.0, 0.5, 200.0, 1.5, -54.5, 9.0, 1e9, 0.0];
        assert_eq!(in_steps(&values, 2, &ranges), [0, 0, 255, 1, 0, 8, 255, 0]);
    }

    #[test]
    fn every_name_is_read_back() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("float16".parse(), Ok(Dtype::F16));
        let error = "int4".parse::<Dtype>().unwrap_err().to_string();
        assert!(error.contains("ubinary"), "{error}");
    }
}
