//! Memory on cache-line boundaries: a vector that straddles two lines costs two loads.

use std::collections::TryReserveError;

/// One cache line of dwords.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([i32; LINE]);

const LINE: usize = 16;

/// Dwords whose first one lies on a boundary of 64 bytes.
#[derive(Clone, Default)]
pub struct CacheLines(Vec<CacheLine>);

impl CacheLines {
    /// `len` zeros, rounded up to whole lines.
    pub(super) fn zeroed(len: usize) -> Self {
        Self(vec![CacheLine([0; LINE]); len.div_ceil(LINE)])
    }

    /// Makes room for `len` dwords; their content is unspecified.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn try_grow(&mut self, len: usize) -> Result<(), TryReserveError> {
        let lines = len.div_ceil(LINE);
        if self.0.len() < lines {
            self.0 = Vec::new();
            self.0.try_reserve_exact(lines)?;
            self.0.resize(lines, CacheLine([0; LINE]));
        }
        Ok(())
    }

    pub(super) fn dwords(&self) -> &[i32] {
        // SAFETY: as in `dwords_mut`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }

    pub(super) fn dwords_mut(&mut self) -> &mut [i32] {
        let len = self.0.len() * LINE;
        // SAFETY: a `CacheLine` is sixteen `i32` without padding (`repr(C)`, 64 bytes), and a slice of them is
        // contiguous; the borrow of `self` is handed on.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    /// The same dwords as floats.
    #[must_use]
    pub fn floats(&self) -> &[f32] {
        // SAFETY: as in `floats_mut`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * LINE) }
    }

    /// The same dwords as floats.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        let dwords = self.dwords_mut();
        // SAFETY: `f32` has the size and alignment of `i32`, and every bit pattern is a value of both.
        unsafe { std::slice::from_raw_parts_mut(dwords.as_mut_ptr().cast(), dwords.len()) }
    }
}

impl std::fmt::Debug for CacheLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines", self.0.len())
    }
}

/// Floats as dwords.
pub(super) fn dwords(floats: &[f32]) -> &[i32] {
    // SAFETY: as in `dwords_mut`.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), floats.len()) }
}

/// Floats as dwords.
pub(super) fn dwords_mut(floats: &mut [f32]) -> &mut [i32] {
    // SAFETY: the same bytes, borrowed alike; `i32` has the size and alignment of `f32`, and every bit pattern is a
    // value of both.
    unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), floats.len()) }
}

/// Dwords as floats.
pub(super) fn floats_mut(dwords: &mut [i32]) -> &mut [f32] {
    // SAFETY: as in `dwords_mut`.
    unsafe { std::slice::from_raw_parts_mut(dwords.as_mut_ptr().cast(), dwords.len()) }
}

/// Dwords as 16-bit integers, in memory's order.
pub(super) fn halves_mut(dwords: &mut [i32]) -> &mut [i16] {
    // SAFETY: the same bytes, borrowed alike; `i16` asks for less alignment and takes every bit pattern.
    unsafe { std::slice::from_raw_parts_mut(dwords.as_mut_ptr().cast(), dwords.len() * 2) }
}

/// Dwords as bytes, in memory's order.
pub(super) fn bytes_mut(dwords: &mut [i32]) -> &mut [u8] {
    // SAFETY: the same bytes, borrowed alike; `u8` asks for no alignment and takes every bit pattern.
    unsafe { std::slice::from_raw_parts_mut(dwords.as_mut_ptr().cast(), dwords.len() * 4) }
}

/// Dwords as bytes, in memory's order.
pub(super) fn bytes(dwords: &[i32]) -> &[u8] {
    // SAFETY: as in `bytes_mut`.
    unsafe { std::slice::from_raw_parts(dwords.as_ptr().cast(), dwords.len() * 4) }
}
