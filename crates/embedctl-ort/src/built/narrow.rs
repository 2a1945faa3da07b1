//! Products that stay in a checkpoint's fp16 or bf16. Single precision holds both exactly, so the results are those of
//! widened weights. A product is cut into pieces of its outputs, and each is widened right before it is used: what is
//! wide at a time then depends neither on the model's size nor on its widest product.

use std::collections::HashSet;

use embedctl_native::{PlainNetwork, PlainProduct};
use embedctl_onnx::{Attribute, GraphProto, Node};

use super::FloatType;
use super::elements::TensorElement as _;
use super::weights::stored_as;
use super::writer::{DeclaredWeight, GraphWriter, WeightSource};
use embedctl_common::error::Result;

/// Bytes of a widened piece: few enough for a processor's last cache, enough for it to be worth a node.
pub(crate) const PIECE: usize = 16 << 20;

/// Columns of a piece are a multiple of this, as kernels take them.
const COLUMNS: usize = 64;

impl GraphWriter {
    /// The type in which a product stays; `None`: it is declared in the type of states.
    pub(super) fn narrow(
        &self,
        network: &PlainNetwork,
        product: PlainProduct,
    ) -> Result<Option<FloatType>> {
        if self.widened_pieces.is_none() {
            return Ok(None);
        }
        Ok(network.narrow_element(product)?.and_then(stored_as))
    }

    /// The types of the first and of the second products of a set's experts.
    pub(super) fn narrow_experts(
        &self,
        network: &PlainNetwork,
        set: usize,
        count: usize,
    ) -> Result<[FloatType; 2]> {
        let of_all = |product: &dyn Fn(usize) -> PlainProduct| -> Result<FloatType> {
            let first = self.narrow(network, product(0))?;
            for expert in 1..count {
                if first.is_none() || self.narrow(network, product(expert))? != first {
                    return Ok(self.float);
                }
            }
            Ok(first.unwrap_or(self.float))
        };
        Ok([
            of_all(&|expert| PlainProduct::ExpertUp(set, expert))?,
            of_all(&|expert| PlainProduct::ExpertDown(set, expert))?,
        ])
    }

    /// A weight of type `element` in the type of states.
    pub(super) fn wide(&mut self, weight: &str, element: FloatType) -> String {
        if element == self.float {
            return weight.to_owned();
        }
        self.cast(weight, self.float.number())
    }

    /// `input` times a product's weight of `[inputs, outputs]`, which stays in `element`.
    pub(super) fn widened(
        &mut self,
        input: &str,
        name: &str,
        product: PlainProduct,
        element: FloatType,
        [inputs, outputs]: [usize; 2],
    ) -> String {
        let piece = self.widened_pieces.unwrap_or(PIECE);
        let columns = columns(piece, inputs * self.float.size());
        let mut parts = Vec::new();
        for first in (0..outputs).step_by(columns) {
            let count = columns.min(outputs - first);
            let name = format!("{name}.{first}");
            let source = WeightSource::Product(product, first);
            let weight = self.weight(&name, &[inputs, count], element, source);
            let wide = self.wide(&weight, element);
            parts.push(self.matmul(input, &wide));
        }
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.node("Concat", &parts, vec![Attribute::int("axis", -1)])
    }
}

/// Has ONNX Runtime widen each piece right before the product that takes it, by putting the nodes that widen in front of
/// all others: it walks a graph from its output back, takes the inputs of a node from the last node in the file to the
/// first, and runs what it has reached on its way back. Where they stand beside their products, it widens nearly all pieces
/// before it computes anything.
pub(super) fn widen_late(graph: &mut GraphProto, weights: &[DeclaredWeight]) {
    let widened = weights.iter().filter(|weight| weight.is_widened);
    let widened: HashSet<&str> = widened.map(|weight| weight.name.as_str()).collect();
    let widens = |node: &Node| node.op_type == "Cast" && widened.contains(node.input[0].as_str());
    graph.node.sort_by_key(|node| !widens(node));
}

/// Outputs of a piece of `piece` bytes, of which each takes `column` bytes.
fn columns(piece: usize, column: usize) -> usize {
    (piece / column.max(1) / COLUMNS * COLUMNS).max(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_fits_and_takes_whole_tiles_of_columns() {
        for inputs in [1, 384, 4096, 14_336, 65_536] {
            let columns = columns(PIECE, 4 * inputs);
            assert!(columns * inputs * 4 <= PIECE, "{inputs}: {columns}");
            assert!(columns.is_multiple_of(COLUMNS), "{inputs}: {columns}");
        }
        assert_eq!(columns(1, 4), COLUMNS);
    }
}
