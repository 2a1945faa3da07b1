//! Runs the first half of a layer: attention, or a convolution in its place.

use super::{Executor, note};
use crate::architecture::{Architecture, Layer};
use crate::disentangled::RelativeScratch;
use crate::kernels::{
    Attention, AttentionScratch, HeadsInput, Matrix, Operand, ProductFinish, ProductPrecision,
    ScoreBias, Sight, linear, rotary,
};
use crate::packed::{InputRanges, Product, SmallWeights};
use crate::relative_bias;
use crate::room::room;
use crate::rotary::RotaryTable;
use crate::scratch::{Rows, Scratch};

impl Executor<'_> {
    /// Runs a layer's first half over `scratch.states`, with the products `products`. `ranges` as in
    /// [`Executor::layer`]. Of parallel branches, the feed-forward's input is left in `scratch.branch`.
    pub(crate) fn attention(
        &self,
        layer: &Layer,
        products: &[Matrix],
        weights: &SmallWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        mut ranges: Option<&mut InputRanges>,
    ) {
        let Architecture {
            hidden, attention, ..
        } = self.architecture;
        let hidden = *hidden;
        let tokens = rows.ids.len();
        let Scratch {
            states,
            branch,
            heads,
            context,
            operand,
            attention: attention_scratch,
            bias,
            turns,
            relative,
            ..
        } = scratch;
        let [into, output] = products else {
            return;
        };
        let norms = &weights.beside.attention_norms;
        let states = room(states, tokens * hidden);
        let input = self.before(norms, states, branch);
        note(&mut ranges, Product::Input, into, input);
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
        let own_bias = &weights.beside.relative_bias;
        if let (Some(kind), false) = (attention.position_bias, own_bias.is_empty()) {
            bias.clear();
            relative_bias::extend(bias, kind, own_bias, attention.heads, rows.longest());
        }
        let bias = (!bias.is_empty())
            .then(|| ScoreBias::by_distance(bias, relative_bias::reach(bias, attention.heads)));
        for (row, span) in rows.spans().enumerate() {
            let own = &mut heads[span.start * stride..span.end * stride];
            let out = &mut context[span.start * width..span.end * width];
            if let Some(convolution) = convolution {
                convolution.run(own, out);
                continue;
            }
            let turns = self.turns(layer, turns, span.len());
            self.turn(weights, turns, own);
            let shape = self.shape(layer, rows.seen.get(row).copied());
            if attention.disentangled.is_some() {
                let buffers = (&mut *relative, &mut *operand, &mut *attention_scratch);
                self.attend_by_pairs(shape, weights, into.arithmetic(), own, out, buffers);
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
                out,
                query,
            );
        }
        // The same input as attention's; no norm follows that would need the memory.
        if self.architecture.parallel {
            self.before(&weights.beside.feed_forward_norms, states, branch);
        }
        note(&mut ranges, Product::Output, output, context);
        let context = operand.convert(output, context, width, tokens);
        self.after(norms, states, branch, |out, finish| {
            linear(context, 0..tokens, output, out, hidden, finish);
        });
    }

    /// A layer's attention over a row, of which all tokens attend to the first `seen` where that is given.
    fn shape(&self, layer: &Layer, seen: Option<usize>) -> Attention {
        let attention = &self.architecture.attention;
        Attention {
            heads: attention.heads,
            kv_heads: attention.key_value_heads,
            head_width: attention.head_size,
            scale: attention.scale,
            softcap: attention.softcap,
            sight: Sight {
                keys: seen.unwrap_or(usize::MAX),
                before: layer.reach.unwrap_or(usize::MAX),
                after: if layer.causal {
                    0
                } else {
                    layer.reach.unwrap_or(usize::MAX)
                },
            },
        }
    }

    /// The rotary positions of a layer, of those of all sets of frequencies, for a row of `tokens` tokens.
    fn turns<'a>(
        &self,
        layer: &Layer,
        turns: &'a [RotaryTable],
        tokens: usize,
    ) -> Option<&'a RotaryTable> {
        layer.rotary.map(|index| {
            let beyond = self.architecture.rotary[index].beyond;
            let other = beyond.filter(|(limit, _)| tokens > *limit);
            &turns[other.map_or(index, |(_, other)| other)]
        })
    }

    /// Norms and turns the queries and keys of a row's tokens, whose values lie behind them.
    fn turn(&self, weights: &SmallWeights, turns: Option<&RotaryTable>, row: &mut [f32]) {
        let norms = &weights.beside.query_key_norms;
        if norms.is_none() && turns.is_none() {
            return;
        }
        let attention = &self.architecture.attention;
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        for (position, token) in row.chunks_exact_mut(query + 2 * key).enumerate() {
            if let Some([query_norm, key_norm]) = norms {
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

    /// Disentangled attention over the queries, keys and values of a row, a head at a time: each has a score of its own
    /// for each pair of tokens.
    fn attend_by_pairs(
        &self,
        shape: Attention,
        weights: &SmallWeights,
        arithmetic: ProductPrecision,
        row: &[f32],
        out: &mut [f32],
        (relative, operand, scratch): (&mut RelativeScratch, &mut Operand, &mut AttentionScratch),
    ) {
        let one = Attention {
            heads: 1,
            kv_heads: 1,
            ..shape
        };
        let size = shape.head_width;
        let (query, key) = (shape.heads * size, shape.kv_heads * size);
        let stride = query + 2 * key;
        let tokens = row.len() / stride;
        for head in 0..shape.heads {
            let positions = &weights.relative_positions;
            let data = (row, stride, query);
            let bias = relative.bias(self.architecture, positions, operand, data, head, tokens);
            let of = |first: usize| HeadsInput {
                data: &row[first + head * size..],
                stride,
            };
            one.run(
                self.isa,
                arithmetic,
                scratch,
                (of(0), of(query), of(query + key)),
                tokens,
                bias.map(|bias| ScoreBias::of_pairs(bias, tokens)),
                &mut out[head * size..],
                query,
            );
        }
    }
}
