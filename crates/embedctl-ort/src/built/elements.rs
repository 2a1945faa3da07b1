//! Numbers of a tensor as bytes.

use embedctl_onnx::{BFLOAT16, FLOAT, FLOAT16};
use half::{bf16, f16};

use super::FloatType;

/// How a tensor of a graph holds numbers.
pub(crate) trait TensorElement: Copy {
    /// `TensorProto.DataType`.
    fn number(self) -> i32;

    /// Bytes of a number.
    fn size(self) -> usize;

    /// Writes numbers as bytes, little-endian.
    fn encode(self, values: &[f32], out: &mut [u8]);

    /// Numbers as bytes, little-endian.
    fn encoded(self, values: &[f32]) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * self.size()];
        self.encode(values, &mut bytes);
        bytes
    }
}

impl TensorElement for FloatType {
    fn number(self) -> i32 {
        match self {
            Self::F32 => FLOAT,
            Self::F16 => FLOAT16,
            Self::Bf16 => BFLOAT16,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    fn encode(self, values: &[f32], out: &mut [u8]) {
        match self {
            Self::F32 => {
                for (word, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                    *word = value.to_le_bytes();
                }
            }
            Self::F16 => {
                for (word, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                    *word = f16::from_f32(*value).to_le_bytes();
                }
            }
            Self::Bf16 => {
                for (word, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
                    *word = bf16::from_f32(*value).to_le_bytes();
                }
            }
        }
    }
}
