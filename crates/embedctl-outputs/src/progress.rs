//! Progress events of the library. It prints nothing itself: the caller decides.

use std::sync::Arc;

use crate::engine::EngineInfo;
use crate::stage::StageWatch;

/// Counts of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records read.
    pub read: u64,
    /// Records embedded.
    pub embedded: u64,
    /// Rows written with their vectors: as many as records embedded, but for chunks.
    pub rows: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Tokens embedded, padding not counted.
    pub tokens: u64,
    /// Rows cut to the model's length.
    pub truncated: u64,
    /// Rows, of those with vectors, whose vector was taken from an earlier output.
    pub reused: u64,
    /// Rows whose vectors overflowed in fp16 and were computed in bf16.
    pub overflowed: u64,
    /// Entries of all sparse vectors.
    pub entries: u64,
    /// Entries of the row that has the most.
    pub most_entries: u64,
    /// Vectors of all rows' tokens.
    pub token_vectors: u64,
    /// Vectors of the row that has the most.
    pub most_token_vectors: u64,
    /// Bytes of the sources consumed (compressed, where they are).
    pub consumed: u64,
}

impl Counts {
    /// The difference from the earlier counts `then`.
    #[must_use]
    pub fn since(&self, then: &Self) -> Self {
        Self {
            read: self.read - then.read,
            embedded: self.embedded - then.embedded,
            rows: self.rows - then.rows,
            rejected: self.rejected - then.rejected,
            tokens: self.tokens - then.tokens,
            truncated: self.truncated - then.truncated,
            reused: self.reused - then.reused,
            overflowed: self.overflowed - then.overflowed,
            entries: self.entries - then.entries,
            token_vectors: self.token_vectors - then.token_vectors,
            most_entries: self.most_entries,
            most_token_vectors: self.most_token_vectors,
            consumed: self.consumed,
        }
    }
}

/// How much a run reads, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputSize {
    /// Bytes of the sources.
    pub bytes: Option<u64>,
    /// Records at most, where the options limit them.
    pub records: Option<u64>,
}

/// A window whose batches begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Bytes of the sources consumed at its end.
    pub consumed: u64,
    /// Records that it adds.
    pub records: u64,
    /// Tokens that it has to run.
    pub tokens: u64,
}

/// A batch that was run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchDone {
    /// Rows that have their vectors now, copies of equal texts among them.
    pub rows: u64,
    /// Rows that ran: each of the equal texts of a window runs once.
    pub run: u64,
    /// Tokens that ran, padding not counted.
    pub tokens: u64,
}

/// Receives events of a run. Calls come from the pipeline's threads, one at a time.
#[allow(unused_variables)] // nothing is heard by default
pub trait Progress: Send + Sync {
    /// The clocks of the run that is about to begin; they may be read at any time.
    fn stages(&self, watch: &StageWatch) {}

    /// The engine is open and work begins.
    fn started(&self, engine: &EngineInfo, input: InputSize) {}

    /// The batches of the next window come from now on.
    fn window(&self, window: WindowSize) {}

    /// A batch was embedded (called often; cheap).
    fn batch(&self, done: BatchDone) {}

    /// A window, or a portion of one, was written.
    fn written(&self, counts: &Counts) {}

    /// The output is complete and stands under its name.
    fn published(&self) {}

    /// Something a user should be told once.
    fn warning(&self, message: &str) {}
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}

/// Tells each of several.
impl Progress for Vec<Arc<dyn Progress>> {
    fn stages(&self, watch: &StageWatch) {
        self.iter().for_each(|one| one.stages(watch));
    }

    fn started(&self, engine: &EngineInfo, input: InputSize) {
        self.iter().for_each(|one| one.started(engine, input));
    }

    fn window(&self, window: WindowSize) {
        self.iter().for_each(|one| one.window(window));
    }

    fn batch(&self, done: BatchDone) {
        self.iter().for_each(|one| one.batch(done));
    }

    fn written(&self, counts: &Counts) {
        self.iter().for_each(|one| one.written(counts));
    }

    fn published(&self) {
        self.iter().for_each(|one| one.published());
    }

    fn warning(&self, message: &str) {
        self.iter().for_each(|one| one.warning(message));
    }
}
