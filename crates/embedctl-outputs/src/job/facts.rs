//! The facts of a job that all of its parts share.

use std::ops::Range;

use super::Job;
use super::part::SourceState;
use super::shards::ShardRange;

/// The facts of a job that all of its parts share.
#[derive(Debug)]
pub struct JobFacts {
    /// The job.
    pub job: Job,
    /// Hash of the fingerprint.
    pub fingerprint: String,
    /// The sources, as they were when the run began.
    pub sources: Vec<SourceState>,
    /// Indices of the first one that the shard reads, and of the one behind its last.
    pub share: Range<u32>,
    /// The shard's share of them; empty for a job without shards.
    pub stretches: Vec<ShardRange>,
}

impl JobFacts {
    /// The sources that the shard reads.
    pub(super) fn of_share(&self) -> &[SourceState] {
        let Range { start, end } = self.share;
        self.sources
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }
}
