//! Products that a checkpoint holds in fewer bits than single precision, for engines that widen them themselves.

use super::{PlainNetwork, PlainProduct};
use embedctl_common::error::Result;
use embedctl_vectors::elements::Element;

impl PlainNetwork {
    /// The type in which the checkpoint holds a product: [`Element::F16`] or [`Element::Bf16`], where all of it is of that
    /// type and [`rows`](Self::rows) gives the stored values. `None` where it is wider, or an adapter, a factor or another
    /// matrix changes it.
    ///
    /// # Errors
    /// As [`PlainNetwork::table`].
    pub fn narrow_element(&self, product: PlainProduct) -> Result<Option<Element>> {
        let loader = self.loader()?;
        Ok(match product {
            PlainProduct::Projection => loader.projection()?.rows.narrow_element(),
            PlainProduct::Layer(set, which) => loader.product(set, which)?.rows.narrow_element(),
            PlainProduct::Latent(_) => None,
            PlainProduct::TermTransform | PlainProduct::Terms { .. } => {
                self.narrow_head_element(product)?
            }
            PlainProduct::Router(set)
            | PlainProduct::ExpertUp(set, _)
            | PlainProduct::ExpertDown(set, _) => {
                let Some(described) = loader.experts_of(set) else {
                    return Ok(None);
                };
                let [stored, _] = loader.layer_names(set)?;
                match product {
                    PlainProduct::ExpertUp(_, expert) => {
                        let [up, _] = loader.expert_rows(&stored, &described, expert)?;
                        up.narrow_element()
                    }
                    PlainProduct::ExpertDown(_, expert) => {
                        let [_, down] = loader.expert_rows(&stored, &described, expert)?;
                        down.narrow_element()
                    }
                    _ => loader.router_rows(&stored, &described)?.narrow_element(),
                }
            }
        })
    }
}
