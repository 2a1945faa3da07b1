//! Stored components as numbers that a query's can be compared with.

use crate::output::RecordedKind;
use embedctl_records::quantize::Dtype;

/// How the components of a column become numbers.
#[derive(Debug, Clone)]
pub(super) enum Decoder {
    /// They are.
    Floats,
    /// By the number of their step, from 0: the step's middle.
    Steps {
        /// The middle of each component's first step.
        first: Vec<f32>,
        /// From one step to the next.
        step: Vec<f32>,
        /// The greatest value of each component.
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
                (ranges.min.len() == ranges.max.len())
                    .then(|| Self::steps(&ranges.min, ranges.max))?
            }
            Dtype::Binary | Dtype::Ubinary => Self::Bits {
                dimensions: dimensions?,
            },
        })
    }

    /// 256 steps from `min` to `max`.
    pub fn steps(min: &[f32], max: Vec<f32>) -> Self {
        let ranges = min.iter().zip(&max);
        let step: Vec<f32> = ranges.map(|(min, max)| (max - min) / 255.0).collect();
        Self::Steps {
            first: (min.iter().zip(&step))
                .map(|(min, step)| min + 0.5 * step)
                .collect(),
            step,
            max,
        }
    }

    /// Components of a vector whose stored form has `width` elements; `None` where there is no such vector.
    pub fn dimensions(&self, width: usize) -> Option<usize> {
        match self {
            Self::Floats => Some(width),
            Self::Steps { max, .. } => Some(width).filter(|width| *width == max.len()),
            Self::Bits { dimensions } => {
                Some(*dimensions).filter(|dimensions| dimensions.div_ceil(8) == width)
            }
        }
    }

    /// Elements of the stored form of a vector of so many components.
    pub fn elements(&self, dimensions: usize) -> usize {
        match self {
            Self::Floats => dimensions,
            Self::Steps { max, .. } => max.len(),
            Self::Bits { dimensions } => dimensions.div_ceil(8),
        }
    }

    /// Appends the numbers of a stored vector. Elements are from 0 on, whatever their type.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // elements of bits are bytes
    pub fn decode(&self, stored: &[f32], out: &mut Vec<f32>) {
        match self {
            Self::Floats => out.extend_from_slice(stored),
            Self::Steps { first, step, max } => {
                let ranges = first.iter().zip(step).zip(max);
                out.extend(
                    (stored.iter().zip(ranges))
                        .map(|(code, ((first, step), max))| (first + code * step).min(*max)),
                );
            }
            Self::Bits { dimensions } => {
                let end = out.len() + dimensions;
                for byte in stored {
                    out.extend_from_slice(&SIGNS[usize::from(*byte as u8)]);
                }
                out.truncate(end);
            }
        }
    }
}

/// The eight components of each byte, the highest bit first.
static SIGNS: [[f32; 8]; 256] = signs();

const fn signs() -> [[f32; 8]; 256] {
    let mut signs = [[-1.0; 8]; 256];
    let mut byte = 0;
    while byte < signs.len() {
        let mut bit = 0;
        while bit < 8 {
            if byte >> (7 - bit) & 1 == 1 {
                signs[byte][bit] = 1.0;
            }
            bit += 1;
        }
        byte += 1;
    }
    signs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stands_for_its_middle_and_a_bit_for_a_sign() {
        let steps = Decoder::steps(&[0.0, -1.0, 3.0], vec![255.0, 1.0, 3.0]);
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
