//! The input of a job in shards, read again: by it the run that completes the output proves that all shards have read
//! one version of it.

use super::EmbedOptions;
use super::job::sources;
use super::reading::{shares, told};
use crate::error::{Error, Result};
use crate::input::{InputOptions, RecordReader};
use crate::job::{Inputs, Job, JobReader, Point, Shard, SourceState};
use crate::position::Position;

/// The input that these options name.
#[derive(Debug)]
pub(super) struct InputOf(pub(super) EmbedOptions);

impl Inputs for InputOf {
    fn sources(&self) -> Result<Vec<SourceState>> {
        let options = &self.0;
        let input = RecordReader::open(&options.sources, options.input.clone())?;
        Ok(sources(options, &input.names()))
    }

    fn read(&self, job: &Job, shard: u32, window: u64, start: Option<Position>) -> Result<Point> {
        let options = &self.0;
        let shard = Shard {
            index: shard,
            count: job.shard().count,
        };
        let mut input = RecordReader::open(&options.sources, options.input.clone())?;
        let (stretches, columns) = shares(shard, options, &mut input)?;
        let input = InputOptions {
            window_rows: usize::try_from(window)
                .map_err(|_| Error::internal("a window of 2^64 records"))?,
            columns,
            shares: told(stretches.as_deref()),
            start,
            ..options.input.clone()
        };
        let reader = RecordReader::open(&options.sources, input)?;
        let mut reader = JobReader::new(reader, Point::default(), Vec::new(), job);
        while reader.next_window()?.is_some() {}
        Ok(reader.end())
    }
}
