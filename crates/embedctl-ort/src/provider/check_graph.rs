//! The small graph that a provider must compute right; its result is known.
//!
//! `LayerNormalization(Gemm(MatMul(x, W), V, b) + x)`: a transformer's main operators, at a size that providers for
//! devices accept.

use prost::Message as _;

use embedctl_onnx::{FLOAT, GraphProto, ModelProto, Node, OperatorSet, Tensor, float_value};

/// Name of the input, `[ROWS, WIDTH]` in f32.
pub(crate) const INPUT: &str = "x";
/// Name of the output, of the same shape.
pub(crate) const OUTPUT: &str = "y";
/// Rows of the input.
pub const ROWS: usize = 32;
/// TokenWidth of a row.
pub const WIDTH: usize = 64;

/// How far a result may be off. Rows are normalized, so values are about 1: half precision, which some
/// devices compute in, stays below; anything else that is wrong does not.
const TOLERANCE: f32 = 0.05;

/// LayerNormalization's epsilon, added to the variance.
pub const EPSILON: f64 = 1e-5;

/// The ONNX file.
#[must_use]
pub fn model() -> Vec<u8> {
    let node = |operator: &str, inputs: &[&str], output: &str| Node {
        op_type: operator.into(),
        name: format!("probe_{output}"),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        ..Node::default()
    };
    let matrix = [WIDTH as i64, WIDTH as i64];
    let vector = [WIDTH as i64];
    let graph = GraphProto {
        name: "probe".into(),
        node: vec![
            node("MatMul", &[INPUT, "W"], "product"),
            node("Gemm", &["product", "V", "b"], "dense"),
            node("Add", &["dense", INPUT], "sum"),
            node("LayerNormalization", &["sum", "scale", "shift"], OUTPUT),
        ],
        initializer: vec![
            tensor("W", &matrix, Seed::W.values()),
            tensor("V", &matrix, Seed::V.values()),
            tensor("b", &vector, Seed::Bias.values()),
            tensor("scale", &vector, vec![1.0; WIDTH]),
            tensor("shift", &vector, vec![0.0; WIDTH]),
        ],
        input: vec![float_value(INPUT, &[Some(ROWS), Some(WIDTH)])],
        output: vec![float_value(OUTPUT, &[Some(ROWS), Some(WIDTH)])],
    };
    ModelProto {
        ir_version: 8,
        opset_import: vec![OperatorSet {
            domain: String::new(),
            version: 17, // the first with LayerNormalization
        }],
        graph: Some(graph),
        ..ModelProto::default()
    }
    .encode_to_vec()
}

/// The input: `[ROWS, WIDTH]`, row-major.
#[must_use]
pub fn input() -> Vec<f32> {
    Seed::Input.values()
}

/// The two matrices, `[WIDTH, WIDTH]` with a row an input, and the bias.
pub fn weights() -> [Vec<f32>; 3] {
    [Seed::W, Seed::V, Seed::Bias].map(Seed::values)
}

/// The expected output, computed in f64.
pub(crate) fn answer() -> Vec<f32> {
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
    let (x, w, v, b) = (
        wide(input()),
        wide(Seed::W.values()),
        wide(Seed::V.values()),
        wide(Seed::Bias.values()),
    );
    let times = |row: &[f64], matrix: &[f64]| -> Vec<f64> {
        (0..WIDTH)
            .map(|column| {
                let products = row.iter().enumerate();
                products
                    .map(|(index, value)| value * matrix[index * WIDTH + column])
                    .sum()
            })
            .collect()
    };
    x.chunks_exact(WIDTH)
        .flat_map(|row| {
            let sum: Vec<f64> = times(&times(row, &w), &v)
                .iter()
                .zip(&b)
                .zip(row)
                .map(|((dense, bias), x)| dense + bias + x)
                .collect();
            let mean = sum.iter().sum::<f64>() / WIDTH as f64;
            let variance = sum.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            let deviation = (variance + EPSILON).sqrt();
            sum.into_iter()
                .map(move |one| ((one - mean) / deviation) as f32)
        })
        .collect()
}

/// Whether `output` is [`answer`], and how far it is off where it isn't.
///
/// # Errors
/// A sentence that says how far it is off.
pub fn check(output: &[f32]) -> Result<(), String> {
    let answer = answer();
    if output.len() != answer.len() {
        return Err(format!(
            "a small graph gave {} values where {} were expected",
            output.len(),
            answer.len()
        ));
    }
    let apart = output
        .iter()
        .zip(&answer)
        .map(|(got, right)| (got - right).abs())
        // In this order NaN is the farthest off.
        .max_by(f32::total_cmp)
        .unwrap_or(f32::NAN);
    if apart <= TOLERANCE {
        Ok(())
    } else {
        Err(format!(
            "it computes wrongly: a small graph's result is off by {apart:.2}"
        ))
    }
}

/// The values of a tensor: small, of both signs, the same everywhere.
#[derive(Clone, Copy)]
enum Seed {
    Input = 1,
    W = 2,
    V = 3,
    Bias = 4,
}

impl Seed {
    fn values(self) -> Vec<f32> {
        let (count, scale) = match self {
            Self::Input => (ROWS * WIDTH, 1.0),
            // Products of a row stay about as large as the row.
            Self::W | Self::V => (WIDTH * WIDTH, 0.2),
            Self::Bias => (WIDTH, 0.5),
        };
        let mut state = 0x9E37_79B9_u32.wrapping_mul(self as u32);
        (0..count)
            .map(|_| {
                // A linear congruential generator (Numerical Recipes); its high bits are good enough.
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
            })
            .collect()
    }
}

fn tensor(name: &str, dims: &[i64], values: Vec<f32>) -> Tensor {
    Tensor {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: FLOAT,
        raw_data: values.into_iter().flat_map(f32::to_le_bytes).collect(),
        ..Tensor::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_differ_and_are_normalized() {
        let answer = answer();
        let (first, second) = answer.split_at(WIDTH);
        assert!(
            first
                .iter()
                .zip(second)
                .any(|(a, b)| (a - b).abs() > 10.0 * TOLERANCE)
        );
        let square: f32 = first.iter().map(|one| one * one).sum();
        assert!((square / WIDTH as f32 - 1.0).abs() < 1e-3, "{square}");
    }

    #[test]
    fn wrong_results_are_told_from_inexact_ones() {
        let mut output = answer();
        output.iter_mut().for_each(|one| *one += 0.01);
        assert_eq!(check(&output), Ok(()));
        output[5] += 0.5;
        assert!(check(&output).unwrap_err().contains("0.51"));
        output[5] = f32::NAN;
        assert!(check(&output).unwrap_err().contains("NaN"));
        assert!(check(&[]).is_err());
        assert!(check(&vec![0.0; ROWS * WIDTH]).is_err());
    }

    #[test]
    fn damaged_graphs_are_read_or_refused() {
        embedctl_testing::mutation::each("model.onnx", &model(), 300, |path| {
            embedctl_testing::assert_no_bug(embedctl_model::Graph::read(path));
        });
    }
}
