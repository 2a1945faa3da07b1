//! The check of the native engine on this processor: the small graph of all providers, computed by the engine's own
//! kernels.

use std::time::Instant;

use crate::engine::Provider;
use crate::provider::{ProviderReport, check_graph as graph};
use embedctl_kernels::{
    Arithmetic, HOW_TO_BUILD_ALL, Isa, Matrix, Norm, Operand, PackedLayout, ProductFinish, linear,
};

/// Computes the small graph in every precision. Takes some milliseconds.
#[must_use]
pub fn check() -> ProviderReport {
    let ran = run();
    let isa = ran.as_ref().ok().map(|(isa, _)| *isa);
    let inside = "all inside this program, on the processor".to_owned();
    ProviderReport {
        device: isa.map(|isa| match Isa::why_slower() {
            Some(reason) => format!("the processor's {isa}: {reason}"),
            None => format!("the processor's {isa}"),
        }),
        ..ProviderReport::of(Provider::Native, ran.map(|(_, millis)| (inside, millis)))
    }
}

/// The processor's instruction sets that this build has no kernels for, where there are any.
#[must_use]
pub fn absent_kernels() -> Option<String> {
    let absent = Isa::absent();
    (!absent.is_empty()).then(|| {
        format!(
            "this build has no kernels for {}, which this processor has, too; {HOW_TO_BUILD_ALL}",
            absent.join(", ")
        )
    })
}

/// The instruction set in use, and the time of the second fp32 run.
fn run() -> Result<(Isa, f64), String> {
    let isa = Isa::here()?;
    for arithmetic in [
        Arithmetic::Int8,
        Arithmetic::Int16,
        Arithmetic::Bf16,
        Arithmetic::Fp32,
    ] {
        graph::check(&compute(isa, arithmetic))
            .map_err(|reason| format!("{arithmetic:?}: {reason}"))?;
    }
    let start = Instant::now();
    compute(isa, Arithmetic::Fp32);
    Ok((isa, start.elapsed().as_secs_f64() * 1e3))
}

fn compute(isa: Isa, arithmetic: Arithmetic) -> Vec<f32> {
    let [w, v, bias] = graph::weights();
    let layout = PackedLayout {
        outputs: graph::WIDTH,
        inputs: graph::WIDTH,
        gated: false,
    };
    // The graph multiplies from the left, `[inputs, outputs]`; kernels take a row an output.
    let packed = |matrix: &[f32], bias: &[f32]| {
        let row = |output: usize, row: &mut [f32]| {
            for (input, weight) in row.iter_mut().enumerate() {
                *weight = matrix[input * graph::WIDTH + output];
            }
        };
        Matrix::pack(isa, arithmetic, layout, row, bias, None)
    };
    let mut sum = graph::input();
    let product = times(
        &packed(&w, &[]),
        &sum,
        vec![0.0; sum.len()],
        ProductFinish::Store,
    );
    sum = times(&packed(&v, &bias), &product, sum, ProductFinish::Add);
    Norm::layer(vec![1.0; graph::WIDTH], Vec::new(), graph::EPSILON as f32).apply(isa, &mut sum);
    sum
}

fn times(matrix: &Matrix, rows: &[f32], mut out: Vec<f32>, finish: ProductFinish) -> Vec<f32> {
    let mut operand = Operand::new();
    linear(
        operand.convert(matrix, rows, graph::WIDTH, graph::ROWS),
        0..graph::ROWS,
        matrix,
        &mut out,
        graph::WIDTH,
        finish,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_and_precision_computes_right() {
        for isa in Isa::all() {
            for arithmetic in [
                Arithmetic::Fp32,
                Arithmetic::Bf16,
                Arithmetic::Int16,
                Arithmetic::Int8,
            ] {
                let result = graph::check(&compute(isa, arithmetic));
                assert_eq!(result, Ok(()), "{isa} {arithmetic:?}");
            }
        }
        let report = check();
        assert!(
            report.works && report.millis.is_some(),
            "{:?}",
            report.reason
        );
    }
}
