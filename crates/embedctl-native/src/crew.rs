//! The threads that share a batch of many tokens.
//!
//! A batch of many tokens is run in pieces, one after another. Threads of the encoder that run no batch of their own take
//! pieces, too, so that one long row does not leave the other cores idle. Which thread runs a piece changes no bit.

use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use embedctl_common::threads::locked;

/// Batches of more tokens run in pieces, which threads share.
pub(super) const SHARED: usize = 512;

/// Tokens of a piece, about: smaller ones would stream the weights through the caches too often.
const PIECE: usize = 256;

/// Tokens of each piece of a batch of `tokens` tokens but the last.
pub(super) fn piece(tokens: usize) -> usize {
    match tokens {
        0 => 1,
        few if few <= SHARED => few,
        many => many.div_ceil(many.div_ceil(PIECE)),
    }
}

/// The threads of an encoder, how many of them run a batch, and the memory of those that help.
#[derive(Debug, Default)]
pub(crate) struct Crew<Memory> {
    threads: usize,
    busy: AtomicUsize,
    /// Made for the first batch that is shared; `None`: the system has no more threads.
    pool: OnceLock<Option<ThreadPool>>,
    spare: Mutex<Spare<Memory>>,
}

/// Memory for helping threads. All batches share it, so that there is never more than one for each thread.
#[derive(Debug, Default)]
struct Spare<Memory> {
    /// How many there are, those in use included.
    made: usize,
    unused: Vec<Memory>,
}

/// Memory of threads that help with a batch; it goes back when this is dropped.
pub(super) struct Helpers<'a, Memory> {
    memory: Vec<Memory>,
    /// How many of them help.
    count: usize,
    spare: &'a Mutex<Spare<Memory>>,
}

impl<Memory> Helpers<'_, Memory> {
    /// The memory of those that help.
    pub(super) fn memory(&mut self) -> &mut [Memory] {
        &mut self.memory[..self.count]
    }

    /// Lets no more than `count` of them help.
    pub(super) fn limit(&mut self, count: usize) {
        self.count = self.count.min(count);
    }
}

impl<Memory> Drop for Helpers<'_, Memory> {
    fn drop(&mut self) {
        if !self.memory.is_empty() {
            locked(self.spare).unused.append(&mut self.memory);
        }
    }
}

/// A thread that runs a batch of its own, until this is dropped.
pub(crate) struct BusyThread<'a>(&'a AtomicUsize);

impl Drop for BusyThread<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<Memory: Default + Send> Crew<Memory> {
    /// So many threads. With one at most nothing is shared.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            ..Self::default()
        }
    }

    /// Counts the calling thread as one that runs a batch.
    pub(crate) fn begin(&self) -> BusyThread<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        BusyThread(&self.busy)
    }

    /// Memory for each thread that runs no batch at the moment and can help with one of `tokens` tokens.
    pub(super) fn helpers(&self, tokens: usize) -> Helpers<'_, Memory> {
        let (wanted, mut memory) = (self.free(tokens), Vec::new());
        if wanted > 0 {
            let mut spare = locked(&self.spare);
            let rest = spare.unused.len().saturating_sub(wanted);
            memory = spare.unused.split_off(rest);
            let may_be_made = (self.threads - 1).saturating_sub(spare.made);
            let more = (wanted - memory.len()).min(may_be_made);
            spare.made += more;
            memory.extend((0..more).map(|_| Memory::default()));
        }
        Helpers {
            count: memory.len(),
            memory,
            spare: &self.spare,
        }
    }

    fn free(&self, tokens: usize) -> usize {
        if self.threads < 2 || tokens <= SHARED {
            return 0;
        }
        let free = self
            .threads
            .saturating_sub(self.busy.load(Ordering::Relaxed));
        free.min(tokens.div_ceil(piece(tokens)) - 1)
    }

    /// Runs `work` on each of `pieces`: here with the memory `own`, and beside it by a thread for each of `helpers`.
    pub(super) fn share<T>(
        &self,
        own: &mut Memory,
        helpers: &mut [Memory],
        pieces: impl Iterator<Item = T> + Send,
        work: impl Fn(T, &mut Memory) + Sync,
    ) {
        let pieces = Mutex::new(pieces);
        let run = |memory: &mut Memory| {
            loop {
                // Locked while a piece is taken, not while it runs.
                let piece = locked(&pieces).next();
                match piece {
                    Some(piece) => work(piece, memory),
                    None => break,
                }
            }
        };
        match self.pool(helpers.len()) {
            None => run(own),
            Some(pool) => pool.in_place_scope(|scope| {
                for helper in helpers {
                    scope.spawn(|_| run(helper));
                }
                run(own);
            }),
        }
    }

    /// The threads that help, where one of `helpers` is needed.
    fn pool(&self, helpers: usize) -> Option<&ThreadPool> {
        let make = || {
            let builder = ThreadPoolBuilder::new().num_threads(self.threads.saturating_sub(1));
            let named = builder.thread_name(|index| format!("helper-{index}"));
            named.build().ok()
        };
        match helpers {
            0 => None,
            _ => self.pool.get_or_init(make).as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_few_tokens_is_one_piece_and_of_many_are_nearly_even_ones() {
        for tokens in 1..5_000 {
            let size = piece(tokens);
            let pieces = tokens.div_ceil(size);
            assert_eq!(pieces == 1, tokens <= SHARED, "{tokens}");
            assert!(
                size <= SHARED && (tokens <= SHARED || size <= PIECE),
                "{tokens}"
            );
            assert!(tokens - (pieces - 1) * size > size / 2, "{tokens}: {size}");
        }
    }

    #[test]
    fn threads_that_run_a_batch_do_not_help() {
        let crew: Crew<u8> = Crew::new(4);
        assert_eq!(crew.free(100_000), 4);
        let first = crew.begin();
        assert_eq!((crew.free(100_000), crew.free(SHARED)), (3, 0));
        assert_eq!(crew.free(SHARED + 1), 2);
        let others = [crew.begin(), crew.begin(), crew.begin(), crew.begin()];
        assert_eq!(crew.free(100_000), 0);
        drop((first, others));
        assert_eq!(crew.free(100_000), 4);
        assert_eq!(Crew::<u8>::default().free(100_000), 0);
    }

    #[test]
    fn batches_share_the_memory_of_helpers() {
        let crew: Crew<u8> = Crew::new(4);
        let mut first = crew.helpers(100_000);
        assert_eq!(first.memory(), [0, 0, 0]);
        first.memory().fill(7);
        let none: &mut [u8] = &mut [];
        assert_eq!(crew.helpers(100_000).memory(), none, "all of it is in use");
        first.limit(1);
        assert_eq!(first.memory(), [7]);
        drop(first);
        let mut few = crew.helpers(SHARED + 1);
        assert_eq!(few.memory(), [7, 7]);
        assert_eq!(crew.helpers(100_000).memory(), [7]);
    }

    #[test]
    fn every_piece_runs_once_and_a_failed_one_is_told() {
        let crew: Crew<usize> = Crew::new(3);
        let (mut own, mut helpers) = (0, [0, 0]);
        let mut counts = vec![0; 1000];
        for times in 1..20 {
            crew.share(&mut own, &mut helpers, counts.iter_mut(), |count, taken| {
                *count += 1;
                *taken += 1;
            });
            assert!(counts.iter().all(|count| *count == times));
            assert_eq!(own + helpers.iter().sum::<usize>(), times * counts.len());
        }
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            crew.share(&mut own, &mut helpers, 0..1000, |number, _| {
                assert!(number != 700, "piece {number}");
            });
        }));
        assert!(failed.is_err());
    }
}
