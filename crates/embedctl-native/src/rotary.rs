//! The tables of rotary positions: cosines and sines made from frequencies, or stored in a checkpoint.

use std::collections::TryReserveError;

use embedctl_checkpoint::Rotary;

use super::room::grow_kept;

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

    /// Appends cosines and sines of `rotary`'s positions from the table's own length up to `positions`.
    pub fn extend(&mut self, rotary: &Rotary, positions: usize) {
        for position in self.positions..positions {
            for (pair, frequency) in rotary.frequencies.iter().enumerate() {
                #[allow(clippy::cast_precision_loss)]
                let angle = match &rotary.precise {
                    None => f64::from(position as f32 * frequency),
                    Some(precise) => position as f64 * precise[pair],
                };
                #[allow(clippy::cast_possible_truncation)]
                let (sine, cosine) = (angle.sin() as f32, angle.cos() as f32);
                self.cosines.push(cosine * rotary.scale);
                self.sines.push(sine * rotary.scale);
            }
        }
        self.positions = self.positions.max(positions);
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
