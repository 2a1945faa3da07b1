//! Rotary positions: tables of cosines and sines, and turning queries and keys by them.

use embedctl_native::{PlainNetwork, RotaryTable};
use embedctl_onnx::Attribute;

use super::FloatType;
use super::elements::TensorElement as _;
use super::heads::Heads;
use super::shared::SharedValues;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Cosines and sines of a set of frequencies.
#[derive(Debug, Clone)]
pub(super) struct RotaryFactors {
    pub cosines: String,
    pub sines: String,
    pub pairs: usize,
    pub rows: RotaryRows,
}

/// The rows of the tables that a batch's tokens take.
#[derive(Debug, Clone)]
pub(super) enum RotaryRows {
    /// The tables are cut for the batch, `[length, 1, pairs]` or `[rows, length, 1, pairs]`.
    Cut,
    /// The tables are whole, `[positions, pairs]`, and tokens take them in their order.
    InOrder,
    /// The tables are whole, and these are the tokens' rows, `[rows, length]`.
    Chosen(String),
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
        // Long rows turn in another way; where none can be so long, there is nothing to choose.
        let beyond = sets
            .iter()
            .map(|rotary| rotary.beyond.filter(|(limit, _)| longest > *limit));
        let beyond: Vec<Option<(usize, usize)>> = beyond.collect();
        let pairs = |set: usize| sets[set].frequencies.len();
        if self.operators.is_fused() {
            let whole = |(set, other): (usize, &Option<(usize, usize)>)| match other {
                None => self.whole(&[&tables[set]], pairs(set)),
                Some((limit, other)) => {
                    let first = tables[set].cosines.len() / pairs(set).max(1);
                    let turns = self.whole(&[&tables[set], &tables[*other]], pairs(set));
                    let is_long = self.is_long(*limit, shared);
                    let [first, none] = [first as i64, 0].map(|row| self.integer(row));
                    let start = self.node("Where", &[&is_long, &first, &none], Vec::new());
                    let rows = self.add(&start, &shared.places);
                    RotaryFactors {
                        rows: RotaryRows::Chosen(rows),
                        ..turns
                    }
                }
            };
            return Ok(beyond.iter().enumerate().map(whole).collect());
        }
        let mut made = Vec::new();
        for (set, table) in tables.iter().enumerate() {
            made.push(self.cut(table, pairs(set), shared));
        }
        let mut chosen = made.clone();
        for (index, other) in beyond.into_iter().enumerate() {
            let Some((limit, other)) = other else {
                continue;
            };
            let is_long = self.is_long(limit, shared);
            let is_long = self.unsqueeze(&is_long, &[2, 3]);
            let mut of =
                |long: &str, short: &str| self.node("Where", &[&is_long, long, short], Vec::new());
            chosen[index] = RotaryFactors {
                cosines: of(&made[other].cosines, &made[index].cosines),
                sines: of(&made[other].sines, &made[index].sines),
                ..made[index].clone()
            };
        }
        Ok(chosen)
    }

    /// Whether a row has more than `limit` tokens, `[rows, 1]`.
    fn is_long(&mut self, limit: usize, shared: &SharedValues) -> String {
        let limit = self.integer(limit as i64);
        self.node("Greater", &[&shared.row_lengths, &limit], Vec::new())
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
            rows: RotaryRows::Cut,
        }
    }

    /// The rows of tables, one after another.
    fn whole(&mut self, tables: &[&RotaryTable], pairs: usize) -> RotaryFactors {
        let mut of = |values: fn(&RotaryTable) -> &[f32]| {
            let all: Vec<f32> = tables
                .iter()
                .flat_map(|table| values(table))
                .copied()
                .collect();
            self.floats(&[all.len() / pairs.max(1), pairs], &all)
        };
        RotaryFactors {
            cosines: of(|table| &table.cosines),
            sines: of(|table| &table.sines),
            pairs,
            rows: RotaryRows::InOrder,
        }
    }

    /// Turns queries or keys.
    pub(super) fn turn(&mut self, heads: &mut Heads, turns: &RotaryFactors) {
        let whole = 2 * turns.pairs == heads.size;
        let rows = match &turns.rows {
            RotaryRows::Cut => {
                self.split_heads(heads);
                heads.name = self.turned(&heads.name, heads.size, turns);
                return;
            }
            RotaryRows::InOrder => self.integers(&[0]),
            RotaryRows::Chosen(rows) => rows.clone(),
        };
        self.join_heads(heads);
        let mut attributes = Vec::new();
        if !whole {
            attributes = vec![
                Attribute::int("num_heads", heads.count as i64),
                Attribute::int("rotary_embedding_dim", 2 * turns.pairs as i64),
            ];
        }
        let inputs = [heads.name.as_str(), &rows, &turns.cosines, &turns.sines];
        heads.name = self.own("RotaryEmbedding", &inputs, attributes);
    }

    /// Turns `[rows, length, heads, size]` with standard operators.
    fn turned(&mut self, heads: &str, size: usize, turns: &RotaryFactors) -> String {
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
