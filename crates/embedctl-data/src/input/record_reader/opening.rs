//! Sources as they are found, and what is known of their columns before the first record.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::RecordReader;
use crate::formats::input_spec;
use crate::input::sample::Sampler;
use crate::input::{documents, plan};
use crate::reading::pace::WindowPacing;
use crate::reading::source::{Planned, Source, Stdin};
use embedctl_common::error::{Error, Result};
use embedctl_records::columns::InputColumns;
use embedctl_records::options::{InputOptions, InputRange, MOST_BYTES};
use embedctl_records::parse::Parser;
use embedctl_records::places::{Partitions, PlaceColumns};
use embedctl_records::record::SourceNames;
use embedctl_records::window::OpenWindow;

/// An input, as a listing has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedInput {
    /// Bytes; `None` for a pipe, whose size is unknown.
    pub bytes: Option<u64>,
    /// Whether its records are rows of a table, whose columns have types.
    pub is_table: bool,
    /// Whether it can only be read from its beginning: it is compressed, or CSV, whose header stands there and whose
    /// records may go over several lines.
    pub is_whole: bool,
}

impl ListedInput {
    /// Whether it can be cut between lines.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        !self.is_table && !self.is_whole
    }
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

    pub(in crate::input) fn open_with(
        sources: &[Source],
        options: InputOptions,
        stdin: Option<Stdin>,
    ) -> Result<Self> {
        plan::check(sources, &options)?;
        let format = (options.format).or_else(|| documents::implied_format(sources, false));
        let sources = sources
            .iter()
            .zip(0..)
            .map(|(source, index)| Planned::new(index, source, format, stdin.as_ref()))
            .collect::<Result<Vec<_>>>()?;
        // What is kept of folders' names needs no field in the files.
        let mut of_files = options.clone();
        let names = sources.iter().map(|source| source.facts.name.clone());
        Partitions::take(&names.collect(), &mut of_files);
        plan::check_sources(&sources, &of_files)?;
        Self::of(sources, options, &InputRange::default(), stdin)
    }

    /// The same sources without another inspection, of which this range is read, in windows as these options say.
    ///
    /// # Errors
    /// If a share is none of a source's.
    pub fn again(self, options: InputOptions, range: &InputRange) -> Result<Self> {
        let keeps_rejected = self.filling.keeps_rejected;
        let mut reader = Self::of(self.whole, options, range, self.stdin)?;
        reader.filling.keeps_rejected = keeps_rejected;
        Ok(reader)
    }

    fn of(
        sources: Vec<Planned>,
        mut options: InputOptions,
        range: &InputRange,
        stdin: Option<Stdin>,
    ) -> Result<Self> {
        let names: SourceNames = sources
            .iter()
            .map(|source| source.facts.name.clone())
            .collect();
        let partitions = Partitions::take(&names, &mut options);
        let places = PlaceColumns::new(&options, partitions, &names)?;
        let mut columns = InputColumns::new(&options, places);
        if let Some(schema) = &range.columns {
            columns.go_on(schema).map_err(Error::usage)?;
        }
        let window_bytes = options.window_bytes.min(MOST_BYTES);
        let options = Arc::new(options);
        let mut filling = OpenWindow::new(columns, options.window_rows, window_bytes);
        filling.left = options.limit;
        filling
            .warnings
            .extend(plan::repeated_ids(&sources, &options));
        Ok(Self {
            names,
            total_bytes: sources.iter().map(|source| source.bytes).sum(),
            whole: sources.clone(),
            sources: plan::parts(sources, range)?,
            stdin,
            opened: None,
            begun: 0,
            columnar: false,
            failed: false,
            consumed: 0,
            parser: Parser::new(&options, &filling.columns),
            filling,
            sampler: options.sample.map(|most| Sampler::new(most, options.seed)),
            sample: None,
            options,
            pace: WindowPacing::new(),
        })
    }

    /// The inputs with names, sizes and formats, as needed to divide them among shards.
    pub fn listed(&self) -> impl Iterator<Item = ListedInput> {
        self.sources.iter().map(|source| ListedInput {
            bytes: source.bytes,
            is_table: source.facts.format.is_table(),
            is_whole: source.is_whole(),
        })
    }

    /// Rows of each row group or record batch of the input `number` of [`RecordReader::listed`]: where a table can be
    /// divided cheaply. `None` if the format cannot be entered.
    ///
    /// # Errors
    /// If its footer cannot be read.
    pub fn stretches(&self, number: usize) -> Result<Option<Vec<u64>>> {
        match self.sources.get(number) {
            Some(source) => input_spec(source.facts.format).stretches(source),
            _ => Ok(None),
        }
    }

    /// The [`RecordReader::columns`] of a reader that begins with the first source; `None` if its records decide the types
    /// of kept fields. If they decide that of ids, they are read until they have. Nothing can be read after it.
    ///
    /// # Errors
    /// If the source cannot be read, or is a table that lacks a column that was named.
    pub fn first_columns(&mut self) -> Result<Option<SchemaRef>> {
        // A pipe can be read but once.
        let first = self.sources.first().filter(|source| source.bytes.is_some());
        let can_be_read = first.is_some();
        if first.is_some_and(|source| source.facts.format.is_table()) {
            self.begin()?;
        }
        if self.filling.columns.infers_ids() && can_be_read {
            while !self.filling.columns.is_fixed() && self.next_window()?.is_some() {}
            return Ok(self.columns());
        }
        let columns = &self.filling.columns;
        let is_known = columns.kept() > 0 && !columns.undecided();
        Ok(is_known.then(|| columns.schema()))
    }
}
