//! Runs a described network over ragged rows.
//!
//! Rows follow one another as `[tokens, hidden]`; nothing is padded. Operations on single tokens run over all tokens at
//! once, attention over each row. The feed-forward's wide inner activations are made and used up a block of tokens at a
//! time, so that they stay in the processor's cache.

use super::architecture::{Architecture, Layer};
use super::kernels::{
    Attention, CacheLines, HeadsInput, Isa, ProductFinish, RelativeBias, Sight, linear, rotary,
};
use super::packed::{InputRanges, LayerWeights, Norms, OuterWeights, Product};
use super::relative_bias;
use super::scratch::{Rows, Scratch, block, room};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;

/// The error for a token's id beyond the table of `rows` rows.
pub(crate) fn unknown_id(id: u32, rows: usize) -> Error {
    of_another_model(format!(
        "makes the id {id}, and the model's table has {rows} rows"
    ))
}

fn of_another_model(reason: String) -> Error {
    Error::model("tokenizer.json", reason)
        .with_remedy("fetch the tokenizer and the weights again, from one revision")
}

/// A network's description and an instruction set, without weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executor<'a> {
    /// The description.
    pub architecture: &'a Architecture,
    /// The instructions to use.
    pub isa: Isa,
}

impl Executor<'_> {
    /// Embeds tokens into `scratch.states`.
    ///
    /// # Errors
    /// If an id is not in the vocabulary, a row is longer than the model has positions, or the system refuses the
    /// memory.
    pub(crate) fn embed(
        &self,
        outer: &OuterWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let embeddings = &self.architecture.embeddings;
        let (hidden, width) = (self.architecture.hidden, embeddings.width);
        let tokens = rows.ids.len();
        let longest = rows.longest();
        let projected = outer.projection.is_some();
        scratch.reserve(self.architecture, tokens, longest)?;
        let Scratch {
            states,
            branch,
            row: position_row,
            operand,
            ..
        } = scratch;
        let out = room(
            if projected {
                &mut *branch
            } else {
                &mut *states
            },
            tokens * width,
        );
        let position_row = room(position_row, width);
        for span in rows.spans() {
            let mut counted = 0;
            for token in span.clone() {
                let id = rows.ids[token];
                let row = &mut out[token * width..(token + 1) * width];
                if id as usize >= outer.word.rows() {
                    return Err(unknown_id(id, outer.word.rows()));
                }
                outer.word.row(id as usize, row);
                if embeddings.scale.to_bits() != 1.0_f32.to_bits() {
                    row.iter_mut().for_each(|value| *value *= embeddings.scale);
                }
                if embeddings.types > 0 {
                    let kind = rows.types.get(token).map_or(0, |&kind| kind as usize);
                    if kind >= embeddings.types {
                        let reason = format!(
                            "makes the token type {kind}, and the model has {}",
                            embeddings.types
                        );
                        return Err(of_another_model(reason));
                    }
                    add(row, &outer.types[kind * width..(kind + 1) * width]);
                }
                if let (Some(positions), Some(table)) = (embeddings.positions, &outer.positions) {
                    let position = match positions.after {
                        None => token - span.start,
                        Some(padding) if id == padding => padding as usize,
                        Some(padding) => {
                            counted += 1;
                            counted + padding as usize
                        }
                    };
                    if position >= table.rows() {
                        return Err(Error::usage(format!(
                            "{MAX_LENGTH}: a text of {} tokens needs position {position}, and the model has {} \
                             positions",
                            span.len(),
                            table.rows()
                        ))
                        .with_remedy(format!("give a smaller {MAX_LENGTH}")));
                    }
                    table.row(position, position_row);
                    add(row, position_row);
                }
            }
        }
        if let Some(norm) = &outer.norm {
            norm.apply(self.isa, out);
        }
        if let Some(projection) = &outer.projection {
            linear(
                operand.convert_apart(projection, out, width, tokens),
                0..tokens,
                projection,
                room(states, tokens * hidden),
                hidden,
                ProductFinish::Store,
            );
        }
        for (turns, frequencies) in scratch.turns.iter_mut().zip(&self.architecture.rotary) {
            frequencies.extend(turns, longest);
        }
        if !outer.relative_bias.is_empty() {
            let heads = self.architecture.attention.heads;
            relative_bias::extend(&mut scratch.bias, &outer.relative_bias, heads, longest);
        }
        Ok(())
    }

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

        // Attention.
        let [into, output, up, down] = &weights.products;
        let input = self.before(&weights.attention_norms, states, branch);
        note(Product::Input, input);
        let input = operand.convert(into, input, hidden, tokens);
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let stride = query + 2 * key;
        let heads = room(heads, tokens * stride);
        linear(input, 0..tokens, into, heads, stride, ProductFinish::Store);
        let context = room(context, tokens * query);
        let shape = Attention {
            heads: attention.heads,
            kv_heads: attention.key_value_heads,
            head_width: attention.head_size,
            scale: attention.scale,
            sight: Sight {
                before: layer.reach.unwrap_or(usize::MAX),
                after: if layer.causal {
                    0
                } else {
                    layer.reach.unwrap_or(usize::MAX)
                },
            },
        };
        let bias = (!bias.is_empty()).then(|| RelativeBias {
            table: bias,
            reach: relative_bias::reach(bias, attention.heads),
        });
        for span in rows.spans() {
            let own = &mut heads[span.start * stride..span.end * stride];
            if weights.head_norms.is_some() || layer.rotary.is_some() {
                for (position, token) in own.chunks_exact_mut(stride).enumerate() {
                    if let Some([query_norm, key_norm]) = &weights.head_norms {
                        query_norm.apply(self.isa, &mut token[..query]);
                        key_norm.apply(self.isa, &mut token[query..query + key]);
                    }
                    if let Some(turns) = layer.rotary.map(|index| &turns[index]) {
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
        note(Product::Output, context);
        let context = operand.convert(output, context, query, tokens);
        self.after(&weights.attention_norms, states, branch, |out, finish| {
            linear(context, 0..tokens, output, out, hidden, finish);
        });

        // Feed-forward, a block of tokens at a time.
        let input = self.before(&weights.feed_forward_norms, states, branch);
        note(Product::Up, input);
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
            &weights.feed_forward_norms,
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

    /// The norm after the last layer; the finished states of all tokens.
    pub(crate) fn finish<'a>(
        &self,
        outer: &OuterWeights,
        tokens: usize,
        scratch: &'a mut Scratch,
    ) -> &'a [f32] {
        let states = room(&mut scratch.states, tokens * self.architecture.hidden);
        if let Some(norm) = &outer.final_norm {
            norm.apply(self.isa, states);
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
        match &norms.after {
            None => run(states, ProductFinish::Add),
            Some(norm) => {
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

fn add(to: &mut [f32], values: &[f32]) {
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
