//! Tokens become states: the sum of their embeddings, with its norm and projection, and the tables of positions.

use std::ops::Range;

use super::executor::{Executor, add};
use super::packed::OuterWeights;
use super::relative_bias;
use super::room::room;
use super::scratch::{Rows, Scratch, ThreadScratch};
use embedctl_checkpoint::architecture::{Architecture, PositionBias};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;
use embedctl_kernels::{ProductFinish, linear};

/// The error for a token's id beyond the table of `rows` rows.
#[must_use]
pub fn unknown_id(id: u32, rows: usize) -> Error {
    of_another_model(format!(
        "makes the id {id}, but the model's table has {rows} rows"
    ))
}

/// The error for a token type beyond the model's `types`.
#[must_use]
pub fn unknown_type(kind: usize, types: usize) -> Error {
    of_another_model(format!(
        "makes the token type {kind}, but the model has {types}"
    ))
}

fn of_another_model(reason: String) -> Error {
    Error::model("tokenizer.json", reason)
        .with_remedy("fetch the tokenizer and the weights again, from one revision")
}

/// The tables that a token's vector is summed from.
struct EmbeddingSum<'a> {
    architecture: &'a Architecture,
    outer: &'a OuterWeights,
    rows: Rows<'a>,
}

impl EmbeddingSum<'_> {
    fn check_length(&self, tokens: usize) -> Result<()> {
        match self.architecture.longest {
            Some(most) if tokens > most => Err(Error::usage(format!(
                "{MAX_LENGTH}: a text has {tokens} tokens, but the model is computed exactly for {most} at most"
            ))
            .with_remedy(format!("give a smaller {MAX_LENGTH}"))),
            _ => Ok(()),
        }
    }

    /// Puts the vector of a token, as an adapter changes it, into `row`.
    fn put_word(&self, id: u32, row: &mut [f32]) -> Result<()> {
        let OuterWeights {
            word, word_change, ..
        } = self.outer;
        if id as usize >= word.rows() {
            return Err(unknown_id(id, word.rows()));
        }
        word.row(id as usize, row);
        if let Some(change) = word_change {
            change.apply(id as usize, row.len(), row);
        }
        Ok(())
    }

    /// Adds what the token's type says, and scales the sum; `spare` has a row's width.
    fn add_types(&self, token: usize, row: &mut [f32], spare: &mut [f32]) -> Result<()> {
        let embeddings = &self.architecture.embeddings;
        if embeddings.word_types
            && let Some(&kind) = self.rows.types.get(token)
        {
            self.put_word(kind, spare)?;
            add(row, spare);
        }
        if embeddings.scale.to_bits() != 1.0_f32.to_bits() {
            row.iter_mut().for_each(|value| *value *= embeddings.scale);
        }
        if embeddings.types > 0 {
            let kind = (self.rows.types.get(token)).map_or(0, |&kind| kind as usize);
            if kind >= embeddings.types {
                return Err(unknown_type(kind, embeddings.types));
            }
            let width = row.len();
            add(row, &self.outer.types[kind * width..(kind + 1) * width]);
        }
        Ok(())
    }

    /// The learned position of a token of the row `span`, where the model has such positions; `counted` are the tokens before
    /// it that are no padding.
    fn position(&self, token: usize, span: &Range<usize>, counted: &mut usize) -> Option<usize> {
        let positions = self.architecture.embeddings.positions?;
        Some(match positions.after {
            None => token - span.start + positions.first,
            Some(padding) if self.rows.ids[token] == padding => padding as usize,
            Some(padding) => {
                *counted += 1;
                *counted + padding as usize
            }
        })
    }

    /// Adds the vector of a position of a text with `tokens` tokens.
    fn add_position(
        &self,
        position: usize,
        tokens: usize,
        row: &mut [f32],
        spare: &mut [f32],
    ) -> Result<()> {
        let Some(table) = &self.outer.positions else {
            return Ok(());
        };
        if position >= table.rows() {
            return Err(Error::usage(format!(
                "{MAX_LENGTH}: a text of {tokens} tokens needs position {position}, but the model has {} positions",
                table.rows()
            ))
            .with_remedy(format!("give a smaller {MAX_LENGTH}")));
        }
        table.row(position, spare);
        add(row, spare);
        Ok(())
    }
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
        let hidden = self.architecture.hidden;
        let width = self.architecture.embeddings.width;
        let tokens = rows.ids.len();
        let projected = outer.projection.is_some();
        self.make_ready(outer, rows, scratch)?;
        let Scratch {
            states,
            row: position_row,
            own: ThreadScratch {
                branch, operand, ..
            },
            ..
        } = scratch;
        let out = if projected { branch } else { &mut *states };
        let out = room(out, tokens * width);
        let spare = room(position_row, width);
        let sum = EmbeddingSum {
            architecture: self.architecture,
            outer,
            rows,
        };
        for span in rows.spans() {
            sum.check_length(span.len())?;
            let mut counted = 0;
            for token in span.clone() {
                let row = &mut out[token * width..(token + 1) * width];
                sum.put_word(rows.ids[token], row)?;
                sum.add_types(token, row, spare)?;
                if let Some(position) = sum.position(token, &span, &mut counted) {
                    sum.add_position(position, span.len(), row, spare)?;
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
        Ok(())
    }

    /// Makes room for these rows, and the positions that all layers share.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub(crate) fn make_ready(
        &self,
        outer: &OuterWeights,
        rows: Rows<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let longest = rows.longest();
        scratch.reserve(self.architecture, rows.ids.len(), longest)?;
        let sets = self.architecture.rotary.iter().zip(&outer.angles);
        for (turns, (frequencies, stored)) in scratch.turns.iter_mut().zip(sets) {
            match stored {
                None => turns.extend(frequencies, longest),
                Some(stored) => turns.copy(stored, longest),
            }
        }
        match self.architecture.attention.position_bias {
            // Of each layer.
            None
            | Some(PositionBias::Buckets {
                of_each_layer: true,
                ..
            }) => {}
            Some(kind) => {
                let heads = self.architecture.attention.heads;
                relative_bias::extend(
                    &mut scratch.bias,
                    kind,
                    &outer.relative_bias,
                    heads,
                    longest,
                );
            }
        }
        Ok(())
    }
}
