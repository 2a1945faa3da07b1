//! Pooling and the modules after it as part of a graph, by the mask alone: for files that other programs run.

use embedctl_common::Activation;
use embedctl_kernels::Norm;
use embedctl_onnx::{Attribute, FLOAT};
use embedctl_rows::{Dense, DenseActivation, LayerNorm, PoolingMode, Residual, Step};

use super::FloatType;
use super::writer::GraphWriter;
use embedctl_common::error::Cause;

/// The least norm that a vector is divided by, and the least sum of weights.
const FLOOR: f32 = 1e-12;

impl GraphWriter {
    /// The finished vectors, `[rows, width]`, of `states`, `[rows, length, hidden]`. All of it is in single precision.
    ///
    /// # Errors
    /// If a module has an activation that is not written here.
    pub(super) fn finished(
        &mut self,
        states: &str,
        modes: &[PoolingMode],
        steps: &[Step],
    ) -> Result<String, Cause> {
        self.enter("pooling/".into());
        let states = match self.float {
            FloatType::F32 => states.to_owned(),
            _ => self.cast(states, FLOAT),
        };
        self.float = FloatType::F32;
        let mask = self.cast("attention_mask", FLOAT);
        let pooled: Vec<String> = modes
            .iter()
            .map(|mode| self.pooled(&states, &mask, *mode))
            .collect();
        let mut vectors = match &pooled[..] {
            [one] => one.clone(),
            all => {
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                self.node("Concat", &all, vec![Attribute::int("axis", -1)])
            }
        };
        for (index, step) in steps.iter().enumerate() {
            self.enter(format!("modules.{index}/"));
            vectors = match step {
                Step::Dense(dense) => self.dense(&vectors, dense)?,
                Step::LayerNorm(LayerNorm {
                    weight,
                    bias,
                    epsilon,
                }) => self.norm(
                    &vectors,
                    &Norm::layer(weight.clone(), bias.clone(), *epsilon),
                ),
                Step::Normalize => self.normalized(&vectors),
                Step::Activation(activation) => self.module_activation(&vectors, *activation)?,
                Step::AutoEncoder(_) => {
                    return Err(
                        Cause::of("makes sparse vectors, which a graph does not give")
                            .with("embed with it here"),
                    );
                }
            };
        }
        Ok(vectors)
    }

    /// One vector a row, `[rows, hidden]`.
    fn pooled(&mut self, states: &str, mask: &str, mode: PoolingMode) -> String {
        let axis = self.integer(1);
        // Each real token's number in its row, from 1 on.
        let counted = self.node("CumSum", &[mask, &axis], Vec::new());
        let places = self.mul(&counted, mask);
        let count = self.reduce("ReduceSum", mask, &[1]);
        let weights = match mode {
            PoolingMode::Max => {
                let zero = self.scalar(0.0);
                let real = self.node("Greater", &[mask, &zero], Vec::new());
                let real = self.unsqueeze(&real, &[2]);
                let least = self.scalar(f32::MIN);
                let kept = self.node("Where", &[&real, states, &least], Vec::new());
                let axes = self.integers(&[1]);
                return self.node(
                    "ReduceMax",
                    &[&kept, &axes],
                    vec![Attribute::int("keepdims", 0)],
                );
            }
            PoolingMode::Cls | PoolingMode::LastToken => {
                let number = match mode {
                    PoolingMode::Cls => self.scalar(1.0),
                    _ => count,
                };
                let chosen = self.node("Equal", &[&places, &number], Vec::new());
                let chosen = self.cast(&chosen, FLOAT);
                self.mul(&chosen, mask)
            }
            PoolingMode::Mean => self.shared_out(mask, &count),
            PoolingMode::MeanSqrtLen => {
                let root = self.node("Sqrt", &[&count], Vec::new());
                self.shared_out(mask, &root)
            }
            PoolingMode::WeightedMean => {
                let sum = self.reduce("ReduceSum", &places, &[1]);
                self.shared_out(&places, &sum)
            }
        };
        // [rows, 1, length] times [rows, length, hidden].
        let weights = self.unsqueeze(&weights, &[1]);
        let sums = self.matmul(&weights, states);
        let axes = self.integers(&[1]);
        self.node("Squeeze", &[&sums, &axes], Vec::new())
    }

    /// Weights divided by their sum, if they have one.
    fn shared_out(&mut self, weights: &str, sum: &str) -> String {
        let floor = self.scalar(FLOOR);
        let sum = self.node("Max", &[sum, &floor], Vec::new());
        self.node("Div", &[weights, &sum], Vec::new())
    }

    fn module_activation(
        &mut self,
        input: &str,
        activation: DenseActivation,
    ) -> Result<String, Cause> {
        Ok(match activation {
            DenseActivation::Identity => input.to_owned(),
            DenseActivation::Tanh => self.activation(input, Activation::Tanh),
            DenseActivation::Gelu => self.activation(input, Activation::Gelu),
            DenseActivation::GeluTanh => self.activation(input, Activation::GeluTanh),
            DenseActivation::Silu => self.activation(input, Activation::Silu),
            DenseActivation::Relu => self.activation(input, Activation::Relu),
            DenseActivation::Sigmoid => self.node("Sigmoid", &[input], Vec::new()),
            other => {
                return Err(Cause::of(format!(
                    "has a module with the activation {other}, which is not written as a graph"
                ))
                .with(
                    "write the token states alone, and apply the modules to their pooled vectors",
                ));
            }
        })
    }

    fn dense(&mut self, input: &str, dense: &Dense) -> Result<String, Cause> {
        let product = |writer: &mut Self, weight: &[f32]| {
            let columns = (0..dense.input * dense.output)
                .map(|place| weight[place % dense.output * dense.input + place / dense.output]);
            let weight = writer.floats(&[dense.input, dense.output], &columns.collect::<Vec<_>>());
            writer.matmul(input, &weight)
        };
        let mut output = product(self, &dense.weight);
        if !dense.bias.is_empty() {
            let bias = self.floats(&[dense.output], &dense.bias);
            output = self.add(&output, &bias);
        }
        output = self.module_activation(&output, dense.activation)?;
        Ok(match &dense.residual {
            Residual::None => output,
            Residual::Identity => self.add(&output, input),
            Residual::Projected(weight) => {
                let other = product(self, weight);
                self.add(&output, &other)
            }
        })
    }

    fn normalized(&mut self, vectors: &str) -> String {
        let squares = self.mul(vectors, vectors);
        let sum = self.reduce("ReduceSum", &squares, &[-1]);
        let root = self.node("Sqrt", &[&sum], Vec::new());
        let floor = self.scalar(FLOOR);
        let length = self.node("Max", &[&root, &floor], Vec::new());
        self.node("Div", &[vectors, &length], Vec::new())
    }
}
