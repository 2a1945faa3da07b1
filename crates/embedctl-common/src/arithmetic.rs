//! The number formats in which the native engine multiplies.

use crate::named::named;

named! {
    /// The number format in which the native engine multiplies.
    #[derive(Default)]
    pub enum Arithmetic {
        /// Single precision: exact.
        #[default]
        Fp32 = "fp32",
        /// Both sides in bfloat16, the upper half of single precision; products are exact and summed in single precision.
        Bf16 = "bf16",
        /// Activations of up to 16 bits (a scale for each row) by weights of up to 16 (a scale for each output), each so
        /// coarse that sums over a block of inputs cannot leave 32 bits.
        Int16 = "int16",
        /// Unsigned activations of 8 bits (a scale and a minimum for each row) by signed weights of 8.
        Int8 = "int8",
    }
}

impl Arithmetic {
    /// Version of the arithmetic; `None` is the first. It changes when vectors of the same model change by more than
    /// single precision's rounding, so that old and new ones are never mixed.
    #[must_use]
    pub fn version(self) -> Option<u32> {
        match self {
            Self::Fp32 | Self::Bf16 => None,
            // 2: blocks of inputs and of keys have steps of their own, and rotation reaches all blocks.
            Self::Int16 | Self::Int8 => Some(2),
        }
    }

    /// The least cosine that is accepted by default.
    #[must_use]
    pub fn least_cosine(self) -> f64 {
        match self {
            Self::Fp32 => 1.0,
            Self::Int16 => 0.999,
            Self::Bf16 | Self::Int8 => 0.99,
        }
    }

    /// Whether sums of products are floats, and not integers.
    #[must_use]
    #[inline]
    pub const fn sums_floats(self) -> bool {
        matches!(self, Self::Fp32 | Self::Bf16)
    }

    /// How many of its numbers a lane of 32 bits holds.
    #[must_use]
    #[inline]
    pub const fn per_lane(self) -> usize {
        match self {
            Self::Fp32 => 1,
            Self::Bf16 | Self::Int16 => 2,
            Self::Int8 => 4,
        }
    }
}
