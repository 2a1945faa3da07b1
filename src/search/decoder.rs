//! Stored components as numbers that a query's can be compared with.

use crate::output::{Dtype, RecordedKind};

/// How the components of a column become numbers.
#[derive(Debug, Clone)]
pub(super) enum Decoder {
    /// They are.
    Floats,
    /// By the number of their step, from 0: the step's middle.
    Steps {
        /// The least value of each component.
        min: Vec<f32>,
        /// The greatest.
        max: Vec<f32>,
    },
    /// Eight bits in an element, the first one the highest: 1 and -1.
    Bits {
        /// Components of a vector.
        dimensions: usize,
    },
}

impl Decoder {
    /// That of the column `place` of a kind. `None` where the provenance lacks what is needed.
    pub fn of(kind: &RecordedKind, place: usize, dimensions: Option<usize>) -> Option<Self> {
        Some(match kind.dtype {
            Dtype::F32 | Dtype::F16 => Self::Floats,
            Dtype::Int8 | Dtype::Uint8 => {
                let ranges = kind.ranges.get(place)?.clone()?;
                (ranges.min.len() == ranges.max.len()).then_some(Self::Steps {
                    min: ranges.min,
                    max: ranges.max,
                })?
            }
            Dtype::Binary | Dtype::Ubinary => Self::Bits {
                dimensions: dimensions?,
            },
        })
    }

    /// Components of a vector whose stored form has `width` elements; `None` where there is no such vector.
    pub fn dimensions(&self, width: usize) -> Option<usize> {
        match self {
            Self::Floats => Some(width),
            Self::Steps { min, .. } => Some(width).filter(|width| *width == min.len()),
            Self::Bits { dimensions } => {
                Some(*dimensions).filter(|dimensions| dimensions.div_ceil(8) == width)
            }
        }
    }

    /// Appends the numbers of a stored vector. Elements are from 0 on, whatever their type.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // elements of bits are bytes
    pub fn decode(&self, stored: &[f32], out: &mut Vec<f32>) {
        match self {
            Self::Floats => out.extend_from_slice(stored),
            Self::Steps { min, max } => {
                let ranges = min.iter().zip(max);
                out.extend(stored.iter().zip(ranges).map(|(code, (min, max))| {
                    let step = (max - min) / 255.0;
                    (min + (code + 0.5) * step).min(*max)
                }));
            }
            Self::Bits { dimensions } => out.extend((0..*dimensions).map(|place| {
                let byte = stored[place / 8] as u8;
                match byte >> (7 - place % 8) & 1 {
                    1 => 1.0,
                    _ => -1.0,
                }
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stands_for_its_middle_and_a_bit_for_a_sign() {
        let steps = Decoder::Steps {
            min: vec![0.0, -1.0, 3.0],
            max: vec![255.0, 1.0, 3.0],
        };
        let mut numbers = Vec::new();
        steps.decode(&[7.0, 255.0, 0.0], &mut numbers);
        assert_eq!(numbers, [7.5, 1.0, 3.0]);
        let bits = Decoder::Bits { dimensions: 10 };
        assert_eq!(bits.dimensions(2), Some(10));
        assert_eq!(bits.dimensions(3), None);
        numbers.clear();
        bits.decode(
            &[f32::from(0b1001_0001_u8), f32::from(0b0100_0000_u8)],
            &mut numbers,
        );
        let ones: Vec<bool> = numbers.iter().map(|number| *number > 0.0).collect();
        let expected = [1, 0, 0, 1, 0, 0, 0, 1, 0, 1].map(|bit| bit == 1);
        assert_eq!(ones, expected);
    }
}
