//! Feed-forwards and their activations.

use embedctl_common::Activation;
use embedctl_native::{PlainNetwork, PlainProduct, Product};

use super::writer::{GraphWriter, WeightSource};
use embedctl_common::error::Result;

impl GraphWriter {
    /// `input` times a product's weight of `[inputs, outputs]`, and its bias.
    pub(super) fn product(
        &mut self,
        network: &PlainNetwork,
        input: &str,
        product: PlainProduct,
        [inputs, outputs]: [usize; 2],
    ) -> Result<String> {
        let name = match product {
            PlainProduct::Projection => "projection".to_owned(),
            PlainProduct::Layer(set, which) => format!("weights.{set}.{which:?}").to_lowercase(),
            PlainProduct::Terms { first, .. } => format!("weights.terms.{first}"),
            other => format!("weights.{other:?}").to_lowercase(),
        };
        let made = match self.narrow(network, product)? {
            Some(element) => self.widened(input, &name, product, element, [inputs, outputs]),
            None => {
                let source = WeightSource::Product(product, 0);
                let weight = self.weight(&name, &[inputs, outputs], self.float, source);
                self.matmul(input, &weight)
            }
        };
        let bias = network.bias(product)?;
        if bias.is_empty() {
            return Ok(made);
        }
        let bias = self.floats(&[outputs], &bias);
        Ok(self.add(&made, &bias))
    }

    /// The feed-forward of a set of weights.
    pub(super) fn feed_forward(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        input: &str,
    ) -> Result<String> {
        let architecture = network.architecture();
        let (hidden, of) = (architecture.hidden, &architecture.feed_forward);
        let halves = if of.gated { 2 } else { 1 };
        let [up, down] = [Product::Up, Product::Down].map(|which| PlainProduct::Layer(set, which));
        let inner = self.product(network, input, up, [hidden, halves * of.width])?;
        let inner = self.activated(&inner, of.activation, of.gated, of.width);
        self.product(network, &inner, down, [of.width, hidden])
    }

    /// The inner states behind their activation: of the first half, times the second, where they are gated.
    pub(super) fn activated(
        &mut self,
        inner: &str,
        activation: Activation,
        gated: bool,
        width: usize,
    ) -> String {
        if !gated {
            return self.activation(inner, activation);
        }
        let halves = self.split(inner, -1, &[width, width]);
        let gate = self.activation(&halves[0], activation);
        self.mul(&gate, &halves[1])
    }

    pub(super) fn activation(&mut self, x: &str, activation: Activation) -> String {
        match activation {
            // In the forms that ONNX Runtime and rten know for one operator.
            Activation::Gelu => {
                let root = self.scalar(std::f32::consts::SQRT_2);
                let one = self.scalar(1.0);
                let half = self.scalar(0.5);
                let scaled = self.node("Div", &[x, &root], Vec::new());
                let erf = self.node("Erf", &[&scaled], Vec::new());
                let sum = self.add(&erf, &one);
                let product = self.mul(x, &sum);
                self.mul(&product, &half)
            }
            Activation::GeluTanh => {
                let three = self.scalar(3.0);
                let cube = self.node("Pow", &[x, &three], Vec::new());
                let cube = self.scaled(&cube, 0.044_715);
                let sum = self.add(x, &cube);
                let inner = self.scaled(&sum, (2.0 / std::f32::consts::PI).sqrt());
                let tanh = self.node("Tanh", &[&inner], Vec::new());
                let one = self.scalar(1.0);
                let sum = self.add(&tanh, &one);
                let half = self.scaled(x, 0.5);
                self.mul(&half, &sum)
            }
            Activation::QuickGelu => {
                let scaled = self.scaled(x, 1.702);
                let share = self.node("Sigmoid", &[&scaled], Vec::new());
                self.mul(x, &share)
            }
            Activation::Silu => {
                let share = self.node("Sigmoid", &[x], Vec::new());
                self.mul(x, &share)
            }
            Activation::Relu => self.node("Relu", &[x], Vec::new()),
            Activation::Tanh => self.node("Tanh", &[x], Vec::new()),
        }
    }
}
