//! CSV and TSV: a header, and records that may go over several lines.

use std::sync::Arc;

use super::input::InputSpec;
use crate::formats::reader::Reader;
use crate::reading::pace::WindowPacing;
use crate::reading::source::{OpenSource, Planned, SourceOpener};
use embedctl_common::error::Result;
use embedctl_records::csv::CsvRows;
use embedctl_records::csv_options::CsvDialect;
use embedctl_records::lines::Filled;
use embedctl_records::options::InputOptions;
use embedctl_records::parse::Parser;
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;

/// The format.
pub(super) struct CsvInput {
    /// The byte between fields.
    pub separator: u8,
}

impl InputSpec for CsvInput {
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Option<Box<dyn Reader>>> {
        let dialect = CsvDialect::new(&options.csv, self.separator);
        let limit = options.max_record_bytes;
        let whole = Planned {
            start: None,
            ..Planned::clone(source)
        };
        let mut opened = whole.open(opener, limit)?;
        let rows = CsvRows::open(dialect, &source.facts, options, &mut opened.lines, filling);
        let mut rows = rows.map_err(|fault| source.faulty(&opened, fault))?;
        match source.start {
            Some((_, Seek::Byte { .. })) => {
                opened = source.open(opener, limit)?;
                rows.begin_again();
            }
            Some((lines, _)) => {
                let skipped = rows.skip(&mut opened.lines, lines);
                skipped.map_err(|fault| source.faulty(&opened, fault))?;
            }
            None => {}
        }
        Ok(Some(Box::new(CsvReader {
            source: Arc::clone(source),
            opened,
            rows,
        })))
    }
}

/// Reads records of one source.
struct CsvReader {
    source: Arc<Planned>,
    opened: OpenSource,
    rows: CsvRows,
}

impl Reader for CsvReader {
    fn fill(
        &mut self,
        _: &mut Parser,
        filling: &mut OpenWindow,
        pace: &mut WindowPacing,
    ) -> Result<Filled> {
        loop {
            let filled = self.rows.fill(&mut self.opened.lines, filling);
            match filled.map_err(|fault| self.source.faulty(&self.opened, fault))? {
                // Records that are whole don't wait for the end of one that is not.
                Filled::Waits if !pace.pauses(false) => self.source.read_on(&mut self.opened)?,
                filled => return Ok(filled),
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.opened.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        let (lines, seek) = self.opened.place();
        match (self.rows.place(), seek) {
            (None, seek) => (lines, seek),
            (Some((lines, byte)), Seek::Byte { .. }) => (lines, Seek::Byte { byte }),
            (Some((lines, _)), seek) => (lines, seek),
        }
    }
}
