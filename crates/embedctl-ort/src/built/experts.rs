//! Mixtures of experts: each token uses some of the feed-forwards. All of them are computed, with a weight of zero for
//! the unused ones, because standard operators have no better way.

use embedctl_native::{PlainNetwork, PlainProduct};
use embedctl_onnx::Attribute;

use super::writer::{GraphWriter, WeightSource};
use embedctl_checkpoint::architecture::ExpertsDescription;
use embedctl_common::error::Result;

impl GraphWriter {
    /// The sum of a set's experts for `input`, `[rows, length, hidden]`.
    pub(super) fn experts(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        described: &ExpertsDescription,
        input: &str,
    ) -> Result<String> {
        let hidden = network.architecture().hidden;
        let (count, width) = (described.count, described.width);
        let shape = self.node("Shape", &[input], Vec::new());
        let tokens = self.reshape(input, &[-1, hidden as i64]);
        let shares = self.shares(network, set, described, &tokens)?;
        let halves = if described.gated { 2 } else { 1 };
        let [up_element, down_element] = self.narrow_experts(network, set, count)?;
        let up = self.weight(
            &format!("weights.{set}.experts_up"),
            &[count, hidden, halves * width],
            up_element,
            WeightSource::ExpertsUp(set),
        );
        let down = self.weight(
            &format!("weights.{set}.experts_down"),
            &[count, width, hidden],
            down_element,
            WeightSource::ExpertsDown(set),
        );
        // [1, tokens, hidden] times [experts, hidden, width].
        let each = self.unsqueeze(&tokens, &[0]);
        let up = self.wide(&up, up_element);
        let inner = self.matmul(&each, &up);
        let inner = self.activated(&inner, described.activation, described.gated, width);
        let down = self.wide(&down, down_element);
        let made = self.matmul(&inner, &down);
        let shares = self.transpose(&shares, &[1, 0]);
        let shares = self.unsqueeze(&shares, &[2]);
        let made = self.mul(&made, &shares);
        let axes = self.integers(&[0]);
        let attribute = vec![Attribute::int("keepdims", 0)];
        let sum = self.node("ReduceSum", &[&made, &axes], attribute);
        let sum = self.node("Reshape", &[&sum, &shape], Vec::new());
        let bias = network.experts_bias(set)?;
        if bias.is_empty() {
            return Ok(sum);
        }
        let bias = self.floats(&[hidden], &bias);
        Ok(self.add(&sum, &bias))
    }

    /// Each token's shares of all experts, `[tokens, experts]`.
    fn shares(
        &mut self,
        network: &PlainNetwork,
        set: usize,
        described: &ExpertsDescription,
        tokens: &str,
    ) -> Result<String> {
        let hidden = network.architecture().hidden;
        let router = PlainProduct::Router(set);
        let scores = self.product(network, tokens, router, [hidden, described.count])?;
        let all = self.node("Softmax", &[&scores], vec![Attribute::int("axis", -1)]);
        let chosen = self.integers(&[described.chosen as i64]);
        let attribute = vec![Attribute::int("axis", -1)];
        let mut best = self.nodes("TopK", &[&all, &chosen], attribute, 2);
        if described.normalized {
            let sum = self.reduce("ReduceSum", &best[0], &[-1]);
            best[0] = self.node("Div", &[&best[0], &sum], Vec::new());
        }
        let none = self.sub(&all, &all);
        let attribute = vec![Attribute::int("axis", -1)];
        Ok(self.node("ScatterElements", &[&none, &best[1], &best[0]], attribute))
    }
}
