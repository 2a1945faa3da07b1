//! Reading records: sources in a row, decompressed, cut into windows.
//!
//! ```text
//!  source ──► compression ──► lines ──► text │ jsonl ──► window
//!  files,     gzip, zstd      limit,    records           texts, columns, rejects
//!  pipes                      numbers
//! ```
//!
//! A reader holds one window and one record at most, whatever the size of the sources; a record above
//! the limit is rejected while it is being read.

mod cells;
mod columns;
mod compression;
mod fields;
mod format;
mod json;
mod jsonl;
mod lines;
mod options;
mod pace;
mod parse;
mod paths;
mod source;
mod text;
mod window;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use fields::{IdType, Keep, KeepType};
pub use format::InputFormat;
pub use options::{DEFAULT_MAX_RECORD_BYTES, DEFAULT_WINDOW_ROWS, InputOptions, WINDOW_BYTES};
pub use pace::Settled;
pub use source::Source;

use crate::error::Result;
use crate::record::{Origin, SourceNames, Window};
use columns::Columns;
use pace::Pace;
use parse::{Parsed, Parser};
use source::{OpenSource, Planned, Stdin};
use window::Filling;

/// Reads windows from sources.
pub struct RecordReader {
    sources: Vec<Planned>,
    names: SourceNames,
    stdin: Option<Stdin>,
    /// The source that is read, the last of those that were begun.
    opened: Option<OpenSource>,
    begun: usize,
    failed: bool,
    /// Bytes of the sources that were read to their end.
    consumed: u64,
    parser: Parser,
    filling: Filling,
    pace: Pace,
}

impl RecordReader {
    /// Looks at every source, so that a missing or unreadable file is found before any work, and decides
    /// formats. Reads nothing yet, and never waits: FIFOs and devices are opened when their turn comes.
    ///
    /// # Errors
    /// If options contradict each other, a source cannot be opened, or its format is unknown.
    pub fn open(sources: &[Source], options: InputOptions) -> Result<Self> {
        let stdin = sources.contains(&Source::Stdin).then(Stdin::take);
        Self::open_with(sources, options, stdin)
    }

    fn open_with(sources: &[Source], options: InputOptions, stdin: Option<Stdin>) -> Result<Self> {
        options::check(sources, &options)?;
        let sources = sources
            .iter()
            .zip(0..)
            .map(|(source, index)| Planned::new(index, source, options.format, stdin.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        options::check_fields(&sources, &options)?;
        for source in &sources {
            options::check_text(source, &options)?;
        }
        let columns = Columns::new(options.id_type, &options.keep, &options.text_field);
        let window_bytes = options.window_bytes.min(options::MOST_BYTES);
        Ok(Self {
            names: sources.iter().map(|source| source.name.clone()).collect(),
            sources,
            stdin,
            opened: None,
            begun: 0,
            failed: false,
            consumed: 0,
            filling: Filling::new(columns, options.window_rows, window_bytes),
            parser: Parser::new(options),
            pace: Pace::new(),
        })
    }

    /// Names of the sources as shown in messages; [`crate::record::Origin::source`] counts in it.
    #[must_use]
    pub fn names(&self) -> SourceNames {
        Arc::clone(&self.names)
    }

    /// Size of all sources together, where all are regular files.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// Lets the first windows be small, for an output that somebody waits for: each next one may be twice as
    /// large.
    pub fn begin_small(&mut self) {
        self.filling.begin_small();
    }

    /// For whoever writes the windows, and tells of each that it is written. A source that pauses then closes
    /// its window while nothing else is to be done; without that only a full window is handed on.
    #[must_use]
    pub fn settled(&self) -> Settled {
        self.pace.settled()
    }

    /// Reads the next window; `None` at the end. A window may hold rejects alone.
    ///
    /// # Errors
    /// If a source cannot be read to its end, or if standard input without a format holds JSONL. Bad
    /// records are no error here but [`Window::rejects`].
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        if self.failed {
            return Ok(None);
        }
        // A decoder that has failed may pretend to be at its end: never ask it again.
        self.failed = true;
        self.fill()?;
        self.failed = false;
        if self.filling.records() == 0 {
            return Ok(None);
        }
        let consumed = self.consumed + self.opened.as_ref().map_or(0, OpenSource::consumed);
        let warnings = self.parser.unseen();
        let window = self.filling.close(consumed)?;
        self.pace.handed_on();
        Ok(Some(Window { warnings, ..window }))
    }

    /// Reads until the window is full or the sources are at their end.
    fn fill(&mut self) -> Result<()> {
        while !self.filling.is_full() {
            let Some(opened) = &mut self.opened else {
                let Some(source) = self.sources.get(self.begun) else {
                    break;
                };
                // It may wait for its writer, and records of other sources don't wait with it.
                if source.may_pause() && self.filling.records() > 0 {
                    break;
                }
                self.begun += 1;
                let (opened, ahead) = source.open(&mut self.stdin, self.parser.limit())?;
                (self.opened, self.pace.source) = (Some(opened), ahead);
                continue;
            };
            if self.filling.records() > 0 && !opened.lines.has_line() && self.pace.pauses() {
                break;
            }
            let source = &self.sources[self.begun - 1];
            let line = match opened.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.consumed += opened.consumed();
                    self.opened = None;
                    continue;
                }
                Err(error) => return Err(source.failed(opened, error)),
            };
            let origin = Origin {
                source: source.index,
                line: line.number,
                offset: line.offset,
            };
            match self.parser.parse(source, &line, &self.filling.columns)? {
                Parsed::Record(record) => self.filling.accept(origin, &record, line.bytes),
                Parsed::Reject(reason) => self.filling.reject(origin, reason, line.bytes),
                Parsed::Nothing => {}
            }
        }
        Ok(())
    }

    /// Schema of [`Window::columns`]. A kept field without a type is known after the first window that
    /// holds a text; before it, it is a string.
    #[must_use]
    pub fn schema(&self) -> arrow::datatypes::SchemaRef {
        self.filling.columns.schema()
    }
}
