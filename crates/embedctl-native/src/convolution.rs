//! Convolutions over a few tokens, in the place of attention.

/// A convolution's weights.
#[derive(Debug)]
pub struct ConvolutionWeights {
    /// `[tokens, channels]`, the farthest token first.
    pub filters: Vec<f32>,
    /// A value for each channel; empty where there is none.
    pub bias: Vec<f32>,
    /// Channels.
    pub channels: usize,
}

impl ConvolutionWeights {
    /// Multiplications and additions of a token, by pairs.
    pub(super) fn operations(&self) -> usize {
        self.filters.len() + 2 * self.channels
    }

    /// Convolves a row. `parts` has, for each token, the gate of the convolution's input, the gate of its output, and the
    /// input (which the first gate is multiplied into); `out` gets `[tokens, channels]`.
    pub(super) fn run(&self, parts: &mut [f32], out: &mut [f32]) {
        let channels = self.channels;
        for token in parts.chunks_exact_mut(3 * channels) {
            let (gates, input) = token.split_at_mut(2 * channels);
            (input.iter_mut().zip(&*gates)).for_each(|(input, gate)| *input *= gate);
        }
        let length = self.filters.len() / channels;
        for (position, out) in out.chunks_exact_mut(channels).enumerate() {
            match self.bias.is_empty() {
                true => out.fill(0.0),
                false => out.copy_from_slice(&self.bias),
            }
            // The last filter is that of the token itself; before the row there is nothing.
            let farthest = (length - 1).min(position);
            for back in (0..=farthest).rev() {
                let start = (position - back) * 3 * channels + 2 * channels;
                let input = &parts[start..start + channels];
                let filter = &self.filters[(length - 1 - back) * channels..][..channels];
                for ((out, input), weight) in out.iter_mut().zip(input).zip(filter) {
                    *out += input * weight;
                }
            }
            let gate = &parts[position * 3 * channels + channels..][..channels];
            (out.iter_mut().zip(gate)).for_each(|(out, gate)| *out *= gate);
        }
    }
}
