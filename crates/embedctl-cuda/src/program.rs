//! A network as a list of launches, compiled once from its description.
//!
//! The residual stream ([`Place::States`]) is in single precision where layers add to it without a norm behind the sum: such
//! sums grow beyond half precision in some models. Where a norm follows each sum, it has the element's type.

mod builder;
mod embeddings;
mod head;
mod layers;

use std::sync::Arc;

use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::Activation;
use embedctl_common::error::{Error, Result};
use embedctl_kernels::TermPooling;
use embedctl_native::PlainNetwork;

use self::builder::ProgramBuilder;
use crate::CardElement;
use crate::card::Card;
use crate::library::DevicePointer;
use crate::memory::DeviceMemory;
use crate::products::ProductShape;

/// A matrix of activations, with a row for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// The embeddings' sum, in single precision.
    Sum,
    /// The residual stream.
    States,
    /// A branch's input.
    Input,
    /// The feed-forward's input, where it runs beside attention.
    Second,
    /// Queries, keys and values, or a convolution's parts.
    Heads,
    /// Attention's output.
    Context,
    /// The feed-forward's inner activations.
    Inner,
    /// A branch's output, where a norm follows it.
    Branch,
    /// Scores of experts, in single precision.
    Scores,
    /// The finished states, in single precision.
    Out,
}

impl Place {
    pub(crate) const ALL: [Self; 10] = [
        Self::Sum,
        Self::States,
        Self::Input,
        Self::Second,
        Self::Heads,
        Self::Context,
        Self::Inner,
        Self::Branch,
        Self::Scores,
        Self::Out,
    ];
}

/// The width and type of a place's rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// Values of a token; 0: the place is not used.
    pub(crate) width: usize,
    /// Whether they are in single precision, and not elements.
    pub(crate) is_wide: bool,
}

/// A norm's weights on the card.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NormWeights {
    pub(crate) weight: DevicePointer,
    pub(crate) bias: DevicePointer,
    pub(crate) epsilon: f32,
    pub(crate) is_rms: bool,
    pub(crate) width: usize,
}

/// A product's weights on the card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    pub(crate) matrix: DevicePointer,
    pub(crate) bias: DevicePointer,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// Rotary positions of a layer, and the norm of its queries and keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Norms of each head.
    pub(crate) norms: Option<[NormWeights; 2]>,
    /// Cosines and sines, `[positions, pairs, 2]`; 0: nothing is turned.
    pub(crate) table: DevicePointer,
    pub(crate) pairs: usize,
    /// The set of frequencies, whose rows of the table tokens take.
    pub(crate) set: usize,
}

/// DeBERTa's scores with relative positions: tables `[positions, hidden]`, of which one may be 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relative {
    pub(crate) keys: DevicePointer,
    pub(crate) queries: DevicePointer,
}

/// A layer's attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attend {
    /// Tokens that are seen before a query, and behind it.
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// The addition to scores by distance, `[heads, 2 * reach + 1]`; 0: none.
    pub(crate) bias: DevicePointer,
    pub(crate) reach: usize,
    pub(crate) relative: Option<Relative>,
}

/// A set's experts.
#[derive(Debug, Clone)]
pub(crate) struct Experts {
    pub(crate) router: Weights,
    pub(crate) products: Vec<[Weights; 2]>,
    pub(crate) bias: DevicePointer,
    pub(crate) base: Option<Place>,
    pub(crate) out: Place,
    pub(crate) input: Place,
}

/// A convolution's weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convolution {
    pub(crate) filters: DevicePointer,
    pub(crate) bias: DevicePointer,
    pub(crate) channels: usize,
    pub(crate) length: usize,
}

/// One or few launches.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The sum of a token's embeddings.
    Embed(Place),
    /// A norm of whole rows; `base` has the output's form and is added behind it.
    Norm {
        norm: NormWeights,
        input: Place,
        base: Option<Place>,
        out: Place,
    },
    /// A norm over all heads of queries, or of keys.
    NormHeads {
        norm: NormWeights,
        first: usize,
    },
    /// The same rows in the other type.
    Convert {
        input: Place,
        out: Place,
        width: usize,
    },
    /// `y = x · wᵀ + bias + base`; `x_stride` where rows of `x` are longer than the product's inputs.
    Product {
        weights: Weights,
        x: Place,
        x_stride: usize,
        base: Option<Place>,
        y: Place,
    },
    Turn(Turn),
    Attend(Attend),
    Convolve(Convolution),
    /// An activation of [`Place::Inner`], in place.
    Activate {
        activation: Activation,
        width: usize,
        is_gated: bool,
        stride: usize,
    },
    /// Softmax of groups of [`Place::Inner`], in place.
    Shares {
        width: usize,
        groups: usize,
    },
    Experts(Experts),
}

/// The head of a masked language model.
#[derive(Debug)]
pub(crate) struct TermsHead {
    /// The transformation of each state.
    pub(crate) transform: Option<(Weights, Activation, NormWeights)>,
    /// Parts of the vocabulary's product, and the first term of each.
    pub(crate) parts: Vec<(Weights, usize)>,
    pub(crate) count: usize,
    pub(crate) pooling: TermPooling,
}

/// The tables of the embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) words: DevicePointer,
    pub(crate) rows: usize,
    pub(crate) positions: DevicePointer,
    pub(crate) position_rows: usize,
    pub(crate) types: DevicePointer,
    pub(crate) width: usize,
}

/// A compiled network.
pub(crate) struct Program {
    pub(crate) architecture: Architecture,
    pub(crate) element: CardElement,
    pub(crate) steps: Vec<Step>,
    pub(crate) forms: [Form; Place::ALL.len()],
    pub(crate) tables: Tables,
    /// Of each set of frequencies: rows of more tokens than the first number start at the second in its table.
    pub(crate) turn_starts: Vec<Option<(usize, usize)>>,
    /// Tokens of a row for which there are tables.
    pub(crate) longest: usize,
    /// Rows of DeBERTa's table by distance, from `-reach` on, and that reach.
    pub(crate) relative_rows: Option<(DevicePointer, usize)>,
    pub(crate) terms: Option<TermsHead>,
    /// Bytes of the weights.
    pub(crate) bytes: usize,
    _memory: Vec<DeviceMemory>,
}

impl Program {
    /// The form of a place's rows.
    pub(crate) fn form(&self, place: Place) -> Form {
        self.forms[place as usize]
    }

    /// The form of a product between these places.
    pub(crate) fn shape(
        &self,
        weights: &Weights,
        x_stride: usize,
        base: Option<Place>,
        y: Place,
    ) -> ProductShape {
        ProductShape {
            inputs: weights.inputs,
            outputs: weights.outputs,
            x_stride,
            w_stride: weights.inputs,
            y_stride: weights.outputs,
            is_wide: self.form(y).is_wide,
            has_bias: weights.bias != 0,
            has_base: base.is_some(),
        }
    }

    /// Compiles `network` for rows of at most `longest` tokens, and copies its weights to the card.
    pub(crate) fn compile(
        network: &PlainNetwork,
        card: &Arc<Card>,
        element: CardElement,
        longest: usize,
        terms: Option<TermPooling>,
    ) -> Result<Self> {
        let mut builder = ProgramBuilder::new(network, card, element, longest)?;
        let tables = builder.embeddings()?;
        builder.layers()?;
        builder.finish()?;
        let terms = terms.map(|pooling| builder.terms(pooling)).transpose()?;
        network.check_unchanged()?;
        let ProgramBuilder {
            architecture,
            steps,
            forms,
            turn_starts,
            longest,
            relative_rows,
            uploader,
            ..
        } = builder;
        let memory = uploader.finish();
        Ok(Self {
            architecture: architecture.clone(),
            element,
            steps,
            forms,
            tables,
            turn_starts,
            longest,
            relative_rows,
            terms,
            bytes: memory.iter().map(|it| it.bytes).sum(),
            _memory: memory,
        })
    }
}

/// The number of an activation in the kernels.
pub(crate) fn activation_number(activation: Activation) -> i32 {
    match activation {
        Activation::Gelu => 0,
        Activation::GeluTanh => 1,
        Activation::QuickGelu => 2,
        Activation::Silu => 3,
        Activation::Relu => 4,
        Activation::Tanh => 5,
    }
}

/// Bytes of a batch's memory for each token: its places, experts' entries, and scores with relative positions.
pub(crate) fn token_bytes(program: &Program) -> usize {
    let element = program.element.bytes();
    let Architecture {
        hidden,
        attention,
        feed_forward,
        ..
    } = &program.architecture;
    let experts = feed_forward.experts.map_or(0, |experts| {
        let inner = if experts.gated { 2 } else { 1 } * experts.width;
        experts.chosen * ((hidden + inner) * element + 4 * hidden + 16)
    });
    let relative =
        (attention.disentangled).map_or(0, |kind| 2 * attention.heads * kind.rows() * element);
    let bytes = |place: &Place| {
        let Form { width, is_wide } = program.form(*place);
        width * if is_wide { 4 } else { element }
    };
    let places: usize = Place::ALL.iter().map(bytes).sum();
    places + experts + relative
}

/// An error where a number does not fit a kernel's argument.
pub(crate) fn int(number: usize) -> Result<i32> {
    i32::try_from(number).map_err(|_| Error::internal("a batch is larger than kernels count"))
}
