//! The reader: windows of the input, one after another, on a thread of its own; and what of the input is a shard's.

use std::ops::Range;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::EmbedOptions;
use crate::error::{Error, Result};
use crate::input::{InputOptions, Keep, Listed, RecordReader, Settled, Share};
use crate::job::{JobReader, Point, Shard, Stretch, plan};
use crate::record::Window;
use crate::setting::KEEP;
use crate::stage::Clocks;
use crate::threads::{guarded, spawn};
use arrow::datatypes::SchemaRef;

/// Reads windows: all of the input's, or those that a job still has to embed.
pub(super) enum Reading {
    Plain(RecordReader),
    /// Arrow streams, whose record batches are answered one by one.
    Streams(Streams),
    Job(JobReader),
}

impl Reading {
    /// What it reads from.
    pub(super) fn input(&self) -> &RecordReader {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader,
            Self::Job(reader) => reader.input(),
        }
    }

    /// The next window; `None` at the end of the input, or of one of several streams.
    fn next_window(&mut self) -> Result<Option<Window>> {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader.next_window(),
            Self::Job(reader) => reader.next_window(),
        }
    }

    /// Who is told of windows that are written. A job's windows are the same in every run, however its input
    /// comes, so nobody is told.
    pub(super) fn settled(&mut self) -> Option<Settled> {
        match self {
            Self::Plain(reader) | Self::Streams(Streams { reader, .. }) => reader.settled(),
            Self::Job(_) => None,
        }
    }

    fn next(&mut self) -> Result<Read> {
        let next = match self {
            Self::Streams(streams) => streams.next()?,
            _ => self.next_window()?.map(Read::Window),
        };
        Ok(next.unwrap_or_else(|| Read::End(self.end())))
    }

    fn end(&self) -> End {
        End {
            read: 0,
            schema: self.input().schema(),
            point: match self {
                Self::Plain(_) | Self::Streams(_) => Point::default(),
                Self::Job(reader) => reader.end(),
            },
        }
    }
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
) -> Result<(Option<Vec<Stretch>>, Option<SchemaRef>)> {
    if shard.count == 1 {
        return Ok((None, None));
    }
    if let Some(keep) = untyped(options, input) {
        return Err(Error::usage(format!(
            "{KEEP} {keep}: without a type each shard would decide on one by its own records"
        ))
        .with_remedy(format!("say which, such as `{KEEP} {keep}:string`")));
    }
    let listed: Vec<Listed> = input.listed().collect();
    let stretches = plan(&listed, shard, &|number| input.stretches(number))?;
    let columns = match stretches.first() {
        Some(stretch) if stretch.source == 0 => None,
        _ => input.first_columns()?,
    };
    Ok((Some(stretches), columns))
}

/// What a reader is told of stretches.
pub(super) fn told(stretches: Option<&[Stretch]>) -> Option<Vec<Share>> {
    Some(stretches?.iter().map(Stretch::share).collect())
}

/// Indices of the first source of these stretches, and of the one behind the last; of so many sources.
pub(super) fn range(stretches: Option<&[Stretch]>, sources: usize) -> Range<u32> {
    match stretches {
        None => 0..u32::try_from(sources).expect("sources are counted in 32 bits"),
        Some([]) => 0..0,
        Some([first, .., last]) => first.source..last.source + 1,
        Some([one]) => one.source..one.source + 1,
    }
}

/// Stream after stream, or one.
pub(super) struct Streams {
    reader: RecordReader,
    /// Whether one has begun and not ended.
    inside: bool,
}

impl Streams {
    pub(super) fn new(reader: RecordReader) -> Self {
        Self {
            reader,
            inside: false,
        }
    }

    /// What comes next; `None` behind the last stream.
    fn next(&mut self) -> Result<Option<Read>> {
        if !self.inside {
            let schema = self.reader.next_stream()?;
            self.inside = schema.is_some();
            return Ok(schema.map(Read::Stream));
        }
        let window = self.reader.next_window()?;
        self.inside = window.is_some();
        Ok(Some(window.map_or(Read::StreamEnd, Read::Window)))
    }
}

/// What the reader hands on.
pub(super) type Read = Passed<Window>;

/// What is handed on from thread to thread, in input order.
#[allow(clippy::large_enum_variant)] // windows, as a rule
pub(super) enum Passed<W> {
    Window(W),
    /// A stream of record batches begins, of this schema.
    Stream(SchemaRef),
    /// It has ended.
    StreamEnd,
    End(End),
}

/// The end of the input.
pub(super) struct End {
    /// Records that were read by this run.
    pub(super) read: u64,
    pub(super) schema: SchemaRef,
    /// Of a job: all that was read.
    pub(super) point: Point,
}

/// Reads windows on a thread that nobody waits for: it may block on a silent pipe for ever.
pub(super) fn spawn_reader(
    mut reader: Reading,
    clocks: &Arc<Clocks>,
) -> Result<Receiver<Result<Read>>> {
    let (sender, receiver) = bounded(1);
    let clocks = Arc::clone(clocks);
    spawn("read", move || {
        let mut read = 0;
        loop {
            let mut message = guarded(|| clocks.read.time(|| reader.next()), Error::internal);
            match &mut message {
                Ok(Read::Window(window)) => {
                    read += (window.texts.len() + window.rejects.len()) as u64;
                }
                Ok(Read::End(end)) => end.read = read,
                _ => {}
            }
            let last = matches!(message, Ok(Read::End(_)) | Err(_));
            if sender.send(message).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}
