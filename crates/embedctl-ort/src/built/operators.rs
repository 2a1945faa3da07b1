//! The operators that graphs are written with: standard ones, or ONNX Runtime's own where a provider has kernels.
//!
//! The own operators are described in ONNX Runtime's `docs/ContribOperators.md`, and their kernels are listed in its
//! `docs/OperatorKernels.md`.

use embedctl_native::architecture::{Architecture, Layer};

use super::FloatType;
use embedctl_engine::provider::{OPERATORS, value_of};
use embedctl_engine::{EngineOptions, OptionValue, Provider, ResolvedEngine};
use embedctl_model::Frame;

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
        /// Whether `MultiHeadAttention` is among them.
        multi_head: bool,
        /// Whether padding is left out, where the whole network allows it (`PackedMultiHeadAttention`).
        packed: bool,
    },
}

impl Operators {
    /// All own operators that there are.
    pub(crate) const PACKED: Self = Self::Fused {
        grouped: true,
        multi_head: true,
        packed: true,
    };

    /// The same without those that leave padding out, which CUDA alone has.
    pub(crate) const ALL: Self = Self::Fused {
        grouped: true,
        multi_head: true,
        packed: false,
    };

    /// The same without `GroupQueryAttention`.
    pub(crate) const MULTI_HEAD: Self = Self::Fused {
        grouped: false,
        multi_head: true,
        packed: false,
    };

    /// Whether the user chose them.
    pub(crate) fn are_asked_for(provider: Provider, options: &EngineOptions) -> bool {
        value_of(&options.provider_options, provider, OPERATORS).is_some()
    }

    /// The operators of a graph for `provider`, the best first: each is taken if the one before it gives wrong results, or
    /// is missing in the library. The last ones are standard, and where `frame` hides tokens, there are no others: own
    /// operators take the number of tokens that a row's mask shows for the row's length.
    pub(crate) fn candidates(
        provider: Provider,
        options: &ResolvedEngine,
        frame: &Frame,
    ) -> Vec<Self> {
        let asked = value_of(&options.provider_options, provider, OPERATORS);
        let fused = match asked {
            Some(word) => word == OptionValue::Word("fused"),
            None => provider == Provider::Cuda,
        };
        let [grouped, neither] = [true, false].map(|grouped| Self::Fused {
            grouped,
            multi_head: false,
            packed: false,
        });
        let packed = Self::Fused {
            grouped: false,
            multi_head: true,
            packed: true,
        };
        match (provider, options.float.unwrap_or(FloatType::F32)) {
            _ if !fused || frame.hides_tokens() => vec![Self::Standard],
            // CUDA's GroupQueryAttention takes half precision, and its MultiHeadAttention no bfloat16.
            (Provider::Cuda, FloatType::F32) => vec![packed, Self::MULTI_HEAD, Self::Standard],
            (Provider::Cuda, FloatType::Bf16) => vec![grouped, neither, Self::Standard],
            (Provider::Cuda, FloatType::F16) => {
                vec![Self::PACKED, Self::ALL, Self::MULTI_HEAD, Self::Standard]
            }
            _ => vec![Self::ALL, Self::MULTI_HEAD, Self::Standard],
        }
    }

    /// The operator that a layer's attention is written as.
    pub(super) fn attention(self, architecture: &Architecture, layer: &Layer) -> AttentionOperator {
        let Self::Fused {
            grouped,
            multi_head,
            ..
        } = self
        else {
            return AttentionOperator::Standard;
        };
        if self.packs(architecture) {
            return AttentionOperator::Packed;
        }
        let attention = &architecture.attention;
        let is_plain = attention.position_bias.is_none() && attention.disentangled.is_none();
        // The kernels take heads of such widths alone.
        let fits = attention.head_size.is_multiple_of(8);
        if grouped && layer.causal && is_plain && fits {
            AttentionOperator::Grouped
        } else if multi_head && attention.softcap.is_none() && attention.disentangled.is_none() {
            AttentionOperator::MultiHead
        } else {
            AttentionOperator::Standard
        }
    }

    /// Whether the network is computed without padding.
    pub(super) fn packs(self, architecture: &Architecture) -> bool {
        matches!(self, Self::Fused { packed: true, .. }) && can_pack(architecture)
    }

    /// Whether there are own operators among them.
    #[must_use]
    pub fn is_fused(self) -> bool {
        self != Self::Standard
    }
}

/// Whether the operators that leave padding out compute this network: an encoder in whose layers every token sees all
/// others, wherever they are.
pub(super) fn can_pack(architecture: &Architecture) -> bool {
    let attention = &architecture.attention;
    let sees_all = attention.heads == attention.key_value_heads
        && attention.position_bias.is_none()
        && attention.disentangled.is_none()
        && attention.query_key_norm.is_none()
        && attention.softcap.is_none();
    sees_all
        && architecture.convolution.is_none()
        && architecture.latent.is_none()
        && architecture.layers.iter().all(|layer| {
            !layer.causal && layer.reach.is_none() && layer.rotary.is_none() && !layer.experts
        })
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
    /// `PackedMultiHeadAttention`: of tokens without padding.
    Packed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedctl_model::QueryExpansion;

    #[test]
    fn cuda_tries_own_operators_that_it_has_in_these_numbers_and_others_when_asked() {
        let of = |provider, float, option: Option<&str>| {
            let options = ResolvedEngine {
                float,
                options: EngineOptions {
                    provider_options: option.map(|it| it.parse().unwrap()).into_iter().collect(),
                    ..EngineOptions::default()
                },
                ..ResolvedEngine::default()
            };
            Operators::candidates(provider, &options, &Frame::default())
        };
        let (all, multi_head, standard) =
            (Operators::ALL, Operators::MULTI_HEAD, Operators::Standard);
        let [grouped, neither] = [true, false].map(|grouped| Operators::Fused {
            grouped,
            multi_head: false,
            packed: false,
        });
        let packed = Operators::Fused {
            grouped: false,
            multi_head: true,
            packed: true,
        };
        use FloatType::{Bf16, F16};
        use Provider::{Cpu, Cuda, TensorRt};
        assert_eq!(of(Cuda, None, None), [packed, multi_head, standard]);
        assert_eq!(
            of(Cuda, Some(F16), None),
            [Operators::PACKED, all, multi_head, standard]
        );
        assert_eq!(of(Cuda, Some(Bf16), None), [grouped, neither, standard]);
        assert_eq!(
            of(Cuda, Some(F16), Some("cuda.operators=standard")),
            [standard]
        );
        assert_eq!(of(TensorRt, Some(F16), None), [standard]);
        assert_eq!(of(Cpu, None, None), [standard]);
        assert_eq!(
            of(Cpu, None, Some("cpu.operators=fused")),
            [all, multi_head, standard]
        );
    }

    #[test]
    fn no_own_operator_computes_rows_with_tokens_that_none_attends_to() {
        let of = |attends| {
            let frame = Frame {
                expansion: Some(QueryExpansion {
                    id: 4,
                    length: 32,
                    attends,
                }),
                ..Frame::default()
            };
            let options = ResolvedEngine {
                options: EngineOptions {
                    provider_options: vec!["cpu.operators=fused".parse().unwrap()],
                    ..EngineOptions::default()
                },
                ..ResolvedEngine::default()
            };
            [Provider::Cuda, Provider::Cpu]
                .map(|provider| Operators::candidates(provider, &options, &frame))
        };
        assert!(of(false).iter().all(|all| *all == [Operators::Standard]));
        assert!(of(true).iter().all(|all| all[0].is_fused()));
    }
}
