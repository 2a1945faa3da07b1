//! Runs a described network over ragged rows.
//!
//! Rows follow one another as `[tokens, hidden]`; nothing is padded. Operations on single tokens run over all tokens at
//! once, attention over each row. The feed-forward's wide inner activations are made and used up a block of tokens at a
//! time, so that they stay in the processor's cache.

mod experts;

use super::architecture::{Architecture, Layer};
use super::kernels::{
    Attention, CacheLines, HeadsInput, Isa, ProductFinish, ScoreBias, Sight, linear, rotary,
};
use super::packed::{InputRanges, LayerWeights, Norms, OuterWeights, Product};
use super::relative_bias;
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
        let Architecture {
            hidden,
            attention,
            feed_forward,
            ..
        } = self.architecture;
        let hidden = *hidden;
        let tokens = rows.ids.len();
        let Scratch {
            states,
            branch,
            heads,
            context,
            inner,
            operand,
            inner_operand,
            attention: attention_scratch,
            bias,
            turns,
            experts,
            relative,
            ..
        } = scratch;
        let states = room(states, tokens * hidden);
        let mut note = |product: Product, values: &[f32]| {
            if let Some(ranges) = &mut ranges {
                widen(
                    &mut ranges[product as usize],
                    weights.products[product as usize].inputs(),
                    values,
                );
            }
        };

        // Attention, or a convolution in its place.
        let [into, output, up, down, ..] = &weights.products[..] else {
            return;
        };
        let input = self.before(&weights.beside.attention_norms, states, branch);
        note(Product::Input, input);
        let input = operand.convert(into, input, hidden, tokens);
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let convolution = weights.beside.convolution.as_ref();
        let (stride, width) = match convolution {
            Some(_) => (3 * hidden, hidden),
            None => (query + 2 * key, query),
        };
        let heads = room(heads, tokens * stride);
        linear(input, 0..tokens, into, heads, stride, ProductFinish::Store);
        let context = room(context, tokens * width);
        let shape = Attention {
            heads: attention.heads,
            kv_heads: attention.key_value_heads,
            head_width: attention.head_size,
            scale: attention.scale,
            softcap: attention.softcap,
            sight: Sight {
                keys: usize::MAX,
                before: layer.reach.unwrap_or(usize::MAX),
                after: if layer.causal {
                    0
                } else {
                    layer.reach.unwrap_or(usize::MAX)
                },
            },
        };
        if let (Some(kind), false) = (
            attention.position_bias,
            weights.beside.relative_bias.is_empty(),
        ) {
            bias.clear();
            let longest = rows.longest();
            relative_bias::extend(
                bias,
                kind,
                &weights.beside.relative_bias,
                attention.heads,
                longest,
            );
        }
        let bias = (!bias.is_empty())
            .then(|| ScoreBias::by_distance(bias, relative_bias::reach(bias, attention.heads)));
        for (row, span) in rows.spans().enumerate() {
            let shape = Attention {
                sight: Sight {
                    keys: rows.seen.get(row).copied().unwrap_or(usize::MAX),
                    ..shape.sight
                },
                ..shape
            };
            let own = &mut heads[span.start * stride..span.end * stride];
            if let Some(convolution) = convolution {
                let out = &mut context[span.start * width..span.end * width];
                convolution.run(own, out);
                continue;
            }
            let turns = layer.rotary.map(|index| {
                let beyond = self.architecture.rotary[index].beyond;
                let other = beyond.filter(|(limit, _)| span.len() > *limit);
                &turns[other.map_or(index, |(_, other)| other)]
            });
            if weights.beside.query_key_norms.is_some() || turns.is_some() {
                for (position, token) in own.chunks_exact_mut(stride).enumerate() {
                    if let Some([query_norm, key_norm]) = &weights.beside.query_key_norms {
                        query_norm.apply(self.isa, &mut token[..query]);
                        key_norm.apply(self.isa, &mut token[query..query + key]);
                    }
                    if let Some(turns) = turns {
                        let (cosines, sines) = turns.at(position);
                        rotary(
                            self.isa,
                            &mut token[..query + key],
                            attention.head_size,
                            cosines,
                            sines,
                        );
                    }
                }
            }
            if attention.disentangled.is_some() {
                // A head at a time: each has a score of its own for each pair of tokens.
                let one = Attention {
                    heads: 1,
                    kv_heads: 1,
                    ..shape
                };
                let size = attention.head_size;
                for head in 0..attention.heads {
                    let positions = &weights.relative_positions;
                    let data = (&*own, stride, query);
                    let bias = relative.bias(
                        self.architecture,
                        positions,
                        operand,
                        data,
                        head,
                        span.len(),
                    );
                    let of = |first: usize| HeadsInput {
                        data: &own[first + head * size..],
                        stride,
                    };
                    one.run(
                        self.isa,
                        into.arithmetic(),
                        attention_scratch,
                        (of(0), of(query), of(query + key)),
                        span.len(),
                        bias.map(|bias| ScoreBias::of_pairs(bias, span.len())),
                        &mut context[span.start * query + head * size..span.end * query],
                        query,
                    );
                }
                continue;
            }
            let input = |first: usize| HeadsInput {
                data: own.get(first..).unwrap_or_default(),
                stride,
            };
            shape.run(
                self.isa,
                into.arithmetic(),
                attention_scratch,
                (input(0), input(query), input(query + key)),
                span.len(),
                bias,
                &mut context[span.start * query..span.end * query],
                query,
            );
        }
        // The same input as attention's; no norm follows that would need the memory.
        let parallel = self.architecture.parallel;
        if parallel {
            self.before(&weights.beside.feed_forward_norms, states, branch);
        }
        note(Product::Output, context);
        let context = operand.convert(output, context, width, tokens);
        self.after(
            &weights.beside.attention_norms,
            states,
            branch,
            |out, finish| {
                linear(context, 0..tokens, output, out, hidden, finish);
            },
        );

        // Feed-forward, a block of tokens at a time.
        let input = if parallel {
            &*room(branch, tokens * hidden)
        } else {
            self.before(&weights.beside.feed_forward_norms, states, branch)
        };
        note(Product::Up, input);
        if weights.experts.is_some() {
            let note = |values: &[f32]| note(Product::Down, values);
            self.experts(
                weights,
                input,
                tokens,
                experts,
                operand,
                inner,
                inner_operand,
                note,
            );
            let sum = room(&mut experts.sum, tokens * hidden);
            self.after(
                &weights.beside.feed_forward_norms,
                states,
                branch,
                |out, finish| match finish {
                    ProductFinish::Add => add(out, sum),
                    _ => out.copy_from_slice(sum),
                },
            );
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
        self.after(
            &weights.beside.feed_forward_norms,
            states,
            branch,
            |out, add_or_store| {
                for start in (0..tokens).step_by(block) {
                    let count = block.min(tokens - start);
                    linear(input, start..start + count, up, inner, width, finish);
                    note(Product::Down, &inner[..count * width]);
                    let inner = inner_operand.convert(down, inner, width, count);
                    let out = &mut out[start * hidden..(start + count) * hidden];
                    linear(inner, 0..count, down, out, hidden, add_or_store);
                }
            },
        );
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

/// Raises the channels' greatest magnitudes in `range` (empty at first) to those of `values`, rows of `channels`.
fn widen(range: &mut Vec<f32>, channels: usize, values: &[f32]) {
    range.resize(channels, 0.0);
    for row in values.chunks_exact(channels) {
        for (most, value) in range.iter_mut().zip(row) {
            *most = most.max(value.abs());
        }
    }
}
