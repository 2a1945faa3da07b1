//! Gated delta rules, in the place of attention: a state of each head that its tokens change one after another.
//!
//! transformers computes them in chunks of 64 tokens; a state that every token changes in turn is the same but for
//! rounding, and its cost grows with the row's length alone.

use super::scratch::{ThreadCrew, ThreadScratch};
use embedctl_checkpoint::architecture::DeltaRule;
use embedctl_common::Activation;
use embedctl_kernels::{DeltaHead, Isa, Norm, activate_all, delta_rule, gate_by_activation};

/// Added to the squared length of queries and keys.
const LENGTH_EPSILON: f32 = 1e-6;

/// A gated delta rule's weights.
#[derive(Debug)]
pub struct DeltaWeights {
    /// Its sizes.
    pub rule: DeltaRule,
    /// The convolution's filters, `[tokens, channels]` over queries, keys and values, the farthest token first.
    pub filters: Vec<f32>,
    /// How fast each head's state decays, below zero.
    pub decay: Vec<f32>,
    /// Added to what decides how much it decays.
    pub step: Vec<f32>,
    /// The norm of a head's output.
    pub norm: Norm,
    /// Brings queries to the length of one, divided by the root of their width.
    query_norm: Norm,
    /// Brings keys to the length of one.
    key_norm: Norm,
}

impl DeltaWeights {
    /// The weights of a rule, with the logarithms of how fast states decay.
    pub(super) fn new(
        rule: DeltaRule,
        filters: Vec<f32>,
        decay_logarithms: &[f32],
        step: Vec<f32>,
        norm: Norm,
    ) -> Self {
        let size = rule.key_size;
        #[allow(clippy::cast_precision_loss)]
        let width = size as f32;
        // A mean of squares is their sum divided by the width.
        let length = |factor: f32| Norm::rms(vec![factor; size], LENGTH_EPSILON / width);
        Self {
            rule,
            filters,
            decay: decay_logarithms.iter().map(|one| -one.exp()).collect(),
            step,
            norm,
            query_norm: length(1.0 / width),
            key_norm: length(1.0 / width.sqrt()),
        }
    }

    /// Multiplications and additions of a token, by pairs.
    pub(super) fn operations(&self) -> usize {
        let state = self.rule.key_size * self.rule.value_size;
        self.filters.len() + 4 * self.rule.value_heads * state
    }

    /// Runs a row. `parts` has, for each token, what the products in front of the rule give
    /// ([`DeltaRule::inputs`]) and is used up; `out` gets `[tokens, values]`. The crew's threads share the heads.
    pub(super) fn run(
        &self,
        isa: Isa,
        parts: &mut [f32],
        out: &mut [f32],
        (crew, own, helpers): (&ThreadCrew, &mut ThreadScratch, &mut [ThreadScratch]),
    ) {
        let DeltaRule {
            key_heads,
            value_heads,
            key_size,
            value_size,
            ..
        } = self.rule;
        let (keys, values) = (self.rule.keys(), self.rule.values());
        let (mixed, stride) = (2 * keys + values, self.rule.input_width());
        let tokens = parts.len() / stride;
        self.convolve(isa, parts, mixed, stride);
        for token in parts.chunks_exact_mut(stride) {
            let (queries, rest) = token.split_at_mut(keys);
            self.query_norm.apply(isa, queries);
            self.key_norm.apply(isa, &mut rest[..keys]);
            let gates = &mut token[mixed + values..];
            let (corrections, decays) = gates.split_at_mut(value_heads);
            for correction in corrections {
                *correction = 1.0 / (1.0 + (-*correction).exp());
            }
            for ((decay, rate), step) in decays.iter_mut().zip(&self.decay).zip(&self.step) {
                *decay = (rate * softplus(*decay + step)).exp();
            }
        }
        // One head after another, `[heads, tokens, channels]`, so that threads have parts of their own.
        let rows = &*parts;
        let heads = out.chunks_mut((tokens * value_size).max(1)).enumerate();
        crew.share(own, helpers, heads, |(head, out), own| {
            let key = head / (value_heads / key_heads) * key_size;
            let one = DeltaHead {
                rows,
                stride,
                query: key,
                key: keys + key,
                value: 2 * keys + head * value_size,
                correction: mixed + values + head,
                decay: mixed + values + value_heads + head,
                key_size,
                value_size,
            };
            delta_rule(isa, one, own.delta.floats_mut(), out);
        });
        self.norm.apply(isa, out);
        // Into the place of the values, which nobody needs any more, in the order of the tokens.
        for (number, token) in parts.chunks_exact_mut(stride).enumerate() {
            let (before, gates) = token.split_at_mut(mixed);
            let into = before[2 * keys..].chunks_exact_mut(value_size);
            let gates = gates[..values].chunks_exact(value_size);
            for (head, (into, gate)) in into.zip(gates).enumerate() {
                let normed = &out[(head * tokens + number) * value_size..][..value_size];
                gate_by_activation(Activation::Silu, isa, gate, normed, into);
            }
        }
        for (token, out) in parts.chunks_exact(stride).zip(out.chunks_exact_mut(values)) {
            out.copy_from_slice(&token[2 * keys..mixed]);
        }
    }

    /// Convolves queries, keys and values over tokens, in place from the last token on, with the activation.
    fn convolve(&self, isa: Isa, parts: &mut [f32], mixed: usize, stride: usize) {
        let length = self.rule.tokens;
        for position in (0..parts.len() / stride).rev() {
            let (before, own) = parts.split_at_mut(position * stride);
            let own = &mut own[..mixed];
            let last = &self.filters[(length - 1) * mixed..];
            (own.iter_mut().zip(last)).for_each(|(value, weight)| *value *= weight);
            // Before the row there is nothing.
            for back in 1..length.min(position + 1) {
                let input = &before[(position - back) * stride..][..mixed];
                let filter = &self.filters[(length - 1 - back) * mixed..][..mixed];
                for ((value, input), weight) in own.iter_mut().zip(input).zip(filter) {
                    *value += input * weight;
                }
            }
            activate_all(self.rule.activation, isa, own);
        }
    }
}

/// `ln(1 + e^x)`, as PyTorch has it.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}
