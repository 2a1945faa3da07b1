//! Tokens become states: the sum of their embeddings, with its norm and projection, and the tables of positions.

use super::architecture::PositionBias;
use super::executor::{Executor, add};
use super::kernels::{ProductFinish, linear};
use super::packed::OuterWeights;
use super::relative_bias;
use super::room::room;
use super::scratch::{Rows, Scratch, ThreadScratch};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MAX_LENGTH;

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
            if let Some(most) = self.architecture.longest
                && span.len() > most
            {
                return Err(Error::usage(format!(
                    "{MAX_LENGTH}: a text has {} tokens, but the model is computed exactly for {most} at most",
                    span.len()
                ))
                .with_remedy(format!("give a smaller {MAX_LENGTH}")));
            }
            let mut counted = 0;
            for token in span.clone() {
                let id = rows.ids[token];
                let row = &mut out[token * width..(token + 1) * width];
                if id as usize >= outer.word.rows() {
                    return Err(unknown_id(id, outer.word.rows()));
                }
                outer.word.row(id as usize, row);
                if let Some(change) = &outer.word_change {
                    change.apply(id as usize, width, row);
                }
                if embeddings.word_types
                    && let Some(&kind) = rows.types.get(token)
                {
                    if kind as usize >= outer.word.rows() {
                        return Err(unknown_id(kind, outer.word.rows()));
                    }
                    outer.word.row(kind as usize, position_row);
                    if let Some(change) = &outer.word_change {
                        change.apply(kind as usize, width, position_row);
                    }
                    add(row, position_row);
                }
                if embeddings.scale.to_bits() != 1.0_f32.to_bits() {
                    row.iter_mut().for_each(|value| *value *= embeddings.scale);
                }
                if embeddings.types > 0 {
                    let kind = rows.types.get(token).map_or(0, |&kind| kind as usize);
                    if kind >= embeddings.types {
                        return Err(unknown_type(kind, embeddings.types));
                    }
                    add(row, &outer.types[kind * width..(kind + 1) * width]);
                }
                if let (Some(positions), Some(table)) = (embeddings.positions, &outer.positions) {
                    let position = match positions.after {
                        None => token - span.start + positions.first,
                        Some(padding) if id == padding => padding as usize,
                        Some(padding) => {
                            counted += 1;
                            counted + padding as usize
                        }
                    };
                    if position >= table.rows() {
                        return Err(Error::usage(format!(
                            "{MAX_LENGTH}: a text of {} tokens needs position {position}, but the model has {} \
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
                None => frequencies.extend(turns, longest),
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
