//! Sources of lines: each is a record, a bad one, or nothing.

use std::sync::Arc;

use super::input::InputSpec;
use super::parquet;
use super::parse::{Parsed, Parser};
use super::reader::{FillEnd, Reader};
use crate::position::Seek;
use crate::reading::format::{self, InputFormat};
use crate::reading::options::{InputOptions, Part};
use crate::reading::pace::WindowPacing;
use crate::reading::source::{OpenSource, Planned, SourceOpener};
use crate::reading::window::OpenWindow;
use crate::record::Origin;
use embedctl_common::error::Result;
use embedctl_common::setting::INPUT_FORMAT;

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
        columns.check_lines().map_err(|cause| source.usage(cause))?;
        if !source.format.has_fields() {
            let text = std::iter::once(options.text_field.as_str());
            columns
                .expand(text, warnings)
                .map_err(|cause| source.usage(cause))?;
        }
        let opened = source.open(opener, options.max_record_bytes)?;
        if source.guessed
            && let Some(format) = format::recognised(opened.lines.ahead())
        {
            if format == InputFormat::Parquet {
                return Err(parquet::not_a_file(source));
            }
            return Err(source
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
    ) -> Result<FillEnd> {
        while !filling.is_full() {
            if self.opened.lines.offset() >= self.end {
                return Ok(FillEnd::End);
            }
            // Before each read, not each line: the beginning of a line may come long before its end.
            if !filling.is_empty() && !self.opened.lines.has_line() {
                if pace.pauses(parser.decides(&filling.columns)) {
                    return Ok(FillEnd::Window);
                }
                let read = self.opened.lines.read_on();
                read.map_err(|error| self.source.failed(&self.opened, error))?;
                continue;
            }
            let line = match self.opened.lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(FillEnd::End),
                Err(error) => return Err(self.source.failed(&self.opened, error)),
            };
            self.source.check_ends(&line)?;
            let origin = Origin {
                source: self.source.index,
                line: line.number,
                offset: line.offset,
            };
            let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
            match parser.parse(&self.source, &line, columns, warnings)? {
                Parsed::Record(record) => {
                    let fields = |columns: &_| parser.fields(&self.source, &line, columns);
                    filling.accept(origin, &record, line.bytes, fields);
                }
                Parsed::Reject(cause) => {
                    let known = |columns: &_| parser.known(&self.source, &line, columns);
                    let fields = |columns: &_| parser.fields(&self.source, &line, columns);
                    filling.reject(origin, cause, line.bytes, known, fields);
                }
                Parsed::Nothing => {}
            }
        }
        Ok(FillEnd::Window)
    }

    fn consumed(&self) -> u64 {
        self.opened.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        self.opened.place()
    }
}
