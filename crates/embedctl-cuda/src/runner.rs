//! Runs a compiled network over ragged rows: a worker's stream, its memory, and what it copies to and from the card.

mod attention;
mod experts;
mod host;
mod numbers;
mod plan;
mod steps;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::threads::locked;
use embedctl_native::Rows;

use self::experts::ExpertMemory;
use self::host::HostSide;
use self::numbers::BatchParts;
pub(crate) use self::plan::AttentionPlan;
use crate::arguments::{PoolArguments, TermsArguments};
use crate::card::Card;
use crate::kernels::{Kernel, Kernels};
use crate::library::DevicePointer;
use crate::memory::{CardStream, DeviceMemory, StreamMark};
use crate::pooling::Pooling;
use crate::products::{Products, WORKSPACE};
use crate::program::{Form, Place, Program, Step, activation_number, int};

/// A batch's rows, and the tokens of each that are pooled.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The rows.
    pub rows: Rows<'a>,
    /// Of each row, the tokens that are pooled, counted from its first.
    pub pooled: &'a [Range<usize>],
}

/// A network on a card: its weights, and all that is compiled for it.
pub(crate) struct LoadedProgram {
    pub(crate) program: Program,
    pub(crate) attention: AttentionPlan,
    pub(crate) products: Products,
    pub(crate) kernels: Kernels,
    // Dropped last.
    pub(crate) card: Arc<Card>,
}

/// The card's part of a run: one stream, and memory for one batch, which all workers use one after another. A stream for
/// each worker would need the memory of as many batches.
pub(crate) struct CardRunner {
    // Dropped first: it waits for the work that uses the memory.
    stream: CardStream,
    shared: Arc<LoadedProgram>,
    workspace: DeviceMemory,
    places: [Option<DeviceMemory>; Place::ALL.len()],
    numbers: Option<DeviceMemory>,
    result: Option<DeviceMemory>,
    relative: [Option<DeviceMemory>; 2],
    experts: Option<ExpertMemory>,
}

/// One thread's way to run batches of an encoder: while the card computes one worker's batch, others prepare theirs.
pub struct CardWorker {
    shared: Arc<LoadedProgram>,
    runner: Arc<Mutex<CardRunner>>,
    host: HostSide,
}

/// Memory of at least so many bytes: what is there, or new one. Making it stops the card, so callers ask for more than a batch
/// that is a little larger needs.
fn grown<'m>(
    card: &Arc<Card>,
    stream: &CardStream,
    memory: &'m mut Option<DeviceMemory>,
    bytes: usize,
) -> Result<&'m DeviceMemory> {
    if memory.as_ref().is_none_or(|it| it.bytes < bytes) {
        stream.wait()?;
        // Not both at a time.
        *memory = None;
        *memory = Some(DeviceMemory::new(card, bytes)?);
    }
    memory
        .as_ref()
        .ok_or_else(|| Error::internal("memory that was just made is not there"))
}

impl CardWorker {
    pub(crate) fn new(runner: &Arc<Mutex<CardRunner>>) -> Result<Self> {
        let shared = Arc::clone(&locked(runner).shared);
        let card = Arc::clone(&shared.card);
        Ok(Self {
            host: HostSide {
                done: StreamMark::new(&card)?,
                card,
                is_enqueued: false,
                numbers: Vec::new(),
                pinned_numbers: None,
                result: None,
            },
            runner: Arc::clone(runner),
            shared,
        })
    }

    /// The token states `[tokens, width]` of `rows`, one row after another; they live until the next call.
    ///
    /// # Errors
    /// If an id has no vector, a row has no positions, or the card fails or has too little memory.
    pub fn run(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        self.finish(rows, None, CardRunner::states)
    }

    /// A pooled vector of each row, `[rows, modes * width]`.
    ///
    /// # Errors
    /// As [`CardWorker::run`].
    pub fn run_pooled(&mut self, batch: Batch<'_>, pooling: &Pooling) -> Result<&[f32]> {
        let pooled = Some((batch.pooled, pooling));
        self.finish(batch.rows, pooled, |runner, parts| {
            runner.pool(parts, pooling.modes.len())
        })
    }

    /// The weights of all terms of each row, `[rows, terms]`.
    ///
    /// # Errors
    /// As [`CardWorker::run`], or if the encoder has no masked-LM head.
    pub fn run_terms(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        self.finish(rows, None, CardRunner::pool_terms)
    }

    /// Runs the network, enqueues `end`, which names the values of the result, and waits for them. Memory is given back
    /// where it runs out.
    fn finish(
        &mut self,
        rows: Rows<'_>,
        pooled: Option<(&[Range<usize>], &Pooling)>,
        end: impl FnOnce(&mut CardRunner, &BatchParts) -> Result<(DevicePointer, usize)>,
    ) -> Result<&[f32]> {
        let (program, plan) = (&self.shared.program, self.shared.attention);
        let host = &mut self.host;
        // What an earlier batch that failed has left.
        host.wait()?;
        self.shared.card.enter()?;
        let parts = BatchParts::write(program, plan, rows, pooled, &mut host.numbers)?;
        let count = {
            let mut runner = locked(&self.runner);
            let done = runner.enqueue(&parts, host, end);
            // Also behind what was enqueued before an error.
            let recorded = host.done.record(&runner.stream);
            host.is_enqueued = recorded.is_ok();
            let done = done.and_then(|count| recorded.map(|()| count));
            if let Err(error) = &done {
                runner.shrink(error);
            }
            done?
        };
        host.wait()?;
        Ok(host.result.as_ref().map_or(&[], |it| &it.values()[..count]))
    }
}

impl CardRunner {
    pub(crate) fn new(shared: &Arc<LoadedProgram>) -> Result<Self> {
        Ok(Self {
            stream: CardStream::new(&shared.card)?,
            workspace: DeviceMemory::new(&shared.card, WORKSPACE)?,
            shared: Arc::clone(shared),
            places: [const { None }; Place::ALL.len()],
            numbers: None,
            result: None,
            relative: [None, None],
            experts: None,
        })
    }

    /// Enqueues a batch and the copy of its result, of which the number of values is returned.
    fn enqueue(
        &mut self,
        parts: &BatchParts,
        host: &mut HostSide,
        end: impl FnOnce(&mut Self, &BatchParts) -> Result<(DevicePointer, usize)>,
    ) -> Result<usize> {
        let shared = Arc::clone(&self.shared);
        self.make_room(parts.tokens)?;
        host.send(&self.stream, &mut self.numbers)?;
        for step in &shared.program.steps {
            self.step(step, parts)?;
        }
        let (from, count) = end(self, parts)?;
        host.receive(&self.stream, from, count)?;
        Ok(count)
    }

    /// The states of all tokens, and how many values they have.
    fn states(&mut self, parts: &BatchParts) -> Result<(DevicePointer, usize)> {
        let width = self.shared.program.architecture.hidden;
        Ok((self.place(Place::Out), parts.tokens * width))
    }

    fn pool(&mut self, parts: &BatchParts, modes: usize) -> Result<(DevicePointer, usize)> {
        let width = self.shared.program.architecture.hidden;
        let stride = width * modes;
        let card = Arc::clone(&self.shared.card);
        let out = grown(
            &card,
            &self.stream,
            &mut self.result,
            (parts.rows * stride * 4).next_power_of_two(),
        )?
        .pointer;
        let arguments = PoolArguments {
            states: self.place(Place::Out),
            spans: self.number(parts.spans),
            out,
            modes: self.number(parts.modes),
            width: int(width)?,
            rows: int(parts.rows)?,
            mode_count: int(modes)?,
            out_stride: int(stride)?,
        };
        let blocks = [width.div_ceil(128), parts.rows];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Pool, blocks, 128, 0, arguments)?;
        Ok((out, parts.rows * stride))
    }

    fn pool_terms(&mut self, parts: &BatchParts) -> Result<(DevicePointer, usize)> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let terms = program
            .terms
            .as_ref()
            .ok_or_else(|| Error::internal("the encoder has no masked-LM head"))?;
        let hidden = program.architecture.hidden;
        let convert =
            |worker: &Self| worker.convert(Place::Out, Place::Input, hidden, parts.tokens);
        convert(self)?;
        if let Some((weights, activation, norm)) = &terms.transform {
            let inputs = weights.inputs;
            self.multiply(
                weights,
                Place::Input,
                inputs,
                None,
                Place::Inner,
                parts.tokens,
            )?;
            let width = weights.outputs;
            self.activate(
                width,
                width,
                false,
                activation_number(*activation),
                parts.tokens,
            )?;
            self.norm(norm, Place::Inner, None, Place::Input, parts.tokens)?;
        }
        let bytes = (parts.rows * terms.count * 4).next_power_of_two();
        let out = grown(&shared.card, &self.stream, &mut self.result, bytes)?.pointer;
        for (weights, first) in &terms.parts {
            let inputs = weights.inputs;
            self.multiply(
                weights,
                Place::Input,
                inputs,
                None,
                Place::Scores,
                parts.tokens,
            )?;
            let count = weights.outputs;
            let arguments = TermsArguments {
                logits: self.place(Place::Scores),
                ends: self.number(parts.ends),
                out,
                first: int(*first)?,
                count: int(count)?,
                stride: int(count)?,
                out_stride: int(terms.count)?,
                sums: i32::from(terms.pooling.sums),
                is_twice: i32::from(terms.pooling.twice),
            };
            let blocks = [count.div_ceil(128), parts.rows];
            let kernels = &shared.kernels;
            kernels.launch(&self.stream, Kernel::PoolTerms, blocks, 128, 0, arguments)?;
        }
        Ok((out, parts.rows * terms.count))
    }

    /// Chooses the algorithm of each product by measuring it on `tokens` tokens.
    pub(crate) fn choose(&mut self, tokens: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        shared.card.enter()?;
        self.make_room(tokens)?;
        let of_terms = program.terms.iter().flat_map(|terms| {
            let parts = terms
                .parts
                .iter()
                .map(|(weights, _)| (weights, Place::Scores));
            let transform = terms
                .transform
                .iter()
                .map(|(weights, ..)| (weights, Place::Inner));
            let products = transform.chain(parts);
            products.map(|(weights, y)| (weights, Place::Input, weights.inputs, None, y))
        });
        let of_layers = program.steps.iter().filter_map(|step| match step {
            Step::Product {
                weights,
                x,
                x_stride,
                base,
                y,
            } => Some((weights, *x, *x_stride, *base, *y)),
            _ => None,
        });
        for (weights, x, x_stride, base, y) in of_layers.chain(of_terms) {
            let shape = program.shape(weights, x_stride, base, y);
            let operands = self.operands(weights, x, base, y);
            let products = &shared.products;
            products.choose(&self.stream, &self.workspace, shape, tokens, operands)?;
        }
        self.stream.wait()
    }

    /// Gives back the memory of all places where some of them found none: a smaller batch may fit then.
    pub(crate) fn shrink(&mut self, error: &Error) {
        if error.kind() == ErrorKind::OutOfMemory {
            // A stream that fails has nothing to wait for.
            let _ = self.stream.wait();
            self.places = [const { None }; Place::ALL.len()];
            self.relative = [None, None];
            self.experts = None;
            self.result = None;
        }
    }

    /// Memory for so many tokens.
    fn make_room(&mut self, tokens: usize) -> Result<()> {
        // Batches are about as large as the largest: a little more, so that memory is made once.
        let tokens = match tokens {
            0..4096 => tokens,
            _ => tokens.next_multiple_of(1024),
        };
        let shared = Arc::clone(&self.shared);
        for place in Place::ALL {
            let Form { width, is_wide } = shared.program.form(place);
            let bytes = match is_wide {
                true => 4,
                false => shared.program.element.bytes(),
            };
            if width > 0 {
                let memory = &mut self.places[place as usize];
                grown(&shared.card, &self.stream, memory, tokens * width * bytes)?;
            }
        }
        Ok(())
    }

    fn place(&self, place: Place) -> DevicePointer {
        self.places[place as usize]
            .as_ref()
            .map_or(0, |it| it.pointer)
    }

    /// The address of the numbers from this one on.
    fn number(&self, first: usize) -> DevicePointer {
        let start = self.numbers.as_ref().map_or(0, |it| it.pointer);
        start + 4 * first as DevicePointer
    }
}

/// Values of a token's queries, keys and values.
fn heads_stride(program: &Program) -> usize {
    let attention = &program.architecture.attention;
    (attention.heads + 2 * attention.key_value_heads) * attention.head_size
}
