//! The sources of records: one interface for all inputs, read on a separate thread.

use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use crate::error::{Error, Result};
use crate::input::{RecordReader, WrittenSignal};
use crate::job::{JobReader, Point};
use crate::record::Window;
use crate::stage::Clocks;
use crate::threads::{guarded, spawn};
use arrow::datatypes::SchemaRef;

/// What is handed on from thread to thread, in input order.
#[allow(clippy::large_enum_variant)] // windows, as a rule
pub(super) enum SourceEvent<W> {
    Window(W),
    /// A stream of record batches begins, of this schema.
    Stream(SchemaRef),
    /// It has ended.
    StreamEnd,
    End(InputEnd),
}

/// The end of the input.
pub(super) struct InputEnd {
    /// Records that were read by this run.
    pub(super) read: u64,
    pub(super) schema: SchemaRef,
    /// Of a job: all that was read.
    pub(super) point: Point,
}

/// Reads windows: all windows of the input, the windows of successive streams, or the remaining windows of a job.
pub(super) trait RecordSource: Send {
    /// The reader behind it.
    fn input(&self) -> &RecordReader;

    /// The next window, or the bounds of a stream; `None` at the end of the input.
    ///
    /// # Errors
    /// As [`RecordReader::next_window`].
    fn next(&mut self) -> Result<Option<SourceEvent<Window>>>;

    /// A counter of written windows ([`RecordReader::settled`]). A job's windows are the same in every run,
    /// however its input arrives, so a job has none.
    fn written(&mut self) -> Option<WrittenSignal> {
        None
    }

    /// How many records it gives at most, where the options limit them.
    fn most_records(&self) -> Option<u64> {
        self.input().most_records()
    }

    /// Of a job: the end of all that was read.
    fn point(&self) -> Point {
        Point::default()
    }
}

impl RecordSource for RecordReader {
    fn input(&self) -> &RecordReader {
        self
    }

    fn next(&mut self) -> Result<Option<SourceEvent<Window>>> {
        Ok(self.next_window()?.map(SourceEvent::Window))
    }

    fn written(&mut self) -> Option<WrittenSignal> {
        self.settled()
    }
}

impl RecordSource for JobReader {
    fn input(&self) -> &RecordReader {
        self.input()
    }

    fn next(&mut self) -> Result<Option<SourceEvent<Window>>> {
        Ok(self.next_window()?.map(SourceEvent::Window))
    }

    fn most_records(&self) -> Option<u64> {
        let covered = self.covered_records();
        Some(self.input().most_records()?.saturating_sub(covered))
    }

    fn point(&self) -> Point {
        self.end()
    }
}

/// Streams of record batches, one after another, whose batches are answered one by one.
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
}

impl RecordSource for Streams {
    fn input(&self) -> &RecordReader {
        &self.reader
    }

    fn next(&mut self) -> Result<Option<SourceEvent<Window>>> {
        if !self.inside {
            let schema = self.reader.next_stream()?;
            self.inside = schema.is_some();
            return Ok(schema.map(SourceEvent::Stream));
        }
        let window = self.reader.next_window()?;
        self.inside = window.is_some();
        Ok(Some(
            window.map_or(SourceEvent::StreamEnd, SourceEvent::Window),
        ))
    }

    fn written(&mut self) -> Option<WrittenSignal> {
        self.reader.settled()
    }
}

/// Reads windows on a detached thread, which may block on a silent pipe for ever.
pub(super) fn spawn_reader(
    mut source: Box<dyn RecordSource>,
    clocks: &Arc<Clocks>,
) -> Result<Receiver<Result<SourceEvent<Window>>>> {
    let (sender, receiver) = bounded(1);
    let clocks = Arc::clone(clocks);
    spawn("read", move || {
        let mut read = 0;
        loop {
            let next = guarded(|| clocks.read.time(|| source.next()), Error::internal);
            let event = next.map(|next| {
                next.unwrap_or_else(|| {
                    SourceEvent::End(InputEnd {
                        read,
                        schema: source.input().schema(),
                        point: source.point(),
                    })
                })
            });
            if let Ok(SourceEvent::Window(window)) = &event {
                let missing = window.mark.as_ref().map(|mark| mark.missing.iter());
                read += match missing {
                    Some(missing) => missing.map(|range| range.end - range.start).sum(),
                    None => window.records() as u64,
                };
            }
            let last = matches!(event, Ok(SourceEvent::End(_)) | Err(_));
            if sender.send(event).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}
