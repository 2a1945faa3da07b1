//! A whole network: embeddings, and the layers in their order.

use embedctl_checkpoint::architecture::{Architecture, Layer};
use embedctl_native::{BesideProducts, Norms, PlainNetwork};

use super::GraphForm;
use super::attention::ScoreTerms;
use super::writer::GraphWriter;
use embedctl_common::error::{Error, Result};

/// Whether tokens see earlier ones alone, and how far: layers that are alike in it share a mask.
type Sight = (bool, Option<usize>);

/// The part of a network that has no builder, where there is one.
pub(super) fn lacks(architecture: &Architecture) -> Option<&'static str> {
    if architecture.delta_rule.is_some() {
        Some("its layers keep a state (a gated delta rule)")
    } else if architecture.attention.gated {
        Some("a gate follows its attention")
    } else {
        None
    }
}

/// Writes the graph from token ids to states, whose name is returned.
pub(super) fn write(network: &PlainNetwork, form: GraphForm) -> Result<(GraphWriter, String)> {
    let architecture = network.architecture();
    if let Some(lacking) = lacks(architecture) {
        let reason = format!("cannot be written as an ONNX graph: {lacking}");
        return Err(Error::model(network.config_file().display(), reason)
            .with_remedy("use the native engine, which runs the checkpoint on processors"));
    }
    let outside = network.outside()?;
    let mut writer = GraphWriter::new(form);
    let shared = writer.shared(architecture, form);
    writer.enter("embeddings/".into());
    let mut states = writer.embedded(network, &outside, form, &shared)?;
    let longest = architecture
        .longest
        .map_or(form.longest, |most| most.min(form.longest));
    let turns = writer.turns(network, longest, &shared)?;
    let attention = &architecture.attention;
    let shared_bias = match attention.position_bias {
        Some(kind) if !outside.relative_bias.is_empty() || !kind.is_learned() => {
            Some(writer.position_bias(network, kind, &outside.relative_bias, &shared))
        }
        _ => None,
    };
    let relative_rows = attention
        .disentangled
        .map(|kind| writer.relative_rows(&kind, &shared));
    let mut masks: Vec<(Sight, String)> = Vec::new();
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
            mask: &mask,
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
