//! Norms of states.

use embedctl_kernels::Norm;
use embedctl_onnx::{Attribute, FLOAT};

use super::FloatType;
use super::elements::TensorElement as _;
use super::writer::GraphWriter;

impl GraphWriter {
    /// The norm of `states` over their last axis.
    pub(super) fn norm(&mut self, states: &str, norm: &Norm) -> String {
        let width = [norm.width()];
        if !norm.is_rms() {
            let mut inputs = vec![states.to_owned(), self.floats(&width, norm.weight())];
            if !norm.bias().is_empty() {
                inputs.push(self.floats(&width, norm.bias()));
            }
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            let attributes = vec![
                Attribute::int("axis", -1),
                Attribute::float("epsilon", norm.epsilon()),
            ];
            return self.node("LayerNormalization", &inputs, attributes);
        }
        // Squares soon exceed the numbers of half precision. In this form ONNX Runtime knows it for one operator.
        let narrow = self.float != FloatType::F32;
        let wide = if narrow {
            self.cast(states, FLOAT)
        } else {
            states.to_owned()
        };
        let two = self.scalar_of(FloatType::F32, 2.0);
        let squares = self.node("Pow", &[&wide, &two], Vec::new());
        let mean = self.reduce("ReduceMean", &squares, &[-1]);
        let epsilon = self.scalar_of(FloatType::F32, norm.epsilon());
        let mean = self.add(&mean, &epsilon);
        let root = self.node("Sqrt", &[&mean], Vec::new());
        let normed = self.node("Div", &[&wide, &root], Vec::new());
        // CUDA's one operator for it has no kernel for states of bfloat16 and weights of single precision.
        if self.float == FloatType::Bf16 {
            let normed = self.cast(&normed, self.float.number());
            let weight = self.floats(&width, norm.weight());
            return self.mul(&normed, &weight);
        }
        let weight = self.floats_of(FloatType::F32, &width, norm.weight());
        let scaled = self.mul(&normed, &weight);
        if narrow {
            self.cast(&scaled, self.float.number())
        } else {
            scaled
        }
    }
}
