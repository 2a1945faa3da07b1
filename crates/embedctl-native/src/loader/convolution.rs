//! Loads the convolutions over a few tokens.

use super::Loader;
use crate::convolution::ConvolutionWeights;
use embedctl_checkpoint::architecture::ShortConvolution;
use embedctl_common::error::Result;

impl Loader<'_> {
    /// The convolution of a layer, whose part of a name is `layer`.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub(crate) fn convolution(
        &self,
        layer: &str,
        described: ShortConvolution,
    ) -> Result<ConvolutionWeights> {
        let ShortConvolution { tokens, biased } = described;
        let channels = self.architecture.hidden;
        let name = format!("{layer}{}", self.architecture.names.convolution.filters);
        let filters = self.filters(&name, channels, tokens)?;
        let bias = match biased {
            true => self
                .tensor(&format!("{name}.bias"), &[channels])?
                .floats()?,
            false => Vec::new(),
        };
        Ok(ConvolutionWeights {
            filters,
            bias,
            channels,
        })
    }

    /// The filters of the convolution `name`, `[tokens, channels]`, the farthest token first.
    pub(super) fn filters(&self, name: &str, channels: usize, tokens: usize) -> Result<Vec<f32>> {
        let stored = self.tensor(&format!("{name}.weight"), &[channels, 1, tokens])?;
        let stored = stored.floats()?;
        let mut filters = vec![0.0; stored.len()];
        for (channel, weights) in stored.chunks_exact(tokens).enumerate() {
            for (token, weight) in weights.iter().enumerate() {
                filters[token * channels + channel] = *weight;
            }
        }
        Ok(filters)
    }
}
