//! Formats of records: their names, endings and first bytes, and the reader of each.

use std::path::Path;
use std::sync::Arc;

use super::{arrow, csv, jsonl, parquet, text};
use crate::input::compression::SourceCompression;
use crate::input::options::InputOptions;
use crate::input::reader::Reader;
use crate::input::rows::RowReader;
use crate::input::source::{From, Planned};
use crate::input::window::Filling;
use embedctl_common::error::Result;
use embedctl_common::named::named;

named! {
    /// The format of a source.
    pub enum InputFormat {
        /// A line is a record.
        Text = "text",
        /// A line is a JSON object.
        Jsonl = "jsonl",
        /// Fields separated by commas, the first line names them.
        Csv = "csv",
        /// The same with tabs.
        Tsv = "tsv",
        /// Apache Parquet.
        Parquet = "parquet",
        /// Apache Arrow's files and streams (IPC).
        Arrow = "arrow",
    }
}

/// The constants of an input format.
#[derive(Debug)]
pub struct InputFacts {
    /// Endings of its files, in lower case.
    pub endings: &'static [&'static str],
    /// One line for people who choose between formats.
    pub about: &'static str,
    /// First bytes that only sources of this format have.
    pub starts: &'static [&'static [u8]],
    /// Whether its records come as columns with types of their own.
    pub is_table: bool,
    /// The byte between fields, if the first line names them.
    pub separator: Option<u8>,
}

impl InputFacts {
    /// The values of a format that sets no others; every format sets its endings and its line.
    pub(crate) const DEFAULT: Self = Self {
        endings: &[],
        about: "",
        starts: &[],
        is_table: false,
        separator: None,
    };
}

/// An input format: its facts, and how a source is read.
pub(crate) trait InputSpec: Sync {
    /// Its constants.
    fn facts(&self) -> InputFacts;

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
    pub(crate) fn spec(self) -> &'static dyn InputSpec {
        match self {
            Self::Text => &text::TextInput,
            Self::Jsonl => &jsonl::JsonlInput,
            Self::Csv => &csv::CsvInput { separator: b',' },
            Self::Tsv => &csv::CsvInput { separator: b'\t' },
            Self::Parquet => &parquet::ParquetInput,
            Self::Arrow => &arrow::ArrowInput,
        }
    }

    /// Its constants.
    #[must_use]
    pub fn facts(self) -> InputFacts {
        self.spec().facts()
    }

    /// Whether its records come as columns with types of their own.
    #[must_use]
    pub fn is_table(self) -> bool {
        self.facts().is_table
    }

    /// Whether its first line names the fields.
    pub(crate) fn has_header(self) -> bool {
        self.facts().separator.is_some()
    }
}

/// Whether more bytes than these are needed to recognise a format.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let mut starts = (InputFormat::ALL.iter()).flat_map(|format| format.facts().starts);
    starts.any(|start| bytes.len() < start.len() && start.starts_with(bytes))
}

/// The format that a source's first bytes are the start of, where that is certain.
pub(crate) fn recognised(start: &[u8]) -> Option<InputFormat> {
    let mut formats = InputFormat::ALL.into_iter();
    formats.find(|format| {
        let mut starts = format.facts().starts.iter();
        starts.any(|own| start.starts_with(own))
    })
}

/// Format and compression as `path`'s endings name them, upper case or lower; `None` where they don't.
pub(crate) fn by_ending(path: &Path) -> (Option<InputFormat>, Option<SourceCompression>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let (stem, encoding) = match name.rsplit_once('.') {
        Some((stem, "gz")) => (stem, Some(SourceCompression::Gzip)),
        Some((stem, "zst")) => (stem, Some(SourceCompression::Zstd)),
        Some((stem, "bz2")) => (stem, Some(SourceCompression::Bzip2)),
        Some((stem, "xz")) => (stem, Some(SourceCompression::Xz)),
        _ => (name.as_str(), None),
    };
    let format = stem.rsplit_once('.').and_then(|(_, ending)| {
        let mut formats = InputFormat::ALL.into_iter();
        formats.find(|format| format.facts().endings.contains(&ending))
    });
    (format, encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_format_and_compression() {
        let (text, jsonl) = (Some(InputFormat::Text), Some(InputFormat::Jsonl));
        let (gzip, zstd) = (Some(SourceCompression::Gzip), Some(SourceCompression::Zstd));
        for (path, expected) in [
            ("a.txt", (text, None)),
            ("dir.jsonl/a.TXT", (text, None)),
            ("a.jsonl", (jsonl, None)),
            ("a.b.ndjson", (jsonl, None)),
            ("a.txt.gz", (text, gzip)),
            ("a.JSONL.Zst", (jsonl, zstd)),
            ("a.parquet", (Some(InputFormat::Parquet), None)),
            ("a.Feather", (Some(InputFormat::Arrow), None)),
            ("a.arrows", (Some(InputFormat::Arrow), None)),
            ("a.gz", (None, gzip)),
            ("a.csv.zst", (Some(InputFormat::Csv), zstd)),
            (
                "a.tsv.XZ",
                (Some(InputFormat::Tsv), Some(SourceCompression::Xz)),
            ),
            ("a.txt.bz2", (text, Some(SourceCompression::Bzip2))),
            ("a.txt.bak", (None, None)),
            ("txt", (None, None)),
            ("a.json", (None, None)),
            ("/dev/stdin", (None, None)),
            ("..", (None, None)),
            ("Ü.txt", (text, None)),
        ] {
            assert_eq!(by_ending(Path::new(path)), expected, "{path}");
        }
    }
}
