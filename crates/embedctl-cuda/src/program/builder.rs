//! A network while it is compiled: its steps so far, what they need, and the weights that lie on the card.

use std::sync::Arc;

use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::Result;
use embedctl_kernels::Norm;
use embedctl_native::{BesideProducts, Norms, PlainNetwork, PlainProduct};

use super::{Form, NormWeights, Place, Step, Weights};
use crate::CardElement;
use crate::card::Card;
use crate::library::DevicePointer;
use crate::upload::Uploader;

/// Cosines and sines of a set of frequencies on the card.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnTable {
    pub table: DevicePointer,
    pub pairs: usize,
}

/// A network while it is compiled.
pub(super) struct ProgramBuilder<'a> {
    pub network: &'a PlainNetwork,
    pub architecture: &'a Architecture,
    pub uploader: Uploader<'a>,
    pub element: CardElement,
    pub longest: usize,
    pub steps: Vec<Step>,
    pub forms: [Form; Place::ALL.len()],
    pub turns: Vec<TurnTable>,
    pub turn_starts: Vec<Option<(usize, usize)>>,
    pub shared_bias: (DevicePointer, usize),
    pub relative_rows: Option<(DevicePointer, usize)>,
    pub sets: Vec<Option<BesideProducts>>,
    pub final_norm: Option<Norm>,
    pub uploaded: Vec<(PlainProduct, bool, Weights)>,
}

impl<'a> ProgramBuilder<'a> {
    pub(super) fn new(
        network: &'a PlainNetwork,
        card: &'a Arc<Card>,
        element: CardElement,
        longest: usize,
    ) -> Result<Self> {
        let architecture = network.architecture();
        let longest = architecture
            .longest
            .map_or(longest, |most| most.min(longest));
        let sets = (0..architecture.weight_sets.len())
            .map(|set| network.beside_products(set).map(Some))
            .collect::<Result<_>>()?;
        Ok(Self {
            network,
            architecture,
            uploader: Uploader::new(card, element)?,
            element,
            longest,
            steps: Vec::new(),
            forms: [Form::default(); Place::ALL.len()],
            turns: Vec::new(),
            turn_starts: Vec::new(),
            shared_bias: (0, 0),
            relative_rows: None,
            sets,
            final_norm: None,
            uploaded: Vec::new(),
        })
    }

    /// Makes room for `width` values of a token.
    pub(super) fn need(&mut self, place: Place, width: usize, is_wide: bool) {
        let form = &mut self.forms[place as usize];
        form.width = form.width.max(width);
        form.is_wide = is_wide || self.element == CardElement::F32;
    }

    pub(super) fn is_wide(&self, place: Place) -> bool {
        self.forms[place as usize].is_wide
    }

    /// Whether a product can take its input from a place.
    pub(super) fn is_element(&self, place: Place) -> bool {
        self.element == CardElement::F32 || !self.is_wide(place)
    }

    pub(super) fn norm(&mut self, norm: &Norm) -> Result<NormWeights> {
        Ok(NormWeights {
            weight: self.uploader.floats(norm.weight())?,
            bias: self.uploader.floats(norm.bias())?,
            epsilon: norm.epsilon(),
            is_rms: norm.is_rms(),
            width: norm.width(),
        })
    }

    pub(super) fn push_norm(
        &mut self,
        norm: &Norm,
        input: Place,
        base: Option<Place>,
        out: Place,
    ) -> Result<()> {
        let norm = self.norm(norm)?;
        self.steps.push(Step::Norm {
            norm,
            input,
            base,
            out,
        });
        Ok(())
    }

    pub(super) fn convert(&mut self, input: Place, out: Place, width: usize) {
        self.steps.push(Step::Convert { input, out, width });
    }

    /// A product's weights, for a result that is wide or not: its bias has the result's type.
    pub(super) fn weights(
        &mut self,
        product: PlainProduct,
        [inputs, outputs]: [usize; 2],
        is_wide: bool,
    ) -> Result<Weights> {
        let mut known = self.uploaded.iter();
        if let Some((.., weights)) = known.find(|(of, wide, _)| *of == product && *wide == is_wide)
        {
            return Ok(*weights);
        }
        let matrix = self
            .uploader
            .product(self.network, product, [inputs, outputs])?;
        let bias = self.network.bias(product)?;
        let bias = match is_wide {
            true => self.uploader.floats(&bias)?,
            false => self.uploader.elements(&bias)?,
        };
        let weights = Weights {
            matrix,
            bias,
            inputs,
            outputs,
        };
        self.uploaded.push((product, is_wide, weights));
        Ok(weights)
    }

    pub(super) fn product(
        &mut self,
        product: PlainProduct,
        sizes: [usize; 2],
        x: (Place, usize),
        base: Option<Place>,
        y: Place,
    ) -> Result<()> {
        let weights = self.weights(product, sizes, self.is_wide(y))?;
        self.steps.push(Step::Product {
            weights,
            x: x.0,
            x_stride: x.1,
            base,
            y,
        });
        Ok(())
    }

    /// Whether the residual stream is in single precision: a branch is added to it, and no norm follows.
    pub(super) fn stream_is_wide(&self) -> bool {
        let grows = |norms: &Norms| norms.sum.is_none();
        self.sets
            .iter()
            .flatten()
            .any(|set| grows(&set.attention_norms) || grows(&set.feed_forward_norms))
            || self.architecture.latent.is_some()
    }
}
