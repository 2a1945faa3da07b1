//! Feed-forwards of which each token takes some: their weights, and how they run.
//!
//! Tokens of one expert are gathered and multiplied together. A token's sum is made in the experts' order, so it
//! depends on nothing beside it.

use std::collections::TryReserveError;

use super::architecture::{Architecture, ExpertsDescription};
use super::executor::Executor;
use super::kernels::{
    CacheLines, Matrix, Operand, PackedLayout, ProductFinish, ProductPrecision, linear,
};
use super::loader::Loader;
use super::packed::{InputRanges, LayerWeights, Product};
use super::rows::StoredRows;
use super::scratch::{block, room};
use embedctl_common::error::Result;

/// Beside the experts' products: the shares and the bias.
#[derive(Debug)]
pub(crate) struct ExpertWeights {
    /// `[experts, hidden]`, in single precision.
    router: Matrix,
    /// Added to the sum; empty where there is none.
    bias: Vec<f32>,
}

/// Where the products of expert `expert` lie among a layer's.
fn products(expert: usize) -> [usize; 2] {
    [Product::Up, Product::Down].map(|product| product as usize + 2 * expert)
}

/// A token that an expert takes, with its share.
#[derive(Debug, Clone, Copy)]
struct Route {
    expert: usize,
    token: usize,
    share: f32,
}

/// A worker's memory for experts.
#[derive(Debug, Default)]
pub(crate) struct ExpertScratch {
    /// `[tokens, experts]`.
    shares: CacheLines,
    /// The tokens of one expert, `[tokens, hidden]`.
    gathered: CacheLines,
    /// The expert's output for them.
    results: CacheLines,
    /// The sum, `[tokens, hidden]`.
    pub(crate) sum: CacheLines,
    routes: Vec<Route>,
}

impl ExpertScratch {
    /// Floats for each token.
    pub(crate) fn of_token(architecture: &Architecture) -> usize {
        let experts = architecture.feed_forward.experts;
        experts.map_or(0, |experts| {
            experts.count + 3 * architecture.hidden + 6 * experts.chosen
        })
    }

    /// Room for `tokens` tokens.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(crate) fn try_grow(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
    ) -> Result<(), TryReserveError> {
        let Some(experts) = architecture.feed_forward.experts else {
            return Ok(());
        };
        self.shares.try_grow(tokens.saturating_mul(experts.count))?;
        let states = tokens.saturating_mul(architecture.hidden);
        for buffer in [&mut self.gathered, &mut self.results, &mut self.sum] {
            buffer.try_grow(states)?;
        }
        self.routes.clear();
        self.routes
            .try_reserve_exact(tokens.saturating_mul(experts.chosen))
    }

    /// Chooses each token's experts by the shares, which become the softmax of what the router made; in the experts'
    /// order.
    fn choose(&mut self, experts: &ExpertsDescription, tokens: usize) {
        self.routes.clear();
        let shares = room(&mut self.shares, tokens * experts.count);
        for (token, shares) in shares.chunks_exact_mut(experts.count).enumerate() {
            let most = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for share in shares.iter_mut() {
                *share = (*share - most).exp();
                sum += *share;
            }
            shares.iter_mut().for_each(|share| *share /= sum);
            let first = self.routes.len();
            for _ in 0..experts.chosen {
                // The greatest that is left; the first of equals.
                let taken = |expert: usize| {
                    self.routes[first..]
                        .iter()
                        .any(|route| route.expert == expert)
                };
                let mut best: Option<usize> = None;
                for expert in (0..experts.count).filter(|expert| !taken(*expert)) {
                    if best.is_none_or(|best| shares[expert] > shares[best]) {
                        best = Some(expert);
                    }
                }
                if let Some(expert) = best {
                    self.routes.push(Route {
                        expert,
                        token,
                        share: shares[expert],
                    });
                }
            }
            if experts.normalized {
                let chosen = &mut self.routes[first..];
                let sum: f32 = chosen.iter().map(|route| route.share).sum();
                chosen.iter_mut().for_each(|route| route.share /= sum);
            }
        }
        self.routes
            .sort_unstable_by_key(|route| (route.expert, route.token));
    }
}

impl Executor<'_> {
    /// Writes the experts' sum for `input`, `[tokens, hidden]`, to `scratch.sum`. `note` sees the inputs of each second
    /// product.
    #[expect(clippy::too_many_arguments, reason = "buffers that a layer shares")]
    pub(crate) fn experts(
        &self,
        weights: &LayerWeights,
        input: &[f32],
        tokens: usize,
        scratch: &mut ExpertScratch,
        operand: &mut Operand,
        inner: &mut CacheLines,
        inner_operand: &mut Operand,
        mut note: impl FnMut(&[f32]),
    ) {
        let hidden = self.architecture.hidden;
        let (Some(described), Some(own)) =
            (self.architecture.feed_forward.experts, &weights.experts)
        else {
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
            let [up, down] = products(routes[0].expert).map(|product| &weights.products[product]);
            let gathered = room(gathered, routes.len() * hidden);
            for (row, route) in gathered.chunks_exact_mut(hidden).zip(routes) {
                row.copy_from_slice(&input[route.token * hidden..][..hidden]);
            }
            let results = room(results, routes.len() * hidden);
            let converted = operand.convert(up, gathered, hidden, routes.len());
            let block = block(width, routes.len());
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

impl ExpertsDescription {
    /// The layouts of an expert's two products, in a network that is `hidden` wide.
    pub(super) fn layouts(&self, hidden: usize) -> [PackedLayout; 2] {
        let up = PackedLayout {
            outputs: self.width,
            inputs: hidden,
            gated: self.gated,
        };
        let down = PackedLayout {
            outputs: hidden,
            inputs: self.width,
            gated: false,
        };
        [up, down]
    }
}

impl Loader<'_> {
    /// Appends the experts' products of the layer that the checkpoint calls `layer` to `products`.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(super) fn expert_products(
        &self,
        layer: &str,
        described: &ExpertsDescription,
        arithmetic: ProductPrecision,
        ranges: Option<&InputRanges>,
        products: &mut Vec<Matrix>,
    ) -> Result<()> {
        let layouts = described.layouts(self.architecture.hidden);
        for expert in 0..described.count {
            let rows = self.expert_rows(layer, described, expert)?;
            let both = [Product::Up, Product::Down].into_iter().zip(layouts);
            for ((product, layout), rows) in both.zip(rows) {
                let ranges = ranges.map(|ranges| ranges[product as usize].as_slice());
                products.push(self.pack(arithmetic, layout, (rows, Vec::new()), ranges)?);
            }
        }
        Ok(())
    }

    /// The weights of that layer's experts beside their products.
    ///
    /// # Errors
    /// As [`Loader::expert_products`].
    pub(super) fn expert_weights(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<ExpertWeights> {
        let hidden = self.architecture.hidden;
        let layout = PackedLayout {
            outputs: described.count,
            inputs: hidden,
            gated: false,
        };
        let router = (self.router_rows(layer, described)?, Vec::new());
        Ok(ExpertWeights {
            router: self.pack(ProductPrecision::F32, layout, router, None)?,
            bias: self.experts_bias(layer, described)?,
        })
    }

    /// The rows of an expert's two products, of the layer that the checkpoint calls `layer`.
    pub(super) fn expert_rows(
        &self,
        layer: &str,
        described: &ExpertsDescription,
        expert: usize,
    ) -> Result<[StoredRows<'_>; 2]> {
        let hidden = self.architecture.hidden;
        let names = &self.architecture.names.experts;
        let (count, width) = (described.count, described.width);
        let number = expert.to_string();
        let mut up = StoredRows::new(hidden);
        for part in names.up {
            if part.contains("{}") {
                let name = format!("{layer}{}.weight", part.replace("{}", &number));
                up.append(self.tensor(&name, &[width, hidden])?, 0, width);
            } else {
                let whole = self.tensor(&format!("{layer}{part}"), &[count * width, hidden])?;
                up.append(whole, expert * width, width);
            }
        }
        let mut down = StoredRows::new(width);
        match names.down.strip_prefix('^') {
            None => {
                let name = format!("{layer}{}.weight", names.down.replace("{}", &number));
                down.append(self.tensor(&name, &[hidden, width])?, 0, hidden);
            }
            Some(name) => {
                let whole = self.tensor(&format!("{layer}{name}"), &[count * width, hidden])?;
                down.append_columns(whole, expert * width, hidden);
            }
        }
        Ok([up, down])
    }

    /// The rows of the product that makes the experts' shares.
    pub(super) fn router_rows(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<StoredRows<'_>> {
        let (hidden, count) = (self.architecture.hidden, described.count);
        let name = format!("{layer}{}.weight", self.architecture.names.experts.router);
        let mut router = StoredRows::new(hidden);
        router.append(self.tensor(&name, &[count, hidden])?, 0, count);
        Ok(router)
    }

    /// The bias of the experts' sum; empty where there is none.
    pub(super) fn experts_bias(
        &self,
        layer: &str,
        described: &ExpertsDescription,
    ) -> Result<Vec<f32>> {
        if !described.bias {
            return Ok(Vec::new());
        }
        let name = format!("{layer}{}", self.architecture.names.experts.bias);
        self.tensor(&name, &[self.architecture.hidden])?.floats()
    }
}
