//! The operators that graphs are written with: standard ones, or ONNX Runtime's own where a provider has kernels.
//!
//! The own operators are described in ONNX Runtime's `docs/ContribOperators.md`, and their kernels are listed in its
//! `docs/OperatorKernels.md`.

use embedctl_native::architecture::{AttentionDescription, Layer};

use super::FloatType;
use crate::engine::{EngineOptions, Provider};
use crate::provider::OptionValue;
use crate::provider::options::{OPERATORS, value_of};

/// The operators of a graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Operators {
    /// Standard ones alone, which every reader knows.
    #[default]
    Standard,
    /// ONNX Runtime's own in the place of several standard ones, where the network allows it.
    Fused {
        /// Whether `GroupQueryAttention` is among them.
        grouped: bool,
    },
}

impl Operators {
    /// The own operators that `provider` has kernels for in these numbers.
    pub(super) fn fused(provider: Provider, float: FloatType) -> Self {
        match provider {
            Provider::Cuda => Self::Fused {
                grouped: float != FloatType::F32,
            },
            Provider::Cpu | Provider::WebGpu | Provider::DirectMl => Self::Fused { grouped: true },
            _ => Self::Standard,
        }
    }

    /// Whether own operators are asked of `provider`.
    pub(crate) fn are_fused(provider: Provider, options: &EngineOptions) -> bool {
        let asked = value_of(&options.provider_options, provider, OPERATORS);
        asked == Some(OptionValue::Word("fused"))
    }

    /// The operator that a layer's attention is written as.
    pub(super) fn attention(
        self,
        attention: &AttentionDescription,
        layer: &Layer,
    ) -> AttentionOperator {
        let Self::Fused { grouped } = self else {
            return AttentionOperator::Standard;
        };
        let is_plain = attention.position_bias.is_none() && attention.disentangled.is_none();
        // The kernels take heads of such widths alone.
        let fits = attention.head_size.is_multiple_of(8);
        if grouped && layer.causal && is_plain && fits {
            AttentionOperator::Grouped
        } else if attention.softcap.is_none() && attention.disentangled.is_none() {
            AttentionOperator::MultiHead
        } else {
            AttentionOperator::Standard
        }
    }

    /// Whether there are own operators among them.
    #[must_use]
    pub fn is_fused(self) -> bool {
        self != Self::Standard
    }
}

/// A sum that an own operator may take apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// The residual stream and a branch, both `[rows, length, hidden]`.
    Residual,
    /// A product and its bias, `[.., width]` and `[width]`.
    Bias,
}

/// The operator that a layer's attention is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttentionOperator {
    /// Several standard ones.
    Standard,
    /// `MultiHeadAttention`: with a bias, and both ways.
    MultiHead,
    /// `GroupQueryAttention`: causal, with few keys, windows and capped scores.
    Grouped,
}
