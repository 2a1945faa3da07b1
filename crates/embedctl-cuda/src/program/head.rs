//! The steps behind the layers: the final norm, latent attention, the finished states, and the masked-LM head.

use embedctl_checkpoint::architecture::LatentAttention;
use embedctl_common::Activation;
use embedctl_common::error::Result;
use embedctl_kernels::TermPooling;
use embedctl_native::{LatentProduct, PlainProduct};

use super::builder::ProgramBuilder;
use super::{Place, Step, TermsHead};

/// Terms whose logits are made at a time.
const TERMS: usize = 4096;

impl ProgramBuilder<'_> {
    /// The final norm, latent attention, and the finished states.
    pub(super) fn finish(&mut self) -> Result<()> {
        let hidden = self.architecture.hidden;
        self.need(Place::Out, hidden, true);
        if let Some(norm) = self.final_norm.take() {
            let out = match self.architecture.latent {
                Some(_) => Place::States,
                None => Place::Out,
            };
            self.push_norm(&norm, Place::States, None, out)?;
        }
        if let Some(latent) = self.architecture.latent {
            self.latent(latent)?;
        }
        match self.steps.last_mut() {
            Some(Step::Norm {
                out, base: None, ..
            }) if matches!(*out, Place::States | Place::Out) => *out = Place::Out,
            _ => self.convert(Place::States, Place::Out, hidden),
        }
        Ok(())
    }

    /// Attention between the tokens' states and a model's own latents, and its feed-forward.
    fn latent(&mut self, latent: LatentAttention) -> Result<()> {
        let hidden = self.architecture.hidden;
        let matrices = self.network.latent_matrices()?;
        let (scores, inner) = (latent.heads * latent.latents, latent.inner(hidden));
        self.need(Place::Input, hidden, false);
        self.need(Place::Inner, scores.max(2 * inner), false);
        let of = PlainProduct::Latent;
        let states = Some(Place::States);
        self.push_norm(&matrices.norm, Place::States, None, Place::Input)?;
        let sizes = [hidden, scores];
        let x = (Place::Input, hidden);
        self.product(of(LatentProduct::Scores), sizes, x, None, Place::Inner)?;
        self.steps.push(Step::Shares {
            width: latent.latents,
            groups: latent.heads,
        });
        let (sizes, shares) = ([scores, hidden], (Place::Inner, scores));
        self.product(of(LatentProduct::Mix), sizes, shares, states, Place::States)?;
        self.push_norm(&matrices.feed_norm, Place::States, None, Place::Input)?;
        let sizes = [hidden, 2 * inner];
        self.product(of(LatentProduct::Up), sizes, x, None, Place::Inner)?;
        self.steps.push(Step::Activate {
            activation: Activation::Gelu,
            width: inner,
            is_gated: true,
            stride: 2 * inner,
        });
        let (sizes, x) = ([inner, hidden], (Place::Inner, 2 * inner));
        self.product(of(LatentProduct::Down), sizes, x, states, Place::States)?;
        Ok(())
    }

    /// The masked-LM head.
    pub(super) fn terms(&mut self, pooling: TermPooling) -> Result<TermsHead> {
        let head = self.network.masked_head()?;
        let hidden = self.architecture.hidden;
        let (width, count) = (head.width, head.terms);
        self.need(Place::Input, hidden.max(width), false);
        let transform = match &head.transform {
            None => None,
            Some((activation, norm)) => {
                self.need(Place::Inner, width, false);
                let weights = self.weights(PlainProduct::TermTransform, [hidden, width], false)?;
                Some((weights, *activation, self.norm(norm)?))
            }
        };
        let mut parts = Vec::new();
        for first in (0..count).step_by(TERMS) {
            let part = TERMS.min(count - first);
            let product = PlainProduct::Terms { first, count: part };
            parts.push((self.weights(product, [width, part], true)?, first));
        }
        self.need(Place::Scores, TERMS.min(count), true);
        Ok(TermsHead {
            transform,
            parts,
            count,
            pooling,
        })
    }
}
