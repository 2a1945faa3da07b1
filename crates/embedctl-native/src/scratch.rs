//! A batch's rows, and the memory that a worker computes them in.

use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::Mutex;

use super::crew::{Crew, Helpers, piece};
use super::disentangled::RelativeScratch;
use super::experts::ExpertScratch;
use super::latent::LatentScratch;
use super::relative_bias;
use super::room::{grow, largest_block};
use super::rotary::RotaryTable;
use embedctl_checkpoint::architecture::Architecture;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::machine;
use embedctl_common::remedies;
use embedctl_common::size;
use embedctl_common::threads::locked;
use embedctl_kernels::{AttentionScratch, CacheLines, DeltaHead, Operand};

/// Tokens for which memory is always kept.
const KEPT: usize = 1024;

/// Bytes from which on free memory is checked first: smaller allocations succeed in any case, and the check takes some
/// tens of microseconds.
const LARGE: usize = 64 << 20;

/// Held while free memory is checked and allocated.
static TAKING: Mutex<()> = Mutex::new(());

/// The rows of a batch: all tokens, one row after another.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Token ids.
    pub ids: &'a [u32],
    /// Token types, as many as ids; empty means all zero.
    pub types: &'a [u32],
    /// Where each row ends.
    pub ends: &'a [usize],
    /// How many tokens of each row, from its first on, all tokens attend to; empty where they attend to all. At least one.
    pub seen: &'a [usize],
}

impl Rows<'_> {
    /// Each row's tokens.
    pub(super) fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| start..end)
    }

    /// Tokens of the longest row.
    pub(super) fn longest(&self) -> usize {
        self.spans().map(|span| span.len()).max().unwrap_or(0)
    }
}

/// One worker's memory, reused from batch to batch: of all tokens, and of the pieces in which they run.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The residual stream `[tokens, hidden]`.
    pub(super) states: CacheLines,
    /// Queries, keys and values, or a convolution's gates and input.
    pub(super) heads: CacheLines,
    /// Attention's or a convolution's output.
    pub(super) context: CacheLines,
    /// A row of the embeddings.
    pub(super) row: CacheLines,
    /// Bias of attention scores by distance, for each head, up to a reach that grows with the longest row.
    pub(super) bias: Vec<f32>,
    pub(super) turns: Vec<RotaryTable>,
    pub(super) relative: RelativeScratch,
    pub(super) latent: LatentScratch,
    /// The worker's own memory for a piece of the tokens.
    pub(super) own: ThreadScratch,
    /// Tokens and the longest row for which there is room.
    reserved: (usize, usize),
}

/// A thread's memory for a piece of a batch's tokens.
#[derive(Debug, Default)]
pub(crate) struct ThreadScratch {
    /// A branch's normalized input, and its output where that is normalized too.
    pub(super) branch: CacheLines,
    /// The feed-forward's inner activations.
    pub(super) inner: CacheLines,
    pub(super) operand: Operand,
    pub(super) inner_operand: Operand,
    pub(super) attention: AttentionScratch,
    pub(super) experts: ExpertScratch,
    /// A part of the state of a delta rule's head.
    pub(super) delta: CacheLines,
    /// Tokens of a piece and of the longest row for which a helping thread has room.
    reserved: (usize, usize),
}

impl ThreadScratch {
    /// Floats for a piece of `tokens` tokens, and attention over a row of `longest`.
    fn floats(architecture: &Architecture, tokens: usize, longest: usize) -> usize {
        let widths = ScratchWidths::of(architecture);
        let operand = Operand::dwords(widths.operand);
        let of_token = widths.branch + operand + ExpertScratch::of_token(architecture);
        let inner = architecture.feed_forward.widths().into_iter();
        let inner = inner.map(|inner| {
            let block = largest_block(inner, tokens).next_multiple_of(16);
            block.saturating_mul(inner + Operand::dwords(inner))
        });
        // Keys, values, and a tile of queries' scores and weights, padded.
        let head = architecture.attention.head_size.next_multiple_of(64);
        let attention = longest.saturating_add(64).saturating_mul(2 * head + 64);
        (tokens.checked_next_multiple_of(16).unwrap_or(tokens))
            .saturating_mul(of_token)
            .saturating_add(inner.max().unwrap_or(0))
            .saturating_add(attention)
            .saturating_add(Self::delta_floats(architecture))
    }

    fn delta_floats(architecture: &Architecture) -> usize {
        let rule = architecture.delta_rule.as_ref();
        rule.map_or(0, |rule| DeltaHead::state_floats(rule.key_size))
    }

    /// Room for a piece of `tokens` tokens, and for attention over a row of `longest`.
    fn grow(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<(), TryReserveError> {
        let widths = ScratchWidths::of(architecture);
        self.branch.try_grow(tokens.saturating_mul(widths.branch))?;
        self.operand.try_reserve(tokens, widths.operand)?;
        // Narrower experts take more tokens at a time.
        for width in architecture.feed_forward.widths() {
            let block = largest_block(width, tokens);
            self.inner.try_grow(block * width)?;
            self.inner_operand.try_reserve(block, width)?;
        }
        self.experts.try_grow(architecture, tokens)?;
        self.delta.try_grow(Self::delta_floats(architecture))?;
        (self.attention).try_reserve(architecture.attention.head_size, longest)
    }
}

/// The threads of an encoder. Its helpers' memory has room for batches of one network.
pub(crate) type ThreadCrew = Crew<ThreadScratch>;

/// Memory of the threads of `crew` that can help with the batch of `rows` at the moment, with room for it. There are fewer
/// where the system lacks memory.
pub(super) fn helpers<'a>(
    architecture: &Architecture,
    rows: Rows<'_>,
    crew: &'a ThreadCrew,
) -> Helpers<'a, ThreadScratch> {
    let mut helpers = crew.helpers(rows.ids.len());
    let asked = (piece(rows.ids.len()), rows.longest());
    let grows =
        |helper: &&mut ThreadScratch| asked.0 > helper.reserved.0 || asked.1 > helper.reserved.1;
    let each = ThreadScratch::floats(architecture, asked.0, asked.1).saturating_mul(4);
    let needed = each.saturating_mul(helpers.memory().iter_mut().filter(grows).count());
    // As for a worker's own memory.
    let taking = (needed > LARGE).then(|| locked(&TAKING));
    let room = taking.as_ref().and_then(|_| machine::room());
    if room.is_some_and(|room| room.bytes < needed as u64) {
        helpers.limit(0);
    }
    let mut ready = 0;
    for helper in helpers.memory() {
        // Of fewer tokens a block may hold more: room is made for each batch.
        if helper.grow(architecture, asked.0, asked.1).is_err() {
            *helper = ThreadScratch::default();
            break;
        }
        let (tokens, longest) = helper.reserved;
        helper.reserved = (tokens.max(asked.0), longest.max(asked.1));
        ready += 1;
    }
    helpers.limit(ready);
    helpers
}

impl Scratch {
    /// Allocates all memory for a batch of `tokens` tokens whose longest row has `longest`. The computation itself
    /// allocates nothing, since Rust aborts the process when an unchecked allocation fails. Memory of far larger
    /// batches is freed.
    ///
    /// # Errors
    /// If there is not that much memory, or the system refuses it.
    pub(super) fn reserve(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<()> {
        let far_more = |held: usize, asked: usize| held > KEPT.max(asked.saturating_mul(4));
        let (held_tokens, held_longest) = self.reserved;
        if far_more(held_tokens, tokens) || far_more(held_longest, longest) {
            *self = Self::default();
        }
        let reserved = self.make_room(architecture, tokens, longest);
        if reserved.is_err() {
            *self = Self::default();
        }
        reserved
    }

    fn make_room(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<()> {
        let refused = |reason: String| {
            Error::new(ErrorKind::OutOfMemory, "native", reason)
                .with_remedy(remedies::more_memory())
        };
        let (held_tokens, held_longest) = self.reserved;
        let grows = tokens > held_tokens || longest > held_longest;
        let needed = Self::bytes(architecture, tokens, longest);
        // One worker at a time checks free memory and allocates.
        let taking = (grows && needed > LARGE).then(|| locked(&TAKING));
        if taking.is_some() {
            *self = Self::default();
            if let Some(room) = machine::room().filter(|room| room.bytes < needed as u64) {
                return Err(refused(format!(
                    "{tokens} tokens at a time need {} of memory, but {} {}",
                    size::words(needed as u64),
                    room.bound.words(),
                    size::words(room.bytes)
                )));
            }
        }
        self.grow(architecture, tokens, longest)
            .or_else(|_| {
                // Memory held for other batches may be enough.
                *self = Self::default();
                self.grow(architecture, tokens, longest)
            })
            .map_err(|_| {
                refused(format!(
                    "the system refuses the memory for {tokens} tokens at a time"
                ))
            })?;
        drop(taking);
        let (held_tokens, held_longest) = self.reserved;
        self.reserved = (held_tokens.max(tokens), held_longest.max(longest));
        Ok(())
    }

    /// Bytes that a batch of `tokens` tokens needs, whose longest row has `longest`.
    pub(super) fn bytes(architecture: &Architecture, tokens: usize, longest: usize) -> usize {
        let widths = ScratchWidths::of(architecture);
        let mut floats = tokens.saturating_mul(widths.of_token());
        let mut add = |more: usize| floats = floats.saturating_add(more);
        add(ThreadScratch::floats(architecture, piece(tokens), longest));
        add((widths.embedded + Operand::dwords(widths.embedded)).saturating_mul(tokens));
        for rotary in &architecture.rotary {
            add(longest.saturating_mul(2 * rotary.frequencies.len()));
        }
        if architecture.attention.position_bias.is_some() {
            add(relative_bias::floats(architecture.attention.heads, longest));
        }
        add(RelativeScratch::floats(architecture, longest));
        add(LatentScratch::floats(architecture));
        floats.saturating_mul(4)
    }

    fn grow(
        &mut self,
        architecture: &Architecture,
        tokens: usize,
        longest: usize,
    ) -> Result<(), TryReserveError> {
        let Architecture {
            attention,
            embeddings,
            rotary,
            ..
        } = architecture;
        let widths = ScratchWidths::of(architecture);
        let all = |width: usize| tokens.saturating_mul(width);
        self.states.try_grow(all(widths.states))?;
        self.heads.try_grow(all(widths.heads))?;
        self.context.try_grow(all(widths.context))?;
        self.row.try_grow(embeddings.width)?;
        self.own.grow(architecture, piece(tokens), longest)?;
        // All embeddings are projected at once.
        self.own.branch.try_grow(all(widths.embedded))?;
        self.own.operand.try_reserve(tokens, widths.embedded)?;
        if attention.disentangled.is_some() {
            (self.own.operand).try_reserve(longest, attention.head_size)?;
        }
        self.relative.try_grow(architecture, longest)?;
        self.latent.try_grow(architecture)?;
        self.turns.resize_with(rotary.len(), RotaryTable::default);
        for (turns, rotary) in self.turns.iter_mut().zip(rotary) {
            turns.try_reserve(rotary, longest)?;
        }
        if attention.position_bias.is_some() {
            let floats = relative_bias::floats(attention.heads, longest);
            grow(&mut self.bias, floats)?;
        }
        Ok(())
    }
}

/// Floats of a token in each buffer that holds several.
struct ScratchWidths {
    states: usize,
    heads: usize,
    context: usize,
    branch: usize,
    operand: usize,
    /// Of embeddings that are projected.
    embedded: usize,
}

impl ScratchWidths {
    fn of(architecture: &Architecture) -> Self {
        let Architecture {
            hidden,
            embeddings,
            names,
            ..
        } = architecture;
        let [heads, context] = architecture.mixing_widths();
        let embedded = if embeddings.projected {
            embeddings.width
        } else {
            0
        };
        let norms = [&names.attention_norms, &names.feed_forward_norms];
        let has_branch = norms
            .iter()
            .any(|norms| norms.all()[..3].iter().any(|names| !names.is_empty()));
        Self {
            states: *hidden,
            heads,
            context,
            branch: if has_branch { *hidden } else { 0 },
            operand: (*hidden).max(context),
            embedded,
        }
    }

    /// Of the buffers that hold all tokens.
    fn of_token(&self) -> usize {
        self.states + self.heads + self.context
    }
}
