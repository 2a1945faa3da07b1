//! The launches of each step but attention's and experts'.

use embedctl_common::error::Result;

use super::numbers::BatchParts;
use super::{CardRunner, heads_stride};
use crate::arguments::{
    ActivateArguments, ConvertArguments, ConvolveArguments, EmbedArguments, NormArguments,
    SharesArguments, TurnArguments,
};
use crate::kernels::Kernel;
use crate::library::DevicePointer;
use crate::products::{Operands, ProductShape};
use crate::program::{
    Convolution, NormWeights, Place, Step, Turn, Weights, activation_number, int,
};

impl CardRunner {
    /// Enqueues a step of the network.
    pub(super) fn step(&mut self, step: &Step, parts: &BatchParts) -> Result<()> {
        let tokens = parts.tokens;
        match step {
            Step::Embed(out) => self.embed(*out, parts),
            Step::Norm {
                norm,
                input,
                base,
                out,
            } => self.norm(norm, *input, *base, *out, tokens),
            Step::NormHeads { norm, first } => self.norm_heads(norm, *first, tokens),
            Step::Convert { input, out, width } => self.convert(*input, *out, *width, tokens),
            Step::Product {
                weights,
                x,
                x_stride,
                base,
                y,
            } => self.multiply(weights, *x, *x_stride, *base, *y, tokens),
            Step::Turn(turn) => self.turn(turn, parts),
            Step::Attend(attend) => self.attend(attend, parts),
            Step::Convolve(convolution) => self.convolve(convolution, parts),
            Step::Activate {
                activation,
                width,
                is_gated,
                stride,
            } => {
                let activation = activation_number(*activation);
                self.activate(*width, *stride, *is_gated, activation, tokens)
            }
            Step::Shares { width, groups } => self.shares(*width, *groups, tokens),
            Step::Experts(experts) => self.experts(experts, tokens),
        }
    }

    /// The address of an element of a place's first row.
    fn element_at(&self, place: Place, index: usize) -> DevicePointer {
        let bytes = index * self.shared.program.element.bytes();
        self.place(place) + bytes as DevicePointer
    }

    pub(super) fn is_wide(&self, place: Place) -> bool {
        self.shared.program.form(place).is_wide
    }

    fn embed(&self, out: Place, parts: &BatchParts) -> Result<()> {
        let program = &self.shared.program;
        let tables = program.tables;
        let or_none = |first: Option<usize>| first.map_or(0, |it| self.number(it));
        let arguments = EmbedArguments {
            ids: self.number(parts.ids),
            kinds: or_none(parts.kinds),
            places: or_none(parts.places),
            words: tables.words,
            positions: tables.positions,
            types: tables.types,
            out: self.place(out),
            scale: program.architecture.embeddings.scale,
            width: int(tables.width)?,
            tokens: int(parts.tokens)?,
            is_wide: i32::from(self.is_wide(out)),
        };
        let blocks = [parts.tokens.div_ceil(4), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Embed, blocks, 128, 0, arguments)
    }

    /// A norm over all heads of queries, or of keys, which begin at the value `first` of a token.
    fn norm_heads(&self, norm: &NormWeights, first: usize, tokens: usize) -> Result<()> {
        let stride = int(self.shared.program.form(Place::Heads).width)?;
        let at = self.element_at(Place::Heads, first);
        let arguments = NormArguments {
            input: at,
            out: at,
            input_stride: stride,
            out_stride: stride,
            ..self.norm_arguments(norm, tokens)?
        };
        self.launch_norm(norm.width, tokens, arguments)
    }

    fn turn(&self, turn: &Turn, parts: &BatchParts) -> Result<()> {
        let program = &self.shared.program;
        let attention = &program.architecture.attention;
        let stride = heads_stride(program);
        let [query, key] = turn.norms.unwrap_or_default();
        let heads = attention.heads + attention.key_value_heads;
        let size = attention.head_size;
        let is_even = [stride, size, turn.pairs]
            .iter()
            .all(|it| it.is_multiple_of(2));
        let arguments = TurnArguments {
            heads: self.place(Place::Heads),
            query_weight: query.weight,
            query_bias: query.bias,
            key_weight: key.weight,
            key_bias: key.bias,
            table: turn.table,
            places: parts.turns.get(turn.set).map_or(0, |it| self.number(*it)),
            epsilon: query.epsilon,
            stride: int(stride)?,
            size: int(size)?,
            queries: int(attention.heads)?,
            keys: int(attention.key_value_heads)?,
            pairs: int(turn.pairs)?,
            tokens: int(parts.tokens)?,
            is_rms: i32::from(query.is_rms),
            by_twos: i32::from(is_even),
        };
        let is_plain = query.is_rms && query.bias == 0 && key.bias == 0;
        let is_whole = (16..=256).contains(&size)
            && size.is_power_of_two()
            && stride.is_multiple_of(8)
            && [0, size / 2].contains(&turn.pairs)
            && (turn.norms.is_none() || is_plain);
        let (kernel, tasks) = match is_whole {
            true => (Kernel::TurnWhole, parts.tokens),
            false => (Kernel::Turn, parts.tokens * heads),
        };
        let blocks = [tasks.div_ceil(4), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, kernel, blocks, 128, 0, arguments)
    }

    fn convolve(&self, convolution: &Convolution, parts: &BatchParts) -> Result<()> {
        let arguments = ConvolveArguments {
            parts: self.place(Place::Heads),
            out: self.place(Place::Context),
            work: self.number(parts.row_work),
            filters: convolution.filters,
            bias: convolution.bias,
            channels: int(convolution.channels)?,
            length: int(convolution.length)?,
        };
        let blocks = [convolution.channels.div_ceil(128), parts.rows];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Convolve, blocks, 128, 0, arguments)
    }

    /// Softmax of groups of the inner activations, in place.
    fn shares(&self, width: usize, groups: usize, tokens: usize) -> Result<()> {
        let arguments = SharesArguments {
            values: self.place(Place::Inner),
            stride: int(width * groups)?,
            width: int(width)?,
            groups: int(groups)?,
            tokens: int(tokens)?,
        };
        let blocks = [(tokens * groups).div_ceil(4), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Shares, blocks, 128, 0, arguments)
    }

    fn norm_arguments(&self, norm: &NormWeights, tokens: usize) -> Result<NormArguments> {
        Ok(NormArguments {
            weight: norm.weight,
            bias: norm.bias,
            epsilon: norm.epsilon,
            width: int(norm.width)?,
            tokens: int(tokens)?,
            is_rms: i32::from(norm.is_rms),
            input_stride: int(norm.width)?,
            out_stride: int(norm.width)?,
            ..NormArguments::default()
        })
    }

    fn launch_norm(&self, width: usize, tokens: usize, arguments: NormArguments) -> Result<()> {
        let (kernel, of_block, threads) = Kernel::norm(width);
        let blocks = [tokens.div_ceil(of_block), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, kernel, blocks, threads, 128, arguments)
    }

    pub(super) fn norm(
        &self,
        norm: &NormWeights,
        input: Place,
        base: Option<Place>,
        out: Place,
        tokens: usize,
    ) -> Result<()> {
        let arguments = NormArguments {
            input: self.place(input),
            base: base.map_or(0, |it| self.place(it)),
            out: self.place(out),
            input_is_wide: i32::from(self.is_wide(input)),
            out_is_wide: i32::from(self.is_wide(out)),
            ..self.norm_arguments(norm, tokens)?
        };
        self.launch_norm(norm.width, tokens, arguments)
    }

    pub(super) fn convert(
        &self,
        input: Place,
        out: Place,
        width: usize,
        tokens: usize,
    ) -> Result<()> {
        let arguments = ConvertArguments {
            input: self.place(input),
            out: self.place(out),
            width: int(width)?,
            tokens: int(tokens)?,
            input_is_wide: i32::from(self.is_wide(input)),
            out_is_wide: i32::from(self.is_wide(out)),
        };
        let blocks = [tokens.div_ceil(4), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Convert, blocks, 128, 0, arguments)
    }

    pub(super) fn multiply(
        &self,
        weights: &Weights,
        x: Place,
        x_stride: usize,
        base: Option<Place>,
        y: Place,
        tokens: usize,
    ) -> Result<()> {
        let shape = self.shared.program.shape(weights, x_stride, base, y);
        self.run_product(shape, tokens, self.operands(weights, x, base, y))
    }

    pub(super) fn operands(
        &self,
        weights: &Weights,
        x: Place,
        base: Option<Place>,
        y: Place,
    ) -> Operands {
        Operands {
            w: weights.matrix,
            x: self.place(x),
            bias: weights.bias,
            base: base.map_or(0, |it| self.place(it)),
            y: self.place(y),
        }
    }

    pub(super) fn run_product(
        &self,
        shape: ProductShape,
        tokens: usize,
        operands: Operands,
    ) -> Result<()> {
        let products = &self.shared.products;
        products.run(
            &self.stream,
            self.workspace.pointer,
            shape,
            tokens,
            operands,
        )
    }

    pub(super) fn activate(
        &self,
        width: usize,
        stride: usize,
        is_gated: bool,
        activation: i32,
        tokens: usize,
    ) -> Result<()> {
        self.activate_at(
            self.place(Place::Inner),
            width,
            stride,
            is_gated,
            activation,
            tokens,
        )
    }

    pub(super) fn activate_at(
        &self,
        values: DevicePointer,
        width: usize,
        stride: usize,
        is_gated: bool,
        activation: i32,
        tokens: usize,
    ) -> Result<()> {
        let arguments = ActivateArguments {
            values,
            stride: int(stride)?,
            width: int(width)?,
            tokens: int(tokens)?,
            activation,
            is_gated: i32::from(is_gated),
        };
        let blocks = [(tokens * width.div_ceil(8)).div_ceil(512), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Activate, blocks, 256, 0, arguments)
    }
}
