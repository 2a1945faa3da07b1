//! Attention, written with standard operators, or as one of ONNX Runtime's own.

use embedctl_native::architecture::{AttentionDescription, Layer};
use embedctl_native::{BesideProducts, PlainNetwork, PlainProduct, Product};
use embedctl_onnx::Attribute;

use super::heads::Heads;
use super::operators::AttentionOperator;
use super::own::OWN;
use super::packed::Packing;
use super::rotary::{RotaryFactors, RotaryRows};
use super::shared::SharedValues;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Inputs of a layer's scores beside its weights.
pub(super) struct ScoreTerms<'a> {
    /// The layer's operator.
    pub operator: AttentionOperator,
    /// The mask of keys, `[rows or 1, 1, queries or 1, keys]`, as far as the operator needs one.
    pub mask: Option<&'a str>,
    /// The bias by distance, `[1, heads, queries, keys]`.
    pub bias: Option<&'a str>,
    /// The rows of the table of relative positions, `[queries, keys]`.
    pub relative_rows: Option<&'a str>,
    /// How far queries and keys are turned.
    pub turns: Option<&'a RotaryFactors>,
    /// Where tokens belong, if padding is left out.
    pub packing: Option<&'a Packing>,
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
        let turns_inside = terms.turns.filter(|turns| {
            terms.operator == AttentionOperator::Grouped
                && matches!(turns.rows, RotaryRows::InOrder)
                && size.is_multiple_of(16)
                && turns.pairs.is_multiple_of(8)
        });
        let takes_product = terms.operator == AttentionOperator::Grouped
            && beside.query_key_norms.is_none()
            && turns_inside.is_some() == terms.turns.is_some();
        let context = if takes_product {
            self.grouped_context(attention, layer, [&made, "", ""], turns_inside, shared)
        } else {
            let outside = terms.turns.filter(|_| turns_inside.is_none());
            let mut parts = self.heads(attention, &made);
            self.norm_and_turn(attention, beside, outside, &mut parts);
            for part in &mut parts {
                match terms.operator {
                    AttentionOperator::Standard => self.split_heads(part),
                    AttentionOperator::MultiHead
                    | AttentionOperator::Grouped
                    | AttentionOperator::Packed => self.join_heads(part),
                }
            }
            match terms.operator {
                AttentionOperator::Packed => {
                    let packing = terms.packing.expect("the states were packed for it");
                    self.packed_context(attention, &parts, packing)
                }
                AttentionOperator::Standard => {
                    let parts = parts.each_ref().map(|part| part.name.as_str());
                    self.context(network, set, attention, parts, terms, shared)?
                }
                AttentionOperator::MultiHead => {
                    self.multi_head_context(attention, &parts, terms, shared)
                }
                AttentionOperator::Grouped => {
                    let parts = parts.each_ref().map(|part| part.name.as_str());
                    self.grouped_context(attention, layer, parts, turns_inside, shared)
                }
            }
        };
        let output = PlainProduct::Layer(set, Product::Output);
        self.product(network, &context, output, [query, architecture.hidden])
    }

    /// Queries and keys behind their norms, and turned.
    fn norm_and_turn(
        &mut self,
        attention: &AttentionDescription,
        beside: &BesideProducts,
        turns: Option<&RotaryFactors>,
        parts: &mut [Heads; 3],
    ) {
        let over_all = attention.query_key_norm.is_some_and(|norm| norm.all_heads);
        for (index, part) in parts[..2].iter_mut().enumerate() {
            if let Some(norms) = &beside.query_key_norms {
                if !over_all {
                    self.split_heads(part);
                }
                part.name = self.norm(&part.name, &norms[index]);
            }
            if let Some(turns) = turns {
                self.turn(part, turns);
            }
        }
    }

    /// The values that queries take, `[rows, length, heads * size]`, by one operator. Queries, keys and values have that
    /// shape, too, but for fewer heads of keys and values.
    fn multi_head_context(
        &mut self,
        attention: &AttentionDescription,
        [queries, keys, values]: &[Heads; 3],
        terms: &ScoreTerms<'_>,
        shared: &SharedValues,
    ) -> String {
        let [keys, values] = [keys, values].map(|part| self.of_each_query(part, attention.heads));
        let bias = match (terms.bias, terms.mask) {
            (Some(bias), Some(mask)) => self.add(bias, mask),
            (one, other) => one.or(other).unwrap_or_default().to_owned(),
        };
        let mut inputs = vec![queries.name.as_str(), &keys, &values, "", &shared.lengths];
        inputs.extend((!bias.is_empty()).then_some(bias.as_str()));
        let attributes = vec![
            Attribute::int("num_heads", attention.heads as i64),
            Attribute::float("scale", attention.scale),
            Attribute::float("mask_filter_value", self.hidden_score()),
        ];
        self.own("MultiHeadAttention", &inputs, attributes)
    }

    /// The same for causal attention, where padding behind a row is out of its tokens' sight. Instead of queries, keys and
    /// values, the operator takes their product, too.
    fn grouped_context(
        &mut self,
        attention: &AttentionDescription,
        layer: &Layer,
        [queries, keys, values]: [&str; 3],
        turns: Option<&RotaryFactors>,
        shared: &SharedValues,
    ) -> String {
        let mut inputs = vec![
            queries,
            keys,
            values,
            "",
            "",
            &shared.last_places,
            &shared.total,
        ];
        let mut attributes = vec![
            Attribute::int("num_heads", attention.heads as i64),
            Attribute::int("kv_num_heads", attention.key_value_heads as i64),
            Attribute::float("scale", attention.scale),
        ];
        if let Some(turns) = turns {
            inputs.extend([turns.cosines.as_str(), &turns.sines]);
            attributes.push(Attribute::int("do_rotary", 1));
        }
        // It counts the query's own key. Libraries before 1.23 did not: the check at the start refuses those.
        attributes.extend(
            layer
                .reach
                .map(|reach| Attribute::int("local_window_size", reach as i64 + 1)),
        );
        attributes.extend(
            attention
                .softcap
                .map(|cap| Attribute::float("softcap", cap)),
        );
        // Behind the context are keys and values, which some versions must give.
        let operator = format!("{OWN}:GroupQueryAttention");
        self.nodes(&operator, &inputs, attributes, 3).remove(0)
    }

    /// The values that queries take, `[rows, length, heads * size]`.
    fn context(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        attention: &AttentionDescription,
        [queries, keys, values]: [&str; 3],
        terms: &ScoreTerms<'_>,
        shared: &SharedValues,
    ) -> Result<String> {
        let (heads, size) = (attention.heads as i64, attention.head_size as i64);
        let owners = attention.key_value_heads as i64;
        let group = heads / owners.max(1);
        let values = self.transpose(values, &[0, 2, 1, 3]);
        let queries = if group == 1 {
            self.transpose(queries, &[0, 2, 1, 3])
        } else {
            // The queries that share a key follow one another: [rows, keys' heads, group * length, size].
            let split = self.reshape(queries, &[0, 0, owners, group, size]);
            let split = self.transpose(&split, &[0, 2, 3, 1, 4]);
            self.reshape(&split, &[0, owners, -1, size])
        };
        let turned = self.transpose(keys, &[0, 2, 3, 1]);
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
            let keys = self.transpose(keys, &[0, 2, 1, 3]);
            if let Some(more) = self.disentangled(network, kind, &tables, [&queries, &keys], rows) {
                scores = self.add(&scores, &more);
            }
        }
        if let Some(bias) = terms.bias {
            scores = self.add(&scores, bias);
        }
        if let Some(mask) = terms.mask {
            scores = self.add(&scores, mask);
        }
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
