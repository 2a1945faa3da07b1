//! A whole network: what its layers share, and the layers in their order.

use embedctl_native::architecture::{Architecture, Layer, PositionBias};
use embedctl_native::{BesideProducts, Norms, PlainNetwork};
use embedctl_onnx::{Attribute, FLOAT, INT32};

use super::GraphForm;
use super::attention::ScoreTerms;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Values that many nodes take.
pub(super) struct Shared {
    /// Token ids, `[rows, length]`.
    pub ids: String,
    /// Token types, `[rows, length]`; `None` where there is but one.
    pub types: Option<String>,
    /// The batch's length, `[1]`.
    pub length: String,
    /// Tokens of each row, `[rows, 1]`.
    pub row_lengths: String,
    /// From each query to each key, `[queries, keys]`, in single precision.
    pub distances: String,
    /// The mask of padding, `[rows, 1, 1, keys]`.
    pub padding: String,
    /// 1 for each token and 0 for padding, `[rows, length]`, in integers of 32 bits; made where attention is fused.
    pub tokens: Option<String>,
    /// The shape `[rows, heads, queries, keys]` of scores that were computed for groups of heads.
    pub by_head: String,
    /// The shape `[rows, keys' heads, group * queries, keys]`.
    pub by_owner: String,
    /// The shape `[rows, keys' heads, group, queries, size]`.
    pub by_group: String,
}

/// Whether tokens see earlier ones alone, and how far: layers that are alike in it share a mask.
type Sight = (bool, Option<usize>);

/// Writes the graph from token ids to states, whose name is returned.
pub(super) fn write(network: &PlainNetwork, form: GraphForm) -> Result<(GraphWriter, String)> {
    let architecture = network.architecture();
    let outside = network.outside()?;
    let mut writer = GraphWriter::new(form);
    let shared = writer.shared(architecture);
    writer.enter("embeddings/".into());
    let mut states = writer.embedded(network, &outside, form, &shared)?;
    let longest = architecture
        .longest
        .map_or(form.longest, |most| most.min(form.longest));
    let turns = writer.turns(network, longest, &shared)?;
    let attention = &architecture.attention;
    let shared_bias = match attention.position_bias {
        Some(kind) if !outside.relative_bias.is_empty() || kind == PositionBias::Slopes => {
            Some(writer.position_bias(network, kind, &outside.relative_bias, &shared))
        }
        _ => None,
    };
    let relative_rows = attention
        .disentangled
        .map(|kind| writer.relative_rows(&kind, &shared));
    let mut masks: Vec<(Sight, Option<String>)> = Vec::new();
    for (index, layer) in architecture.layers.iter().enumerate() {
        let sight = (layer.causal, layer.reach);
        let mask = match masks.iter().find(|(of, _)| *of == sight) {
            Some((_, mask)) => mask.clone(),
            None => {
                writer.enter(format!("masks.{}/", masks.len()));
                let mask = writer.mask(layer, &shared);
                masks.push((sight, mask.clone()));
                mask
            }
        };
        writer.enter(format!("layers.{index}/"));
        let beside = network.beside_products(layer.weights)?;
        let own_bias = match attention.position_bias {
            Some(kind) if !beside.relative_bias.is_empty() => {
                Some(writer.position_bias(network, kind, &beside.relative_bias, &shared))
            }
            _ => None,
        };
        let terms = ScoreTerms {
            mask: mask.as_deref(),
            bias: own_bias.as_deref().or(shared_bias.as_deref()),
            relative_rows: relative_rows.as_deref(),
            turns: layer.rotary.map(|set| &turns[set]),
        };
        let input = writer.before(&beside.attention_norms, &states);
        let branch = match &beside.convolution {
            Some(convolution) => writer.convolution(network, layer.weights, convolution, &input)?,
            None => writer.attention(network, layer, &beside, &input, &terms, &shared)?,
        };
        let between = writer.after(&beside.attention_norms, &states, &branch);
        let second = if architecture.parallel {
            &states
        } else {
            &between
        };
        states = writer.second_half(network, layer, &beside, second, &between)?;
    }
    writer.enter("final/".into());
    if let Some(norm) = &outside.final_norm {
        states = writer.norm(&states, norm);
    }
    if let Some(latent) = &architecture.latent {
        states = writer.latent(network, latent, &states)?;
    }
    Ok((writer, states))
}

impl GraphWriter {
    fn shared(&mut self, architecture: &Architecture) -> Shared {
        let attention = &architecture.attention;
        let ids = self.token_input("input_ids");
        let mask = self.token_input("attention_mask");
        let types = (architecture.embeddings.types > 1).then(|| self.token_input("token_type_ids"));
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
        let places = self.cast(&places, FLOAT);
        let (keys, queries) = (self.unsqueeze(&places, &[0]), self.unsqueeze(&places, &[1]));
        let distances = self.sub(&keys, &queries);

        let seen = self.cast(&mask, self.float.number());
        let seen = self.unsqueeze(&seen, &[1, 2]);
        let all = self.scalar(1.0);
        let padding = self.sub(&all, &seen);
        let hides = self.hides();
        let padding = self.mul(&padding, &hides);

        let tokens = self.fuses(attention).then(|| self.cast(&mask, INT32));

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
        Shared {
            ids,
            types,
            length,
            row_lengths,
            distances,
            padding,
            tokens,
            by_head,
            by_owner,
            by_group,
        }
    }

    /// The mask of keys that a layer's queries do not see; where attention is fused, without that of padding.
    fn mask(&mut self, layer: &Layer, shared: &Shared) -> Option<String> {
        let sight = self.sight(layer.causal, layer.reach, shared);
        match (&shared.tokens, sight) {
            (Some(_), None) => None,
            (Some(_), Some(sight)) => Some(self.unsqueeze(&sight, &[0, 1])),
            (None, None) => Some(shared.padding.clone()),
            (None, Some(sight)) => Some(self.add(&shared.padding, &sight)),
        }
    }

    /// The feed-forward of `input`, or experts in its place, with its norms, added to `states`.
    fn second_half(
        &mut self,
        network: &PlainNetwork,
        layer: &Layer,
        beside: &BesideProducts,
        input: &str,
        states: &str,
    ) -> Result<String> {
        let input = self.before(&beside.feed_forward_norms, input);
        let branch = match network.experts(layer.weights)? {
            Some(experts) => self.experts(network, layer.weights, &experts, &input)?,
            None => self.feed_forward(network, layer.weights, &input)?,
        };
        Ok(self.after(&beside.feed_forward_norms, states, &branch))
    }

    /// A branch's input: the residual stream, or its norm.
    fn before(&mut self, norms: &Norms, states: &str) -> String {
        match &norms.before {
            None => states.to_owned(),
            Some(norm) => self.norm(states, norm),
        }
    }

    /// Adds a branch to the residual stream, with the norms that follow it.
    fn after(&mut self, norms: &Norms, states: &str, branch: &str) -> String {
        let mut branch = branch.to_owned();
        if let Some(norm) = &norms.with_input {
            let both = self.add(states, &branch);
            branch = self.norm(&both, norm);
        } else if let Some(norm) = &norms.after {
            branch = self.norm(&branch, norm);
        }
        let sum = self.add(states, &branch);
        match &norms.sum {
            None => sum,
            Some(norm) => self.norm(&sum, norm),
        }
    }
}
