//! The masked-LM head and the pooling of its logits.

use embedctl_kernels::TermPooling;
use embedctl_native::{PlainNetwork, PlainProduct};
use embedctl_onnx::{Attribute, FLOAT};

use super::FloatType;
use super::writer::GraphWriter;
use embedctl_common::error::Result;

/// Terms whose logits are computed at a time, `[rows, length, TILE]`: those of a large vocabulary at once would take far
/// more memory than the network.
const TILE: usize = 2048;

impl GraphWriter {
    /// The weights of all terms in each row, `[rows, terms]` in single precision, of `states`, `[rows, length, hidden]`; and
    /// how many terms there are. Of a row with a state that is NaN or infinite all weights are NaN.
    pub(super) fn term_weights(
        &mut self,
        network: &PlainNetwork,
        pooling: TermPooling,
        states: &str,
    ) -> Result<(String, usize)> {
        let head = network.masked_head()?;
        let hidden = network.architecture().hidden;
        self.enter("terms/".into());
        let transformed = match &head.transform {
            None => states.to_owned(),
            Some((activation, norm)) => {
                let dense = PlainProduct::TermTransform;
                let dense = self.product(network, states, dense, [hidden, head.width])?;
                let active = self.activation(&dense, *activation);
                self.norm(&active, norm)
            }
        };
        let mask = self.cast("attention_mask", FLOAT);
        let mask = self.unsqueeze(&mask, &[2]);
        // Relu and ReduceMax may pass over NaN.
        let single = self.cast(&transformed, FLOAT);
        let zero = self.scalar_of(FloatType::F32, 0.0);
        let odd = self.mul(&single, &zero);
        let odd = self.mul(&odd, &mask);
        let odd = self.reduce("ReduceSum", &odd, &[1, 2]);
        let mut tiles = Vec::new();
        for first in (0..head.terms).step_by(TILE) {
            let count = TILE.min(head.terms - first);
            self.enter(format!("terms.{first}/"));
            let product = PlainProduct::Terms { first, count };
            let logits = self.product(network, &transformed, product, [head.width, count])?;
            let logits = self.cast(&logits, FLOAT);
            let above = self.node("Relu", &[&logits], Vec::new());
            tiles.push(if pooling.sums {
                let weights = self.dampened(&above, pooling);
                let weights = self.mul(&weights, &mask);
                self.reduce("ReduceSum", &weights, &[1])
            } else {
                let above = self.mul(&above, &mask);
                let tops = self.reduce("ReduceMax", &above, &[1]);
                self.dampened(&tops, pooling)
            });
        }
        self.enter("terms/".into());
        let tiles: Vec<&str> = tiles.iter().map(String::as_str).collect();
        let weights = self.node("Concat", &tiles, vec![Attribute::int("axis", -1)]);
        let weights = self.add(&weights, &odd);
        let axes = self.integers(&[1]);
        let weights = self.node("Squeeze", &[&weights, &axes], Vec::new());
        Ok((weights, head.terms))
    }

    /// `ln(1 + x)` of each number, in single precision, once or twice.
    fn dampened(&mut self, numbers: &str, pooling: TermPooling) -> String {
        let one = self.scalar_of(FloatType::F32, 1.0);
        let mut numbers = numbers.to_owned();
        for _ in 0..if pooling.twice { 2 } else { 1 } {
            let more = self.add(&numbers, &one);
            numbers = self.node("Log", &[&more], Vec::new());
        }
        numbers
    }
}
