//! A line above the limit of a record, which a few compressed bytes hold.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes behind the limit that are skipped whatever they were compressed to: some tenths of a second.
const PATIENCE: u64 = 64 << 20;

/// Bytes of text that a compressed byte holds at most: text is some 2 to 20 times as long as it is compressed.
const RATIO: u64 = 100;

/// Bytes that a decompressor may have read ahead.
const COMPRESSED_CHUNK: u64 = 64 << 10;

/// Counts the bytes of a line above the limit against those that they were compressed to.
#[derive(Debug)]
pub(crate) struct Expansion {
    /// Bytes of the compressed stream that were read.
    compressed: Arc<AtomicU64>,
    /// How many there were when the limit was reached.
    before: u64,
    length: u64,
    line: u64,
}

impl Expansion {
    /// The limit was reached on this line.
    pub fn begin(compressed: Arc<AtomicU64>, line: u64) -> Self {
        Self {
            before: compressed.load(Ordering::Relaxed),
            compressed,
            length: 0,
            line,
        }
    }

    /// Counts further bytes of the line.
    ///
    /// # Errors
    /// [`ExpansionGuard`], if they are too many for the bytes that they were compressed to.
    pub fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.length += bytes as u64;
        let read = self.compressed.load(Ordering::Relaxed) - self.before;
        // Some were read before, and not decompressed yet.
        if self.length <= PATIENCE || self.length / RATIO <= read + COMPRESSED_CHUNK {
            return Ok(());
        }
        let (line, length) = (self.line, self.length);
        let expands = ExpansionGuard { line, length, read };
        Err(io::Error::new(io::ErrorKind::InvalidData, expands))
    }
}

/// A line far longer than any record, made of hardly any compressed bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line} exceeds the record limit by over {length} bytes, compressed to about {read}. Real text does not \
     compress that well"
)]
pub struct ExpansionGuard {
    line: u64,
    length: u64,
    read: u64,
}
