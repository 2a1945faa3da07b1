//! What a graph computes from stored tensors alone, computed once.
//!
//! Packed files store weights as small integers and unfold them by operators. tract does that itself, but
//! for every plan anew, and only up to 4 MiB a tensor: larger weights it unfolds at every run. Done
//! here, before the first plan, any size is unfolded once and all plans share the result.

use std::collections::HashMap;
use std::sync::Arc;

use tract_onnx::prelude::{
    InferenceFact, InferenceModel, IntoTValue, TValue, TVec, Tensor, TractResult,
};
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_hir::infer::InferenceOp;
use tract_onnx::tract_hir::internal::{IntoArcTensor, OutletId};

/// How much larger than its inputs a result may be: 4-bit weights grow eightfold as float32.
const GROWTH: usize = 8;

/// Results up to this many bytes are kept however small their inputs.
const SMALL: usize = 4 << 20;

/// Replaces every node that depends on constants alone by its value. What cannot be computed here is left
/// for tract to judge.
pub(super) fn fold(model: &mut InferenceModel) -> TractResult<()> {
    // Values by node, until their last reader has been seen: intermediate results of large weights go soon.
    let mut known: HashMap<usize, Known> = HashMap::new();
    for id in model.eval_order()? {
        let inputs: Vec<usize> = model
            .node(id)
            .inputs
            .iter()
            .map(|outlet| outlet.node)
            .collect();
        if let Some(value) = value(model, id, &known) {
            let readers = model.node(id).outputs[0].successors.len();
            known.insert(id, Known { value, readers });
        } else {
            for input in &inputs {
                if let Some(found) = known.get(input) {
                    let value = Arc::clone(&found.value);
                    replace(model, *input, value)?;
                }
            }
        }
        for input in inputs {
            if let Some(found) = known.get_mut(&input) {
                found.readers = found.readers.saturating_sub(1);
                if found.readers == 0 {
                    known.remove(&input);
                }
            }
        }
    }
    model.compact()
}

struct Known {
    value: Arc<Tensor>,
    /// Edges that have not been followed.
    readers: usize,
}

/// The value of a node, if it is stored or can be computed from `known` ones.
fn value(model: &InferenceModel, id: usize, known: &HashMap<usize, Known>) -> Option<Arc<Tensor>> {
    let node = model.node(id);
    if let Some(stored) = node.op_as::<Const>() {
        return stored
            .val()
            .is_plain_ram()
            .then(|| Arc::clone(stored.val()));
    }
    if node.inputs.is_empty() || node.outputs.len() != 1 {
        return None;
    }
    let inputs: TVec<TValue> = node
        .inputs
        .iter()
        .map(|outlet| Some(Arc::clone(&known.get(&outlet.node)?.value).into_tvalue()))
        .collect::<Option<_>>()?;
    let read: usize = inputs.iter().map(|input| bytes(input)).sum();
    let mut outputs = node.op.eval_out_of_plan(inputs).ok()??;
    let output = outputs.pop().filter(|_| outputs.is_empty())?;
    let kept = output.is_plain_ram() && bytes(&output) <= (read * GROWTH).max(SMALL);
    kept.then(|| output.into_arc_tensor())
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.len() * tensor.datum_type().size_of()
}

/// Makes a node a constant.
fn replace(model: &mut InferenceModel, id: usize, value: Arc<Tensor>) -> TractResult<()> {
    if model.node(id).op_is::<Const>() {
        return Ok(());
    }
    for outlet in std::mem::take(&mut model.nodes[id].inputs) {
        model.nodes[outlet.node].outputs[outlet.slot]
            .successors
            .retain(|inlet| inlet.node != id);
    }
    model.set_outlet_fact(OutletId::new(id, 0), InferenceFact::try_from(&value)?)?;
    let op: Box<dyn InferenceOp> = Box::new(Const::new(value)?);
    model.nodes[id].op = op;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tract_onnx::pb::tensor_proto::DataType;
    use tract_onnx::pb::{
        GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto,
        ValueInfoProto, type_proto,
    };
    use tract_onnx::prelude::Framework;

    use super::*;

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: op.into(),
            name: output.into(),
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        }
    }

    fn stored(name: &str, rows: i64, width: i64, value: f32) -> TensorProto {
        TensorProto {
            name: name.into(),
            dims: vec![rows, width],
            data_type: DataType::Float as i32,
            float_data: vec![value; usize::try_from(rows * width).unwrap()],
            ..TensorProto::default()
        }
    }

    /// A float tensor of unknown shape.
    fn float(name: &str) -> ValueInfoProto {
        let tensor = type_proto::Tensor {
            elem_type: DataType::Float as i32,
            ..type_proto::Tensor::default()
        };
        ValueInfoProto {
            name: name.into(),
            r#type: Some(TypeProto {
                value: Some(type_proto::Value::TensorType(tensor)),
                ..TypeProto::default()
            }),
            ..ValueInfoProto::default()
        }
    }

    fn constant<'a>(model: &'a InferenceModel, name: &str) -> Option<&'a Arc<Tensor>> {
        model
            .node_by_name(name)
            .unwrap()
            .op_as::<Const>()
            .map(Const::val)
    }

    #[test]
    fn weights_of_any_size_are_unfolded_and_what_depends_on_an_input_is_kept() {
        // 8 MiB, twice what tract would fold.
        let (rows, width) = (2048, 1024);
        let graph = GraphProto {
            node: vec![
                node("Add", &["packed", "scale"], "unpacked"),
                node("Neg", &["unpacked"], "weight"),
                node("Exp", &["x"], "activation"),
                node("Mul", &["activation", "weight"], "y"),
                node("Sub", &["y", "scale"], "z"),
            ],
            initializer: vec![
                stored("packed", rows, width, 2.0),
                stored("scale", 1, width, 0.5),
            ],
            input: vec![float("x")],
            output: vec![float("z")],
            ..GraphProto::default()
        };
        let proto = ModelProto {
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: 17,
            }],
            ..ModelProto::default()
        };
        let mut model = tract_onnx::onnx().model_for_proto_model(&proto).unwrap();
        fold(&mut model).unwrap();
        let weight = constant(&model, "weight").expect("the weight is a constant");
        let values = weight.try_as_plain_ram().unwrap();
        assert_eq!(weight.shape(), [2048, 1024]);
        assert!(
            values
                .as_slice::<f32>()
                .unwrap()
                .iter()
                .all(|value| *value == -2.5)
        );
        assert!(constant(&model, "scale").is_some());
        for kept in ["x", "activation", "y", "z"] {
            assert!(constant(&model, kept).is_none(), "{kept}");
        }
        // What only led to the weight is gone.
        assert_eq!(model.nodes.len(), 6);
        assert_eq!(model.inputs.len(), 1);
    }
}
