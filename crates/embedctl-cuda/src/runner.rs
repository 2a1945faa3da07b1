//! Runs a compiled network over ragged rows: a worker's stream, its memory, and what it copies to and from the card.

use std::ops::Range;
use std::sync::Arc;

use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::setting::MAX_LENGTH;
use embedctl_native::{Rows, unknown_id, unknown_type};

use crate::arguments::{
    ActivateArguments, AttendArguments, CombineArguments, ConvertArguments, ConvolveArguments,
    EmbedArguments, GatherArguments, NormArguments, PlaceArguments, PoolArguments, RouteArguments,
    SharesArguments, TermsArguments, TurnArguments, Work,
};
use crate::card::Card;
use crate::kernels::{Kernel, Kernels, padded_head};
use crate::library::DevicePointer;
use crate::memory::{DeviceMemory, HostMemory, Stream};
use crate::pooling::Pooling;
use crate::products::{Operands, ProductShape, Products, WORKSPACE};
use crate::program::{
    Attend, Experts, Form, NormWeights, Place, Program, Relative, Step, Weights, activation_number,
    int,
};
use crate::{Element, NAME};

/// A batch's rows, and the tokens of each that are pooled.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The rows.
    pub rows: Rows<'a>,
    /// Of each row, the tokens that are pooled, counted from its first.
    pub pooled: &'a [Range<usize>],
}

/// Bytes of shared memory that the keys and values of a short row take at most: less than every card has.
const RESIDENT: usize = 96 << 10;

/// Queries of a block of each kernel.
const ANY_QUERIES: usize = 16;
const LONG_QUERIES: usize = 64;

/// How a network's attention is launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionPlan {
    /// Whether tensor cores multiply.
    pub(crate) by_tensor_cores: bool,
    /// Heads of keys in a block of the kernel for short rows.
    pub(crate) together: usize,
    /// Tokens of the longest row that the kernel for short rows takes.
    pub(crate) short: usize,
    padded_head: usize,
}

impl AttentionPlan {
    pub(crate) fn of(program: &Program) -> Self {
        let attention = &program.architecture.attention;
        let padded_head = padded_head(attention.head_size);
        // Pieces of eight channels are copied at once, and scores with relative positions are not made by tensor cores.
        let by_tensor_cores = program.element != Element::F32
            && attention.head_size.is_multiple_of(8)
            && attention.disentangled.is_none();
        let most = (128 / padded_head).max(1);
        let together = (1..=most)
            .rev()
            .find(|count| attention.key_value_heads.is_multiple_of(*count))
            .unwrap_or(1);
        let short = RESIDENT / (2 * together * token_bytes(padded_head)) / 16 * 16;
        Self {
            by_tensor_cores,
            together,
            short,
            padded_head,
        }
    }

    fn any_bytes(self) -> usize {
        (2 * 32 * (self.padded_head + 1) + ANY_QUERIES * self.padded_head) * 4
    }

    fn short_bytes(self, seen: usize) -> usize {
        2 * self.together * seen.next_multiple_of(16) * token_bytes(self.padded_head)
    }

    fn long_bytes(self) -> usize {
        let tile = if self.padded_head <= 128 { 64 } else { 32 };
        4 * tile * token_bytes(self.padded_head)
    }
}

/// Bytes from key to key in shared memory.
fn token_bytes(padded_head: usize) -> usize {
    2 * padded_head + 16
}

/// Work items of attention that are launched together.
#[derive(Debug, Clone, Copy)]
struct Group {
    kernel: Flavour,
    /// The first of them, and how many there are.
    first: usize,
    count: usize,
    shared: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flavour {
    Any,
    Short,
    Long,
}

/// Where the parts of a batch's numbers begin.
#[derive(Debug, Default)]
struct Parts {
    tokens: usize,
    rows: usize,
    ids: usize,
    kinds: Option<usize>,
    places: Option<usize>,
    /// The rows of the tables that each set of frequencies turns tokens by.
    turns: Vec<usize>,
    ends: usize,
    row_work: usize,
    work: usize,
    spans: usize,
    modes: usize,
    groups: Vec<Group>,
}

/// All that workers share.
pub(crate) struct Shared {
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
    shared: Arc<Shared>,
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

/// Memory for the experts of a layer.
struct ExpertMemory {
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
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self> {
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
            let parts = worker.states(rows, &[], None)?;
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
        let parts = self.states(batch.rows, batch.pooled, Some(pooling))?;
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
        let parts = self.states(rows, &[], None)?;
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

    /// Enqueues all steps of these rows.
    fn states(
        &mut self,
        rows: Rows<'_>,
        pooled: &[Range<usize>],
        pooling: Option<&Pooling>,
    ) -> Result<Parts> {
        let shared = Arc::clone(&self.shared);
        shared.card.enter()?;
        let parts = self.numbers(rows, pooled, pooling)?;
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
        for step in &shared.program.steps {
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

    /// Writes all that the card must know of a batch beside its states to `self.numbers`.
    fn numbers(
        &mut self,
        rows: Rows<'_>,
        pooled: &[Range<usize>],
        pooling: Option<&Pooling>,
    ) -> Result<Parts> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let embeddings = &program.architecture.embeddings;
        let numbers = &mut self.numbers;
        numbers.clear();
        let mut parts = Parts {
            tokens: rows.ids.len(),
            rows: rows.ends.len(),
            ..Parts::default()
        };
        int(parts.tokens)?;
        let spans: Vec<Range<usize>> = {
            let starts = std::iter::once(0).chain(rows.ends.iter().copied());
            let spans = starts.zip(rows.ends.iter().copied());
            spans.map(|(start, end)| start..end).collect()
        };
        if let Some(span) = spans.iter().find(|span| span.len() > program.longest) {
            return Err(Error::usage(format!(
                "{MAX_LENGTH}: a text has {} tokens, but the engine was opened for {} at most",
                span.len(),
                program.longest
            ))
            .with_remedy(format!("give a smaller {MAX_LENGTH}")));
        }
        let table = program.tables.rows;
        if let Some(id) = rows.ids.iter().find(|id| **id as usize >= table) {
            return Err(unknown_id(*id, table));
        }
        numbers.extend(rows.ids.iter().map(|id| id.cast_signed()));
        if !rows.types.is_empty() && embeddings.word_types {
            return Err(
                Error::usage("this engine does not look token types up among the tokens")
                    .with_remedy("leave the engine to ONNX Runtime"),
            );
        }
        if !rows.types.is_empty() && embeddings.types > 0 {
            let count = embeddings.types;
            if let Some(kind) = rows.types.iter().find(|kind| **kind as usize >= count) {
                return Err(unknown_type(*kind as usize, count));
            }
            parts.kinds = Some(numbers.len());
            numbers.extend(rows.types.iter().map(|kind| kind.cast_signed()));
        }
        if let Some(positions) = embeddings.positions {
            parts.places = Some(numbers.len());
            for span in &spans {
                let mut counted = 0;
                for (place, id) in rows.ids[span.clone()].iter().enumerate() {
                    let position = match positions.after {
                        None => place + positions.first,
                        Some(padding) if *id == padding => padding as usize,
                        Some(padding) => {
                            counted += 1;
                            counted + padding as usize
                        }
                    };
                    if position >= program.tables.position_rows {
                        return Err(Error::usage(format!(
                            "{MAX_LENGTH}: a text of {} tokens needs position {position}, but the model has {} positions",
                            span.len(),
                            program.tables.position_rows
                        ))
                        .with_remedy(format!("give a smaller {MAX_LENGTH}")));
                    }
                    numbers.push(int(position)?);
                }
            }
        }
        let mut plain = None;
        for beyond in &program.turn_starts {
            if let (None, Some(first)) = (beyond, plain) {
                parts.turns.push(first);
                continue;
            }
            let first = numbers.len();
            for span in &spans {
                let start = beyond.filter(|(limit, _)| span.len() > *limit);
                let start = start.map_or(0, |(_, start)| start);
                numbers.extend((start..start + span.len()).map(|row| row as i32));
            }
            if beyond.is_none() {
                plain = Some(first);
            }
            parts.turns.push(first);
        }
        parts.ends = numbers.len();
        numbers.extend(rows.ends.iter().map(|end| *end as i32));
        parts.spans = numbers.len();
        if let Some(pooling) = pooling {
            if pooled.len() != spans.len() {
                return Err(Error::internal("rows without the tokens that are pooled"));
            }
            for (span, pooled) in spans.iter().zip(pooled) {
                let end = pooled.end.min(span.len());
                let start = pooled.start.min(end);
                numbers.extend([(span.start + start) as i32, (span.start + end) as i32]);
            }
            parts.modes = numbers.len();
            numbers.extend(pooling.modes.iter().map(|mode| *mode as i32));
        }
        // Structures of four numbers.
        numbers.resize(numbers.len().next_multiple_of(4), 0);
        let row_work = |row: usize, query: usize| {
            let length = spans[row].len();
            let seen = rows
                .seen
                .get(row)
                .map_or(length, |seen| (*seen).min(length));
            [spans[row].start, length, seen, query].map(|it| it as i32)
        };
        parts.row_work = numbers.len();
        (0..spans.len()).for_each(|row| numbers.extend(row_work(row, 0)));
        parts.work = numbers.len();
        let plan = shared.attention;
        let mut order: Vec<usize> = (0..spans.len())
            .filter(|row| !spans[*row].is_empty())
            .collect();
        // Long rows first, so that none is left at the end.
        order.sort_by_key(|row| std::cmp::Reverse(spans[*row].len()));
        let mut items = 0;
        let mut group = |kernel: Flavour, range: Range<usize>| {
            let own = order
                .iter()
                .filter(|row| range.contains(&spans[**row].len()));
            let (first, mut seen) = (items, 0);
            for row in own {
                let length = spans[*row].len();
                let step = match kernel {
                    Flavour::Any => ANY_QUERIES,
                    Flavour::Short => length,
                    Flavour::Long => LONG_QUERIES,
                };
                for query in (0..length).step_by(step) {
                    let work = row_work(*row, query);
                    seen = seen.max(work[2].unsigned_abs() as usize);
                    numbers.extend(work);
                    items += 1;
                }
            }
            let shared = match kernel {
                Flavour::Any => plan.any_bytes(),
                Flavour::Short => plan.short_bytes(seen),
                Flavour::Long => plan.long_bytes(),
            };
            let count = items - first;
            (count > 0).then_some(Group {
                kernel,
                first,
                count,
                shared,
            })
        };
        let groups = if plan.by_tensor_cores {
            let half = plan.short / 2;
            [
                group(Flavour::Long, plan.short + 1..usize::MAX),
                group(Flavour::Short, half + 1..plan.short + 1),
                group(Flavour::Short, 1..half + 1),
            ]
        } else {
            [group(Flavour::Any, 1..usize::MAX), None, None]
        };
        parts.groups.extend(groups.into_iter().flatten());
        Ok(parts)
    }

    fn step(&mut self, step: &Step, parts: &Parts) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let tokens = parts.tokens;
        match step {
            Step::Embed(out) => self.embed(*out, parts),
            Step::Norm {
                norm,
                input,
                base,
                out,
            } => self.norm(norm, *input, *base, *out, tokens),
            Step::NormHeads { norm, first } => {
                let stride = shared.program.form(Place::Heads).width;
                let at = self.element_at(Place::Heads, *first);
                let arguments = NormArguments {
                    input: at,
                    out: at,
                    input_stride: int(stride)?,
                    out_stride: int(stride)?,
                    ..self.norm_arguments(norm, tokens)?
                };
                self.launch_norm(norm.width, tokens, arguments)
            }
            Step::Convert { input, out, width } => self.convert(*input, *out, *width, tokens),
            Step::Product {
                weights,
                x,
                x_stride,
                base,
                y,
            } => self.multiply(weights, *x, *x_stride, *base, *y, tokens),
            Step::Turn(turn) => {
                let attention = &shared.program.architecture.attention;
                let stride = heads_stride(&shared.program);
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
                    tokens: int(tokens)?,
                    is_rms: i32::from(query.is_rms),
                    by_twos: i32::from(is_even),
                };
                let blocks = [(tokens * heads).div_ceil(4), 1];
                shared
                    .kernels
                    .launch(&self.stream, Kernel::Turn, blocks, 128, 0, arguments)
            }
            Step::Attend(attend) => self.attend(attend, parts),
            Step::Convolve(convolution) => {
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
                shared
                    .kernels
                    .launch(&self.stream, Kernel::Convolve, blocks, 128, 0, arguments)
            }
            Step::Activate {
                activation,
                width,
                is_gated,
                stride,
            } => {
                let activation = activation_number(*activation);
                self.activate(*width, *stride, *is_gated, activation, tokens)
            }
            Step::Shares { width, groups } => {
                let arguments = SharesArguments {
                    values: self.place(Place::Inner),
                    stride: int(width * groups)?,
                    width: int(*width)?,
                    groups: int(*groups)?,
                    tokens: int(tokens)?,
                };
                let blocks = [(tokens * groups).div_ceil(4), 1];
                shared
                    .kernels
                    .launch(&self.stream, Kernel::Shares, blocks, 128, 0, arguments)
            }
            Step::Experts(experts) => self.experts(experts, tokens),
        }
    }

    /// The address of an element of a place's first row.
    fn element_at(&self, place: Place, index: usize) -> DevicePointer {
        let bytes = index * self.shared.program.element.bytes();
        self.place(place) + bytes as DevicePointer
    }

    fn is_wide(&self, place: Place) -> bool {
        self.shared.program.form(place).is_wide
    }

    fn embed(&self, out: Place, parts: &Parts) -> Result<()> {
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

    fn norm(
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

    fn convert(&self, input: Place, out: Place, width: usize, tokens: usize) -> Result<()> {
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

    fn multiply(
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

    fn operands(&self, weights: &Weights, x: Place, base: Option<Place>, y: Place) -> Operands {
        Operands {
            w: weights.matrix,
            x: self.place(x),
            bias: weights.bias,
            base: base.map_or(0, |it| self.place(it)),
            y: self.place(y),
        }
    }

    fn run_product(&self, shape: ProductShape, tokens: usize, operands: Operands) -> Result<()> {
        let products = &self.shared.products;
        products.run(
            &self.stream,
            self.workspace.pointer,
            shape,
            tokens,
            operands,
        )
    }

    fn activate(
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

    fn activate_at(
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
        let blocks = [(tokens * width.div_ceil(8)).div_ceil(256), 1];
        let kernels = &self.shared.kernels;
        kernels.launch(&self.stream, Kernel::Activate, blocks, 256, 0, arguments)
    }

    fn attend(&mut self, attend: &Attend, parts: &Parts) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let attention = &program.architecture.attention;
        let size = attention.head_size;
        let (query, key) = (attention.heads * size, attention.key_value_heads * size);
        let far = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let mut arguments = AttendArguments {
            heads: self.place(Place::Heads),
            out: self.place(Place::Context),
            bias: attend.bias,
            scale: attention.scale,
            softcap: attention.softcap.unwrap_or(0.0),
            stride: int(query + 2 * key)?,
            out_stride: int(query)?,
            key_at: int(query)?,
            value_at: int(query + key)?,
            size: int(size)?,
            group: int(attention.heads / attention.key_value_heads.max(1))?,
            before: far(attend.before),
            after: far(attend.after),
            bias_reach: int(attend.reach)?,
            query_heads: int(attention.heads)?,
            ..AttendArguments::default()
        };
        if let Some(relative) = &attend.relative {
            self.relative_scores(relative, &mut arguments, parts.tokens)?;
        }
        let has_extras = attend.bias != 0 || attention.softcap.is_some();
        for group in &parts.groups {
            let plan = shared.attention;
            let (kernel, heads) = match (group.kernel, has_extras) {
                (Flavour::Any, _) => (Kernel::AttendAny, attention.heads),
                (Flavour::Short, extras) => {
                    arguments.together = int(plan.together)?;
                    let heads = attention.key_value_heads / plan.together;
                    match extras {
                        true => (Kernel::AttendShortExtras, heads),
                        false => (Kernel::AttendShort, heads),
                    }
                }
                (Flavour::Long, true) => (Kernel::AttendLongExtras, attention.heads),
                (Flavour::Long, false) => (Kernel::AttendLong, attention.heads),
            };
            let work = parts.work + 4 * group.first;
            let arguments = AttendArguments {
                work: self.number(work),
                ..arguments
            };
            let blocks = [group.count, heads];
            let kernels = &shared.kernels;
            kernels.launch(&self.stream, kernel, blocks, 128, group.shared, arguments)?;
        }
        Ok(())
    }

    /// Scores of queries with the keys of relative positions, and of keys with their queries, `[heads, tokens, positions]`.
    fn relative_scores(
        &mut self,
        relative: &Relative,
        arguments: &mut AttendArguments,
        tokens: usize,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let attention = &program.architecture.attention;
        let Some((rows, kind)) = program.relative_rows.zip(attention.disentangled) else {
            return Ok(());
        };
        let (size, count) = (attention.head_size, kind.rows());
        let hidden = attention.heads * size;
        let element = program.element.bytes();
        arguments.relative_rows = rows.0;
        arguments.relative_reach = int(rows.1)?;
        arguments.relative_count = int(count)?;
        arguments.together = int(tokens)?;
        let shape = ProductShape {
            inputs: size,
            outputs: count,
            x_stride: heads_stride(program),
            w_stride: hidden,
            y_stride: count,
            is_wide: program.element == Element::F32,
            has_bias: false,
            has_base: false,
        };
        let sides = [(relative.keys, 0), (relative.queries, hidden)];
        let mut made = [0; 2];
        for (side, (table, first)) in sides.into_iter().enumerate() {
            if table == 0 {
                continue;
            }
            let bytes = attention.heads * tokens * count * element;
            let memory = &mut self.relative[side];
            made[side] = grown(&shared.card, &self.stream, memory, bytes)?.pointer;
            for head in 0..attention.heads {
                let at = |index: usize| (index * element) as DevicePointer;
                let operands = Operands {
                    w: table + at(head * size),
                    x: self.place(Place::Heads) + at(first + head * size),
                    bias: 0,
                    base: 0,
                    y: made[side] + at(head * tokens * count),
                };
                self.run_product(shape, tokens, operands)?;
            }
        }
        [arguments.query_scores, arguments.key_scores] = made;
        Ok(())
    }

    fn experts(&mut self, experts: &Experts, tokens: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let program = &shared.program;
        let Some(described) = program.architecture.feed_forward.experts else {
            return Err(Error::internal("experts that are not described"));
        };
        let hidden = program.architecture.hidden;
        let (count, chosen) = (described.count, described.chosen);
        let entries = tokens * chosen;
        let inner = if described.gated { 2 } else { 1 } * described.width;
        let element = program.element.bytes();
        let is_wide = self.is_wide(experts.out);
        let result_bytes = if is_wide { 4 } else { element };
        if self.experts.as_ref().is_none_or(|it| it.entries < entries) {
            self.stream.wait()?;
            self.experts = None;
            let new = |bytes: usize| DeviceMemory::new(&shared.card, bytes);
            self.experts = Some(ExpertMemory {
                entries,
                shares: new(entries * 4)?,
                chosen: new(entries * 4)?,
                counts: new(count * 4)?,
                sources: new(entries * 4)?,
                targets: new(entries * 4)?,
                gathered: new(entries * hidden * element)?,
                inner: new(entries * inner * element)?,
                results: new(entries * hidden * result_bytes)?,
                host_counts: HostMemory::new(&shared.card, count)?,
            });
        }
        let router = &experts.router;
        self.multiply(router, experts.input, hidden, None, Place::Scores, tokens)?;
        let scores = self.place(Place::Scores);
        let input = self.place(experts.input);
        let base = experts.base.map_or(0, |it| self.place(it));
        let out = self.place(experts.out);
        let Some(memory) = &mut self.experts else {
            return Err(Error::internal("no memory for experts"));
        };
        let (kernels, stream) = (&shared.kernels, &self.stream);
        let route = RouteArguments {
            scores,
            shares: memory.shares.pointer,
            experts: memory.chosen.pointer,
            count: int(count)?,
            chosen: int(chosen)?,
            tokens: int(tokens)?,
            is_normalized: i32::from(described.normalized),
        };
        kernels.launch(
            stream,
            Kernel::Route,
            [tokens.div_ceil(4), 1],
            128,
            0,
            route,
        )?;
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
            input,
            out: memory.gathered.pointer,
            sources: memory.sources.pointer,
            width: int(hidden)?,
            entries: int(entries)?,
        };
        kernels.launch(
            stream,
            Kernel::Gather,
            [entries.div_ceil(4), 1],
            128,
            0,
            gather,
        )?;
        // A product must know its size when it is enqueued.
        stream.read(memory.counts.pointer, &mut memory.host_counts, count)?;
        stream.wait()?;
        let counts: Vec<usize> = (memory.host_counts.values().iter())
            .map(|it| it.unsigned_abs() as usize)
            .collect();
        if counts.iter().sum::<usize>() != entries {
            return Err(Error::engine(
                NAME,
                "the experts' choice is not a choice: NaN among scores",
            ));
        }
        let pointers = [
            memory.gathered.pointer,
            memory.inner.pointer,
            memory.results.pointer,
        ];
        let combine = CombineArguments {
            results: memory.results.pointer,
            base,
            out,
            shares: memory.shares.pointer,
            bias: experts.bias,
            targets: memory.targets.pointer,
            width: int(hidden)?,
            chosen: int(chosen)?,
            tokens: int(tokens)?,
            is_wide: i32::from(is_wide),
        };
        let [gathered, inner_at, results] = pointers;
        let at = |row: usize, width: usize, bytes: usize| (row * width * bytes) as DevicePointer;
        let mut first = 0;
        for ([up, _], own) in experts.products.iter().zip(&counts) {
            let shape = ProductShape {
                is_wide: program.element == Element::F32,
                ..program.shape(up, hidden, None, Place::Input)
            };
            let operands = Operands {
                w: up.matrix,
                x: gathered + at(first, hidden, element),
                bias: up.bias,
                base: 0,
                y: inner_at + at(first, inner, element),
            };
            self.run_product(shape, *own, operands)?;
            first += own;
        }
        let activation = activation_number(described.activation);
        let width = described.width;
        self.activate_at(inner_at, width, inner, described.gated, activation, entries)?;
        first = 0;
        for ([_, down], own) in experts.products.iter().zip(&counts) {
            let shape = program.shape(down, inner, None, experts.out);
            let operands = Operands {
                w: down.matrix,
                x: inner_at + at(first, inner, element),
                bias: down.bias,
                base: 0,
                y: results + at(first, hidden, result_bytes),
            };
            self.run_product(shape, *own, operands)?;
            first += own;
        }
        let blocks = [tokens.div_ceil(4), 1];
        let kernels = &shared.kernels;
        kernels.launch(&self.stream, Kernel::Combine, blocks, 128, 0, combine)
    }
}

/// Values of a token's queries, keys and values.
fn heads_stride(program: &Program) -> usize {
    let attention = &program.architecture.attention;
    (attention.heads + 2 * attention.key_value_heads) * attention.head_size
}

const _: () = assert!(size_of::<Work>() == 16);
