//! Low-rank weights of a matrix: `scale · up · down` is added to it.

/// Low-rank weights: `scale · up · down`.
#[derive(Debug)]
pub struct LowRank {
    /// The rank.
    pub rank: usize,
    /// The factor of the product.
    pub scale: f32,
    /// `[rank, inputs]`.
    pub down: Vec<f32>,
    /// `[rows, rank]`.
    pub up: Vec<f32>,
}

impl LowRank {
    /// Changes the matrix's rows from `first` on, of `inputs` elements each. Each row changes independently of the others.
    pub fn apply(&self, first: usize, inputs: usize, rows: &mut [f32]) {
        let up = self.up[first * self.rank..].chunks_exact(self.rank);
        let mut delta = vec![0.0_f32; inputs];
        for (row, up) in rows.chunks_exact_mut(inputs).zip(up) {
            delta.fill(0.0);
            for (factor, down) in up.iter().zip(self.down.chunks_exact(inputs)) {
                for (sum, value) in delta.iter_mut().zip(down) {
                    *sum += factor * value;
                }
            }
            for (value, delta) in row.iter_mut().zip(&delta) {
                *value += self.scale * delta;
            }
        }
    }
}
