//! The arguments of kernels, as `kernels/arguments.cuh` has them.

use crate::library::DevicePointer;

/// The arguments of a kernel: one structure, which the driver copies.
///
/// # Safety
/// The structure is the kernel's own, field by field.
pub(crate) unsafe trait Arguments: Copy {}

/// A row's tokens, or some of its queries.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// The first token in the batch.
    pub(crate) start: i32,
    /// Tokens of the row.
    pub(crate) length: i32,
    /// Those that are seen as keys.
    pub(crate) seen: i32,
    /// The first query.
    pub(crate) query: i32,
}

macro_rules! arguments {
    ($($name:ident { $($($field:ident),+ : $kind:ty;)* })*) => {
        $(
            #[repr(C)]
            #[derive(Debug, Clone, Copy, Default)]
            pub(crate) struct $name { $($(pub(crate) $field: $kind,)+)* }

            // SAFETY: kernels/arguments.cuh has the same; a test compares the sizes.
            unsafe impl Arguments for $name {}
        )*
    };
}

arguments! {
    EmbedArguments {
        ids, kinds, places, words, positions, types, out: DevicePointer;
        scale: f32;
        width, tokens, is_wide: i32;
    }
    NormArguments {
        input, base, out, weight, bias: DevicePointer;
        epsilon: f32;
        input_stride, out_stride, width, tokens, is_rms, input_is_wide, out_is_wide: i32;
    }
    ConvertArguments {
        input, out: DevicePointer;
        width, tokens, input_is_wide, out_is_wide: i32;
    }
    TurnArguments {
        heads, query_weight, query_bias, key_weight, key_bias, table, places: DevicePointer;
        epsilon: f32;
        stride, size, queries, keys, pairs, tokens, is_rms, by_twos: i32;
    }
    AttendArguments {
        heads, out, work, bias, query_scores, key_scores, relative_rows: DevicePointer;
        scale, softcap: f32;
        stride, out_stride, key_at, value_at, size, group, together: i32;
        before, after, bias_reach, relative_reach, relative_count, query_heads: i32;
    }
    ActivateArguments {
        values: DevicePointer;
        stride, width, tokens, activation, is_gated: i32;
    }
    ConvolveArguments {
        parts, out, work, filters, bias: DevicePointer;
        channels, length: i32;
    }
    SharesArguments {
        values: DevicePointer;
        stride, width, groups, tokens: i32;
    }
    RouteArguments {
        scores, shares, experts: DevicePointer;
        count, chosen, tokens, is_normalized: i32;
    }
    PlaceArguments {
        experts, counts, sources, targets: DevicePointer;
        count, entries, chosen: i32;
    }
    GatherArguments {
        input, out, sources: DevicePointer;
        width, entries: i32;
    }
    CombineArguments {
        results, base, out, shares, bias, targets: DevicePointer;
        width, chosen, tokens, is_wide: i32;
    }
    PoolArguments {
        states, spans, out, modes: DevicePointer;
        width, rows, mode_count, out_stride: i32;
    }
    TermsArguments {
        logits, ends, out: DevicePointer;
        first, count, stride, out_stride, sums, is_twice: i32;
    }
}
