//! How an output holds each kind of vectors that a model gives.

use crate::model::{Model, OutputKind};
use crate::output::{AdditionalVectors, OutputOptions, RowNumbers};

fn numbers(kind: &OutputKind) -> RowNumbers {
    match kind {
        OutputKind::Vectors => RowNumbers::Vectors,
        OutputKind::Scores(_) => RowNumbers::Scores,
        OutputKind::Multi(_) => RowNumbers::Multi,
        OutputKind::Sparse(_) => RowNumbers::Sparse,
    }
}

/// `output` with the kinds of the model's vectors.
pub(crate) fn output_of(model: &Model, output: OutputOptions) -> OutputOptions {
    let beside = model.config.beside.iter().map(|config| AdditionalVectors {
        numbers: numbers(&config.kind),
        width: config.width,
    });
    OutputOptions {
        numbers: numbers(&model.config.kind),
        beside: beside.collect(),
        ..output
    }
}
