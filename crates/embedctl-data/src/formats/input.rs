//! The reader of each input format.

use std::sync::Arc;

use super::reader::Reader;
use super::rows::RowReader;
use super::{arrow, csv, jsonl, parquet, text};
use crate::reading::format::InputFormat;
use crate::reading::options::InputOptions;
use crate::reading::source::{From, Planned};
use crate::reading::window::Filling;
use embedctl_common::error::Result;

/// How a source of an input format is read.
pub(crate) trait InputSpec: Sync {
    /// Opens a source, and gives the window's columns their types where the format has some. `None`: of many streams,
    /// there is not one. A format of lines is read line by line.
    ///
    /// # Errors
    /// If it cannot be read, is something else, or lacks a column that is asked for.
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        from: &mut From<'_>,
        filling: &mut Filling,
    ) -> Result<Option<Box<dyn Reader>>> {
        let reader = RowReader::open(source, options, from, filling)?;
        Ok(Some(Box::new(reader)))
    }

    /// Rows of each row group or record batch; `None` where the source does not say.
    ///
    /// # Errors
    /// If the part that should say so is damaged.
    fn stretches(&self, _source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
        Ok(None)
    }
}

impl InputFormat {
    /// How its sources are read.
    pub(crate) fn spec(self) -> &'static dyn InputSpec {
        match self {
            Self::Text | Self::File => &text::TextInput,
            Self::Jsonl | Self::Json | Self::OpenAiBatch => &jsonl::JsonlInput,
            Self::Csv => &csv::CsvInput { separator: b',' },
            Self::Tsv => &csv::CsvInput { separator: b'\t' },
            Self::Parquet => &parquet::ParquetInput,
            Self::Arrow => &arrow::ArrowInput,
        }
    }
}
