//! A network as a list of launches, compiled once from its description.
//!
//! The residual stream ([`Place::States`]) is in single precision where layers add to it without a norm behind the sum: such
//! sums grow beyond half precision in some models. Where a norm follows each sum, it has the element's type.

use std::sync::Arc;

use embedctl_common::error::{Error, Result};
use embedctl_native::architecture::{Architecture, Layer, PositionBias};
use embedctl_native::kernels::{Activation, Norm, TermPooling};
use embedctl_native::{
    BesideProducts, LatentProduct, Norms, PlainNetwork, PlainProduct, PlainTable, Product,
    RotaryTable,
};

use crate::Element;
use crate::card::Card;
use crate::library::DevicePointer;
use crate::memory::DeviceMemory;
use crate::products::ProductShape;
use crate::upload::Uploader;

/// Terms whose logits are made at a time.
const TERMS: usize = 4096;

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
pub(crate) struct Terms {
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
    pub(crate) element: Element,
    pub(crate) steps: Vec<Step>,
    pub(crate) forms: [Form; Place::ALL.len()],
    pub(crate) tables: Tables,
    /// Of each set of frequencies: rows of more tokens than the first number start at the second in its table.
    pub(crate) turn_starts: Vec<Option<(usize, usize)>>,
    /// Tokens of a row for which there are tables.
    pub(crate) longest: usize,
    /// Rows of DeBERTa's table by distance, from `-reach` on, and that reach.
    pub(crate) relative_rows: Option<(DevicePointer, usize)>,
    pub(crate) terms: Option<Terms>,
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
        element: Element,
        longest: usize,
        terms: Option<TermPooling>,
    ) -> Result<Self> {
        let mut builder = Builder::new(network, card, element, longest)?;
        let tables = builder.embeddings()?;
        builder.layers()?;
        builder.finish()?;
        let terms = terms.map(|pooling| builder.terms(pooling)).transpose()?;
        network.check_unchanged()?;
        let Builder {
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

/// Cosines and sines of a set of frequencies on the card.
#[derive(Debug, Clone, Copy)]
struct TurnTable {
    table: DevicePointer,
    pairs: usize,
}

struct Builder<'a> {
    network: &'a PlainNetwork,
    architecture: &'a Architecture,
    uploader: Uploader<'a>,
    element: Element,
    longest: usize,
    steps: Vec<Step>,
    forms: [Form; Place::ALL.len()],
    turns: Vec<TurnTable>,
    turn_starts: Vec<Option<(usize, usize)>>,
    shared_bias: (DevicePointer, usize),
    relative_rows: Option<(DevicePointer, usize)>,
    sets: Vec<Option<BesideProducts>>,
    final_norm: Option<Norm>,
    uploaded: Vec<(PlainProduct, bool, Weights)>,
}

impl<'a> Builder<'a> {
    fn new(
        network: &'a PlainNetwork,
        card: &'a Arc<Card>,
        element: Element,
        longest: usize,
    ) -> Result<Self> {
        let architecture = network.architecture();
        let longest = architecture
            .longest
            .map_or(longest, |most| most.min(longest));
        let sets = (0..architecture.weight_sets.len())
            .map(|set| network.beside_products(set).map(Some))
            .collect::<Result<_>>()?;
        Ok(Self {
            network,
            architecture,
            uploader: Uploader::new(card, element)?,
            element,
            longest,
            steps: Vec::new(),
            forms: [Form::default(); Place::ALL.len()],
            turns: Vec::new(),
            turn_starts: Vec::new(),
            shared_bias: (0, 0),
            relative_rows: None,
            sets,
            final_norm: None,
            uploaded: Vec::new(),
        })
    }

    /// Makes room for `width` values of a token.
    fn need(&mut self, place: Place, width: usize, is_wide: bool) {
        let form = &mut self.forms[place as usize];
        form.width = form.width.max(width);
        form.is_wide = is_wide || self.element == Element::F32;
    }

    fn is_wide(&self, place: Place) -> bool {
        self.forms[place as usize].is_wide
    }

    /// Whether a product can take its input from a place.
    fn is_element(&self, place: Place) -> bool {
        self.element == Element::F32 || !self.is_wide(place)
    }

    fn norm(&mut self, norm: &Norm) -> Result<NormWeights> {
        Ok(NormWeights {
            weight: self.uploader.floats(norm.weight())?,
            bias: self.uploader.floats(norm.bias())?,
            epsilon: norm.epsilon(),
            is_rms: norm.is_rms(),
            width: norm.width(),
        })
    }

    fn push_norm(
        &mut self,
        norm: &Norm,
        input: Place,
        base: Option<Place>,
        out: Place,
    ) -> Result<()> {
        let norm = self.norm(norm)?;
        self.steps.push(Step::Norm {
            norm,
            input,
            base,
            out,
        });
        Ok(())
    }

    fn convert(&mut self, input: Place, out: Place, width: usize) {
        self.steps.push(Step::Convert { input, out, width });
    }

    /// A product's weights, for a result that is wide or not: its bias has the result's type.
    fn weights(
        &mut self,
        product: PlainProduct,
        [inputs, outputs]: [usize; 2],
        is_wide: bool,
    ) -> Result<Weights> {
        let mut known = self.uploaded.iter();
        if let Some((.., weights)) = known.find(|(of, wide, _)| *of == product && *wide == is_wide)
        {
            return Ok(*weights);
        }
        let matrix = self
            .uploader
            .product(self.network, product, [inputs, outputs])?;
        let bias = self.network.bias(product)?;
        let bias = match is_wide {
            true => self.uploader.floats(&bias)?,
            false => self.uploader.elements(&bias)?,
        };
        let weights = Weights {
            matrix,
            bias,
            inputs,
            outputs,
        };
        self.uploaded.push((product, is_wide, weights));
        Ok(weights)
    }

    fn product(
        &mut self,
        product: PlainProduct,
        sizes: [usize; 2],
        x: (Place, usize),
        base: Option<Place>,
        y: Place,
    ) -> Result<()> {
        let weights = self.weights(product, sizes, self.is_wide(y))?;
        self.steps.push(Step::Product {
            weights,
            x: x.0,
            x_stride: x.1,
            base,
            y,
        });
        Ok(())
    }

    /// Whether the residual stream is in single precision: a branch is added to it, and no norm follows.
    fn stream_is_wide(&self) -> bool {
        let grows = |norms: &Norms| norms.sum.is_none();
        self.sets
            .iter()
            .flatten()
            .any(|set| grows(&set.attention_norms) || grows(&set.feed_forward_norms))
            || self.architecture.latent.is_some()
    }

    /// Tables of tokens and positions, and the steps from ids to states.
    fn embeddings(&mut self) -> Result<Tables> {
        let architecture = self.architecture;
        let embeddings = &architecture.embeddings;
        let (width, hidden) = (embeddings.width, architecture.hidden);
        let outside = self.network.outside()?;
        let words = self.network.table(PlainTable::Tokens)?;
        let rows = words.rows();
        let words = self.uploader.table(&words)?;
        let (mut positions, mut position_rows) = (0, 0);
        if embeddings.positions.is_some() {
            let table = self.network.table(PlainTable::Positions)?;
            position_rows = table.rows();
            positions = self.uploader.table(&table)?;
        }
        let types = match embeddings.types {
            0 => 0,
            _ => self.uploader.floats(&outside.types)?,
        };
        let is_wide = self.stream_is_wide();
        self.need(Place::States, hidden, is_wide);
        let is_plain = outside.norm.is_none() && !embeddings.projected;
        if is_plain {
            self.steps.push(Step::Embed(Place::States));
        } else {
            self.need(Place::Sum, width, true);
            self.steps.push(Step::Embed(Place::Sum));
            let out = match embeddings.projected {
                true => {
                    self.need(Place::Input, width, false);
                    Place::Input
                }
                false => Place::States,
            };
            match &outside.norm {
                Some(norm) => self.push_norm(norm, Place::Sum, None, out)?,
                None => self.convert(Place::Sum, out, width),
            }
            if embeddings.projected {
                let product = PlainProduct::Projection;
                self.product(product, [width, hidden], (out, width), None, Place::States)?;
            }
        }
        self.rotary()?;
        if let Some(kind) = architecture.attention.position_bias
            && (!outside.relative_bias.is_empty() || !kind.is_learned())
        {
            self.shared_bias = self.bias(kind, &outside.relative_bias)?;
        }
        if let Some(kind) = &architecture.attention.disentangled {
            let reach = kind.span.max(kind.farthest.unwrap_or_default());
            let of = |place: usize| kind.row(place.cast_signed() - reach.cast_signed());
            let rows: Vec<i32> = (0..=2 * reach).map(|place| as_int(of(place))).collect();
            self.relative_rows = Some((self.uploader.integers(&rows)?, reach));
        }
        self.final_norm = outside.final_norm;
        Ok(Tables {
            words,
            rows,
            positions,
            position_rows,
            types,
            width,
        })
    }

    /// Cosines and sines beside each other; those of longer rows behind those of shorter ones.
    fn rotary(&mut self) -> Result<()> {
        let sets = &self.architecture.rotary;
        let tables = self.network.turns(self.longest)?;
        for (set, rotary) in sets.iter().enumerate() {
            let pairs = rotary.frequencies.len();
            let beyond = rotary.beyond.filter(|(limit, _)| self.longest > *limit);
            let mut values = Vec::new();
            let mut add = |table: &RotaryTable| {
                let both = table.cosines.iter().zip(&table.sines);
                values.extend(both.flat_map(|(cosine, sine)| [*cosine, *sine]));
            };
            add(&tables[set]);
            let start = tables[set].cosines.len() / pairs.max(1);
            let beyond = beyond.map(|(limit, other)| {
                add(&tables[other]);
                (limit, start)
            });
            self.turn_starts.push(beyond);
            self.turns.push(TurnTable {
                table: self.uploader.floats(&values)?,
                pairs,
            });
        }
        Ok(())
    }

    /// The bias of scores by distance.
    fn bias(&mut self, kind: PositionBias, table: &[f32]) -> Result<(DevicePointer, usize)> {
        let longest = match kind {
            // Farther keys share the last bucket.
            PositionBias::Buckets { reach, .. } => reach + 1,
            PositionBias::Slopes | PositionBias::Rising => self.longest,
        };
        let (bias, reach) = self.network.bias_by_distance(kind, table, longest);
        Ok((self.uploader.floats(&bias)?, reach))
    }

    fn layers(&mut self) -> Result<()> {
        for layer in &self.architecture.layers {
            let beside = self.sets[layer.weights]
                .take()
                .map_or_else(|| self.network.beside_products(layer.weights), Ok)?;
            self.layer(layer, &beside)?;
        }
        Ok(())
    }

    /// The place of a branch's input, behind its norm.
    fn before(&mut self, norms: &Norms, out: Place) -> Result<Place> {
        let hidden = self.architecture.hidden;
        match &norms.before {
            Some(norm) => {
                self.need(out, hidden, false);
                self.push_norm(norm, Place::States, None, out)?;
                Ok(out)
            }
            None if self.is_element(Place::States) => Ok(Place::States),
            None => {
                self.need(out, hidden, false);
                self.convert(Place::States, out, hidden);
                Ok(out)
            }
        }
    }

    /// Where a branch's last product writes, and what it adds to it.
    fn branch(&mut self, norms: &Norms) -> (Place, Option<Place>) {
        if norms.with_input.is_none() && norms.after.is_none() {
            return (Place::States, Some(Place::States));
        }
        let is_wide = self.is_wide(Place::States);
        self.need(Place::Branch, self.architecture.hidden, is_wide);
        (
            Place::Branch,
            norms.with_input.as_ref().map(|_| Place::States),
        )
    }

    /// The norms behind a branch.
    fn after(&mut self, norms: &Norms) -> Result<()> {
        if let Some(norm) = norms.with_input.as_ref().or(norms.after.as_ref()) {
            self.push_norm(norm, Place::Branch, Some(Place::States), Place::States)?;
        }
        if let Some(norm) = &norms.sum {
            self.push_norm(norm, Place::States, None, Place::States)?;
        }
        Ok(())
    }

    fn layer(&mut self, layer: &Layer, beside: &BesideProducts) -> Result<()> {
        let architecture = self.architecture;
        let attention = &architecture.attention;
        let hidden = architecture.hidden;
        let set = layer.weights;
        let input = self.before(&beside.attention_norms, Place::Input)?;
        // A parallel feed-forward takes the stream as it was before attention's output was added.
        let second = match architecture.parallel {
            true => Some(self.before(&beside.feed_forward_norms, Place::Second)?),
            false => None,
        };
        let second = match second {
            Some(Place::States) => {
                self.need(Place::Second, hidden, false);
                self.convert(Place::States, Place::Second, hidden);
                Some(Place::Second)
            }
            other => other,
        };
        let into = PlainProduct::Layer(set, Product::Input);
        let query = attention.heads * attention.head_size;
        let key = attention.key_value_heads * attention.head_size;
        let (made, width) = match &beside.convolution {
            Some(_) => (3 * hidden, hidden),
            None => (query + 2 * key, query),
        };
        self.need(Place::Heads, made, false);
        self.need(Place::Context, width, false);
        self.product(into, [hidden, made], (input, hidden), None, Place::Heads)?;
        match &beside.convolution {
            Some(convolution) => {
                let step = Convolution {
                    filters: self.uploader.floats(&convolution.filters)?,
                    bias: self.uploader.floats(&convolution.bias)?,
                    channels: convolution.channels,
                    length: convolution.filters.len() / convolution.channels.max(1),
                };
                self.steps.push(Step::Convolve(step));
            }
            None => self.attend(layer, beside, query)?,
        }
        let (y, base) = self.branch(&beside.attention_norms);
        let output = PlainProduct::Layer(set, Product::Output);
        self.product(output, [width, hidden], (Place::Context, width), base, y)?;
        self.after(&beside.attention_norms)?;
        let input = match second {
            Some(second) => second,
            None => self.before(&beside.feed_forward_norms, Place::Input)?,
        };
        self.feed_forward(set, &beside.feed_forward_norms, input)
    }

    fn attend(&mut self, layer: &Layer, beside: &BesideProducts, query: usize) -> Result<()> {
        let architecture = self.architecture;
        let attention = &architecture.attention;
        let mut turn = Turn {
            norms: None,
            table: 0,
            pairs: 0,
            set: 0,
        };
        if let Some(norms) = &beside.query_key_norms {
            let [queries, keys] = [self.norm(&norms[0])?, self.norm(&norms[1])?];
            if queries.width == attention.head_size && keys.width == attention.head_size {
                turn.norms = Some([queries, keys]);
            } else {
                let first = [(queries, 0), (keys, query)];
                let steps = first.map(|(norm, first)| Step::NormHeads { norm, first });
                self.steps.extend(steps);
            }
        }
        if let Some(set) = layer.rotary {
            let TurnTable { table, pairs } = self.turns[set];
            turn = Turn {
                table,
                pairs,
                set,
                ..turn
            };
        }
        if turn.norms.is_some() || turn.pairs > 0 {
            self.steps.push(Step::Turn(turn));
        }
        let (bias, reach) = match attention.position_bias {
            Some(kind) if !beside.relative_bias.is_empty() => {
                self.bias(kind, &beside.relative_bias)?
            }
            _ => self.shared_bias,
        };
        let relative = match attention.disentangled {
            None => None,
            Some(_) => {
                let [keys, queries] = self.network.relative_tables(layer.weights)?;
                let relative = Relative {
                    keys: self.uploader.elements(&keys)?,
                    queries: self.uploader.elements(&queries)?,
                };
                (relative.keys != 0 || relative.queries != 0).then_some(relative)
            }
        };
        let far = layer.reach.unwrap_or(usize::MAX);
        self.steps.push(Step::Attend(Attend {
            before: far,
            after: if layer.causal { 0 } else { far },
            bias,
            reach,
            relative,
        }));
        Ok(())
    }

    fn feed_forward(&mut self, set: usize, norms: &Norms, input: Place) -> Result<()> {
        let architecture = self.architecture;
        let hidden = architecture.hidden;
        if let Some(described) = self.network.experts(set)? {
            let (out, base) = self.branch(norms);
            let halves = if described.gated { 2 } else { 1 };
            let (inner, count) = (halves * described.width, described.count);
            self.need(Place::Scores, count, true);
            let router = self.weights(PlainProduct::Router(set), [hidden, count], true)?;
            let is_wide = self.is_wide(out);
            let mut products = Vec::with_capacity(count);
            for expert in 0..count {
                let up = PlainProduct::ExpertUp(set, expert);
                let down = PlainProduct::ExpertDown(set, expert);
                products.push([
                    self.weights(up, [hidden, inner], false)?,
                    self.weights(down, [described.width, hidden], is_wide)?,
                ]);
            }
            let bias = self.network.experts_bias(set)?;
            let step = Experts {
                router,
                products,
                bias: self.uploader.floats(&bias)?,
                base,
                out,
                input,
            };
            self.steps.push(Step::Experts(step));
            return self.after(norms);
        }
        let of = &architecture.feed_forward;
        let inner = if of.gated { 2 * of.width } else { of.width };
        self.need(Place::Inner, inner, false);
        let up = PlainProduct::Layer(set, Product::Up);
        self.product(up, [hidden, inner], (input, hidden), None, Place::Inner)?;
        self.steps.push(Step::Activate {
            activation: of.activation,
            width: of.width,
            is_gated: of.gated,
            stride: inner,
        });
        let (y, base) = self.branch(norms);
        let down = PlainProduct::Layer(set, Product::Down);
        self.product(down, [of.width, hidden], (Place::Inner, inner), base, y)?;
        self.after(norms)
    }

    /// The final norm, latent attention, and the finished states.
    fn finish(&mut self) -> Result<()> {
        let hidden = self.architecture.hidden;
        self.need(Place::Out, hidden, true);
        if let Some(norm) = self.final_norm.take() {
            let out = match self.architecture.latent {
                Some(_) => Place::States,
                None => Place::Out,
            };
            self.push_norm(&norm, Place::States, None, out)?;
        }
        if let Some(latent) = self.architecture.latent {
            let matrices = self.network.latent_matrices()?;
            let (scores, inner) = (latent.heads * latent.latents, latent.inner(hidden));
            self.need(Place::Input, hidden, false);
            self.need(Place::Inner, scores.max(2 * inner), false);
            let of = PlainProduct::Latent;
            let states = Some(Place::States);
            self.push_norm(&matrices.norm, Place::States, None, Place::Input)?;
            let sizes = [hidden, scores];
            let x = (Place::Input, hidden);
            self.product(of(LatentProduct::Scores), sizes, x, None, Place::Inner)?;
            self.steps.push(Step::Shares {
                width: latent.latents,
                groups: latent.heads,
            });
            let (sizes, shares) = ([scores, hidden], (Place::Inner, scores));
            self.product(of(LatentProduct::Mix), sizes, shares, states, Place::States)?;
            self.push_norm(&matrices.feed_norm, Place::States, None, Place::Input)?;
            let sizes = [hidden, 2 * inner];
            self.product(of(LatentProduct::Up), sizes, x, None, Place::Inner)?;
            self.steps.push(Step::Activate {
                activation: Activation::Gelu,
                width: inner,
                is_gated: true,
                stride: 2 * inner,
            });
            let (sizes, x) = ([inner, hidden], (Place::Inner, 2 * inner));
            self.product(of(LatentProduct::Down), sizes, x, states, Place::States)?;
        }
        match self.steps.last_mut() {
            Some(Step::Norm {
                out, base: None, ..
            }) if matches!(*out, Place::States | Place::Out) => *out = Place::Out,
            _ => self.convert(Place::States, Place::Out, hidden),
        }
        Ok(())
    }

    /// The masked-LM head.
    fn terms(&mut self, pooling: TermPooling) -> Result<Terms> {
        let head = self.network.masked_head()?;
        let hidden = self.architecture.hidden;
        let (width, count) = (head.width, head.terms);
        self.need(Place::Input, hidden.max(width), false);
        let transform = match &head.transform {
            None => None,
            Some((activation, norm)) => {
                self.need(Place::Inner, width, false);
                let weights = self.weights(PlainProduct::TermTransform, [hidden, width], false)?;
                Some((weights, *activation, self.norm(norm)?))
            }
        };
        let mut parts = Vec::new();
        for first in (0..count).step_by(TERMS) {
            let part = TERMS.min(count - first);
            let product = PlainProduct::Terms { first, count: part };
            parts.push((self.weights(product, [width, part], true)?, first));
        }
        self.need(Place::Scores, TERMS.min(count), true);
        Ok(Terms {
            transform,
            parts,
            count,
            pooling,
        })
    }
}

fn as_int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
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
