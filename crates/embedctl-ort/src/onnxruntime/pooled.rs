//! Pooling as a part of the graph, for devices with memory of their own: token states stay there, and
//! only one vector a row comes back.
//!
//! All modes but `max` are sums over tokens with weights that follow from the row's token ids: [`fill_weights`] makes them
//! on the processor, as an input of the graph, and one matrix product does the rest. [`PoolingRule`] decides them, as for
//! pooling on the processor, so the graph needs no operator that differs between versions of ONNX (but for `ReduceMax`).
//!
//! The ONNX file is not decoded for that: the nodes are appended to its bytes, as Protocol Buffers allow, and its
//! declared outputs are left out. Nothing else is changed, not even unknown newer fields, and references to external
//! weights stay as they are.

use prost::Message;

use embedctl_model::ElementType;
use embedctl_onnx::{
    Attribute, FLOAT, GraphProto, Node, OperatorSet, fields, float_value as value,
};
use embedctl_rows::PoolingMode;
use embedctl_rows::batch::Batch;
use embedctl_rows::pool::PoolingRule;

/// The input that [`fill_weights`] makes, f32 `[rows, modes, length]`.
pub(super) const WEIGHTS: &str = "embedctl/pooling_weights";
/// The output, f32 `[rows, modes × width]`.
pub(super) const POOLED: &str = "embedctl/pooled";

/// The ONNX model of these bytes as one whose only output is [`POOLED`], pooled from its output
/// `states` with `modes`.
pub(super) fn graph(
    bytes: &[u8],
    states: &str,
    element: ElementType,
    modes: &[PoolingMode],
) -> Result<Vec<u8>, String> {
    let opset = opset(bytes)?;
    let addition = addition(states, element, modes, opset).encode_to_vec();
    let mut model = Vec::with_capacity(bytes.len() + addition.len() + 16);
    let mut found = false;
    for field in fields(bytes) {
        let field = field?;
        if field.number != MODEL_GRAPH {
            model.extend_from_slice(field.whole);
            continue;
        }
        found = true;
        let mut graph = Vec::with_capacity(field.content.len() + addition.len());
        for field in fields(field.content) {
            let field = field?;
            if field.number != GRAPH_OUTPUT {
                graph.extend_from_slice(field.whole);
            }
        }
        graph.extend_from_slice(&addition);
        embedctl_onnx::append(MODEL_GRAPH, &graph, &mut model);
    }
    if found {
        Ok(model)
    } else {
        Err("the file holds no graph".into())
    }
}

/// Fills `out` with the weights of a batch's tokens, `[rows, modes, length]`, where rows are padded to `length`; see
/// [`PoolingRule::weigh`].
pub(super) fn fill_weights(rule: &PoolingRule, batch: &Batch, length: usize, out: &mut Vec<f32>) {
    out.clear();
    let of_row = rule.modes().len() * length;
    out.resize(batch.rows() * of_row, 0.0);
    for (row, weights) in out.chunks_exact_mut(of_row.max(1)).enumerate() {
        rule.weigh(batch.row(row), length, weights);
    }
}

/// The nodes, constants, input and output that pool.
fn addition(states: &str, element: ElementType, modes: &[PoolingMode], opset: i64) -> GraphProto {
    let mut addition = GraphProto {
        input: vec![value(WEIGHTS, &[None, Some(modes.len()), None])],
        output: vec![value(POOLED, &[None, None])],
        ..GraphProto::default()
    };
    // As everywhere, half precision is widened before it is summed.
    let states = if element == ElementType::F32 {
        states.to_owned()
    } else {
        addition.add_node(
            "Cast",
            &[states],
            "states",
            vec![Attribute::int("to", FLOAT.into())],
        )
    };
    let has_max = modes.contains(&PoolingMode::Max);
    let only_max = modes.iter().all(|&mode| mode == PoolingMode::Max);
    let mut parts = Vec::new();
    if !only_max {
        parts.push(addition.add_node("MatMul", &[WEIGHTS, &states], "sums", Vec::new()));
    }
    if has_max {
        parts.push(maximum(&mut addition, &states, modes, opset));
    }
    let mut joined = parts[0].clone();
    if parts.len() > 1 {
        let both: Vec<&str> = parts.iter().map(String::as_str).collect();
        let both = addition.add_node("Concat", &both, "both", vec![Attribute::int("axis", 1)]);
        // The product has a row for every mode; that of `max` means nothing, and its own comes last.
        let last = modes.len();
        let order: Vec<i64> = modes
            .iter()
            .enumerate()
            .map(|(index, &mode)| {
                let index = if mode == PoolingMode::Max {
                    last
                } else {
                    index
                };
                i64::try_from(index).expect("there are a handful of modes")
            })
            .collect();
        let order = addition.add_integers("order", &order);
        joined = addition.add_node(
            "Gather",
            &[&both, &order],
            "ordered",
            vec![Attribute::int("axis", 1)],
        );
    } else if only_max && modes.len() > 1 {
        let order = addition.add_integers("order", &vec![0; modes.len()]);
        joined = addition.add_node(
            "Gather",
            &[&joined, &order],
            "ordered",
            vec![Attribute::int("axis", 1)],
        );
    }
    // 0 keeps the rows, -1 takes all other elements.
    let flat = addition.add_integers("flat", &[0, -1]);
    addition.node.push(Node {
        input: vec![joined, flat],
        output: vec![POOLED.into()],
        name: POOLED.into(),
        op_type: "Reshape".into(),
        ..Node::default()
    });
    addition
}

/// Adds the greatest value of each component over the tokens that take part, `[rows, 1, width]`.
fn maximum(graph: &mut GraphProto, states: &str, modes: &[PoolingMode], opset: i64) -> String {
    let row = modes
        .iter()
        .position(|&mode| mode == PoolingMode::Max)
        .expect("called where there is one");
    let row = graph.add_integers(
        "max_row",
        &[i64::try_from(row).expect("there are a handful of modes")],
    );
    let part = graph.add_node(
        "Gather",
        &[WEIGHTS, &row],
        "max_part",
        vec![Attribute::int("axis", 1)],
    );
    let column = graph.add_integers("column", &[0, -1, 1]);
    let part = graph.add_node("Reshape", &[&part, &column], "max_column", Vec::new());
    let zero = graph.add_constant("zero", Vec::new(), FLOAT, 0.0_f32.to_le_bytes().into_iter());
    let part = graph.add_node("Greater", &[&part, &zero], "max_mask", Vec::new());
    let least = graph.add_constant(
        "least",
        Vec::new(),
        FLOAT,
        f32::NEG_INFINITY.to_le_bytes().into_iter(),
    );
    let masked = graph.add_node("Where", &[&part, states, &least], "max_states", Vec::new());
    // Operator set 18 made the axes an input.
    if opset >= 18 {
        let axes = graph.add_integers("max_axes", &[1]);
        graph.add_node(
            "ReduceMax",
            &[&masked, &axes],
            "max",
            vec![Attribute::int("keepdims", 1)],
        )
    } else {
        graph.add_node(
            "ReduceMax",
            &[&masked],
            "max",
            vec![Attribute::ints("axes", &[1]), Attribute::int("keepdims", 1)],
        )
    }
}

/// The version of the standard operators that a model asks for.
fn opset(model: &[u8]) -> Result<i64, String> {
    for field in fields(model) {
        let field = field?;
        if field.number == MODEL_OPSET {
            let import = OperatorSet::decode(field.content)
                .map_err(|error| format!("the file's operator sets are not readable: {error}"))?;
            if matches!(import.domain.as_str(), "" | "ai.onnx") {
                return Ok(import.version);
            }
        }
    }
    Err("the file names no version of the standard operators".into())
}

// Field numbers of `onnx.proto3`.
const MODEL_GRAPH: u32 = 7;
const MODEL_OPSET: u32 = 8;
const GRAPH_OUTPUT: u32 = 12;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use embedctl_model::Graph;

    #[test]
    fn the_extended_graph_has_the_pooled_output_alone_and_keeps_the_rest() {
        let onnx = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join("fixtures/parity/weights-external-data/model/onnx/model.onnx");
        let before = Graph::read(&onnx).unwrap();
        let states = before.outputs[0].name.clone();
        let bytes = graph(
            &std::fs::read(&onnx).unwrap(),
            &states,
            ElementType::F32,
            &[PoolingMode::Mean, PoolingMode::Max],
        )
        .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let after = Graph::read(file.path()).unwrap();
        let outputs: Vec<&str> = after.outputs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(outputs, [POOLED]);
        assert_eq!(after.inputs.len(), before.inputs.len() + 1);
        assert_eq!(after.input(WEIGHTS).unwrap().shape, [None, Some(2), None]);
        assert_eq!(after.external, before.external);
        assert!(after.operators.is_superset(&before.operators));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        for bytes in [&b""[..], b"\x3a\xff\xff\xff\x7f", b"\x0f", b"not a model"] {
            let modes = [PoolingMode::Mean];
            assert!(graph(bytes, "states", ElementType::F32, &modes).is_err());
        }
    }
}
