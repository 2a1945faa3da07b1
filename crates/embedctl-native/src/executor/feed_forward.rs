//! Runs the second half of a layer: the feed-forward, or experts in its place, with the norms around it.

use super::Executor;
use super::ranges::{NotedRanges, note};
use crate::packed::{Norms, Product, SmallWeights};
use crate::room::{block, room};
use crate::scratch::ThreadScratch;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_kernels::{CacheLines, Matrix, ProductFinish, linear};

impl Executor<'_> {
    /// Runs the feed-forward over the states of some tokens.
    pub(super) fn feed(
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

    /// A branch's input: the residual stream, or its norm.
    pub(super) fn before<'a>(
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
    pub(super) fn after(
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
pub(crate) fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut()
        .zip(values)
        .for_each(|(to, value)| *to += value);
}
