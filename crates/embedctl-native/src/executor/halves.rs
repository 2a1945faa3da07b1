//! Runs half a layer, where memory has room for no more of its weights.

use std::sync::Mutex;

use super::Executor;
use crate::packed::{InputRanges, SmallWeights};
use crate::scratch::{Rows, Scratch, ThreadCrew};
use embedctl_checkpoint::architecture::Layer;
use embedctl_kernels::Matrix;

impl Executor<'_> {
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
}
