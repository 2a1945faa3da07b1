//! Nodes of ONNX Runtime's own operators.

use std::collections::{BTreeSet, HashSet};

use embedctl_onnx::{Attribute, GraphProto};

use super::operators::Sum;
use super::writer::GraphWriter;

/// The domain of ONNX Runtime's own operators.
pub(super) const OWN: &str = "com.microsoft";

impl GraphWriter {
    /// A node of one of ONNX Runtime's own operators, with one output.
    pub(super) fn own(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> String {
        self.node(&format!("{OWN}:{operator}"), inputs, attributes)
    }

    /// A sum that [`taken_back`](Self::taken_back) finds again.
    pub(super) fn sum(&mut self, kind: Sum, a: &str, b: &str) -> String {
        let sum = self.add(a, b);
        if self.operators.is_fused() {
            self.sums.insert(sum.clone(), kind);
        }
        sum
    }

    /// The two values whose sum is `value`. Its node is taken back, so that an own operator can add them itself; `None`
    /// where it is no such sum, or a node has used it.
    pub(super) fn taken_back(&mut self, kind: Sum, value: &str) -> Option<[String; 2]> {
        if self.sums.get(value) != Some(&kind) {
            return None;
        }
        let nodes = &mut self.graph.node;
        let place = nodes.iter().rposition(|node| node.output == [value])?;
        let is_used = |name: &String| name == value;
        if nodes[place..]
            .iter()
            .any(|node| node.input.iter().any(is_used))
        {
            return None;
        }
        self.sums.remove(value);
        nodes.remove(place).input.try_into().ok()
    }
}

/// The names of the own operators in `graph`.
pub(super) fn own_operators(graph: &GraphProto) -> BTreeSet<&str> {
    let own = graph.node.iter().filter(|node| node.domain == OWN);
    own.map(|node| node.op_type.as_str()).collect()
}

/// Leaves out the sums of norms that no node takes: they would be computed.
pub(super) fn drop_unused_sums(graph: &mut GraphProto) {
    let inputs = graph.node.iter().flat_map(|node| &node.input);
    let used: HashSet<String> = inputs.cloned().collect();
    for node in &mut graph.node {
        if let [_, _, _, sum] = &node.output[..]
            && node.op_type.starts_with("Skip")
            && !used.contains(sum)
        {
            node.output.truncate(1);
        }
    }
}
