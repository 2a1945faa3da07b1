//! From ids to states: tables of tokens, types and positions, and what all layers share of positions.

use embedctl_checkpoint::architecture::PositionBias;
use embedctl_common::error::Result;
use embedctl_native::{PlainProduct, PlainTable, RotaryTable};

use super::builder::{ProgramBuilder, TurnTable};
use super::{Place, Step, Tables};
use crate::library::DevicePointer;

impl ProgramBuilder<'_> {
    /// Tables of tokens and positions, and the steps from ids to states.
    pub(super) fn embeddings(&mut self) -> Result<Tables> {
        let architecture = self.architecture;
        let embeddings = &architecture.embeddings;
        let (width, hidden) = (embeddings.width, architecture.hidden);
        let outside = self.network.outside()?;
        let words = self.network.table(PlainTable::Tokens)?;
        let rows = words.rows();
        let words = self.uploader.table(&words)?;
        let (mut positions, mut position_rows) = (0, 0);
        if embeddings.positions.is_some() {
            let table = self.network.table(PlainTable::Positions)?;
            position_rows = table.rows();
            positions = self.uploader.table(&table)?;
        }
        let types = match embeddings.types {
            0 => 0,
            _ => self.uploader.floats(&outside.types)?,
        };
        let is_wide = self.stream_is_wide();
        self.need(Place::States, hidden, is_wide);
        let is_plain = outside.norm.is_none() && !embeddings.projected;
        if is_plain {
            self.steps.push(Step::Embed(Place::States));
        } else {
            self.need(Place::Sum, width, true);
            self.steps.push(Step::Embed(Place::Sum));
            let out = match embeddings.projected {
                true => {
                    self.need(Place::Input, width, false);
                    Place::Input
                }
                false => Place::States,
            };
            match &outside.norm {
                Some(norm) => self.push_norm(norm, Place::Sum, None, out)?,
                None => self.convert(Place::Sum, out, width),
            }
            if embeddings.projected {
                let product = PlainProduct::Projection;
                self.product(product, [width, hidden], (out, width), None, Place::States)?;
            }
        }
        self.rotary()?;
        if let Some(kind) = architecture.attention.position_bias
            && (!outside.relative_bias.is_empty() || !kind.is_learned())
        {
            self.shared_bias = self.bias(kind, &outside.relative_bias)?;
        }
        if let Some(kind) = &architecture.attention.disentangled {
            let reach = kind.span.max(kind.farthest.unwrap_or_default());
            let of = |place: usize| kind.row(place.cast_signed() - reach.cast_signed());
            let rows: Vec<i32> = (0..=2 * reach).map(|place| as_int(of(place))).collect();
            self.relative_rows = Some((self.uploader.integers(&rows)?, reach));
        }
        self.final_norm = outside.final_norm;
        Ok(Tables {
            words,
            rows,
            positions,
            position_rows,
            types,
            width,
        })
    }

    /// Cosines and sines beside each other; those of longer rows behind those of shorter ones.
    fn rotary(&mut self) -> Result<()> {
        let sets = &self.architecture.rotary;
        let tables = self.network.turns(self.longest)?;
        for (set, rotary) in sets.iter().enumerate() {
            let pairs = rotary.frequencies.len();
            let beyond = rotary.beyond.filter(|(limit, _)| self.longest > *limit);
            let mut values = Vec::new();
            let mut add = |table: &RotaryTable| {
                let both = table.cosines.iter().zip(&table.sines);
                values.extend(both.flat_map(|(cosine, sine)| [*cosine, *sine]));
            };
            add(&tables[set]);
            let start = tables[set].cosines.len() / pairs.max(1);
            let beyond = beyond.map(|(limit, other)| {
                add(&tables[other]);
                (limit, start)
            });
            self.turn_starts.push(beyond);
            self.turns.push(TurnTable {
                table: self.uploader.floats(&values)?,
                pairs,
            });
        }
        Ok(())
    }

    /// The bias of scores by distance.
    pub(super) fn bias(
        &mut self,
        kind: PositionBias,
        table: &[f32],
    ) -> Result<(DevicePointer, usize)> {
        let longest = match kind {
            // Farther keys share the last bucket.
            PositionBias::Buckets { reach, .. } => reach + 1,
            PositionBias::Slopes | PositionBias::Rising => self.longest,
        };
        let (bias, reach) = self.network.bias_by_distance(kind, table, longest);
        Ok((self.uploader.floats(&bias)?, reach))
    }
}

fn as_int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
