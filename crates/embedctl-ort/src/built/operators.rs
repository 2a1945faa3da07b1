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
    /// The operators of a graph for `provider`, the best first: each is taken if the one before it gives wrong results, or
    /// is missing in the library. The last ones are standard.
    pub(crate) fn candidates(provider: Provider, options: &EngineOptions) -> Vec<Self> {
        let asked = value_of(&options.provider_options, provider, OPERATORS);
        let float = options.float.unwrap_or(FloatType::F32);
        let [grouped, own] = [true, false].map(|grouped| Self::Fused { grouped });
        match (asked, provider) {
            (Some(OptionValue::Word("fused")), Provider::Cuda) if float == FloatType::F32 => {
                vec![own, Self::Standard]
            }
            (Some(OptionValue::Word("fused")), _) => vec![grouped, own, Self::Standard],
            _ => vec![Self::Standard],
        }
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
