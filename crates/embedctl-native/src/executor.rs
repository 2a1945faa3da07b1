//! Runs a described network over ragged rows.
//!
//! Rows follow one another as `[tokens, hidden]`; nothing is padded. Operations on single tokens run over pieces of many
//! tokens, which threads share ([`ThreadCrew`]), and attention over each row or parts of its queries. The feed-forward's wide
//! inner activations are made and used up a block of tokens at a time, so that they stay in the processor's cache.

mod attention;
mod experts;
mod feed_forward;
mod halves;
mod ranges;

use std::sync::Mutex;

use super::crew::piece;
use super::packed::{InputRanges, LayerWeights, OuterWeights, SmallWeights};
use super::room::room;
use super::scratch::{Rows, Scratch, ThreadCrew, ThreadScratch, helpers};
use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_kernels::Isa;
pub(super) use feed_forward::add;

/// A network's description and an instruction set, without weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executor<'a> {
    /// The description.
    pub architecture: &'a Architecture,
    /// The instructions to use.
    pub isa: Isa,
}

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
        let (mixing, feed_forward) = weights.halves();
        let small = &weights.small;
        let ranges = ranges.map(Mutex::new);
        let mut helpers = helpers(self.architecture, rows, crew);
        let team = &mut (crew, helpers.memory());
        self.mix(layer, mixing, small, rows, scratch, team, &ranges);
        self.pieces(small, rows, scratch, team, |states, context, own| {
            self.merge(mixing, small, states, context, own, &ranges);
            self.feed(feed_forward, small, states, own, &ranges);
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
}
