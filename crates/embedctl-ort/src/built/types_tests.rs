//! The types of every value in the graphs of every architecture, by the operators' own rules: a provider refuses a graph
//! whose types do not agree, and most tests run graphs in single precision, where nothing can disagree.

use std::collections::HashMap;

use embedctl_onnx::{BFLOAT16, FLOAT, FLOAT16, GraphProto, INT64, Node};

use super::tests::cases;
use super::{BuiltGraph, FloatType, GraphForm};

/// `TensorProto.DataType.BOOL`.
const BOOL: i32 = 9;

/// The types of all values of a graph by their names.
type Types<'a> = HashMap<&'a str, i32>;

/// The types of a node's outputs by those of its inputs; inputs that are left out have the type 0.
fn outputs(node: &Node, inputs: &[i32]) -> Result<Vec<i32>, String> {
    let is_float = |kind: i32| matches!(kind, FLOAT | FLOAT16 | BFLOAT16);
    let first = inputs.first().copied().unwrap_or_default();
    let of_one_type = |inputs: &[i32]| {
        let given = || inputs.iter().filter(|kind| **kind != 0);
        match given().all(|kind| *kind == first) {
            true => Ok(first),
            false => Err("inputs of different types".to_owned()),
        }
    };
    let floats = |inputs: &[i32]| match of_one_type(inputs)? {
        kind if is_float(kind) => Ok(kind),
        kind => Err(format!("computes in type {kind}")),
    };
    let indices = |from: usize| match inputs[from..].iter().all(|kind| *kind == INT64) {
        true => Ok(()),
        false => Err("indices that are no int64".to_owned()),
    };
    let one = match node.op_type.as_str() {
        "Shape" => INT64,
        "Cast" => {
            let to = node.attribute.iter().find(|it| it.name == "to");
            let to = to.and_then(|to| to.i).and_then(|to| i32::try_from(to).ok());
            to.unwrap_or_default()
        }
        "Gather" | "Reshape" | "Unsqueeze" | "Squeeze" | "Slice" | "Expand" | "GatherElements" => {
            indices(1)?;
            first
        }
        "ReduceSum" | "ReduceMax" | "CumSum" => {
            indices(1)?;
            first
        }
        "ReduceMean" => {
            indices(1)?;
            floats(&[first])?
        }
        "ScatterElements" if inputs[1] == INT64 => of_one_type(&[first, inputs[2]])?,
        "Where" if first == BOOL && inputs[1] == inputs[2] => inputs[1],
        "Greater" | "Equal" => of_one_type(inputs).map(|_| BOOL)?,
        "Add" | "Sub" | "Mul" | "Div" | "Max" | "Neg" | "Abs" | "Concat" | "Range" | "Clip"
        | "Transpose" => of_one_type(inputs)?,
        "Pow" => floats(&[first])?,
        "MatMul" | "Conv" | "Sqrt" | "Erf" | "Tanh" | "Sigmoid" | "Relu" | "Log" | "Softmax"
        | "LayerNormalization" => floats(inputs)?,
        "Split" => {
            indices(1)?;
            first
        }
        "TopK" => {
            indices(1)?;
            return Ok(vec![floats(&[first])?, INT64]);
        }
        other => return Err(format!("no rule for {other} of {inputs:?}")),
    };
    Ok(vec![one; node.output.len()])
}

/// The types of all values of `graph`.
fn types(graph: &GraphProto) -> Result<Types<'_>, String> {
    let mut types: Types<'_> = HashMap::from([("", 0)]);
    for tensor in &graph.initializer {
        types.insert(&tensor.name, tensor.data_type);
    }
    let declared = |value: &embedctl_onnx::ValueInfo| {
        let tensor = value.r#type.as_ref()?.tensor_type.as_ref()?;
        Some(tensor.elem_type)
    };
    for input in &graph.input {
        types.insert(&input.name, declared(input).unwrap_or_default());
    }
    for node in &graph.node {
        let inputs = node.input.iter().map(|name| {
            let known = types.get(name.as_str()).copied();
            known.ok_or_else(|| format!("{} takes {name} before it is made", node.name))
        });
        let inputs = inputs.collect::<Result<Vec<i32>, String>>()?;
        let made = outputs(node, &inputs).map_err(|error| format!("{}: {error}", node.name))?;
        for (name, kind) in node.output.iter().zip(made) {
            types.insert(name, kind);
        }
    }
    for output in &graph.output {
        let (made, declared) = (types[output.name.as_str()], declared(output));
        if declared != Some(made) {
            return Err(format!("{} is {made}, not {declared:?}", output.name));
        }
    }
    Ok(types)
}

/// The types of states and weight of each RMS norm, as CUDA sees them: ONNX Runtime makes one operator of `Pow`, `ReduceMean`,
/// `Add`, `Sqrt`, `Div` and `Mul`, of a `Cast` before them that no other node takes, and of one before `Mul`.
fn rms_norms<'a>(graph: &'a GraphProto, types: &Types<'_>) -> Vec<(&'a str, [i32; 2])> {
    let by_output: HashMap<&str, &Node> = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(move |name| (name.as_str(), node)))
        .collect();
    let takers = |name: &str| -> Vec<&Node> {
        let takes = |node: &&Node| node.input.iter().any(|input| input == name);
        graph.node.iter().filter(takes).collect()
    };
    let squares = graph.node.iter().filter(|node| node.op_type == "Pow");
    let norms = squares.filter_map(|pow| {
        let mut node = pow;
        for next in ["ReduceMean", "Add", "Sqrt", "Div"] {
            node = takers(&node.output[0])
                .into_iter()
                .find(|taker| taker.op_type == next)?;
        }
        let mut scaled = *takers(&node.output[0]).first()?;
        if scaled.op_type == "Cast" {
            scaled = *takers(&scaled.output[0]).first()?;
        }
        let weight = scaled.input.iter().find(|name| {
            let constant = graph.initializer.iter().find(|one| one.name == **name);
            constant.is_some_and(|constant| constant.dims.len() == 1)
        })?;
        let mut states = pow.input[0].as_str();
        if let Some(cast) = by_output.get(states)
            && cast.op_type == "Cast"
        {
            // Equal casts are one in the end.
            let same = takers(&cast.input[0]).into_iter();
            let same =
                same.filter(|taker| taker.op_type == "Cast" && taker.attribute == cast.attribute);
            if same
                .map(|cast| takers(&cast.output[0]).len())
                .sum::<usize>()
                == 2
            {
                states = &cast.input[0];
            }
        }
        Some((pow.name.as_str(), [types[states], types[weight.as_str()]]))
    });
    norms.collect()
}

/// The types of states and weight for which CUDA has a kernel of `SimplifiedLayerNormalization`, by ONNX Runtime's
/// `docs/OperatorKernels.md` and 1.31's registrations.
const NORMS_OF_CUDA: [[i32; 2]; 5] = [
    [FLOAT, FLOAT],
    [FLOAT16, FLOAT16],
    [FLOAT, FLOAT16],
    [FLOAT16, FLOAT],
    [BFLOAT16, BFLOAT16],
];

#[test]
fn the_types_of_every_architecture_agree_and_cuda_has_its_norms() {
    let (mut wrong, mut norms) = (Vec::new(), 0);
    for case in cases() {
        for float in [FloatType::F32, FloatType::F16, FloatType::Bf16] {
            let form = GraphForm {
                float,
                ..GraphForm::default()
            };
            let (_, BuiltGraph { graph, .. }) = case.built(form);
            let place = format!("{}, {float}", case.name);
            let types = match types(&graph) {
                Ok(types) => types,
                Err(error) => {
                    wrong.push(format!("{place}: {error}"));
                    continue;
                }
            };
            for (name, kinds) in rms_norms(&graph, &types) {
                norms += 1;
                if !NORMS_OF_CUDA.contains(&kinds) {
                    wrong.push(format!("{place}: {name} of {kinds:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(norms > 500, "only {norms} norms");
}

#[test]
fn types_that_do_not_agree_are_found() {
    let case = cases().remove(0);
    let form = GraphForm {
        float: FloatType::Bf16,
        ..GraphForm::default()
    };
    let (_, BuiltGraph { mut graph, .. }) = case.built(form);
    assert!(types(&graph).is_ok());
    let constant = graph
        .initializer
        .iter_mut()
        .find(|one| one.data_type == BFLOAT16);
    constant.unwrap().data_type = FLOAT;
    assert!(types(&graph).unwrap_err().contains("different types"));
}
