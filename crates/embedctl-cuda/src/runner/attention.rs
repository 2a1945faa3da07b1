//! Attention: which kernel takes a row, and its launches.

use std::sync::Arc;

use embedctl_common::error::Result;

use super::numbers::{BatchParts, WorkKernel};
use super::{EncoderWorker, grown, heads_stride};
use crate::Element;
use crate::arguments::AttendArguments;
use crate::kernels::{Kernel, padded_head};
use crate::library::DevicePointer;
use crate::products::{Operands, ProductShape};
use crate::program::{Attend, Place, Program, Relative, int};

/// Bytes of shared memory that the keys and values of a short row take at most: less than every card has.
const RESIDENT: usize = 96 << 10;

/// Queries of a block of each kernel.
pub(super) const ANY_QUERIES: usize = 16;
pub(super) const LONG_QUERIES: usize = 64;

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

    pub(super) fn any_bytes(self) -> usize {
        (2 * 32 * (self.padded_head + 1) + ANY_QUERIES * self.padded_head) * 4
    }

    pub(super) fn short_bytes(self, seen: usize) -> usize {
        2 * self.together * seen.next_multiple_of(16) * token_bytes(self.padded_head)
    }

    pub(super) fn long_bytes(self) -> usize {
        let tile = if self.padded_head <= 128 { 64 } else { 32 };
        4 * tile * token_bytes(self.padded_head)
    }
}

/// Bytes from key to key in shared memory.
fn token_bytes(padded_head: usize) -> usize {
    2 * padded_head + 16
}

impl EncoderWorker {
    pub(super) fn attend(&mut self, attend: &Attend, parts: &BatchParts) -> Result<()> {
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
                (WorkKernel::Any, _) => (Kernel::AttendAny, attention.heads),
                (WorkKernel::Short, extras) => {
                    arguments.together = int(plan.together)?;
                    let heads = attention.key_value_heads / plan.together;
                    match extras {
                        true => (Kernel::AttendShortExtras, heads),
                        false => (Kernel::AttendShort, heads),
                    }
                }
                (WorkKernel::Long, true) => (Kernel::AttendLongExtras, attention.heads),
                (WorkKernel::Long, false) => (Kernel::AttendLong, attention.heads),
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
}
