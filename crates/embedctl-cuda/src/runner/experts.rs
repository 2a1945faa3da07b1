//! Experts: the choice of each token's, their products, and the sum of what they give.

use std::sync::Arc;

use embedctl_checkpoint::architecture::ExpertsDescription;
use embedctl_common::error::{Error, Result};

use super::CardRunner;
use crate::arguments::{CombineArguments, GatherArguments, PlaceArguments, RouteArguments};
use crate::card::Card;
use crate::kernels::Kernel;
use crate::library::DevicePointer;
use crate::memory::{CardStream, DeviceMemory, HostMemory};
use crate::products::{Operands, ProductShape};
use crate::program::{Experts, Place, Program, activation_number, int};
use crate::{CardElement, NAME};

/// Memory for the experts of a layer.
pub(super) struct ExpertMemory {
    /// A token's entries are its chosen experts.
    entries: usize,
    shares: DeviceMemory,
    chosen: DeviceMemory,
    counts: DeviceMemory,
    sources: DeviceMemory,
    targets: DeviceMemory,
    gathered: DeviceMemory,
    inner: DeviceMemory,
    results: DeviceMemory,
    host_counts: HostMemory<i32>,
}

/// The sizes of a layer's experts in a batch.
#[derive(Debug, Clone, Copy)]
struct ExpertSizes {
    described: ExpertsDescription,
    tokens: usize,
    /// Tokens times experts of each.
    entries: usize,
    hidden: usize,
    /// Values of an entry behind its first product.
    inner: usize,
    /// Bytes of an activation, and of a result.
    element: usize,
    result: usize,
}

impl ExpertSizes {
    fn of(program: &Program, experts: &Experts, tokens: usize) -> Result<Self> {
        let Some(described) = program.architecture.feed_forward.experts else {
            return Err(Error::internal("experts that are not described"));
        };
        let element = program.element.bytes();
        let is_wide = program.form(experts.out).is_wide;
        Ok(Self {
            described,
            tokens,
            entries: tokens * described.chosen,
            hidden: program.architecture.hidden,
            inner: if described.gated { 2 } else { 1 } * described.width,
            element,
            result: if is_wide { 4 } else { element },
        })
    }
}

impl ExpertMemory {
    fn new(card: &Arc<Card>, sizes: ExpertSizes) -> Result<Self> {
        let new = |bytes: usize| DeviceMemory::new(card, bytes);
        let (entries, count) = (sizes.entries, sizes.described.count);
        Ok(Self {
            entries,
            shares: new(entries * 4)?,
            chosen: new(entries * 4)?,
            counts: new(count * 4)?,
            sources: new(entries * 4)?,
            targets: new(entries * 4)?,
            gathered: new(entries * sizes.hidden * sizes.element)?,
            inner: new(entries * sizes.inner * sizes.element)?,
            results: new(entries * sizes.hidden * sizes.result)?,
            host_counts: HostMemory::new(card, count)?,
        })
    }

    /// The entries of each expert, once the stream has counted them.
    fn read_counts(&mut self, stream: &CardStream, sizes: ExpertSizes) -> Result<Vec<usize>> {
        let count = sizes.described.count;
        stream.read(self.counts.pointer, &mut self.host_counts, count)?;
        stream.wait()?;
        let counts: Vec<usize> = (self.host_counts.values().iter())
            .map(|it| it.unsigned_abs() as usize)
            .collect();
        if counts.iter().sum::<usize>() != sizes.entries {
            return Err(Error::engine(
                NAME,
                "the experts' choice is not a choice: NaN among scores",
            ));
        }
        Ok(counts)
    }
}

impl CardRunner {
    pub(super) fn experts(&mut self, experts: &Experts, tokens: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let sizes = ExpertSizes::of(&shared.program, experts, tokens)?;
        if (self.experts.as_ref()).is_none_or(|it| it.entries < sizes.entries) {
            self.stream.wait()?;
            self.experts = None;
            self.experts = Some(ExpertMemory::new(&shared.card, sizes)?);
        }
        let (router, hidden) = (&experts.router, sizes.hidden);
        self.multiply(router, experts.input, hidden, None, Place::Scores, tokens)?;
        let Some(mut memory) = self.experts.take() else {
            return Err(Error::internal("no memory for experts"));
        };
        let done = self.run_experts(experts, sizes, &mut memory);
        self.experts = Some(memory);
        done
    }

    fn run_experts(
        &self,
        experts: &Experts,
        sizes: ExpertSizes,
        memory: &mut ExpertMemory,
    ) -> Result<()> {
        self.gather(experts, sizes, memory)?;
        // A product must know its size when it is enqueued.
        let counts = memory.read_counts(&self.stream, sizes)?;
        self.multiply_experts(experts, sizes, memory, &counts)?;
        self.combine(experts, sizes, memory)
    }

    /// Chooses each token's experts by the router's scores, and puts the inputs of each expert beside each other.
    fn gather(&self, experts: &Experts, sizes: ExpertSizes, memory: &ExpertMemory) -> Result<()> {
        let (kernels, stream) = (&self.shared.kernels, &self.stream);
        let ExpertSizes {
            described,
            tokens,
            entries,
            ..
        } = sizes;
        let (count, chosen) = (described.count, described.chosen);
        let route = RouteArguments {
            scores: self.place(Place::Scores),
            shares: memory.shares.pointer,
            experts: memory.chosen.pointer,
            count: int(count)?,
            chosen: int(chosen)?,
            tokens: int(tokens)?,
            is_normalized: i32::from(described.normalized),
        };
        let blocks = [tokens.div_ceil(4), 1];
        kernels.launch(stream, Kernel::Route, blocks, 128, 0, route)?;
        let place = PlaceArguments {
            experts: memory.chosen.pointer,
            counts: memory.counts.pointer,
            sources: memory.sources.pointer,
            targets: memory.targets.pointer,
            count: int(count)?,
            entries: int(entries)?,
            chosen: int(chosen)?,
        };
        let threads = count.next_multiple_of(32).min(1024);
        kernels.launch(stream, Kernel::Place, [1, 1], threads, count * 4, place)?;
        let gather = GatherArguments {
            input: self.place(experts.input),
            out: memory.gathered.pointer,
            sources: memory.sources.pointer,
            width: int(sizes.hidden)?,
            entries: int(entries)?,
        };
        let blocks = [entries.div_ceil(4), 1];
        kernels.launch(stream, Kernel::Gather, blocks, 128, 0, gather)
    }

    /// Runs the experts over their `counts` entries each.
    fn multiply_experts(
        &self,
        experts: &Experts,
        sizes: ExpertSizes,
        memory: &ExpertMemory,
        counts: &[usize],
    ) -> Result<()> {
        let program = &self.shared.program;
        let ExpertSizes {
            described,
            hidden,
            inner,
            element,
            ..
        } = sizes;
        let at = |memory: &DeviceMemory, row: usize, bytes: usize| {
            memory.pointer + (row * bytes) as DevicePointer
        };
        let mut first = 0;
        for ([up, _], own) in experts.products.iter().zip(counts) {
            let shape = ProductShape {
                is_wide: program.element == CardElement::F32,
                ..program.shape(up, hidden, None, Place::Input)
            };
            let operands = Operands {
                w: up.matrix,
                x: at(&memory.gathered, first, hidden * element),
                bias: up.bias,
                base: 0,
                y: at(&memory.inner, first, inner * element),
            };
            self.run_product(shape, *own, operands)?;
            first += own;
        }
        self.activate_at(
            memory.inner.pointer,
            described.width,
            inner,
            described.gated,
            activation_number(described.activation),
            sizes.entries,
        )?;
        first = 0;
        for ([_, down], own) in experts.products.iter().zip(counts) {
            let shape = program.shape(down, inner, None, experts.out);
            let operands = Operands {
                w: down.matrix,
                x: at(&memory.inner, first, inner * element),
                bias: down.bias,
                base: 0,
                y: at(&memory.results, first, hidden * sizes.result),
            };
            self.run_product(shape, *own, operands)?;
            first += own;
        }
        Ok(())
    }

    /// Sums each token's results by their shares.
    fn combine(&self, experts: &Experts, sizes: ExpertSizes, memory: &ExpertMemory) -> Result<()> {
        let arguments = CombineArguments {
            results: memory.results.pointer,
            base: experts.base.map_or(0, |it| self.place(it)),
            out: self.place(experts.out),
            shares: memory.shares.pointer,
            bias: experts.bias,
            targets: memory.targets.pointer,
            width: int(sizes.hidden)?,
            chosen: int(sizes.described.chosen)?,
            tokens: int(sizes.tokens)?,
            is_wide: i32::from(self.is_wide(experts.out)),
        };
        let blocks = [sizes.tokens.div_ceil(4), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Combine, blocks, 128, 0, arguments)
    }
}
