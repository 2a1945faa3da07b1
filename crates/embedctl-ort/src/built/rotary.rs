//! Rotary positions: tables of cosines and sines, and turning queries and keys by them.

use embedctl_native::{PlainNetwork, RotaryTable};
use embedctl_onnx::Attribute;

use super::FloatType;
use super::elements::TensorElement as _;
use super::shared::SharedValues;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Cosines and sines of a set of frequencies for a batch's positions, `[length, 1, pairs]` or `[rows, length, 1, pairs]`.
#[derive(Debug, Clone)]
pub(super) struct RotaryFactors {
    cosines: String,
    sines: String,
    pairs: usize,
}

impl GraphWriter {
    /// The turns of each set of frequencies, for rows of at most `longest` tokens.
    pub(super) fn turns(
        &mut self,
        network: &PlainNetwork,
        longest: usize,
        shared: &SharedValues,
    ) -> Result<Vec<RotaryFactors>> {
        let sets = &network.architecture().rotary;
        let tables = network.turns(longest)?;
        let mut made = Vec::new();
        for (table, rotary) in tables.iter().zip(sets) {
            made.push(self.cut(table, rotary.frequencies.len(), shared));
        }
        let mut chosen = made.clone();
        for (index, rotary) in sets.iter().enumerate() {
            // Long rows turn in another way; where none can be so long, there is nothing to choose.
            let Some((limit, other)) = rotary.beyond.filter(|(limit, _)| longest > *limit) else {
                continue;
            };
            let limit = self.integer(limit as i64);
            let is_long = self.node("Greater", &[&shared.row_lengths, &limit], Vec::new());
            let is_long = self.unsqueeze(&is_long, &[2, 3]);
            let mut of =
                |long: &str, short: &str| self.node("Where", &[&is_long, long, short], Vec::new());
            chosen[index] = RotaryFactors {
                cosines: of(&made[other].cosines, &made[index].cosines),
                sines: of(&made[other].sines, &made[index].sines),
                ..made[index]
            };
        }
        Ok(chosen)
    }

    /// The first rows of a table, as many as the batch has positions.
    fn cut(&mut self, table: &RotaryTable, pairs: usize, shared: &SharedValues) -> RotaryFactors {
        let mut of = |values: &[f32]| {
            let rows = values.len() / pairs.max(1);
            let table = self.floats_of(FloatType::F32, &[rows, 1, pairs], values);
            let start = self.integers(&[0]);
            let first = self.node(
                "Slice",
                &[&table, &start, &shared.length, &start],
                Vec::new(),
            );
            // Rounded from single precision, as the reference does it.
            match self.float {
                FloatType::F32 => first,
                narrow => self.cast(&first, narrow.number()),
            }
        };
        RotaryFactors {
            cosines: of(&table.cosines),
            sines: of(&table.sines),
            pairs,
        }
    }

    /// Turns queries or keys, `[rows, length, heads, size]`.
    pub(super) fn turned(&mut self, heads: &str, size: usize, turns: &RotaryFactors) -> String {
        let pairs = turns.pairs;
        let mut sizes = vec![pairs, pairs];
        if 2 * pairs < size {
            sizes.push(size - 2 * pairs);
        }
        let mut parts = self.split(heads, -1, &sizes);
        let [first, second] = [parts[0].clone(), parts[1].clone()];
        let (a, b) = (
            self.mul(&first, &turns.cosines),
            self.mul(&second, &turns.sines),
        );
        parts[0] = self.sub(&a, &b);
        let (a, b) = (
            self.mul(&second, &turns.cosines),
            self.mul(&first, &turns.sines),
        );
        parts[1] = self.add(&a, &b);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.node("Concat", &parts, vec![Attribute::int("axis", -1)])
    }
}
