//! Opens sources of lines.

use std::sync::Arc;

use super::RowReader;
use crate::formats::input::InputSpec;
use crate::formats::parquet;
use crate::formats::reader::Reader;
use crate::reading::format;
use crate::reading::source::{Planned, SourceOpener};
use embedctl_common::error::Result;
use embedctl_common::setting::INPUT_FORMAT;
use embedctl_records::format::InputFormat;
use embedctl_records::options::{InputOptions, Part};
use embedctl_records::window::OpenWindow;

/// Every format of lines.
pub(in crate::formats) struct LineInput;

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
