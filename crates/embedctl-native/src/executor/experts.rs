//! Runs experts.

use super::Executor;
use crate::experts::{ExpertScratch, ExpertWeights};
use crate::packed::Product;
use crate::room::{block, room};
use embedctl_kernels::{CacheLines, Matrix, Operand, ProductFinish, linear};

impl Executor<'_> {
    /// Writes the sum of the experts with the products `products` for `input`, `[tokens, hidden]`, to `scratch.sum`.
    /// `note` sees the inputs of each second product.
    #[expect(clippy::too_many_arguments, reason = "buffers that a layer shares")]
    pub(crate) fn experts(
        &self,
        products: &[Matrix],
        own: &ExpertWeights,
        input: &[f32],
        tokens: usize,
        scratch: &mut ExpertScratch,
        operand: &mut Operand,
        inner: &mut CacheLines,
        inner_operand: &mut Operand,
        note: impl Fn(&[f32]),
    ) {
        let hidden = self.architecture.hidden;
        let Some(described) = self.architecture.feed_forward.experts else {
            return;
        };
        let shares = room(&mut scratch.shares, tokens * described.count);
        linear(
            operand.convert(&own.router, input, hidden, tokens),
            0..tokens,
            &own.router,
            shares,
            described.count,
            ProductFinish::Store,
        );
        scratch.choose(&described, tokens);
        let ExpertScratch {
            gathered,
            results,
            sum,
            routes,
            ..
        } = scratch;
        let sum = room(sum, tokens * hidden);
        sum.fill(0.0);
        let width = described.width;
        let finish = if described.gated {
            ProductFinish::Gate(described.activation)
        } else {
            ProductFinish::Activate(described.activation)
        };
        for routes in routes.chunk_by(|one, next| one.expert == next.expert) {
            let [up, down] = Product::of_expert(routes[0].expert).map(|product| &products[product]);
            let gathered = room(gathered, routes.len() * hidden);
            for (row, route) in gathered.chunks_exact_mut(hidden).zip(routes) {
                row.copy_from_slice(&input[route.token * hidden..][..hidden]);
            }
            let results = room(results, routes.len() * hidden);
            let converted = operand.convert(up, gathered, hidden, routes.len());
            let block = block(self.isa, width, routes.len());
            for start in (0..routes.len()).step_by(block) {
                let count = block.min(routes.len() - start);
                let inner = room(inner, count * width);
                linear(converted, start..start + count, up, inner, width, finish);
                note(inner);
                linear(
                    inner_operand.convert(down, inner, width, count),
                    0..count,
                    down,
                    &mut results[start * hidden..(start + count) * hidden],
                    hidden,
                    ProductFinish::Store,
                );
            }
            for (result, route) in results.chunks_exact(hidden).zip(routes) {
                let sum = &mut sum[route.token * hidden..][..hidden];
                for (sum, value) in sum.iter_mut().zip(result) {
                    *sum += route.share * value;
                }
            }
        }
        if !own.bias.is_empty() {
            for row in sum.chunks_exact_mut(hidden) {
                row.iter_mut()
                    .zip(&own.bias)
                    .for_each(|(value, bias)| *value += bias);
            }
        }
    }
}
