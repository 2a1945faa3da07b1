//! A parsed graph, and plans made from it.

use std::path::Path;
use std::sync::Arc;

use half::f16;
use tract_onnx::prelude::{
    DatumType, Framework, InferenceFact, InferenceModel, InferenceModelExt, IntoRunnable,
    IntoTValue, TDim, TValue, TVec, Tensor, ToDim, TractResult, TypedModel, TypedRunnableModel,
    tvec,
};
use tract_onnx::tract_core::optim::Optimizer;
use tract_onnx::tract_hir::internal::{anyhow, bail};

use super::external;
use super::fold::fold;
use super::shapes::Shape;
use crate::batch::Batch;
use crate::engine::feeds::{Feed, Feeds, PastDim, PastElement, TokenInt, Tokens, Width};

/// A plan. It holds no state: threads share it.
pub(super) type Runnable = Arc<TypedRunnableModel>;

/// A pass of tract's that is left out. It computes masks from positions, and where all operands of such a
/// mask broadcast along the length, the result has the length 2 (tract 0.23.9, `split_op_regions`):
/// causal models fail then at every other length, and are wrong at that one.
const UNSOUND: &str = "FoldUniformMask";

/// Which dimensions of a plan are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// So many rows, any length.
    AnyLength { rows: usize },
    /// Both fixed.
    Fixed(Shape),
}

/// A parsed graph whose weights are unfolded, and what it is fed with.
pub(super) struct Source {
    model: InferenceModel,
    pub feeds: Feeds,
}

impl Source {
    /// Reads an ONNX file.
    pub fn read(path: &Path, feeds: Feeds) -> TractResult<Self> {
        let onnx = tract_onnx::onnx()
            // Shapes stored with symbols of other names clash with those that plans are made for.
            .with_ignore_output_shapes(true)
            .with_ignore_value_info(true);
        let mut proto = onnx.proto_model_for_path(path)?;
        let folder = external::resolve(&mut proto, path.parent().unwrap_or(path))?;
        let parsed = onnx.parse(&proto, Some(&folder))?;
        drop(proto);
        if !parsed.unresolved_inputs.is_empty() {
            bail!("inputs that nothing gives: {:?}", parsed.unresolved_inputs);
        }
        let mut model = parsed.model;
        model.select_outputs_by_name([feeds.output.name()])?;
        fold(&mut model)?;
        // Else tract cannot prove that additions are long enough for its vector kernels (7 % slower).
        model.symbols.add_assertion("length >= 1")?;
        Ok(Self { model, feeds })
    }

    /// Makes a plan.
    pub fn plan(&self, kind: Kind) -> TractResult<Runnable> {
        let (rows, length) = match kind {
            Kind::AnyLength { rows } => (rows.to_dim(), self.model.symbols.sym("length").into()),
            Kind::Fixed(shape) => (shape.rows.to_dim(), shape.length.to_dim()),
        };
        let mut model = self.model.clone();
        for index in 0..model.inputs.len() {
            let name = model.node(model.inputs[index].node).name.as_str();
            let tokens: &[TDim] = &[rows.clone(), length.clone()];
            let fact = match self.feed(name)? {
                Feed::Tokens(_, Width::I64) => InferenceFact::dt_shape(DatumType::I64, tokens),
                Feed::Tokens(_, Width::I32) => InferenceFact::dt_shape(DatumType::I32, tokens),
                Feed::NoCache => InferenceFact::dt_shape(DatumType::Bool, [1]),
                Feed::Past(dims, element) => {
                    let dims: TVec<TDim> = dims
                        .iter()
                        .map(|dim| match dim {
                            PastDim::Rows => rows.clone(),
                            other => other.size(0).to_dim(),
                        })
                        .collect();
                    InferenceFact::dt_shape(past_type(*element), dims)
                }
            };
            model.set_input_fact(index, fact)?;
        }
        let mut model = model.into_typed()?;
        declutter(&mut model)?;
        model.optimize()?;
        model.into_runnable()
    }

    /// Runs a plan on a batch of its shape; returns the output and the width of a token's or row's vector.
    pub fn run(&self, plan: &Runnable, batch: &Batch) -> TractResult<(TValue, usize)> {
        let output = plan
            .run(self.inputs(batch)?)?
            .into_iter()
            .next()
            .ok_or_else(|| anyhow!("the graph gave no output"))?;
        let width = self
            .feeds
            .width(output.shape(), batch)
            .map_err(|reason| anyhow!(reason))?;
        Ok((output, width))
    }

    fn inputs(&self, batch: &Batch) -> TractResult<TVec<TValue>> {
        let mut values = tvec![];
        for outlet in &self.model.inputs {
            let tensor = match self.feed(&self.model.node(outlet.node).name)? {
                Feed::Tokens(tokens, Width::I64) => tensor::<i64>(*tokens, batch)?,
                Feed::Tokens(tokens, Width::I32) => tensor::<i32>(*tokens, batch)?,
                Feed::NoCache => Tensor::from_shape(&[1], &[false])?,
                Feed::Past(dims, element) => {
                    let shape: TVec<usize> = dims.iter().map(|dim| dim.size(batch.rows)).collect();
                    Tensor::zero_dt(past_type(*element), &shape)?
                }
            };
            values.push(tensor.into_tvalue());
        }
        Ok(values)
    }

    fn feed(&self, name: &str) -> TractResult<&Feed> {
        let input = self.feeds.inputs.iter().find(|input| input.name == name);
        Ok(&input
            .ok_or_else(|| {
                anyhow!("the graph has an input '{name}' that its header does not list")
            })?
            .feed)
    }
}

/// Appends the first `kept` elements of each of the first `rows` rows of `stride` elements to `out`.
pub(super) fn copy_rows(
    output: &Tensor,
    rows: usize,
    stride: usize,
    kept: usize,
    out: &mut Vec<f32>,
) -> TractResult<()> {
    let values = output.try_as_plain_ram()?;
    match output.datum_type() {
        DatumType::F32 => {
            for row in values.as_slice::<f32>()?.chunks_exact(stride).take(rows) {
                out.extend_from_slice(&row[..kept]);
            }
        }
        DatumType::F16 => {
            for row in values.as_slice::<f16>()?.chunks_exact(stride).take(rows) {
                out.extend(row[..kept].iter().map(|value| value.to_f32()));
            }
        }
        other => bail!("the graph's output holds {other:?}"),
    }
    Ok(())
}

/// tract's own simplification, less one pass: [`UNSOUND`].
fn declutter(model: &mut TypedModel) -> TractResult<()> {
    let mut optimizer = Optimizer::declutter();
    optimizer
        .passes
        .retain(|pass| !format!("{pass:?}").starts_with(UNSOUND));
    optimizer.session().optimize(model)
}

fn past_type(element: PastElement) -> DatumType {
    match element {
        PastElement::F32 => DatumType::F32,
        PastElement::F16 => DatumType::F16,
    }
}

fn tensor<T>(tokens: Tokens, batch: &Batch) -> TractResult<Tensor>
where
    T: TokenInt + tract_onnx::prelude::Datum,
{
    let mut values: Vec<T> = Vec::with_capacity(batch.rows * batch.length);
    tokens.fill(batch, &mut values);
    Tensor::from_shape(&[batch.rows, batch.length], &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pass_that_is_left_out_is_there() {
        // If it has gone with a new version, see whether leaving it out is still needed.
        let passes = Optimizer::declutter().passes;
        assert!(
            passes
                .iter()
                .any(|pass| format!("{pass:?}").starts_with(UNSOUND))
        );
    }
}
