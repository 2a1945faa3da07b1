//! SHA-256 on a thread of its own, beside the one that writes the bytes: hashing takes as long as writing, or longer.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::Hash;
use crate::stage::Clock;
use crate::threads::{try_spawn, usable_cores};

/// Bytes that are handed to the thread at a time. Fewer than that need none.
const BLOCK: usize = 1 << 20;

/// Blocks that wait for the thread at most: a row group of Parquet, which is written at once, so that hashing it goes on
/// beside the rows behind it.
const BLOCKS: usize = 64;

/// Blocks that are kept to be filled again.
const SPARE: usize = 4;

/// Cores from which on there is a thread. With fewer all of them have other work.
const CORES: usize = 4;

/// The SHA-256 of the bytes added so far.
#[derive(Debug)]
pub struct BackgroundHash {
    /// Bytes that are not hashed yet.
    block: Vec<u8>,
    /// Of all bytes before the block, while no thread has it.
    hash: Hash,
    thread: Option<HashThread>,
    /// Whether a thread may be started.
    may_start: bool,
    clock: Arc<Clock>,
}

#[derive(Debug)]
struct HashThread {
    blocks: Sender<Vec<u8>>,
    /// Blocks that were hashed, to be filled again.
    spare: Receiver<Vec<u8>>,
    thread: JoinHandle<Hash>,
}

impl BackgroundHash {
    /// The hash of nothing; `clock` counts the processor time of the thread.
    #[must_use]
    pub fn new(clock: &Arc<Clock>) -> Self {
        Self {
            block: Vec::new(),
            hash: Hash::default(),
            thread: None,
            may_start: usable_cores() >= CORES,
            clock: Arc::clone(clock),
        }
    }

    /// Adds bytes to the hashed content.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if !self.may_start && self.thread.is_none() && self.block.is_empty() {
            self.hash.add(bytes);
            return;
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK {
                self.hand_over();
            }
        }
    }

    /// The hash of all bytes added so far, once the thread is done with them.
    pub fn hash(&mut self) -> &Hash {
        if let Some(HashThread { blocks, thread, .. }) = self.thread.take() {
            drop(blocks);
            self.hash = thread.join().expect("hashing does not panic");
        }
        self.hash.add(&self.block);
        self.block.clear();
        &self.hash
    }

    fn hand_over(&mut self) {
        if self.thread.is_none() && self.may_start {
            self.thread = self.start();
            // The hash works without it.
            self.may_start = self.thread.is_some();
        }
        let Some(thread) = &self.thread else {
            self.hash.add(&self.block);
            self.block.clear();
            return;
        };
        let spare = thread.spare.try_recv();
        let spare = spare.unwrap_or_else(|_| Vec::with_capacity(BLOCK));
        let block = std::mem::replace(&mut self.block, spare);
        let sent = thread.blocks.send(block);
        sent.expect("the thread takes blocks as long as there are any");
    }

    fn start(&self) -> Option<HashThread> {
        let (blocks, received) = bounded::<Vec<u8>>(BLOCKS);
        let (done, spare) = bounded(SPARE);
        let (mut hash, clock) = (self.hash.clone(), Arc::clone(&self.clock));
        let thread = try_spawn("sha256", move || {
            for mut block in received {
                clock.time_part(|| hash.add(&block));
                block.clear();
                // Nobody may want it any more.
                let _ = done.try_send(block);
            }
            hash
        });
        Some(HashThread {
            blocks,
            spare,
            thread: thread.ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn the_hash_is_that_of_the_same_bytes_at_once() {
        let all: Vec<u8> = (0..3 * BLOCK + 7)
            .map(|at| ((at * at) >> 5) as u8)
            .collect();
        for may_start in [false, true] {
            for size in [1 << 10, BLOCK - 1, BLOCK, 2 * BLOCK + 1, all.len()] {
                let mut beside = BackgroundHash::new(&Arc::default());
                beside.may_start = may_start;
                all.chunks(size).for_each(|part| beside.add(part));
                assert_eq!(beside.thread.is_some(), may_start);
                assert_eq!(
                    beside.hash().hex(),
                    hash::of(&all),
                    "{size} bytes at a time"
                );
            }
        }
    }

    #[test]
    fn bytes_are_added_behind_a_hash_that_was_taken() {
        let all = vec![3; 5 * BLOCK / 2];
        for may_start in [false, true] {
            let mut beside = BackgroundHash::new(&Arc::default());
            beside.may_start = may_start;
            for end in 1..=5 {
                beside.add(&all[(end - 1) * BLOCK / 2..end * BLOCK / 2]);
                assert_eq!(beside.hash().hex(), hash::of(&all[..end * BLOCK / 2]));
            }
        }
        let mut few = BackgroundHash::new(&Arc::default());
        few.add(b"few");
        assert!(few.thread.is_none());
        assert_eq!(few.hash().hex(), hash::of("few"));
    }
}
