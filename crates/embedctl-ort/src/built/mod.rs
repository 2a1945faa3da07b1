//! ONNX graphs written from a network's description, for checkpoints that have no ONNX file.
//!
//! ```text
//!  Architecture ──► network: embeddings ─► layers (norm, attention, feed-forward) ─► states
//!  (embedctl-native)   one builder for each idea, by the description alone
//!                                     │
//!                  writer: nodes and small tensors │ weights: declared, read from the checkpoint when a
//!                                     ▼            ▼ session is made, one at a time
//!                                   ModelProto ── external initializers in memory, or a file beside it
//! ```
//!
//! Operators are standard ones of operator set 18. Rows are padded on the right: padding has no part in attention, and
//! causal attention does not reach it.

mod attention;
mod convolution;
mod elements;
mod embeddings;
mod experts;
mod export;
mod feed_forward;
mod latent;
mod narrow;
mod network;
mod norm;
mod pooling;
mod relative;
mod rotary;
mod shared;
mod terms;
mod weights;
mod writer;

#[cfg(test)]
#[path = "built_tests.rs"]
pub(crate) mod tests;
#[cfg(test)]
mod types_tests;

use embedctl_kernels::TermPooling;
use embedctl_native::PlainNetwork;
use embedctl_onnx::{GraphProto, ModelProto, OperatorSet, StringEntry};
use prost::Message as _;

use self::writer::GraphWriter;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::PRECISION;
use embedctl_engine::{Provider, ResolvedEngine};
use embedctl_model::Model;
use embedctl_rows::{OutputChoice, PoolingMode, Step};

pub use embedctl_engine::FloatType;

pub use self::export::{ExportForm, Exported, export};
pub(crate) use self::narrow::PIECE;
pub use self::writer::DeclaredWeight;

/// The version of the standard operators that graphs use.
const OPERATOR_SET: i64 = 18;

/// The first version of the format with that operator set.
const FORMAT: i64 = 8;

/// The output of a graph of finished vectors.
const VECTORS: &str = "sentence_embedding";

/// The output of a graph of token states.
pub(crate) const STATES: &str = "last_hidden_state";

/// The output of a graph of a masked language model: a row's weights of terms.
const TERM_WEIGHTS: &str = "term_weights";

/// The form of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphForm {
    /// The numbers it computes in. Its output is in single precision in any case.
    pub float: FloatType,
    /// Whether the table of tokens may stay in bfloat16, if it is stored so.
    pub narrow_tables: bool,
    /// Whether products stay in fp16 or bf16, where they are stored so and the graph computes in single precision: whenever
    /// one is used, it is widened in pieces of so many bytes at most.
    pub widened_pieces: Option<usize>,
    /// Tokens of a row at most.
    pub longest: usize,
    /// How the logits of the masked-LM head become a row's weights of terms, where those are its output.
    pub terms: Option<TermPooling>,
    /// Whether rows state token types, even if all are 0: a network that looks them up in its table of tokens adds them then.
    pub typed: bool,
}

/// Positions of rotary tables at most. A longer row is an error of its own.
const MOST_POSITIONS: usize = 1 << 17;

impl GraphForm {
    /// The form that `provider` takes of `model`.
    ///
    /// # Errors
    /// If the provider does not compute in the numbers that were asked for.
    pub fn of(model: &Model, provider: Provider, options: &ResolvedEngine) -> Result<Self, Cause> {
        let float = options.float.unwrap_or(FloatType::F32);
        if !provider.computes_in(float) {
            return Err(Cause::of(format!(
                "{provider} does not compute a checkpoint in {float}"
            ))
            .with(format!("take {PRECISION} fp32, or a provider on a GPU")));
        }
        Ok(Self {
            float,
            // Others have no tables of bfloat16.
            narrow_tables: matches!(provider, Provider::Cpu | Provider::Cuda),
            widened_pieces: None,
            longest: model.config.max_length.clamp(1, MOST_POSITIONS),
            terms: (model.config.any_sparse()).and_then(|sparse| sparse.terms),
            typed: model.config.frame.states_types(),
        })
    }
}

impl Default for GraphForm {
    fn default() -> Self {
        Self {
            float: FloatType::F32,
            narrow_tables: false,
            widened_pieces: None,
            longest: 512,
            terms: None,
            typed: false,
        }
    }
}

/// A graph of a network, whose weights are declared only.
#[derive(Debug, Clone)]
pub struct BuiltGraph {
    graph: GraphProto,
    weights: Vec<DeclaredWeight>,
}

impl BuiltGraph {
    /// Writes the graph of `network`: from token ids to the states of all tokens, `[rows, length, width]`, or to the
    /// weights of terms that `form` asks for, `[rows, terms]`. Norms, biases and small tables are read for it, weights are
    /// not.
    ///
    /// # Errors
    /// If a tensor is missing or has a wrong shape, type or content.
    pub fn build(network: &PlainNetwork, form: GraphForm) -> Result<Self> {
        let (mut writer, states) = network::write(network, form)?;
        if let Some(pooling) = form.terms {
            let (weights, terms) = writer.term_weights(network, pooling, &states)?;
            writer.output(TERM_WEIGHTS, &weights, &[Err("rows"), Ok(terms)]);
            return Ok(writer.into());
        }
        let width = network.architecture().hidden;
        writer.output(STATES, &states, &[Err("rows"), Err("length"), Ok(width)]);
        Ok(writer.into())
    }

    /// The same up to finished vectors, `[rows, width]`: pooled with `modes`, behind `steps`.
    ///
    /// # Errors
    /// If one of the steps cannot be written; within, as [`BuiltGraph::build`].
    fn build_pooled(
        network: &PlainNetwork,
        form: GraphForm,
        modes: &[PoolingMode],
        steps: &[Step],
    ) -> Result<Result<Self>, Cause> {
        let (mut writer, states) = match network::write(network, form) {
            Ok(written) => written,
            Err(error) => return Ok(Err(error)),
        };
        let vectors = writer.finished(&states, modes, steps)?;
        let hidden = network.architecture().hidden * modes.len();
        let width = steps.iter().fold(hidden, |width, step| match step {
            Step::Dense(dense) => dense.output,
            _ => width,
        });
        writer.output(VECTORS, &vectors, &[Err("rows"), Ok(width)]);
        Ok(Ok(writer.into()))
    }

    /// The output that is read.
    #[must_use]
    pub fn output(&self) -> OutputChoice {
        let name = self.graph.output[0].name.clone();
        match name.as_str() {
            STATES => OutputChoice::Tokens(name),
            _ => OutputChoice::Sentence(name),
        }
    }

    /// The weights that lie beside the graph.
    #[must_use]
    pub fn weights(&self) -> &[DeclaredWeight] {
        &self.weights
    }

    /// The type of the products that are widened when they are used; `None` where there is none.
    pub(crate) fn narrow_products(&self) -> Option<FloatType> {
        let narrow = self.weights.iter().find(|weight| weight.is_widened);
        narrow.map(|weight| weight.element)
    }

    /// The ONNX model as bytes. `place` says where a weight lies, as the entries of its external data.
    pub(crate) fn model(
        &self,
        place: impl Fn(usize, &DeclaredWeight) -> Vec<StringEntry>,
    ) -> Vec<u8> {
        let mut graph = self.graph.clone();
        let mut weights = self.weights.iter().enumerate();
        for tensor in &mut graph.initializer {
            if tensor.data_location == embedctl_onnx::EXTERNAL
                && let Some((index, weight)) = weights.next()
            {
                debug_assert_eq!(tensor.name, weight.name);
                tensor.external_data = place(index, weight);
            }
        }
        ModelProto {
            ir_version: FORMAT,
            producer_name: "embedctl".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            graph: Some(graph),
            opset_import: vec![OperatorSet {
                domain: String::new(),
                version: OPERATOR_SET,
            }],
        }
        .encode_to_vec()
    }

    /// The same with the weights inside.
    fn model_with_weights(&self, network: &PlainNetwork, cancel: &CancelToken) -> Result<Vec<u8>> {
        let mut whole = self.clone();
        let mut weights = self.weights.iter();
        for tensor in &mut whole.graph.initializer {
            if tensor.data_location == embedctl_onnx::EXTERNAL
                && let Some(weight) = weights.next()
            {
                stop_if(cancel)?;
                tensor.data_location = 0;
                tensor.raw_data = vec![0; weight.bytes()];
                weight.read(network, &mut tensor.raw_data)?;
            }
        }
        Ok(whole.model(|_, _| Vec::new()))
    }

    /// The same for a reader that is given the weights in memory by their names, and looks for `file` nevertheless.
    pub(crate) fn model_beside(&self, file: &str) -> Vec<u8> {
        self.model(|_, weight| external(file, 0, weight.bytes()))
    }

    /// The same for a reader that is given the weights in memory, each as a [file](DeclaredWeight::file) of its own.
    #[must_use]
    pub fn model_in_memory(&self) -> Vec<u8> {
        self.model(|_, weight| external(&weight.file(), 0, weight.bytes()))
    }
}

impl From<GraphWriter> for BuiltGraph {
    fn from(mut writer: GraphWriter) -> Self {
        narrow::widen_late(&mut writer.graph, &writer.weights);
        Self {
            graph: writer.graph,
            weights: writer.weights,
        }
    }
}

fn stop_if(cancel: &CancelToken) -> Result<()> {
    match cancel.is_cancelled() {
        true => Err(Error::interrupted()),
        false => Ok(()),
    }
}

/// The entries of a tensor's external data.
pub(crate) fn external(file: &str, offset: usize, length: usize) -> Vec<StringEntry> {
    [
        ("location", file.to_owned()),
        ("offset", offset.to_string()),
        ("length", length.to_string()),
    ]
    .map(|(key, value)| StringEntry {
        key: key.into(),
        value,
    })
    .into()
}
