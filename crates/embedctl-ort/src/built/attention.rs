//! Attention.

use embedctl_checkpoint::architecture::{AttentionDescription, Layer};
use embedctl_native::{BesideProducts, PlainNetwork, PlainProduct, Product};
use embedctl_onnx::Attribute;

use super::rotary::RotaryFactors;
use super::shared::SharedValues;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Inputs of a layer's scores beside its weights.
pub(super) struct ScoreTerms<'a> {
    /// The mask of keys, `[rows, 1, queries or 1, keys]`.
    pub mask: &'a str,
    /// The bias by distance, `[1, heads, queries, keys]`.
    pub bias: Option<&'a str>,
    /// The rows of the table of relative positions, `[queries, keys]`.
    pub relative_rows: Option<&'a str>,
    /// How far queries and keys are turned.
    pub turns: Option<&'a RotaryFactors>,
}

impl GraphWriter {
    /// Attention's output for `input`, `[rows, length, hidden]`.
    pub(super) fn attention(
        &mut self,
        network: &PlainNetwork,
        layer: &Layer,
        beside: &BesideProducts,
        input: &str,
        terms: &ScoreTerms<'_>,
        shared: &SharedValues,
    ) -> Result<String> {
        let architecture = network.architecture();
        let attention = &architecture.attention;
        let (heads, size) = (attention.heads, attention.head_size);
        let (query, key) = (heads * size, attention.key_value_heads * size);
        let set = layer.weights;
        let into = PlainProduct::Layer(set, Product::Input);
        let made = self.product(network, input, into, [architecture.hidden, query + 2 * key])?;
        let parts = self.heads(attention, beside, terms.turns, &made);
        let context = self.context(network, set, parts, terms, shared)?;
        let output = PlainProduct::Layer(set, Product::Output);
        self.product(network, &context, output, [query, architecture.hidden])
    }

    /// Queries, keys and values of their product, `[rows, length, heads, size]`: queries and keys behind their norms, and
    /// turned.
    fn heads(
        &mut self,
        attention: &AttentionDescription,
        beside: &BesideProducts,
        turns: Option<&RotaryFactors>,
        made: &str,
    ) -> [String; 3] {
        let size = attention.head_size;
        let owners = attention.key_value_heads;
        let counts = [attention.heads, owners, owners];
        let over_all = attention.query_key_norm.is_some_and(|norm| norm.all_heads);
        let mut parts = self.split(made, -1, &counts.map(|count| count * size));
        for (index, part) in parts.iter_mut().enumerate() {
            let is_value = index == 2;
            let norms = beside.query_key_norms.as_ref().filter(|_| !is_value);
            let norm = norms.map(|norms| &norms[index]);
            if let Some(norm) = norm.filter(|_| over_all) {
                *part = self.norm(part, norm);
            }
            *part = self.reshape(part, &[0, 0, counts[index] as i64, size as i64]);
            if let Some(norm) = norm.filter(|_| !over_all) {
                *part = self.norm(part, norm);
            }
            if let Some(turns) = turns.filter(|_| !is_value) {
                *part = self.turned(part, size, turns);
            }
        }
        let mut parts = parts.into_iter();
        counts.map(|_| parts.next().unwrap_or_default())
    }

    /// The values that queries take, `[rows, length, heads * size]`.
    fn context(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        [queries, keys, values]: [String; 3],
        terms: &ScoreTerms<'_>,
        shared: &SharedValues,
    ) -> Result<String> {
        let attention = &network.architecture().attention;
        let (heads, size) = (attention.heads as i64, attention.head_size as i64);
        let owners = attention.key_value_heads as i64;
        let group = heads / owners.max(1);
        let values = self.transpose(&values, &[0, 2, 1, 3]);
        let queries = if group == 1 {
            self.transpose(&queries, &[0, 2, 1, 3])
        } else {
            // The queries that share a key follow one another: [rows, keys' heads, group * length, size].
            let split = self.reshape(&queries, &[0, 0, owners, group, size]);
            let split = self.transpose(&split, &[0, 2, 3, 1, 4]);
            self.reshape(&split, &[0, owners, -1, size])
        };
        let turned = self.transpose(&keys, &[0, 2, 3, 1]);
        let scaled = self.scaled(&queries, attention.scale);
        let mut scores = self.matmul(&scaled, &turned);
        if group > 1 {
            scores = self.node("Reshape", &[&scores, &shared.by_head], Vec::new());
        }
        if let Some(cap) = attention.softcap {
            let bent = self.scaled(&scores, 1.0 / cap);
            let bent = self.node("Tanh", &[&bent], Vec::new());
            scores = self.scaled(&bent, cap);
        }
        if let (Some(kind), Some(rows)) = (&attention.disentangled, terms.relative_rows) {
            let tables = network.relative_tables(set)?;
            let keys = self.transpose(&keys, &[0, 2, 1, 3]);
            if let Some(more) = self.disentangled(network, kind, &tables, [&queries, &keys], rows) {
                scores = self.add(&scores, &more);
            }
        }
        if let Some(bias) = terms.bias {
            scores = self.add(&scores, bias);
        }
        scores = self.add(&scores, terms.mask);
        let mut shares = self.node("Softmax", &[&scores], vec![Attribute::int("axis", -1)]);
        if group > 1 {
            shares = self.node("Reshape", &[&shares, &shared.by_owner], Vec::new());
        }
        let context = self.matmul(&shares, &values);
        let context = if group == 1 {
            self.transpose(&context, &[0, 2, 1, 3])
        } else {
            let split = self.node("Reshape", &[&context, &shared.by_group], Vec::new());
            self.transpose(&split, &[0, 3, 1, 2, 4])
        };
        Ok(self.reshape(&context, &[0, 0, heads * size]))
    }
}
