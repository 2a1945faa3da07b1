//! The contents of a graph's inputs and the output to read: decided once, by name and type.
//!
//! Both engines work from the same [`Feeds`], so that they cannot come to different conclusions about a model. Nothing
//! is guessed: an unknown input is an error that names it.

mod input;
#[cfg(test)]
#[path = "feeds_tests.rs"]
mod tests;

pub use self::input::{GraphInput, InputFeed, PastDim, PastElement, TokenWidth, Tokens};

use crate::padded::PaddedBatch;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::MODEL_FILE;
use embedctl_engine::Output;
use embedctl_model::{ElementType, Graph, Model, Value};
use embedctl_rows::{OutputChoice, PositionIds};

/// Supported input names, as messages list them.
const SUPPORTED: &str = "input_ids, attention_mask, token_type_ids, position_ids, \
     past_key_values.*, use_cache_branch";

/// The remedy for a graph that cannot be fed.
fn another_file() -> String {
    format!(
        "name another ONNX file of the model with {MODEL_FILE}, or export it anew with dynamic axes"
    )
}

/// All inputs of a graph and the output that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feeds {
    /// Declared inputs, in the graph's order.
    pub inputs: Vec<GraphInput>,
    /// The output that is read.
    pub output: OutputChoice,
    /// Its element type.
    pub element: ElementType,
    /// The id that rows are padded with.
    pub padding_id: u32,
    /// Rows of a batch at most, where the graph itself fixes them (to 1).
    pub max_rows: Option<usize>,
    /// Token ids from this number on have no vector; `None`: the graph does not show it.
    pub token_rows: Option<usize>,
}

impl Feeds {
    /// Decides for an opened model and the graph that runs it, whose output `output` is read.
    ///
    /// # Errors
    /// If the graph has an input that is not known, or not the output.
    pub fn of(model: &Model, graph: &Graph, output: &OutputChoice) -> Result<Self> {
        let feeds = Self::new(graph, model.config.positions, output)
            .map_err(|reason| Error::model(&model.id, reason).with_remedy(another_file()))?;
        Ok(Self {
            padding_id: model.config.padding_id,
            ..feeds
        })
    }

    /// Decides for a graph.
    ///
    /// # Errors
    /// If an input's name, type or shape is not understood, there are no token ids among the inputs, or
    /// the output is missing or not of floats.
    pub fn new(
        graph: &Graph,
        positions: PositionIds,
        output: &OutputChoice,
    ) -> Result<Self, String> {
        let inputs: Vec<GraphInput> = graph
            .inputs
            .iter()
            .map(|value| {
                Ok(GraphInput {
                    name: value.name.clone(),
                    feed: feed(value, positions)?,
                })
            })
            .collect::<Result<_, String>>()?;
        if !inputs
            .iter()
            .any(|input| matches!(input.feed, InputFeed::Tokens(Tokens::Ids, _)))
        {
            return Err("the graph takes no input_ids, so it does not embed text".into());
        }
        let max_rows = graph
            .inputs
            .iter()
            .any(|value| value.shape.first() == Some(&Some(1)) && value.name != "use_cache_branch")
            .then_some(1);
        let declared = graph.output(output.name()).ok_or_else(|| {
            let names: Vec<&str> = graph.outputs.iter().map(|one| one.name.as_str()).collect();
            format!(
                "the graph has no output '{}', only {}",
                output.name(),
                names.join(", ")
            )
        })?;
        if !matches!(
            declared.element,
            ElementType::F32 | ElementType::F16 | ElementType::Bf16 | ElementType::F64
        ) {
            return Err(format!(
                "the graph's output '{}' holds {}, but only floats are supported",
                declared.name,
                name(declared.element)
            ));
        }
        Ok(Self {
            inputs,
            output: output.clone(),
            element: declared.element,
            padding_id: 0,
            max_rows,
            token_rows: graph.token_rows,
        })
    }

    /// Checks the shape that came out for a batch and returns the width of a token's or row's vector.
    ///
    /// # Errors
    /// A sentence that names both shapes, if the output does not belong to the batch.
    pub fn width(&self, shape: &[usize], batch: &PaddedBatch) -> Result<usize, String> {
        let (expected, width) = match (&self.output, shape) {
            (OutputChoice::Tokens(_), &[rows, length, width]) => {
                (rows == batch.rows && length == batch.length, width)
            }
            (OutputChoice::Sentence(_), &[rows, width]) => (rows == batch.rows, width),
            _ => (false, 0),
        };
        if expected && width > 0 {
            return Ok(width);
        }
        let wanted = match self.output {
            OutputChoice::Tokens(_) => format!("[{}, {}, width]", batch.rows, batch.length),
            OutputChoice::Sentence(_) => format!("[{}, width]", batch.rows),
        };
        Err(format!(
            "the output '{}' came out with the shape {shape:?} where {wanted} was expected",
            self.output.name()
        ))
    }

    /// Wraps the output's elements.
    #[must_use]
    pub fn wrap<'a>(&self, elements: &'a [f32], batch: &PaddedBatch, width: usize) -> Output<'a> {
        match self.output {
            OutputChoice::Tokens(_) => Output::Padded {
                states: elements,
                length: batch.length,
                width,
            },
            OutputChoice::Sentence(_) => Output::Pooled {
                rows: elements,
                width,
            },
        }
    }
}

fn feed(value: &Value, positions: PositionIds) -> Result<InputFeed, String> {
    let tokens = match value.name.as_str() {
        "input_ids" => Tokens::Ids,
        "attention_mask" => Tokens::Mask,
        "token_type_ids" => Tokens::Types,
        "position_ids" => Tokens::PositionIds(positions),
        "use_cache_branch" => {
            return match value.element {
                ElementType::Bool => Ok(InputFeed::NoCache),
                other => Err(mistyped(value, other, "bool")),
            };
        }
        name if name.starts_with("past_key_values") => return past(value),
        unknown => {
            return Err(format!(
                "the graph asks for an input '{unknown}', but embedctl knows only {SUPPORTED}"
            ));
        }
    };
    let width = match value.element {
        ElementType::I64 => TokenWidth::I64,
        ElementType::I32 => TokenWidth::I32,
        other => return Err(mistyped(value, other, "int64 or int32")),
    };
    match value.shape.as_slice() {
        // No shape at all, or both dimensions free; a graph for single rows is fed single rows.
        [] | [None | Some(1), None] => Ok(InputFeed::Tokens(tokens, width)),
        shape => Err(format!(
            "the graph's input '{}' has the fixed shape {}, but texts differ in length",
            value.name,
            spell(shape)
        )),
    }
}

fn past(value: &Value) -> Result<InputFeed, String> {
    let element = match value.element {
        ElementType::F32 => PastElement::F32,
        ElementType::F16 => PastElement::F16,
        other => return Err(mistyped(value, other, "float32 or float16")),
    };
    // [rows, heads, cached tokens, width of a head]: the second free dimension counts cached tokens.
    let dims: Vec<PastDim> = value
        .shape
        .iter()
        .enumerate()
        .map(|(axis, size)| match size {
            Some(size) => PastDim::Fixed(*size),
            None if axis == 0 => PastDim::Rows,
            None => PastDim::Tokens,
        })
        .collect();
    let free = dims.iter().filter(|&&dim| dim == PastDim::Tokens).count();
    if free != 1 {
        return Err(format!(
            "the graph's input '{}' has the shape {}, where exactly one dimension after the first \
             should be free for the cached tokens",
            value.name,
            spell(&value.shape)
        ));
    }
    Ok(InputFeed::Past(dims, element))
}

fn mistyped(value: &Value, found: ElementType, wanted: &str) -> String {
    format!(
        "the graph's input '{}' is declared as {}, but only {wanted} is supported",
        value.name,
        name(found)
    )
}

fn name(element: ElementType) -> String {
    match element {
        ElementType::F32 => "float32".into(),
        ElementType::F16 => "float16".into(),
        ElementType::Bf16 => "bfloat16".into(),
        ElementType::F64 => "float64".into(),
        ElementType::I32 => "int32".into(),
        ElementType::I64 => "int64".into(),
        ElementType::Bool => "bool".into(),
        ElementType::Other(number) => format!("ONNX element type {number}"),
    }
}

fn spell(shape: &[Option<usize>]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|dim| dim.map_or_else(|| "?".into(), |size| size.to_string()))
        .collect();
    format!("[{}]", dims.join(", "))
}
