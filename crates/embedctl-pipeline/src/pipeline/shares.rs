//! A shard's share of the input.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use embedctl_records::fields::Keep;
use embedctl_records::options::{DEFAULT_WINDOW_ROWS, InputOptions, InputRange};

use super::EmbedOptions;
use crate::error::{Error, Result};
use crate::input::{ListedInput, RecordReader, Source};
use crate::job::{self, Job, JobReader, Point, Shard, ShardRange, SourceState};
use crate::position::Position;
use crate::record::SourceNames;
use crate::setting::KEEP;
use embedctl_records::marks::WindowStart;

/// The sources as they are now.
pub(super) fn source_states(options: &EmbedOptions, names: &SourceNames) -> Vec<SourceState> {
    let sources = options.sources.iter().zip(names.iter());
    sources
        .map(|(source, name)| SourceState::of(source, name))
        .collect()
}

/// A kept field whose type the first records decide.
fn untyped<'o>(options: &'o EmbedOptions, input: &RecordReader) -> Option<&'o Keep> {
    let InputOptions {
        keep, text_field, ..
    } = &options.input;
    let untyped = |keep: &&Keep| keep.kind.is_none() && keep.name != *text_field;
    let has_types = input.listed().all(|input| input.is_table);
    keep.iter().find(untyped).filter(|_| !has_types)
}

/// What a shard reads of the input; `None`: all of it. And the types of kept columns, where it reads nothing of
/// the first source, which decides them.
pub(super) fn shares(
    shard: Shard,
    options: &EmbedOptions,
    input: &mut RecordReader,
) -> Result<(Option<Vec<ShardRange>>, Option<SchemaRef>)> {
    if shard.count == 1 {
        return Ok((None, None));
    }
    if let Some(keep) = untyped(options, input) {
        return Err(Error::usage(format!(
            "{KEEP} {keep}: without a type, each shard would infer one from its own records"
        ))
        .with_remedy(format!("say which, such as `{KEEP} {keep}:string`")));
    }
    let listed: Vec<ListedInput> = input.listed().collect();
    let stretches = job::plan(&listed, shard, &|number| input.stretches(number))?;
    let columns = match stretches.first() {
        // All shards decide the type of ids by the same records.
        _ if options.input.infers_ids() && !options.sources.contains(&Source::Stdin) => {
            let mut all = options.clone();
            all.input.window_rows = DEFAULT_WINDOW_ROWS;
            all.reader()?.first_columns()?
        }
        Some(stretch) if stretch.source == 0 => None,
        _ => input.first_columns()?,
    };
    Ok((Some(stretches), columns))
}

/// The range of the input that a reader takes: these stretches, whose kept columns have these types.
pub(super) fn input_range(
    stretches: Option<&[ShardRange]>,
    columns: Option<SchemaRef>,
) -> InputRange {
    InputRange {
        start: None,
        columns,
        shares: stretches.map(|all| all.iter().map(ShardRange::share).collect()),
    }
}

/// Indices of the first source of these stretches, and of the one behind the last; of so many sources.
pub(super) fn range(stretches: Option<&[ShardRange]>, sources: usize) -> Range<u32> {
    match stretches {
        None => 0..u32::try_from(sources).expect("sources are counted in 32 bits"),
        Some([]) => 0..0,
        Some([first, .., last]) => first.source..last.source + 1,
        Some([one]) => one.source..one.source + 1,
    }
}

/// The input of a job in shards, read again: by it the run that completes the output proves that all shards have read
/// one version of it.
#[derive(Debug)]
pub(super) struct ShardInputs(EmbedOptions);

/// The job with the input that `options` read, if it is in shards.
pub(super) fn with_inputs(job: &Job, options: &EmbedOptions) -> Job {
    match job.shard().count {
        1 => job.clone(),
        _ => (job.clone()).with_inputs(Some(Arc::new(ShardInputs(options.clone())))),
    }
}

impl ShardInputs {
    fn open(&self) -> Result<RecordReader> {
        self.0.reader()
    }
}

impl job::Inputs for ShardInputs {
    fn sources(&self) -> Result<Vec<SourceState>> {
        Ok(source_states(&self.0, &self.open()?.names()))
    }

    fn read(&self, job: &Job, shard: u32, window: u64, start: Option<Position>) -> Result<Point> {
        let shard = Shard {
            index: shard,
            count: job.shard().count,
        };
        let mut input = self.open()?;
        let (stretches, columns) = shares(shard, &self.0, &mut input)?;
        let options = InputOptions {
            window_rows: usize::try_from(window)
                .map_err(|_| Error::internal("a window of 2^64 records"))?,
            ..self.0.record_options()
        };
        let range = InputRange {
            start,
            ..input_range(stretches.as_deref(), columns)
        };
        let reader = input.again(options, &range)?;
        let mut reader = JobReader::new(reader, WindowStart::default(), Vec::new(), job);
        while reader.next_window()?.is_some() {}
        Ok(reader.end())
    }
}
