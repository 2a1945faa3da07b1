//! `--sample N`: that many records of all, each as likely as any other, in the input's order.
//!
//! Every record has a number, and the seed and that number decide its key; those with the least keys are the
//! sample. So it depends on nothing else, the input is read once, and what is held are candidates: some
//! windows of records and at most twice the sample.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use embedctl_common::error::Result;
use embedctl_records::record::{Texts, Window};
use embedctl_records::unsound;

/// Draws from the windows of an input.
pub(super) struct Sampler {
    seed: u64,
    most: usize,
    /// Number of the next record.
    next: u64,
    candidates: Vec<Candidates>,
    held: usize,
    /// Keys above it are out.
    threshold: u64,
}

/// The rest of a window, with the keys of its records.
struct Candidates {
    window: Window,
    keys: Vec<u64>,
}

impl Sampler {
    pub(super) fn new(most: u64, seed: u64) -> Self {
        Self {
            seed,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            next: 0,
            candidates: Vec::new(),
            held: 0,
            threshold: u64::MAX,
        }
    }

    /// Takes a window's candidates.
    pub(super) fn take(&mut self, window: Window) -> Result<()> {
        let keys = window.slots.iter().map(|_| self.key()).collect();
        let candidates = Candidates { window, keys };
        let candidates = candidates.below(self.threshold)?;
        self.held += candidates.records();
        self.candidates.push(candidates);
        if self.held > self.most.saturating_mul(2) {
            self.reduce()?;
        }
        Ok(())
    }

    /// The sample, in windows of `rows` texts, about.
    pub(super) fn finish(&mut self, rows: usize) -> Result<VecDeque<Window>> {
        self.reduce()?;
        let mut windows = VecDeque::new();
        let mut gathered: Vec<Window> = Vec::new();
        let mut texts = 0;
        for candidates in std::mem::take(&mut self.candidates) {
            texts += candidates.window.texts.len();
            let is_batch = candidates.window.batch.is_some();
            gathered.push(candidates.window);
            if texts >= rows || is_batch {
                windows.extend(joined(std::mem::take(&mut gathered))?);
                texts = 0;
            }
        }
        windows.extend(joined(gathered)?);
        Ok(windows)
    }

    /// Keeps the records with the least keys, as many as are wanted.
    fn reduce(&mut self) -> Result<()> {
        if self.held <= self.most {
            return Ok(());
        }
        let all = self.candidates.iter();
        let mut keys: Vec<u64> = all.flat_map(|one| one.keys.iter().copied()).collect();
        self.threshold = match self.most.checked_sub(1) {
            Some(last) => *keys.select_nth_unstable(last).1,
            None => 0,
        };
        let mut left = Vec::with_capacity(self.candidates.len());
        for candidates in std::mem::take(&mut self.candidates) {
            let candidates = candidates.below(self.threshold)?;
            if candidates.records() > 0 {
                left.push(candidates);
            }
        }
        self.held = left.iter().map(Candidates::records).sum();
        self.candidates = left;
        Ok(())
    }

    /// The next record's key. No two are equal (splitmix64 permutes numbers), and none is 0.
    fn key(&mut self) -> u64 {
        loop {
            self.next += 1;
            let mut mixed = self
                .next
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(mix(self.seed));
            mixed = mix(mixed);
            if mixed != 0 {
                return mixed;
            }
        }
    }
}

fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Candidates {
    fn records(&self) -> usize {
        self.keys.len()
    }

    /// Those whose key is not above `threshold`.
    fn below(mut self, threshold: u64) -> Result<Self> {
        let stays: Vec<bool> = self.keys.iter().map(|key| *key <= threshold).collect();
        self.window.retain(&stays)?;
        self.keys.retain(|key| *key <= threshold);
        Ok(self)
    }
}

/// One window of several; none of none.
fn joined(windows: Vec<Window>) -> Result<Option<Window>> {
    let batches: Vec<RecordBatch> = windows
        .iter()
        .map(|window| window.columns.clone())
        .collect();
    // Before the first text types may be undecided.
    let Some(schema) = batches.last().map(RecordBatch::schema) else {
        return Ok(None);
    };
    let filled = batches.iter().filter(|batch| batch.num_rows() > 0);
    let columns = concat_batches(&schema, filled).map_err(unsound)?;
    let rejected: Option<Vec<RecordBatch>> = windows
        .iter()
        .map(|window| window.rejected.clone())
        .collect();
    let rejected = rejected.map(|all| {
        let filled = all.iter().filter(|batch| batch.num_rows() > 0);
        concat_batches(&schema, filled).map_err(unsound)
    });
    let mut all = windows.into_iter();
    let Some(mut joined) = all.next() else {
        return Ok(None);
    };
    let mut texts: Texts = joined.texts.iter().collect();
    for window in all {
        window.texts.iter().for_each(|text| texts.push(text));
        joined.slots.extend(window.slots);
        joined.warnings.extend(window.warnings);
        joined.has_id_field |= window.has_id_field;
        joined.consumed = window.consumed;
        joined.position = window.position;
    }
    Ok(Some(Window {
        texts,
        columns,
        rejected: rejected.transpose()?,
        ..joined
    }))
}
