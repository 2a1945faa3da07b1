//! Runs a described network over ragged rows.
//!
//! Rows follow one another as `[tokens, hidden]`; nothing is padded. Operations on single tokens run over pieces of many
//! tokens, which threads share ([`ThreadCrew`]), and attention over each row or parts of its queries. The feed-forward's wide
//! inner activations are made and used up a block of tokens at a time, so that they stay in the processor's cache.

mod attention;
mod experts;

use std::sync::Mutex;

use super::crew::piece;
use super::kernels::{CacheLines, Isa, Matrix, ProductFinish, linear};
use super::packed::{InputRanges, LayerWeights, Norms, OuterWeights, Product, SmallWeights};
use super::room::{block, room};
use super::scratch::{Rows, Scratch, ThreadCrew, ThreadScratch, helpers};
use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_common::threads::locked;

/// A network's description and an instruction set, without weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executor<'a> {
    /// The description.
    pub architecture: &'a Architecture,
    /// The instructions to use.
    pub isa: Isa,
}

/// The greatest magnitudes of each product's inputs, where they are collected.
type NotedRanges<'r> = Option<Mutex<&'r mut InputRanges>>;

/// The threads that run a batch, and the memory of those that help.
type Team<'t> = (&'t ThreadCrew, &'t mut [ThreadScratch]);

impl Executor<'_> {
    /// Runs one layer over `scratch.states`; threads of `crew` help with many tokens. `ranges`, if given, collect the
    /// greatest magnitudes of each product's inputs.
    pub(crate) fn layer(
        &self,
        layer: &Layer,
        weights: &LayerWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        crew: &ThreadCrew,
        ranges: Option<&mut InputRanges>,
    ) {
        let LayerWeights { products, small } = weights;
        let (mixing, feed_forward) = products.split_at(Product::ATTENTION.len());
        let ranges = ranges.map(Mutex::new);
        let mut helpers = helpers(self.architecture, rows, crew);
        let team = &mut (crew, helpers.memory());
        self.mix(layer, mixing, small, rows, scratch, team, &ranges);
        self.pieces(small, rows, scratch, team, |states, context, own| {
            self.merge(mixing, small, states, context, own, &ranges);
            self.feed(feed_forward, small, states, own, &ranges);
        });
    }

    /// Runs a layer's first half over `scratch.states`, with the products `products`. `ranges` as in
    /// [`Executor::layer`].
    pub(crate) fn attention(
        &self,
        layer: &Layer,
        products: &[Matrix],
        weights: &SmallWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        ranges: Option<&mut InputRanges>,
    ) {
        let ranges = ranges.map(Mutex::new);
        let alone = &mut (&ThreadCrew::default(), &mut [][..]);
        self.mix(layer, products, weights, rows, scratch, alone, &ranges);
        self.pieces(weights, rows, scratch, alone, |states, context, own| {
            self.merge(products, weights, states, context, own, &ranges);
        });
    }

    /// Runs a layer's second half, the feed-forward with the products `products`, where it is not parallel to attention.
    pub(crate) fn feed_forward(
        &self,
        products: &[Matrix],
        weights: &SmallWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        ranges: Option<&mut InputRanges>,
    ) {
        let ranges = ranges.map(Mutex::new);
        let alone = &mut (&ThreadCrew::default(), &mut [][..]);
        self.pieces(weights, rows, scratch, alone, |states, _, own| {
            self.feed(products, weights, states, own, &ranges);
        });
    }

    /// Runs `work` on the states and attention's output of each piece of the tokens, with a thread's memory.
    fn pieces(
        &self,
        weights: &SmallWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        (crew, helpers): &mut Team<'_>,
        work: impl Fn(&mut [f32], &[f32], &mut ThreadScratch) + Sync,
    ) {
        let (tokens, hidden) = (rows.ids.len(), self.architecture.hidden);
        let [_, width] = self.mixing_widths(weights);
        let piece = piece(tokens);
        let states = room(&mut scratch.states, tokens * hidden).chunks_mut(piece * hidden);
        let context = room(&mut scratch.context, tokens * width).chunks(piece * width);
        let run = |(states, context): (&mut [f32], &[f32]), own: &mut ThreadScratch| {
            work(states, context, own);
        };
        crew.share(&mut scratch.own, helpers, states.zip(context), run);
    }

    /// Runs the feed-forward over the states of some tokens.
    fn feed(
        &self,
        products: &[Matrix],
        weights: &SmallWeights,
        states: &mut [f32],
        own: &mut ThreadScratch,
        ranges: &NotedRanges<'_>,
    ) {
        let Architecture {
            hidden,
            feed_forward,
            parallel,
            ..
        } = self.architecture;
        let hidden = *hidden;
        let tokens = states.len() / hidden;
        let ThreadScratch {
            branch,
            inner,
            operand,
            inner_operand,
            experts,
            ..
        } = own;
        let [up, down, ..] = products else {
            return;
        };
        let norms = &weights.beside.feed_forward_norms;
        let input = if *parallel {
            &*room(branch, tokens * hidden)
        } else {
            self.before(norms, states, branch)
        };
        note(ranges, Product::Up, up, input);
        let note = |values: &[f32]| note(ranges, Product::Down, down, values);
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
        let block = block(self.isa, width, tokens);
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
fn note(ranges: &NotedRanges<'_>, product: Product, matrix: &Matrix, values: &[f32]) {
    let Some(ranges) = ranges else {
        return;
    };
    let mut ranges = locked(ranges);
    let (range, channels) = (&mut ranges[product as usize], matrix.inputs());
    range.resize(channels, 0.0);
    for row in values.chunks_exact(channels) {
        for (most, value) in range.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
}
