//! The modules after pooling: dense layers, layer norms, scaling to length 1.

use embedctl_vectors::is_finite;
use std::sync::Arc;

use crate::Dense;
use crate::LayerNorm;
use crate::Residual;
use crate::Step;
use embedctl_common::hash::Hash;
use embedctl_kernels::{Arithmetic, Isa, Matrix, Operand, PackedLayout, ProductFinish, linear};

/// The least norm that a vector is divided by.
const NORM_FLOOR: f32 = 1e-12;

/// Rows that run together: enough to make use of each fetched weight, few enough for a core's cache.
const BLOCK: usize = 256;

/// Modules that run over many rows at once. The weights of dense layers are packed once and shared by all threads.
#[derive(Debug, Clone)]
pub(super) struct PackedSteps {
    steps: Vec<Step>,
    /// Of each step that is a dense layer.
    products: Arc<[Option<PackedDense>]>,
}

/// The products of a dense layer.
#[derive(Debug)]
struct PackedDense {
    weight: Matrix,
    /// Of the residual, where it is projected.
    residual: Option<Matrix>,
}

impl From<Vec<Step>> for PackedSteps {
    fn from(steps: Vec<Step>) -> Self {
        // A wrong `EMBEDCTL_CPU` is reported where the network is opened. Heads stay exact: tiles would not.
        let isa = Isa::here().unwrap_or_else(|_| Isa::best()).without_tiles();
        let packed = |step: &Step| match step {
            Step::Dense(dense) => Some(PackedDense::of(isa, dense)),
            _ => None,
        };
        Self {
            products: steps.iter().map(packed).collect(),
            steps,
        }
    }
}

impl PackedDense {
    fn of(isa: Isa, dense: &Dense) -> Self {
        let layout = PackedLayout {
            outputs: dense.output,
            inputs: dense.input,
            gated: false,
        };
        let pack = |weight: &[f32], bias: &[f32]| {
            let row = |row: usize, out: &mut [f32]| {
                out.copy_from_slice(&weight[row * dense.input..][..dense.input]);
            };
            Matrix::pack(isa, Arithmetic::Fp32, layout, row, bias, None)
        };
        Self {
            weight: pack(&dense.weight, &dense.bias),
            residual: match &dense.residual {
                Residual::Projected(weight) => Some(pack(weight, &[])),
                Residual::None | Residual::Identity => None,
            },
        }
    }
}

impl PackedSteps {
    /// Whether the last of them scales to length 1.
    #[inline] // for each row, from another file
    pub(super) fn end_normalized(&self) -> bool {
        self.steps.last() == Some(&Step::Normalize)
    }

    /// The modules.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Runs the modules over `rows` rows of `vectors`, block after block. A row's result depends on that row alone, bit
    /// for bit. `each` gets the rows in order: `None` as soon as there is NaN or infinity, which is looked for before
    /// each module, since activations and norms can turn either into a number.
    pub(super) fn run(&self, vectors: Vec<f32>, rows: usize, mut each: impl FnMut(Option<&[f32]>)) {
        if rows == 0 {
            return;
        }
        let width = vectors.len() / rows;
        if rows <= BLOCK {
            return self.run_block(vectors, rows, &mut each);
        }
        for first in (0..rows).step_by(BLOCK) {
            let count = BLOCK.min(rows - first);
            let block = vectors[first * width..(first + count) * width].to_vec();
            self.run_block(block, count, &mut each);
        }
    }

    fn run_block(&self, mut vectors: Vec<f32>, rows: usize, each: &mut dyn FnMut(Option<&[f32]>)) {
        let mut lost = vec![false; rows];
        for (step, product) in self.steps.iter().zip(&*self.products) {
            find_lost(&vectors, &mut lost);
            let width = vectors.len() / rows;
            let mut each_row = |change: &dyn Fn(&mut [f32]) -> Option<()>| {
                for (row, lost) in vectors.chunks_exact_mut(width.max(1)).zip(&mut lost) {
                    *lost |= change(row).is_none();
                }
            };
            match (step, product) {
                (Step::Dense(layer), Some(product)) => {
                    vectors = product.run(layer, &vectors, &mut lost);
                }
                (Step::Dense(_), None) => unreachable!("every dense layer is packed"),
                (Step::LayerNorm(norm), _) => each_row(&|row| layer_norm(norm, row)),
                (Step::Normalize, _) => each_row(&normalize),
                (Step::AutoEncoder(module), _) => {
                    let rows = vectors.chunks_exact(width.max(1));
                    vectors = rows.flat_map(|row| module.apply(row)).collect();
                }
                (Step::Activation(activation), _) => each_row(&|row| {
                    activation.apply(row);
                    Some(())
                }),
            }
        }
        find_lost(&vectors, &mut lost);
        let width = vectors.len() / rows;
        for (row, lost) in lost.into_iter().enumerate() {
            each((!lost).then(|| &vectors[row * width..(row + 1) * width]));
        }
    }
}

/// Marks the rows that hold NaN or infinity.
fn find_lost(vectors: &[f32], lost: &mut [bool]) {
    let width = vectors.len() / lost.len();
    for (row, lost) in vectors.chunks_exact(width.max(1)).zip(lost) {
        *lost |= !is_finite(row);
    }
}

impl Step {
    /// Adds all that decides the step's result to `hash`.
    pub(super) fn add_to(&self, hash: &mut Hash) {
        let mut floats = |floats: &[f32]| {
            hash.add(format!("{}\n", floats.len()));
            floats
                .iter()
                .for_each(|value| hash.add(value.to_le_bytes()));
        };
        match self {
            Self::Dense(dense) => {
                floats(&dense.weight);
                floats(&dense.bias);
                if let Residual::Projected(weight) = &dense.residual {
                    floats(weight);
                }
                let identity = dense.residual == Residual::Identity;
                hash.add(format!("{:?} {identity}\n", dense.activation));
            }
            Self::LayerNorm(norm) => {
                floats(&norm.weight);
                floats(&norm.bias);
                floats(&[norm.epsilon]);
            }
            Self::Normalize => hash.add("normalize\n"),
            Self::Activation(activation) => hash.add(format!("{activation:?}\n")),
            Self::AutoEncoder(module) => {
                floats(&module.pre_bias);
                floats(&module.weight);
                floats(&module.latent_bias);
                hash.add(format!("{} {}\n", module.kept, module.normalize));
            }
        }
    }
}

/// Scales to length 1; `None` where the length is beyond f32.
pub(super) fn normalize(vector: &mut [f32]) -> Option<()> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if !norm.is_finite() {
        return None;
    }
    let norm = norm.max(NORM_FLOOR);
    vector.iter_mut().for_each(|value| *value /= norm);
    Some(())
}

impl PackedDense {
    /// The layer's result for all rows of `input`. Rows whose sums are not finite are `lost`: activations may hide it.
    fn run(&self, layer: &Dense, input: &[f32], lost: &mut [bool]) -> Vec<f32> {
        let rows = lost.len();
        let (inputs, outputs) = (layer.input, layer.output);
        let mut operand = Operand::new();
        let mut multiply = |matrix: &Matrix, out: &mut [f32], finish: ProductFinish| {
            let input = operand.convert(matrix, input, inputs, rows);
            linear(input, 0..rows, matrix, out, outputs, finish);
        };
        let mut output = vec![0.0; rows * outputs];
        multiply(&self.weight, &mut output, ProductFinish::Store);
        find_lost(&output, lost);
        for row in output.chunks_exact_mut(outputs) {
            layer.activation.apply(row);
        }
        if layer.residual == Residual::Identity {
            let values = output.iter_mut().zip(input);
            values.for_each(|(value, x)| *value += x);
        }
        if let Some(residual) = &self.residual {
            multiply(residual, &mut output, ProductFinish::Add);
        }
        output
    }
}

/// `None` where the variance is beyond f32: the vector would become the bias.
fn layer_norm(norm: &LayerNorm, vector: &mut [f32]) -> Option<()> {
    #[allow(clippy::cast_precision_loss)]
    let count = vector.len() as f32;
    let mean = vector.iter().sum::<f32>() / count;
    let variance = vector
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum::<f32>()
        / count;
    if !variance.is_finite() {
        return None;
    }
    let scale = 1.0 / (variance + norm.epsilon).sqrt();
    for (value, (weight, bias)) in vector.iter_mut().zip(norm.weight.iter().zip(&norm.bias)) {
        *value = (*value - mean) * scale * weight + bias;
    }
    Some(())
}
