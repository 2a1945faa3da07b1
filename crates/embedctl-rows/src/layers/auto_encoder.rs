//! The sparse autoencoder behind a vector (CSR): a wide product of which the greatest components stay.

/// A `SparseAutoEncoder` module, without the parts that training needs.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoEncoder {
    /// Taken from the vector first `[input]`.
    pub pre_bias: Vec<f32>,
    /// The encoder's weight, row-major `[output, input]`.
    pub weight: Vec<f32>,
    /// Added to the product `[output]`.
    pub latent_bias: Vec<f32>,
    /// Width of the vector.
    pub input: usize,
    /// Width of the sparse one.
    pub output: usize,
    /// Components that stay.
    pub kept: usize,
    /// Whether the vector is centred and scaled by its deviation first.
    pub normalize: bool,
}

impl AutoEncoder {
    /// The vector behind it: all but the greatest components are zero, and so are negative ones.
    #[must_use]
    pub fn apply(&self, vector: &[f32]) -> Vec<f32> {
        let mut vector = vector.to_vec();
        if self.normalize {
            #[allow(clippy::cast_precision_loss)] // widths are small
            let count = vector.len() as f32;
            let mean = vector.iter().sum::<f32>() / count;
            vector.iter_mut().for_each(|value| *value -= mean);
            let squares = vector.iter().map(|value| value * value).sum::<f32>();
            let deviation = (squares / (count - 1.0)).sqrt();
            vector
                .iter_mut()
                .for_each(|value| *value /= deviation + 1e-5);
        }
        for (value, bias) in vector.iter_mut().zip(&self.pre_bias) {
            *value -= bias;
        }
        let rows = self.weight.chunks_exact(self.input.max(1));
        let mut latent: Vec<f32> = rows
            .zip(&self.latent_bias)
            .map(|(row, bias)| row.iter().zip(&vector).map(|(w, x)| w * x).sum::<f32>() + bias)
            .collect();
        if self.kept < latent.len() {
            let mut order: Vec<usize> = (0..latent.len()).collect();
            order.sort_by(|&one, &two| latent[two].total_cmp(&latent[one]).then(one.cmp(&two)));
            for index in order.split_off(self.kept) {
                // What is not finite is found later.
                if latent[index].is_finite() {
                    latent[index] = 0.0;
                }
            }
        }
        for value in &mut latent {
            if *value < 0.0 {
                *value = 0.0;
            }
        }
        latent
    }
}
