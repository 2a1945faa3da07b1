//! Sources of lines: each is a record, a bad one, or nothing.

use std::sync::Arc;

use super::input::InputSpec;
use super::parquet;
use super::reader::Reader;
use crate::reading::format;
use crate::reading::pace::WindowPacing;
use crate::reading::source::{OpenSource, Planned, SourceOpener};
use embedctl_common::error::Result;
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::InputFormat;
use embedctl_records::lines::Filled;
use embedctl_records::options::{InputOptions, Part};
use embedctl_records::parse::Parser;
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;

/// Every format of lines.
pub(super) struct LineInput;

impl InputSpec for LineInput {
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Option<Box<dyn Reader>>> {
        let reader = RowReader::open(source, options, opener, filling)?;
        Ok(Some(Box::new(reader)))
    }
}

/// Reads lines.
struct RowReader {
    source: Arc<Planned>,
    opened: OpenSource,
    /// The byte at which no line of this part begins any more.
    end: u64,
}

impl RowReader {
    /// Opens the source and reads its first bytes.
    fn open(
        source: &Arc<Planned>,
        options: &InputOptions,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Self> {
        let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
        columns
            .check_lines()
            .map_err(|cause| source.facts.usage(cause))?;
        if !source.facts.format.has_fields() {
            let text = std::iter::once(options.text_field.as_str());
            columns
                .expand(text, warnings)
                .map_err(|cause| source.facts.usage(cause))?;
        }
        let opened = source.open(opener, options.max_record_bytes)?;
        if source.facts.guessed
            && let Some(format) = format::recognised(opened.lines.ahead())
        {
            if format == InputFormat::Parquet {
                return Err(parquet::not_a_file(source));
            }
            return Err(source
                .facts
                .usage(format!("this is not text: it looks like {format}"))
                .with_remedy(format!("say `{INPUT_FORMAT} {format}`")));
        }
        Ok(Self {
            source: Arc::clone(source),
            opened,
            end: match source.part {
                Part::Bytes { end, .. } => end,
                Part::Whole | Part::Rows { .. } => u64::MAX,
            },
        })
    }
}

impl Reader for RowReader {
    fn fill(
        &mut self,
        parser: &mut Parser,
        filling: &mut OpenWindow,
        pace: &mut WindowPacing,
    ) -> Result<Filled> {
        loop {
            let lines = &mut self.opened.lines;
            let filled = parser.fill(&self.source.facts, lines, self.end, filling);
            match filled.map_err(|fault| self.source.faulty(&self.opened, fault))? {
                Filled::Waits if !pace.pauses(parser.decides(&filling.columns)) => {
                    self.source.read_on(&mut self.opened)?;
                }
                filled => return Ok(filled),
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.opened.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        self.opened.place()
    }
}
