//! Additions to attention scores by the distance from query to key: masks, biases by bucket or slope, and
//! DeBERTa's scores with relative positions.

use embedctl_checkpoint::architecture::{Disentangled, PositionBias};
use embedctl_native::{PlainNetwork, RelativeTables};
use embedctl_onnx::{Attribute, INT64};

use super::FloatType;
use super::elements::TensorElement as _;
use super::shared::SharedValues;
use super::writer::GraphWriter;

impl GraphWriter {
    /// The mask of keys by their distance from queries, `[queries, keys]`; `None` where all see all.
    pub(super) fn sight(
        &mut self,
        causal: bool,
        reach: Option<usize>,
        shared: &SharedValues,
    ) -> Option<String> {
        // Distances are whole numbers that single precision holds, and every provider compares those.
        let far = |count: usize| {
            #[allow(clippy::cast_precision_loss)]
            let far = count as f32;
            far
        };
        let mut hidden = Vec::new();
        if causal {
            hidden.push(self.exceeds(&shared.distances, 0.0));
        }
        if let Some(reach) = reach {
            let distances = if causal {
                self.node("Neg", &[&shared.distances], Vec::new())
            } else {
                self.node("Abs", &[&shared.distances], Vec::new())
            };
            hidden.push(self.exceeds(&distances, far(reach)));
        }
        let sum = match &hidden[..] {
            [] => return None,
            [one] => one.clone(),
            [one, other, ..] => self.add(one, other),
        };
        let hides = self.hides();
        Some(self.mul(&sum, &hides))
    }

    /// 1 where a value exceeds `limit`, else 0.
    fn exceeds(&mut self, values: &str, limit: f32) -> String {
        let limit = self.scalar_of(FloatType::F32, limit);
        let is = self.node("Greater", &[values, &limit], Vec::new());
        self.cast(&is, self.float.number())
    }

    /// The number that hides a score when it is added: so great that nothing is left of it, and so small that a sum of
    /// two stays a number. (A row of padding may see nothing at all.)
    pub(super) fn hides(&mut self) -> String {
        self.scalar(match self.float {
            FloatType::F32 | FloatType::Bf16 => -1e9,
            FloatType::F16 => -2e4,
        })
    }

    /// The bias of scores by distance, `[1, heads, queries, keys]`. `table` is the learned one.
    pub(super) fn position_bias(
        &mut self,
        network: &PlainNetwork,
        kind: PositionBias,
        table: &[f32],
        shared: &SharedValues,
    ) -> String {
        let heads = network.architecture().attention.heads;
        match kind {
            PositionBias::Buckets { reach, .. } => {
                // Farther keys share the last bucket.
                let (bias, reach) = network.bias_by_distance(kind, table, reach + 1);
                let table = self.floats(&[heads, 2 * reach + 1], &bias);
                let places = self.places_of(&shared.distances, reach);
                let bias = self.node(
                    "Gather",
                    &[&table, &places],
                    vec![Attribute::int("axis", 1)],
                );
                self.unsqueeze(&bias, &[0])
            }
            PositionBias::Slopes | PositionBias::Rising => {
                // Of the distance 1, and in proportion to it.
                let (bias, reach) = network.bias_by_distance(kind, table, 1);
                let of_head = |head: usize| bias[head * (2 * reach + 1) + reach + 1];
                let slopes: Vec<f32> = (0..heads).map(of_head).collect();
                let slopes = self.floats(&[1, heads, 1, 1], &slopes);
                let far = match kind {
                    PositionBias::Rising => shared.distances.clone(),
                    _ => self.node("Abs", &[&shared.distances], Vec::new()),
                };
                let far = match self.float {
                    FloatType::F32 => far,
                    narrow => self.cast(&far, narrow.number()),
                };
                self.mul(&far, &slopes)
            }
        }
    }

    /// Distances, cut to `reach`, as places in a table of `2 * reach + 1`.
    fn places_of(&mut self, distances: &str, reach: usize) -> String {
        #[allow(clippy::cast_precision_loss)]
        let reach = reach as f32;
        let [least, most] = [-reach, reach].map(|value| self.scalar_of(FloatType::F32, value));
        let cut = self.node("Clip", &[distances, &least, &most], Vec::new());
        let places = self.add(&cut, &most);
        self.cast(&places, INT64)
    }

    /// The row of the table of relative positions for each query and key, `[queries, keys]`.
    pub(super) fn relative_rows(&mut self, kind: &Disentangled, shared: &SharedValues) -> String {
        // Farther positions have the outermost rows.
        let reach = kind.span.max(kind.farthest.unwrap_or_default());
        let rows: Vec<i64> = (0..=2 * reach)
            .map(|place| {
                let behind = place.cast_signed() - reach.cast_signed();
                kind.row(-behind) as i64
            })
            .collect();
        let table = self.integer_table(&[rows.len()], &rows);
        let places = self.places_of(&shared.distances, reach);
        self.node("Gather", &[&table, &places], Vec::new())
    }

    /// DeBERTa's scores of queries with keys of relative positions and of keys with their queries, `[rows, heads,
    /// queries, keys]`. `queries` and `keys` are `[rows, heads, length, size]`.
    pub(super) fn disentangled(
        &mut self,
        network: &PlainNetwork,
        kind: &Disentangled,
        [key_table, query_table]: &RelativeTables,
        [queries, keys]: [&str; 2],
        rows: &str,
    ) -> Option<String> {
        let attention = &network.architecture().attention;
        let (heads, size, count) = (attention.heads, attention.head_size, kind.rows());
        let hidden = heads * size;
        let scores = |writer: &mut Self, states: &str, table: &[f32], turned: bool| {
            if table.is_empty() {
                return None;
            }
            // [positions, heads, size] → [1, heads, size, positions]
            let mut values = vec![0.0; table.len()];
            for (row, of_row) in table.chunks_exact(hidden).enumerate() {
                for (channel, value) in of_row.iter().enumerate() {
                    values[channel * count + row] = *value;
                }
            }
            let table = writer.floats(&[1, heads, size, count], &values);
            let all = writer.matmul(states, &table);
            let places = if turned {
                writer.transpose(rows, &[1, 0])
            } else {
                rows.to_owned()
            };
            // As many rows and heads as there are.
            let shape = writer.node("Shape", &[&all], Vec::new());
            let first = writer.integers(&[0, 1]);
            let batch = writer.node("Gather", &[&shape, &first], Vec::new());
            let length = writer.node("Shape", &[&places], Vec::new());
            let attribute = vec![Attribute::int("axis", 0)];
            let shape = writer.node("Concat", &[&batch, &length], attribute);
            let places = writer.node("Expand", &[&places, &shape], Vec::new());
            let attribute = vec![Attribute::int("axis", 3)];
            let taken = writer.node("GatherElements", &[&all, &places], attribute);
            Some(if turned {
                writer.transpose(&taken, &[0, 1, 3, 2])
            } else {
                taken
            })
        };
        let of_keys = scores(self, queries, key_table, false);
        let of_queries = scores(self, keys, query_table, true);
        let sum = match (of_keys, of_queries) {
            (Some(one), Some(other)) => self.add(&one, &other),
            (one, other) => one.or(other)?,
        };
        Some(self.scaled(&sum, attention.scale))
    }
}
