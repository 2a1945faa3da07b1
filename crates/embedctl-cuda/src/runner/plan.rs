//! Which kernel of attention takes a row.

use crate::CardElement;
use crate::kernels::padded_head;
use crate::program::Program;

/// Bytes of shared memory that the keys and values of a short row take at most: less than every card has.
const RESIDENT: usize = 96 << 10;

/// Warps of a block of the kernel for short rows.
const SHORT_WARPS: usize = 4;

/// Tokens up to which short rows are launched together: each launch has the memory and the warps of its longest row.
pub(super) const SHORT_CLASSES: [usize; 3] = [256, 128, 64];

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
    /// Heads of queries in such a block.
    queries: usize,
}

impl AttentionPlan {
    pub(crate) fn of(program: &Program) -> Self {
        let attention = &program.architecture.attention;
        let padded_head = padded_head(attention.head_size);
        // Pieces of eight channels are copied at once, and scores with relative positions are not made by tensor cores.
        let by_tensor_cores = program.element != CardElement::F32
            && attention.head_size.is_multiple_of(8)
            && attention.disentangled.is_none();
        // As many as make 128 bytes of a token: with more, few blocks find place beside each other.
        let most = (64 / padded_head).max(1);
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
            queries: together * attention.heads / attention.key_value_heads.max(1),
        }
    }

    /// Threads of a block of the kernel for short rows, of which the longest has `length` tokens: all warps have as many
    /// tasks, of 16 queries of a head.
    pub(super) fn short_threads(self, length: usize) -> usize {
        let tasks = length.div_ceil(16).max(1) * self.queries.max(1);
        let turns = tasks.div_ceil(SHORT_WARPS);
        32 * tasks.div_ceil(turns)
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
