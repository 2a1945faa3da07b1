//! Runs the first half of a layer: attention, or a convolution or a delta rule in its place.

use super::ranges::{NotedRanges, note};
use super::{Executor, Team};
use crate::crew::piece;
use crate::delta_rule::DeltaWeights;
use crate::disentangled::RelativeScratch;
use crate::packed::{Product, SmallWeights};
use crate::relative_bias;
use crate::room::room;
use crate::rotary::RotaryTable;
use crate::scratch::{Rows, Scratch, ThreadCrew, ThreadScratch};
use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_kernels::{
    Arithmetic, Attention, HeadsInput, Matrix, ProductFinish, ScoreBias, Sight, gate_by_sigmoid,
    linear, rotary,
};

/// Queries of a part of a row at least, about: each part packs all keys again.
const PART_QUERIES: usize = 128;

impl Executor<'_> {
    /// Runs a layer's attention, or its convolution, over `scratch.states`, and leaves the result in `scratch.context`.
    /// The team's threads help.
    #[expect(
        clippy::too_many_arguments,
        reason = "a layer, its rows, and the threads that run it"
    )]
    pub(super) fn mix(
        &self,
        layer: &Layer,
        products: &[Matrix],
        weights: &SmallWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
        (crew, helpers): &mut Team<'_>,
        ranges: &NotedRanges<'_>,
    ) {
        let Architecture {
            hidden, attention, ..
        } = self.architecture;
        let (hidden, tokens) = (*hidden, rows.ids.len());
        let Scratch {
            states,
            heads,
            context,
            bias,
            turns,
            relative,
            own,
            ..
        } = scratch;
        let Some(into) = products.first() else {
            return;
        };
        let [stride, width] = self.mixing_widths(weights);
        let convolution = weights.beside.convolution.as_ref();
        let delta_rule = weights.beside.delta_rule.as_ref();
        let heads = room(heads, tokens * stride);
        let piece = piece(tokens);
        let states = room(states, tokens * hidden).chunks(piece * hidden);
        let pieces = states.zip(heads.chunks_mut(piece * stride)).enumerate();
        crew.share(own, helpers, pieces, |(number, (states, heads)), own| {
            let count = states.len() / hidden;
            let input = self.before(&weights.beside.attention_norms, states, &mut own.branch);
            note(ranges, Product::Input, into, input);
            let input = own.operand.convert(into, input, hidden, count);
            linear(input, 0..count, into, heads, stride, ProductFinish::Store);
            if convolution.is_none() && delta_rule.is_none() {
                self.turn_rows(layer, weights, turns, rows, number * piece, heads);
            }
        });
        let context = room(context, tokens * width);
        let own_bias = &weights.beside.relative_bias;
        if let (Some(kind), false) = (attention.position_bias, own_bias.is_empty()) {
            bias.clear();
            relative_bias::extend(bias, kind, own_bias, attention.heads, rows.longest());
        }
        let bias = (!bias.is_empty())
            .then(|| ScoreBias::by_distance(bias, relative_bias::reach(bias, attention.heads)));
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        for (row, span) in rows.spans().enumerate() {
            let length = span.len();
            let from = &mut heads[span.start * stride..span.end * stride];
            let out = &mut context[span.start * width..span.end * width];
            if let Some(convolution) = convolution {
                convolution.run(from, out);
                continue;
            }
            if let Some(rule) = delta_rule {
                rule.run(self.isa, from, out, (*crew, &mut *own, &mut **helpers));
                continue;
            }
            let shape = self.shape(layer, rows.seen.get(row).copied());
            if attention.disentangled.is_some() {
                let buffers = (&mut *relative, &mut *own);
                self.attend_by_pairs(shape, weights, into.arithmetic(), from, out, buffers);
                continue;
            }
            let input = |first: usize| HeadsInput {
                data: from.get(first..).unwrap_or_default(),
                stride,
            };
            let inputs = (input(0), input(query), input(query + key));
            let team = (*crew, &mut *own, &mut **helpers);
            self.attend_row(shape, into.arithmetic(), inputs, bias, (out, length), team);
        }
        if attention.gated && delta_rule.is_none() {
            let pieces = context.chunks_mut(piece * width);
            let pieces = pieces.zip(heads.chunks(piece * stride));
            crew.share(own, helpers, pieces, |(context, heads), _| {
                self.gate(context, width, heads, stride);
            });
        }
    }

    /// Multiplies the outputs `context` of attention by the gates that stand last in their tokens' values `heads`.
    fn gate(&self, context: &mut [f32], width: usize, heads: &[f32], stride: usize) {
        let tokens = context.chunks_exact_mut(width);
        for (out, token) in tokens.zip(heads.chunks_exact(stride)) {
            gate_by_sigmoid(self.isa, &token[stride - width..], out);
        }
    }

    /// Attention over the queries, keys and values of a row of `length` tokens; the team's threads take parts of its queries.
    fn attend_row(
        &self,
        shape: Attention,
        arithmetic: Arithmetic,
        inputs: (HeadsInput<'_>, HeadsInput<'_>, HeadsInput<'_>),
        bias: Option<ScoreBias<'_>>,
        (out, length): (&mut [f32], usize),
        (crew, own, helpers): (&ThreadCrew, &mut ThreadScratch, &mut [ThreadScratch]),
    ) {
        let width = shape.heads * shape.head_width;
        // Of causal attention the last queries see most keys: more parts than threads.
        let parts = match helpers.len() {
            0 => 1,
            helpers => (4 * (helpers + 1)).min(length / PART_QUERIES),
        };
        let parts = Attention::parts(self.isa, arithmetic, length, parts);
        let parts = parts.scan(out, |rest, part| {
            let (out, others) = std::mem::take(rest).split_at_mut(part.len() * width);
            *rest = others;
            Some((part, out))
        });
        crew.share(own, helpers, parts, |(part, out), own| {
            shape.run(
                self.isa,
                arithmetic,
                &mut own.attention,
                inputs,
                length,
                part,
                bias,
                out,
                width,
            );
        });
    }

    /// Adds the output of attention, or of a convolution, to the states of some tokens. Of parallel branches, the
    /// feed-forward's input is left in `own.branch`.
    pub(super) fn merge(
        &self,
        products: &[Matrix],
        weights: &SmallWeights,
        states: &mut [f32],
        context: &[f32],
        own: &mut ThreadScratch,
        ranges: &NotedRanges<'_>,
    ) {
        let hidden = self.architecture.hidden;
        let tokens = states.len() / hidden;
        let [_, width] = self.mixing_widths(weights);
        let Some(output) = products.get(1) else {
            return;
        };
        let ThreadScratch {
            branch, operand, ..
        } = own;
        // The same input as attention's; no norm follows that would need the memory.
        if self.architecture.parallel {
            self.before(&weights.beside.feed_forward_norms, states, branch);
        }
        note(ranges, Product::Output, output, context);
        let context = operand.convert(output, context, width, tokens);
        let norms = &weights.beside.attention_norms;
        self.after(norms, states, branch, |out, finish| {
            linear(context, 0..tokens, output, out, hidden, finish);
        });
    }

    /// Floats of a token in front of a layer's attention, or its convolution, and behind it.
    pub(super) fn mixing_widths(&self, weights: &SmallWeights) -> [usize; 2] {
        let Architecture {
            hidden, attention, ..
        } = self.architecture;
        let [query, _] = attention.query_key_widths();
        match (&weights.beside.convolution, &weights.beside.delta_rule) {
            (Some(_), _) => [3 * hidden, *hidden],
            (None, Some(DeltaWeights { rule, .. })) => [rule.input_width(), rule.values()],
            (None, None) => [attention.input_width(), query],
        }
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

    /// Norms and turns the queries and keys of tokens from number `first` on, whose values lie behind them.
    fn turn_rows(
        &self,
        layer: &Layer,
        weights: &SmallWeights,
        turns: &[RotaryTable],
        rows: Rows<'_>,
        first: usize,
        tokens: &mut [f32],
    ) {
        let norms = &weights.beside.query_key_norms;
        if norms.is_none() && layer.rotary.is_none() {
            return;
        }
        let attention = &self.architecture.attention;
        let [query, key] = attention.query_key_widths();
        let stride = attention.input_width();
        let end = first + tokens.len() / stride;
        for span in rows.spans() {
            let taken = span.start.max(first)..span.end.min(end);
            if taken.is_empty() {
                continue;
            }
            let turns = self.turns(layer, turns, span.len());
            let own = &mut tokens[(taken.start - first) * stride..(taken.end - first) * stride];
            for (number, token) in taken.zip(own.chunks_exact_mut(stride)) {
                if let Some([query_norm, key_norm]) = norms {
                    query_norm.apply(self.isa, &mut token[..query]);
                    key_norm.apply(self.isa, &mut token[query..query + key]);
                }
                if let Some(turns) = turns {
                    let (cosines, sines) = turns.at(number - span.start);
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
    }

    /// Disentangled attention over the queries, keys and values of a row, a head at a time: each has a score of its own
    /// for each pair of tokens.
    fn attend_by_pairs(
        &self,
        shape: Attention,
        weights: &SmallWeights,
        arithmetic: Arithmetic,
        row: &[f32],
        out: &mut [f32],
        (relative, own): (&mut RelativeScratch, &mut ThreadScratch),
    ) {
        let ThreadScratch {
            operand,
            attention: scratch,
            ..
        } = own;
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
                0..tokens,
                bias.map(|bias| ScoreBias::of_pairs(bias, tokens)),
                &mut out[head * size..],
                query,
            );
        }
    }
}
