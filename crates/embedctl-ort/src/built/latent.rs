//! Latent attention behind the last layer.

use embedctl_checkpoint::architecture::LatentAttention;
use embedctl_common::Activation;
use embedctl_native::{LatentProduct, PlainNetwork, PlainProduct};
use embedctl_onnx::Attribute;

use super::writer::GraphWriter;
use embedctl_common::error::Result;

impl GraphWriter {
    /// `states`, `[rows, length, hidden]`, behind latent attention and its feed-forward.
    pub(super) fn latent(
        &mut self,
        network: &PlainNetwork,
        latent: &LatentAttention,
        states: &str,
    ) -> Result<String> {
        let hidden = network.architecture().hidden;
        let (scores, inner) = (latent.heads * latent.latents, latent.inner(hidden));
        let [of_scores, of_mix, of_up, of_down] = [
            LatentProduct::Scores,
            LatentProduct::Mix,
            LatentProduct::Up,
            LatentProduct::Down,
        ]
        .map(PlainProduct::Latent);
        let weights = network.latent_matrices()?;
        let normed = self.norm(states, &weights.norm);
        let all = self.product(network, &normed, of_scores, [hidden, scores])?;
        let each = self.reshape(&all, &[0, 0, latent.heads as i64, latent.latents as i64]);
        let shares = self.node("Softmax", &[&each], vec![Attribute::int("axis", -1)]);
        let shares = self.reshape(&shares, &[0, 0, scores as i64]);
        let mixed = self.product(network, &shares, of_mix, [scores, hidden])?;
        let states = self.add(&mixed, states);
        let normed = self.norm(&states, &weights.feed_norm);
        let up = self.product(network, &normed, of_up, [hidden, 2 * inner])?;
        let up = self.activated(&up, Activation::Gelu, true, inner);
        let down = self.product(network, &up, of_down, [inner, hidden])?;
        Ok(self.add(&down, &states))
    }
}
