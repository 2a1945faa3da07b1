//! A convolution over a few tokens, in the place of attention.

use embedctl_native::{ConvolutionWeights, PlainNetwork, PlainProduct, Product};
use embedctl_onnx::Attribute;

use super::writer::GraphWriter;
use embedctl_common::error::Result;

impl GraphWriter {
    /// The convolution's output for `input`, `[rows, length, channels]`. Rows are padded at their ends, and a convolution
    /// looks back alone, so padding reaches no token.
    pub(super) fn convolution(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        convolution: &ConvolutionWeights,
        input: &str,
    ) -> Result<String> {
        let channels = convolution.channels;
        let tokens = convolution.filters.len() / channels;
        let into = PlainProduct::Layer(set, Product::Input);
        let made = self.product(network, input, into, [channels, 3 * channels])?;
        let parts = self.split(&made, -1, &[channels; 3]);
        let gated = self.mul(&parts[0], &parts[2]);
        let by_channel = self.transpose(&gated, &[0, 2, 1]);
        let mut filters = vec![0.0; convolution.filters.len()];
        for (token, weights) in convolution.filters.chunks_exact(channels).enumerate() {
            for (channel, weight) in weights.iter().enumerate() {
                filters[channel * tokens + token] = *weight;
            }
        }
        let filters = self.floats(&[channels, 1, tokens], &filters);
        let mut inputs = vec![by_channel, filters];
        if !convolution.bias.is_empty() {
            inputs.push(self.floats(&[channels], &convolution.bias));
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let attributes = vec![
            Attribute::int("group", channels as i64),
            Attribute::ints("kernel_shape", &[tokens as i64]),
            Attribute::ints("pads", &[tokens as i64 - 1, 0]),
        ];
        let mixed = self.node("Conv", &inputs, attributes);
        let mixed = self.transpose(&mixed, &[0, 2, 1]);
        let mixed = self.mul(&parts[1], &mixed);
        let output = PlainProduct::Layer(set, Product::Output);
        self.product(network, &mixed, output, [channels, channels])
    }
}
