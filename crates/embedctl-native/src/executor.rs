//! Runs a described network over ragged rows.
//!
//! Rows follow one another as `[tokens, hidden]`; nothing is padded. Operations on single tokens run over all tokens at
//! once, attention over each row. The feed-forward's wide inner activations are made and used up a block of tokens at a
//! time, so that they stay in the processor's cache.

mod attention;
mod experts;

use super::architecture::{Architecture, Layer};
use super::kernels::{CacheLines, Isa, Matrix, ProductFinish, linear};
use super::packed::{InputRanges, LayerWeights, Norms, OuterWeights, Product, SmallWeights};
use super::room::{block, room};
use super::scratch::{Rows, Scratch};

/// A network's description and an instruction set, without weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executor<'a> {
    /// The description.
    pub architecture: &'a Architecture,
    /// The instructions to use.
    pub isa: Isa,
}

impl Executor<'_> {
    /// Runs one layer over `scratch.states`. `ranges`, if given, collect the greatest magnitudes of each product's
    /// inputs.
    pub(crate) fn layer(
        &self,
        layer: &Layer,
        weights: &LayerWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        mut ranges: Option<&mut InputRanges>,
    ) {
        let LayerWeights { products, small } = weights;
        let (mixing, feed_forward) = products.split_at(Product::ATTENTION.len());
        self.attention(layer, mixing, small, rows, scratch, ranges.as_deref_mut());
        self.feed_forward(feed_forward, small, rows.ids.len(), scratch, ranges);
    }

    /// Runs a layer's second half, the feed-forward with the products `products`, a block of tokens at a time.
    pub(crate) fn feed_forward(
        &self,
        products: &[Matrix],
        weights: &SmallWeights,
        tokens: usize,
        scratch: &mut Scratch,
        mut ranges: Option<&mut InputRanges>,
    ) {
        let Architecture {
            hidden,
            feed_forward,
            parallel,
            ..
        } = self.architecture;
        let hidden = *hidden;
        let Scratch {
            states,
            branch,
            inner,
            operand,
            inner_operand,
            experts,
            ..
        } = scratch;
        let [up, down, ..] = products else {
            return;
        };
        let norms = &weights.beside.feed_forward_norms;
        let states = room(states, tokens * hidden);
        let input = if *parallel {
            &*room(branch, tokens * hidden)
        } else {
            self.before(norms, states, branch)
        };
        note(&mut ranges, Product::Up, up, input);
        let mut note = |values: &[f32]| note(&mut ranges, Product::Down, down, values);
        if let Some(own) = &weights.experts {
            self.experts(
                products,
                own,
                input,
                tokens,
                experts,
                operand,
                inner,
                inner_operand,
                note,
            );
            let sum = room(&mut experts.sum, tokens * hidden);
            self.after(norms, states, branch, |out, finish| match finish {
                ProductFinish::Add => add(out, sum),
                _ => out.copy_from_slice(sum),
            });
            return;
        }
        // The input may share memory with the branch's output.
        let input = operand.convert_apart(up, input, hidden, tokens);
        let width = feed_forward.width;
        let block = block(width, tokens);
        let finish = if feed_forward.gated {
            ProductFinish::Gate(feed_forward.activation)
        } else {
            ProductFinish::Activate(feed_forward.activation)
        };
        let inner = room(inner, block * width);
        self.after(norms, states, branch, |out, add_or_store| {
            for start in (0..tokens).step_by(block) {
                let count = block.min(tokens - start);
                linear(input, start..start + count, up, inner, width, finish);
                note(&inner[..count * width]);
                let inner = inner_operand.convert(down, inner, width, count);
                let out = &mut out[start * hidden..(start + count) * hidden];
                linear(inner, 0..count, down, out, hidden, add_or_store);
            }
        });
    }

    /// The norm after the last layer, and latent attention; the finished states of all tokens.
    pub(crate) fn finish<'a>(
        &self,
        outer: &OuterWeights,
        tokens: usize,
        scratch: &'a mut Scratch,
    ) -> &'a [f32] {
        let Scratch { states, latent, .. } = scratch;
        let states = room(states, tokens * self.architecture.hidden);
        if let Some(norm) = &outer.final_norm {
            norm.apply(self.isa, states);
        }
        if let Some(weights) = &outer.latent {
            weights.run(self.isa, states, latent);
        }
        states
    }

    /// A branch's input: the residual stream, or its norm.
    fn before<'a>(
        &self,
        norms: &Norms,
        states: &'a [f32],
        branch: &'a mut CacheLines,
    ) -> &'a [f32] {
        match &norms.before {
            None => states,
            Some(norm) => {
                let branch = room(branch, states.len());
                norm.apply_to(self.isa, states, branch);
                branch
            }
        }
    }

    /// Adds a branch to the residual stream, with the norms that follow it.
    fn after(
        &self,
        norms: &Norms,
        states: &mut [f32],
        branch: &mut CacheLines,
        run: impl FnOnce(&mut [f32], ProductFinish),
    ) {
        match (&norms.after, &norms.with_input) {
            (None, None) => run(states, ProductFinish::Add),
            (_, Some(norm)) => {
                let branch = room(branch, states.len());
                branch.copy_from_slice(states);
                run(branch, ProductFinish::Add);
                norm.apply(self.isa, branch);
                add(states, branch);
            }
            (Some(norm), None) => {
                let branch = room(branch, states.len());
                run(branch, ProductFinish::Store);
                norm.apply(self.isa, branch);
                add(states, branch);
            }
        }
        if let Some(norm) = &norms.sum {
            norm.apply(self.isa, states);
        }
    }
}

/// Adds values one by one.
pub(super) fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut()
        .zip(values)
        .for_each(|(to, value)| *to += value);
}

/// Raises the greatest magnitudes of each channel of a product's inputs (empty at first) to those of `values`, where
/// they are collected.
fn note(ranges: &mut Option<&mut InputRanges>, product: Product, matrix: &Matrix, values: &[f32]) {
    let Some(ranges) = ranges else {
        return;
    };
    let (range, channels) = (&mut ranges[product as usize], matrix.inputs());
    range.resize(channels, 0.0);
    for row in values.chunks_exact(channels) {
        for (most, value) in range.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
}
