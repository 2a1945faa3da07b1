//! Values that all layers share: inputs, distances, masks and shapes.

use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_onnx::{Attribute, FLOAT};

use super::GraphForm;
use super::elements::TensorElement as _;
use super::writer::GraphWriter;

/// Values that many nodes take.
pub(super) struct SharedValues {
    /// Token ids, `[rows, length]`.
    pub ids: String,
    /// Token types, `[rows, length]`; `None` where there is nothing to choose by them.
    pub types: Option<String>,
    /// The batch's length, `[1]`.
    pub length: String,
    /// Tokens of each row, `[rows, 1]`.
    pub row_lengths: String,
    /// From each query to each key, `[queries, keys]`, in single precision.
    pub distances: String,
    /// The mask of padding, `[rows, 1, 1, keys]`.
    pub padding: String,
    /// The shape `[rows, heads, queries, keys]` of scores that were computed for groups of heads.
    pub by_head: String,
    /// The shape `[rows, keys' heads, group * queries, keys]`.
    pub by_owner: String,
    /// The shape `[rows, keys' heads, group, queries, size]`.
    pub by_group: String,
}

impl GraphWriter {
    /// Writes the nodes of all values that layers share.
    pub(super) fn shared(&mut self, architecture: &Architecture, form: GraphForm) -> SharedValues {
        let attention = &architecture.attention;
        let ids = self.token_input("input_ids");
        let mask = self.token_input("attention_mask");
        let embeddings = &architecture.embeddings;
        let chosen = embeddings.types > 1 || embeddings.word_types && form.typed;
        let types = chosen.then(|| self.token_input("token_type_ids"));
        self.enter("shared/".into());
        let shape = self.node("Shape", &[&ids], Vec::new());
        let one = self.integers(&[1]);
        let length = self.node("Gather", &[&shape, &one], Vec::new());
        let row_lengths = self.reduce("ReduceSum", &mask, &[1]);

        // Places are counted in single precision, which every device has.
        let count = self.integer(1);
        let count = self.node("Gather", &[&shape, &count], Vec::new());
        let [first, step] = [0, 1].map(|value| self.integer(value));
        let places = self.node("Range", &[&first, &count, &step], Vec::new());
        let numbers = self.cast(&places, FLOAT);
        let (keys, queries) = (
            self.unsqueeze(&numbers, &[0]),
            self.unsqueeze(&numbers, &[1]),
        );
        let distances = self.sub(&keys, &queries);

        let seen = self.cast(&mask, self.float.number());
        let seen = self.unsqueeze(&seen, &[1, 2]);
        let all = self.scalar(1.0);
        let padding = self.sub(&all, &seen);
        let hides = self.hides();
        let padding = self.mul(&padding, &hides);

        let (heads, owners) = (attention.heads as i64, attention.key_value_heads as i64);
        let shape_of = |writer: &mut Self, before: &[i64], after: &[i64]| {
            if heads == owners {
                return String::new();
            }
            let before = writer.integers(before);
            let mut parts = vec![before, length.clone()];
            if !after.is_empty() {
                parts.push(writer.integers(after));
            }
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            writer.node("Concat", &parts, vec![Attribute::int("axis", 0)])
        };
        let by_head = shape_of(self, &[0, heads, -1], &[]);
        let by_owner = shape_of(self, &[0, owners, -1], &[]);
        let group = heads / owners.max(1);
        let by_group = shape_of(self, &[0, owners, group], &[attention.head_size as i64]);
        SharedValues {
            ids,
            types,
            length,
            row_lengths,
            distances,
            padding,
            by_head,
            by_owner,
            by_group,
        }
    }

    /// The mask of keys that a layer's queries do not see, `[rows, 1, queries or 1, keys]`.
    pub(super) fn mask(&mut self, layer: &Layer, shared: &SharedValues) -> String {
        match self.sight(layer.causal, layer.reach, shared) {
            None => shared.padding.clone(),
            Some(sight) => self.add(&shared.padding, &sight),
        }
    }
}
