//! Rotary positions: the frequencies that a model's settings ask for, with the scalings that stretch them
//! to longer texts, and the tables made from them.

mod parameters;

use std::collections::TryReserveError;

use serde_json::{Map, Value};

use super::room::grow_kept;
use super::settings::{ConfigSettings, Supported};
use parameters::{PART, RopeParameters, TRAINED};

/// How fast each pair of a head's components turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Radians a position, for each pair `(i, i + pairs)` of a head's first `2 * pairs` channels.
    pub frequencies: Vec<f32>,
    /// The same where the reference computes angles in double precision.
    pub precise: Option<Vec<f64>>,
    /// Factor of cosines and sines.
    pub scale: f32,
    /// The table of sines and cosines that the reference takes where a checkpoint has it, `[positions, 2 * pairs]`.
    pub stored: Option<&'static str>,
    /// Rows of more tokens than the first take the set of frequencies whose number is the second.
    pub beyond: Option<(usize, usize)>,
}

/// The heads that are turned, and what the model's class says about positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RotaryShape {
    /// Channels of a head.
    pub head_size: usize,
    /// The base where the parameters name none.
    pub theta: f64,
    /// `max_position_embeddings`.
    pub positions: usize,
    /// Whether the class's own frequencies follow `partial_rotary_factor`; those of transformers' scalings always do.
    pub partial: bool,
    /// Whether the class has GTE's `ntk` scaling.
    pub own_ntk: bool,
}

/// Frequencies as settings ask for them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RotarySets {
    /// For rows of any length, or short ones.
    pub short: Rotary,
    /// For rows longer than so many tokens.
    pub long: Option<(usize, Rotary)>,
    /// Tokens of a row at most: longer rows would change the frequencies.
    pub longest: Option<usize>,
    /// Parameters that say something and that neither the class nor the scaling reads.
    pub unread: Vec<&'static str>,
}

impl Rotary {
    /// Reads one set of rope parameters, with those that stand outside of it in config.json. Of these, the trained length goes
    /// before the set's own. A set for one of several types of layers (`of_type`) takes none from outside.
    pub(super) fn read(
        settings: &ConfigSettings,
        parameters: &Map<String, Value>,
        shape: RotaryShape,
        of_type: bool,
    ) -> Supported<RotarySets> {
        let mut all = parameters.clone();
        let trained = settings.value(TRAINED);
        all.extend(trained.map(|value| (TRAINED.to_owned(), value.clone())));
        // A class that reads the part has read it already, with its default.
        let part = (!shape.partial).then(|| settings.value(PART)).flatten();
        if let Some(part) = part {
            all.entry(PART).or_insert_with(|| part.clone());
        }
        let read = RopeParameters::new(settings, &all, shape)?;
        if of_type && trained.is_some() && read.reads_trained() {
            return Err(settings.unknown(TRAINED));
        }
        read.sets()
    }

    /// Appends cosines and sines of the positions from `table`'s own length up to `positions`.
    pub fn extend(&self, table: &mut RotaryTable, positions: usize) {
        for position in table.positions..positions {
            for (pair, frequency) in self.frequencies.iter().enumerate() {
                #[allow(clippy::cast_precision_loss)]
                let angle = match &self.precise {
                    None => f64::from(position as f32 * frequency),
                    Some(precise) => position as f64 * precise[pair],
                };
                #[allow(clippy::cast_possible_truncation)]
                let (sine, cosine) = (angle.sin() as f32, angle.cos() as f32);
                table.cosines.push(cosine * self.scale);
                table.sines.push(sine * self.scale);
            }
        }
        table.positions = table.positions.max(positions);
    }
}

/// Cosines and sines, row-major `[positions, head_size / 2]`.
#[derive(Debug, Clone, Default)]
pub struct RotaryTable {
    /// Cosines.
    pub cosines: Vec<f32>,
    /// Sines.
    pub sines: Vec<f32>,
    positions: usize,
}

impl RotaryTable {
    /// The rows of a stored table: sines, then cosines.
    pub(super) fn of_stored(values: &[f32], pairs: usize) -> Self {
        let rows = values.chunks_exact(2 * pairs);
        let mut table = Self {
            positions: rows.len(),
            ..Self::default()
        };
        for row in rows {
            let (sines, cosines) = row.split_at(pairs);
            table.sines.extend_from_slice(sines);
            table.cosines.extend_from_slice(cosines);
        }
        table
    }

    /// Becomes the first `positions` rows of `other`.
    pub(super) fn copy(&mut self, other: &Self, positions: usize) {
        let width = other.cosines.len() / other.positions.max(1);
        let floats = width * positions.min(other.positions);
        for (to, from) in [
            (&mut self.cosines, &other.cosines),
            (&mut self.sines, &other.sines),
        ] {
            to.clear();
            to.extend_from_slice(&from[..floats]);
        }
        self.positions = positions.min(other.positions);
    }

    /// Room for `positions` positions.
    pub(super) fn try_reserve(
        &mut self,
        rotary: &Rotary,
        positions: usize,
    ) -> Result<(), TryReserveError> {
        let floats = positions.saturating_mul(rotary.frequencies.len());
        grow_kept(&mut self.cosines, floats)?;
        grow_kept(&mut self.sines, floats)
    }

    /// Cosines and sines of a position.
    ///
    /// # Panics
    /// If the table has not been extended to it.
    #[must_use]
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let width = self.cosines.len() / self.positions;
        let row = position * width..(position + 1) * width;
        (&self.cosines[row.clone()], &self.sines[row])
    }
}
