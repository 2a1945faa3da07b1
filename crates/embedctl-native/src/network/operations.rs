//! How much a network computes.

use super::Network;
use crate::packed::Product;
use embedctl_checkpoint::architecture::Layer;
use embedctl_kernels::Matrix;

impl Network {
    /// Multiplications and additions for a row of `tokens` tokens, of the layers' products and of attention.
    pub(crate) fn operations(&self, tokens: usize) -> u64 {
        let attention = &self.architecture.attention;
        let architecture_experts = self.architecture.feed_forward.experts;
        let layer = |layer: &Layer| -> u64 {
            let weights = &self.sets[layer.weights];
            let of = |matrix: &Matrix| matrix.inputs() * matrix.rows();
            // A token takes some of the experts.
            let feed_forwards = match (architecture_experts, &weights.small.experts) {
                (Some(experts), Some(_)) => 2 * experts.chosen,
                _ => 2,
            };
            let count = Product::ATTENTION.len() + feed_forwards;
            let taken = weights.products.iter().take(count);
            let products: usize = taken.map(of).sum();
            let seen = layer
                .reach
                .map_or(tokens, |reach| tokens.min(2 * reach + 1));
            let beside = &weights.small.beside;
            let pairs = match (&beside.convolution, &beside.delta_rule) {
                (Some(convolution), _) => convolution.operations(),
                (None, Some(rule)) => rule.operations(),
                (None, None) => 2 * seen * attention.heads * attention.head_size,
            };
            2 * tokens as u64 * (products + pairs) as u64
        };
        self.architecture.layers.iter().map(layer).sum()
    }
}
