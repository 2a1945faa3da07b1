//! Runs a compiled network over ragged rows: a worker's stream, its memory, and what it copies to and from the card.

mod attention;
mod experts;
mod numbers;
mod plan;
mod steps;

use std::ops::Range;
use std::sync::Arc;

use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_native::Rows;

use self::experts::ExpertMemory;
use self::numbers::BatchParts;
pub(crate) use self::plan::AttentionPlan;
use crate::arguments::{PoolArguments, TermsArguments};
use crate::card::Card;
use crate::kernels::{Kernel, Kernels};
use crate::library::DevicePointer;
use crate::memory::{DeviceMemory, HostMemory, Stream};
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

/// All that workers share.
pub(crate) struct LoadedProgram {
    pub(crate) program: Program,
    pub(crate) attention: AttentionPlan,
    pub(crate) products: Products,
    pub(crate) kernels: Kernels,
    // Dropped last.
    pub(crate) card: Arc<Card>,
}

/// One thread's way to run batches of an encoder.
pub struct EncoderWorker {
    // Dropped first: it waits for the work that uses the memory.
    stream: Stream,
    shared: Arc<LoadedProgram>,
    workspace: DeviceMemory,
    places: [Option<DeviceMemory>; Place::ALL.len()],
    numbers: Vec<i32>,
    host_numbers: Option<HostMemory<i32>>,
    device_numbers: Option<DeviceMemory>,
    result: Option<DeviceMemory>,
    host_result: Option<HostMemory<f32>>,
    relative: [Option<DeviceMemory>; 2],
    experts: Option<ExpertMemory>,
}

/// Memory of at least so many bytes: what is there, or new one.
fn grown<'m>(
    card: &Arc<Card>,
    stream: &Stream,
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

impl EncoderWorker {
    pub(crate) fn new(shared: &Arc<LoadedProgram>) -> Result<Self> {
        Ok(Self {
            stream: Stream::new(&shared.card)?,
            workspace: DeviceMemory::new(&shared.card, WORKSPACE)?,
            shared: Arc::clone(shared),
            places: [const { None }; Place::ALL.len()],
            numbers: Vec::new(),
            host_numbers: None,
            device_numbers: None,
            result: None,
            host_result: None,
            relative: [None, None],
            experts: None,
        })
    }

    /// The token states `[tokens, width]` of `rows`, one row after another; they live until the next call.
    ///
    /// # Errors
    /// If an id has no vector, a row has no positions, or the card fails or has too little memory.
    pub fn run(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        let tokens = rows.ids.len();
        let width = self.shared.program.architecture.hidden;
        self.guarded(|worker| {
            let parts = worker.states(rows, None)?;
            debug_assert_eq!(parts.tokens, tokens);
            Ok((worker.place(Place::Out), tokens * width))
        })
    }

    /// Enqueues `work`, and reads the values that it names. Memory is given back where it runs out.
    fn guarded(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(DevicePointer, usize)>,
    ) -> Result<&[f32]> {
        let done = work(self).and_then(|(from, count)| self.result(from, count).map(|()| count));
        match done {
            Ok(count) => Ok(self
                .host_result
                .as_ref()
                .map_or(&[], |it| &it.values()[..count])),
            Err(error) => {
                self.shrink(&error);
                Err(error)
            }
        }
    }

    /// A pooled vector of each row, `[rows, modes * width]`.
    ///
    /// # Errors
    /// As [`EncoderWorker::run`].
    pub fn run_pooled(&mut self, batch: Batch<'_>, pooling: &Pooling) -> Result<&[f32]> {
        self.guarded(|worker| worker.pool(batch, pooling))
    }

    fn pool(&mut self, batch: Batch<'_>, pooling: &Pooling) -> Result<(DevicePointer, usize)> {
        let parts = self.states(batch.rows, Some((batch.pooled, pooling)))?;
        let width = self.shared.program.architecture.hidden;
        let stride = width * pooling.modes.len();
        let card = Arc::clone(&self.shared.card);
        let out = grown(
            &card,
            &self.stream,
            &mut self.result,
            parts.rows * stride * 4,
        )?
        .pointer;
        let arguments = PoolArguments {
            states: self.place(Place::Out),
            spans: self.number(parts.spans),
            out,
            modes: self.number(parts.modes),
            width: int(width)?,
            rows: int(parts.rows)?,
            mode_count: int(pooling.modes.len())?,
            out_stride: int(stride)?,
        };
        let blocks = [width.div_ceil(128), parts.rows];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Pool, blocks, 128, 0, arguments)?;
        Ok((out, parts.rows * stride))
    }

    /// The weights of all terms of each row, `[rows, terms]`.
    ///
    /// # Errors
    /// As [`EncoderWorker::run`], or if the encoder has no masked-LM head.
    pub fn run_terms(&mut self, rows: Rows<'_>) -> Result<&[f32]> {
        self.guarded(|worker| worker.pool_terms(rows))
    }

    fn pool_terms(&mut self, rows: Rows<'_>) -> Result<(DevicePointer, usize)> {
        let parts = self.states(rows, None)?;
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
        let bytes = parts.rows * terms.count * 4;
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

    /// Copies the result here, and waits for it.
    fn result(&mut self, from: DevicePointer, count: usize) -> Result<()> {
        let card = &self.shared.card;
        if self
            .host_result
            .as_ref()
            .is_none_or(|it| it.values().len() < count)
        {
            self.stream.wait()?;
            self.host_result = None;
            self.host_result = Some(HostMemory::new(card, count)?);
        }
        let host = (self.host_result.as_mut()).ok_or_else(|| Error::internal("no result"))?;
        self.stream.read(from, host, count)?;
        self.stream.wait()
    }

    /// Enqueues all steps of these rows, and copies what pooling must know of them.
    fn states(
        &mut self,
        rows: Rows<'_>,
        pooled: Option<(&[Range<usize>], &Pooling)>,
    ) -> Result<BatchParts> {
        let shared = Arc::clone(&self.shared);
        shared.card.enter()?;
        let (program, plan) = (&shared.program, shared.attention);
        let parts = BatchParts::write(program, plan, rows, pooled, &mut self.numbers)?;
        self.make_room(parts.tokens)?;
        let count = self.numbers.len();
        if self
            .host_numbers
            .as_ref()
            .is_none_or(|it| it.values().len() < count)
        {
            self.host_numbers = None;
            self.host_numbers = Some(HostMemory::new(&shared.card, count.next_power_of_two())?);
        }
        let bytes = count.next_power_of_two() * 4;
        let device = grown(&shared.card, &self.stream, &mut self.device_numbers, bytes)?.pointer;
        if let Some(host) = &mut self.host_numbers {
            host.values_mut()[..count].copy_from_slice(&self.numbers);
            self.stream.write(device, &host.values()[..count])?;
        }
        for step in &program.steps {
            self.step(step, &parts)?;
        }
        Ok(parts)
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
    fn shrink(&mut self, error: &Error) {
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
        let start = self.device_numbers.as_ref().map_or(0, |it| it.pointer);
        start + 4 * first as DevicePointer
    }
}

/// Values of a token's queries, keys and values.
fn heads_stride(program: &Program) -> usize {
    let attention = &program.architecture.attention;
    (attention.heads + 2 * attention.key_value_heads) * attention.head_size
}
