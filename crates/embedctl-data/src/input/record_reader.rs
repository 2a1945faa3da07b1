//! The reader of records from sources in a row.

pub(super) mod opening;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::sample::Sampler;
use crate::formats::input_spec;
use crate::formats::reader::Reader;
use crate::reading::pace::{WindowPacing, WrittenSignal};
use crate::reading::source::{Planned, Source, SourceOpener, Stdin};
use embedctl_common::error::{Error, Result};
use embedctl_common::size;
use embedctl_records::lines::Filled;
use embedctl_records::options::InputOptions;
use embedctl_records::parse::Parser;
use embedctl_records::position::{Position, Seek};
use embedctl_records::record::{SourceNames, Window};
use embedctl_records::window::OpenWindow;

/// Reads windows from sources.
pub struct RecordReader {
    options: Arc<InputOptions>,
    sources: Vec<Arc<Planned>>,
    /// All of the sources, as they were found.
    whole: Vec<Planned>,
    names: SourceNames,
    total_bytes: Option<u64>,
    stdin: Option<Stdin>,
    /// The source that is read, the last of those that were begun.
    opened: Option<Box<dyn Reader>>,
    begun: usize,
    /// Whether the window that is being filled holds columns of tables.
    columnar: bool,
    failed: bool,
    /// Bytes of the sources that were read to their end.
    consumed: u64,
    parser: Parser,
    filling: OpenWindow,
    sampler: Option<Sampler>,
    /// The drawn records, once all were read.
    sample: Option<VecDeque<Window>>,
    pace: WindowPacing,
}

impl RecordReader {
    /// Reads of rejected records what can be read, into [`Window::rejected`]: for outputs in which they stay.
    pub fn keep_rejected(&mut self) {
        self.filling.keeps_rejected = true;
    }

    /// Names of the sources as shown in messages; [`embedctl_records::record::Origin::source`] counts in it.
    #[must_use]
    pub fn names(&self) -> SourceNames {
        Arc::clone(&self.names)
    }

    /// Size of all sources together, where all are regular files.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// How many records it gives at most, where the options limit them.
    #[must_use]
    pub fn most_records(&self) -> Option<u64> {
        let limits = [self.options.limit, self.options.sample];
        limits.into_iter().flatten().min()
    }

    /// Begins with small windows, each next one up to twice as large, so that the first rows of a streamed output
    /// arrive early.
    pub fn begin_small(&mut self) {
        self.filling.begin_small();
        self.pace.is_awaited = true;
    }

    /// The handle by which the writer reports each written window. A source that pauses then ends its window while no
    /// other work is left (without a streamed output, only once the types of kept fields are decided). Without reports
    /// only full windows are passed on. `None`: a random sample reads everything first.
    #[must_use]
    pub fn settled(&mut self) -> Option<WrittenSignal> {
        self.sampler.is_none().then(|| self.pace.settled())
    }

    /// Reads the next window; `None` at the end. A window may hold rejects alone.
    ///
    /// # Errors
    /// If a source cannot be read to its end, is of another format, or lacks a field that was named.
    /// Bad records are no error here but [`Window::rejects`].
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        let Some(mut sampler) = self.sampler.take() else {
            return match &mut self.sample {
                Some(sample) => Ok(sample.pop_front()),
                None => self.read_window(),
            };
        };
        self.sample = Some(VecDeque::new());
        while let Some(window) = self.read_window()? {
            sampler.take(window)?;
        }
        let mut sample = sampler.finish(self.options.window_rows)?;
        let first = sample.pop_front();
        self.sample = Some(sample);
        Ok(first)
    }

    fn read_window(&mut self) -> Result<Option<Window>> {
        if self.failed {
            return Ok(None);
        }
        // A decoder that has failed may pretend to be at its end: never ask it again.
        self.failed = true;
        self.fill()?;
        self.failed = false;
        if self.filling.is_empty() {
            return Ok(None);
        }
        if let Some(field) = self.parser.unseen() {
            let mut sources = self.sources.iter();
            let source = sources.find(|planned| planned.facts.index == field.source);
            let source = source.ok_or_else(|| Error::internal("a record of no source"))?;
            let fields = field.fields.iter().map(String::as_str);
            return Err(source.facts.missing(field.option, &field.name, fields));
        }
        let consumed = self.consumed + self.opened.as_ref().map_or(0, |opened| opened.consumed());
        let position = self.position();
        let mut window = self.filling.close(consumed, position)?;
        window.has_id_field |= self.parser.has_ids();
        self.pace.handed_on();
        Ok(Some(window))
    }

    /// Where the record that is read next stands.
    fn position(&self) -> Position {
        let (source, (lines, seek)) = match &self.opened {
            Some(opened) => (self.sources[self.begun - 1].facts.index, opened.place()),
            None => {
                let next = self
                    .sources
                    .get(self.begun)
                    .map(|source| source.facts.index);
                let end = u32::try_from(self.names.len()).expect("sources are counted in 32 bits");
                (next.unwrap_or(end), (0, Seek::Reread))
            }
        };
        Position {
            source,
            lines,
            seek,
        }
    }

    /// Reads until the window is full or the sources are at their end.
    fn fill(&mut self) -> Result<()> {
        while !self.filling.is_full() && !self.filling.is_done() {
            if let Some(opened) = &mut self.opened {
                match opened.fill(&mut self.parser, &mut self.filling, &mut self.pace)? {
                    Filled::Full | Filled::Waits => return Ok(()),
                    // Of several streams in one source, each ends as the input does.
                    Filled::End if self.options.batches.are_of_streams() => return Ok(()),
                    Filled::End => {
                        self.consumed += opened.consumed();
                        self.opened = None;
                    }
                }
                continue;
            }
            if !self.begin()? {
                break;
            }
        }
        Ok(())
    }

    /// Opens the next source; false where there is none, or its records must not share the window.
    fn begin(&mut self) -> Result<bool> {
        let Some(source) = self.sources.get(self.begun) else {
            return Ok(false);
        };
        let columnar = source.facts.format.is_table();
        let decides = self.parser.decides(&self.filling.columns);
        // Columns of tables and records of lines don't share a window. A header decides the columns, unless
        // the records before it have. And a source may wait for its writer: records of others don't wait
        // with it.
        if (columnar != self.columnar
            || source.facts.format.has_header() && !self.filling.columns.is_fixed()
            || source.may_pause() && self.pace.may_end(decides))
            && !self.filling.is_empty()
        {
            return Ok(false);
        }
        self.columnar = columnar;
        self.begun += 1;
        let filling = &mut self.filling;
        let mut opener = SourceOpener {
            stdin: &mut self.stdin,
            pace: &mut self.pace,
        };
        let format = input_spec(source.facts.format);
        self.opened = format.open(source, &self.options, &mut opener, filling)?;
        if let Source::Object(object) = &source.source
            && let Some(reason) = object.bytes.copied()
        {
            filling.warnings.push(format!(
                "{}: its server {reason}, so all of it ({}) was fetched into a temporary file first",
                source.facts.name,
                size::words(object.bytes.len())
            ));
        }
        Ok(self.opened.is_some())
    }

    /// For record batches that are answered one by one: opens the first stream of the source, or under
    /// [`BatchWindows::WholeOfStreams`](embedctl_records::options::BatchWindows) the next one, once [`RecordReader::next_window`] has come to the end of the one
    /// before. Its schema; `None`: there is no more.
    ///
    /// # Errors
    /// If the following bytes are not a stream, or the stream lacks a column that was named.
    pub fn next_stream(&mut self) -> Result<Option<SchemaRef>> {
        if self.failed {
            return Ok(None);
        }
        self.failed = true;
        let more = match &mut self.opened {
            Some(opened) => {
                self.options.batches.are_of_streams() && opened.next_stream(&mut self.filling)?
            }
            None => self.begun < self.sources.len() && self.begin()?,
        };
        self.failed = false;
        Ok(if more { self.table_schema() } else { None })
    }

    /// Every column of the table that is being read (or was read last, with one source), with its type; `None`
    /// before the first window and for sources without a schema.
    #[must_use]
    pub fn table_schema(&self) -> Option<SchemaRef> {
        self.opened.as_ref().and_then(|opened| opened.schema())
    }

    /// The schema of [`Window::columns`], where its types come from what was read and don't change any more.
    #[must_use]
    pub fn columns(&self) -> Option<SchemaRef> {
        let columns = &self.filling.columns;
        (columns.is_fixed() && columns.are_inferred()).then(|| columns.schema())
    }

    /// Schema of [`Window::columns`]. A kept field without a type is known after the first window that
    /// holds a text; before it, it is a string.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.filling.columns.schema()
    }
}
