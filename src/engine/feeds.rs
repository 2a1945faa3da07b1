//! What a graph is fed with, and which of its outputs is read: decided once, by name and type.
//!
//! Both engines work from the same [`Feeds`], so that they cannot come to different conclusions about a
//! model. Nothing is guessed: an input whose meaning is not known here is an error that names it.

use super::Output;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::model::{ElementType, Graph, Model, OutputChoice, Positions, Value};

/// Names that are understood, as they are listed to people.
const SUPPORTED: &str = "input_ids, attention_mask, token_type_ids, position_ids, \
     past_key_values.*, use_cache_branch";

/// One declared input of the graph and what it is fed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    /// Name in the graph.
    pub name: String,
    /// What to feed.
    pub feed: Feed,
}

/// What an input is fed with, in the element type that the graph declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Integers of shape `[rows, length]`; [`Tokens::fill`] makes them.
    Tokens(Tokens, Width),
    /// An empty key or value cache: a tensor without elements.
    Past(Vec<PastDim>, PastElement),
    /// The boolean `[1]` that chooses a decoder's branch: false, no cache.
    NoCache,
}

/// Integers with one element a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// `input_ids`.
    Ids,
    /// `attention_mask`.
    Mask,
    /// `token_type_ids`: the segments of the tokenizer's template.
    Types,
    /// `position_ids`, made as the architecture counts.
    Positions(Positions),
}

/// Integer types that graphs declare for tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// int32.
    I32,
    /// int64.
    I64,
}

/// Element types of an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastElement {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
}

/// A dimension of an empty cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastDim {
    /// As many as the batch has rows.
    Rows,
    /// The number of tokens in the cache: 0.
    Tokens,
    /// What the graph says.
    Fixed(usize),
}

/// An integer type that token ids are fed in.
pub(crate) trait TokenInt: Copy {
    /// Converts a token id, a mask bit or a position; all are small.
    fn from_token(value: i64) -> Self;
}

impl TokenInt for i64 {
    fn from_token(value: i64) -> Self {
        value
    }
}

impl TokenInt for i32 {
    #[allow(clippy::cast_possible_truncation)] // ids and positions are far below 2^31
    fn from_token(value: i64) -> Self {
        value as Self
    }
}

impl Tokens {
    /// Replaces `out` with this input's elements for `batch`, row-major `[rows, length]`.
    pub(crate) fn fill<T: TokenInt>(self, batch: &Batch, out: &mut Vec<T>) {
        out.clear();
        match self {
            Self::Ids => out.extend(batch.input_ids.iter().map(|&id| T::from_token(id))),
            Self::Mask => out.extend(batch.attention_mask.iter().map(|&bit| T::from_token(bit))),
            Self::Types => {
                out.extend(batch.token_types.iter().map(|&kind| T::from_token(kind)));
                out.resize(batch.rows * batch.length, T::from_token(0));
            }
            Self::Positions(positions) => {
                for row in 0..batch.rows {
                    let ids = &batch.input_ids[row * batch.length..(row + 1) * batch.length];
                    let counted = |index: usize| match positions {
                        Positions::FromZero => batch.mask(row)[index] != 0,
                        Positions::AfterPadding(id) => ids[index] != i64::from(id),
                    };
                    let (mut next, skipped) = match positions {
                        Positions::FromZero => (0, 0),
                        Positions::AfterPadding(id) => (i64::from(id) + 1, i64::from(id)),
                    };
                    out.extend((0..batch.length).map(|index| {
                        if !counted(index) {
                            return T::from_token(skipped);
                        }
                        next += 1;
                        T::from_token(next - 1)
                    }));
                }
            }
        }
    }
}

impl PastDim {
    /// The dimension's size for a batch of `rows`.
    pub(crate) fn size(self, rows: usize) -> usize {
        match self {
            Self::Rows => rows,
            Self::Tokens => 0,
            Self::Fixed(size) => size,
        }
    }
}

/// All inputs of a graph and the output that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feeds {
    /// Declared inputs, in the graph's order.
    pub inputs: Vec<Input>,
    /// The output that is read.
    pub output: OutputChoice,
    /// Its element type.
    pub element: ElementType,
    /// Rows of a batch at most, where the graph itself fixes them (to 1).
    pub max_rows: Option<usize>,
}

impl Feeds {
    /// Decides for an opened model.
    ///
    /// # Errors
    /// See [`Feeds::new`].
    pub(crate) fn of(model: &Model) -> Result<Self> {
        model
            .onnx
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|onnx| Self::new(&onnx.graph, model.config.positions, &model.config.output))
            .map_err(|reason| Error::model(&model.id, reason))
    }

    /// Decides for a graph.
    ///
    /// # Errors
    /// If an input's name, type or shape is not understood, there are no token ids among the inputs, or
    /// the output is missing or not of floats.
    pub(crate) fn new(
        graph: &Graph,
        positions: Positions,
        output: &OutputChoice,
    ) -> Result<Self, String> {
        let inputs: Vec<Input> = graph
            .inputs
            .iter()
            .map(|value| {
                Ok(Input {
                    name: value.name.clone(),
                    feed: feed(value, positions)?,
                })
            })
            .collect::<Result<_, String>>()?;
        if !inputs
            .iter()
            .any(|input| matches!(input.feed, Feed::Tokens(Tokens::Ids, _)))
        {
            return Err(
                "the graph takes no input_ids, so it does not embed text; --model-file names another one"
                    .into(),
            );
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
                "the graph's output '{}' holds {}, and only floats are supported; \
                 --model-file names another one",
                declared.name,
                name(declared.element)
            ));
        }
        Ok(Self {
            inputs,
            output: output.clone(),
            element: declared.element,
            max_rows,
        })
    }

    /// Checks the shape that came out for a batch and returns the width of a token's or row's vector.
    ///
    /// # Errors
    /// A sentence that names both shapes, if the output does not belong to the batch.
    pub(crate) fn width(&self, shape: &[usize], batch: &Batch) -> Result<usize, String> {
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
    pub(crate) fn wrap<'a>(&self, elements: &'a [f32], width: usize) -> Output<'a> {
        match self.output {
            OutputChoice::Tokens(_) => Output::Hidden(super::Hidden {
                states: elements,
                width,
            }),
            OutputChoice::Sentence(_) => Output::Pooled {
                rows: elements,
                width,
            },
        }
    }
}

fn feed(value: &Value, positions: Positions) -> Result<Feed, String> {
    let tokens = match value.name.as_str() {
        "input_ids" => Tokens::Ids,
        "attention_mask" => Tokens::Mask,
        "token_type_ids" => Tokens::Types,
        "position_ids" => Tokens::Positions(positions),
        "use_cache_branch" => {
            return match value.element {
                ElementType::Bool => Ok(Feed::NoCache),
                other => Err(mistyped(value, other, "bool")),
            };
        }
        name if name.starts_with("past_key_values") => return past(value),
        unknown => {
            return Err(format!(
                "the graph asks for an input '{unknown}', and embedctl knows only {SUPPORTED}; \
                 --model-file names another export of the model"
            ));
        }
    };
    let width = match value.element {
        ElementType::I64 => Width::I64,
        ElementType::I32 => Width::I32,
        other => return Err(mistyped(value, other, "int64 or int32")),
    };
    match value.shape.as_slice() {
        // No shape at all, or both dimensions free; a graph for single rows is fed single rows.
        [] | [None | Some(1), None] => Ok(Feed::Tokens(tokens, width)),
        shape => Err(format!(
            "the graph's input '{}' has the fixed shape {}, and texts differ in length; \
             export the model with dynamic axes, or name another file with --model-file",
            value.name,
            spell(shape)
        )),
    }
}

fn past(value: &Value) -> Result<Feed, String> {
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
    Ok(Feed::Past(dims, element))
}

fn mistyped(value: &Value, found: ElementType, wanted: &str) -> String {
    format!(
        "the graph's input '{}' is declared as {}, and only {wanted} is supported",
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROBERTA: Positions = Positions::AfterPadding(1);

    fn value(name: &str, element: ElementType, shape: &[Option<usize>]) -> Value {
        Value {
            name: name.into(),
            element,
            shape: shape.to_vec(),
        }
    }

    fn graph(inputs: Vec<Value>) -> Graph {
        Graph {
            inputs,
            outputs: vec![value(
                "last_hidden_state",
                ElementType::F32,
                &[None, None, Some(384)],
            )],
            ..Graph::default()
        }
    }

    fn tokens() -> OutputChoice {
        OutputChoice::Tokens("last_hidden_state".into())
    }

    fn ids() -> Value {
        value("input_ids", ElementType::I64, &[None, None])
    }

    /// Two rows of length 4, the first padded on the left, the second on the right.
    fn batch() -> Batch {
        Batch {
            rows: 2,
            length: 4,
            input_ids: vec![9, 9, 5, 6, 7, 8, 5, 9],
            attention_mask: vec![0, 0, 1, 1, 1, 1, 1, 0],
            token_types: Vec::new(),
        }
    }

    #[test]
    fn each_input_gets_its_declared_type() {
        let feeds = Feeds::new(
            &graph(vec![
                value("input_ids", ElementType::I32, &[None, None]),
                value("attention_mask", ElementType::I64, &[None, None]),
                value("use_cache_branch", ElementType::Bool, &[Some(1)]),
            ]),
            ROBERTA,
            &tokens(),
        )
        .unwrap();
        assert_eq!(feeds.inputs[0].feed, Feed::Tokens(Tokens::Ids, Width::I32));
        assert_eq!(feeds.inputs[1].feed, Feed::Tokens(Tokens::Mask, Width::I64));
        assert_eq!(feeds.inputs[2].feed, Feed::NoCache);
        assert_eq!(feeds.max_rows, None);
    }

    #[test]
    fn positions_are_counted_as_the_architecture_does() {
        let mut out: Vec<i64> = Vec::new();
        Tokens::Positions(Positions::FromZero).fill(&batch(), &mut out);
        assert_eq!(out, [0, 0, 0, 1, 0, 1, 2, 0]);
        // A padding token that a text spells out has its own id as position and is not counted.
        Tokens::Positions(Positions::AfterPadding(9)).fill(&batch(), &mut out);
        assert_eq!(out, [9, 9, 10, 11, 10, 11, 12, 9]);
    }

    #[test]
    fn ids_mask_and_types_follow_the_batch_and_reuse_the_buffer() {
        let mut out: Vec<i32> = vec![7; 100];
        Tokens::Ids.fill(&batch(), &mut out);
        assert_eq!(out, [9, 9, 5, 6, 7, 8, 5, 9]);
        Tokens::Mask.fill(&batch(), &mut out);
        assert_eq!(out, [0, 0, 1, 1, 1, 1, 1, 0]);
        Tokens::Types.fill(&batch(), &mut out);
        assert_eq!(out, [0; 8]);
    }

    #[test]
    fn a_cache_is_empty_in_its_token_dimension() {
        let past = value(
            "past_key_values.0.key",
            ElementType::F16,
            &[None, Some(8), None, Some(64)],
        );
        let feeds = Feeds::new(&graph(vec![ids(), past]), ROBERTA, &tokens()).unwrap();
        let Feed::Past(dims, PastElement::F16) = &feeds.inputs[1].feed else {
            panic!("not a cache: {:?}", feeds.inputs[1]);
        };
        let sizes: Vec<usize> = dims.iter().map(|dim| dim.size(3)).collect();
        assert_eq!(sizes, [3, 8, 0, 64]);
    }

    #[test]
    fn a_cache_with_two_free_dimensions_is_refused() {
        let past = value(
            "past_key_values.0.key",
            ElementType::F32,
            &[None, None, None, Some(64)],
        );
        let reason = Feeds::new(&graph(vec![ids(), past]), ROBERTA, &tokens()).unwrap_err();
        assert!(reason.contains("[?, ?, ?, 64]"), "{reason}");
    }

    #[test]
    fn unknown_inputs_are_named_and_the_known_listed() {
        let unknown = value("pixel_values", ElementType::F32, &[None]);
        let reason = Feeds::new(&graph(vec![ids(), unknown]), ROBERTA, &tokens()).unwrap_err();
        assert!(reason.contains("'pixel_values'"), "{reason}");
        assert!(reason.contains("token_type_ids"), "{reason}");
    }

    #[test]
    fn wrong_types_and_fixed_lengths_are_refused() {
        let float = value("attention_mask", ElementType::F32, &[None, None]);
        let reason = Feeds::new(&graph(vec![ids(), float]), ROBERTA, &tokens()).unwrap_err();
        assert!(
            reason.contains("attention_mask") && reason.contains("float32"),
            "{reason}"
        );
        let fixed = value("input_ids", ElementType::I64, &[None, Some(128)]);
        let reason = Feeds::new(&graph(vec![fixed]), ROBERTA, &tokens()).unwrap_err();
        assert!(reason.contains("[?, 128]"), "{reason}");
    }

    #[test]
    fn a_graph_for_single_rows_limits_the_batch() {
        let single = value("input_ids", ElementType::I64, &[Some(1), None]);
        let feeds = Feeds::new(&graph(vec![single]), ROBERTA, &tokens()).unwrap();
        assert_eq!(feeds.max_rows, Some(1));
    }

    #[test]
    fn a_graph_without_token_ids_or_with_another_output_is_refused() {
        let mask = value("attention_mask", ElementType::I64, &[None, None]);
        let reason = Feeds::new(&graph(vec![mask]), ROBERTA, &tokens()).unwrap_err();
        assert!(reason.contains("input_ids"), "{reason}");
        let missing = OutputChoice::Tokens("logits".into());
        let reason = Feeds::new(&graph(vec![ids()]), ROBERTA, &missing).unwrap_err();
        assert!(
            reason.contains("'logits'") && reason.contains("last_hidden_state"),
            "{reason}"
        );
    }

    #[test]
    fn output_shapes_are_checked_against_the_batch() {
        let feeds = Feeds::new(&graph(vec![ids()]), ROBERTA, &tokens()).unwrap();
        assert_eq!(feeds.width(&[2, 4, 384], &batch()), Ok(384));
        for wrong in [&[2, 384][..], &[2, 5, 384], &[3, 4, 384], &[2, 4, 0]] {
            let reason = feeds.width(wrong, &batch()).unwrap_err();
            assert!(reason.contains("[2, 4, width]"), "{reason}");
        }
    }
}
