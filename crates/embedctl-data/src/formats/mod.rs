//! Every format that is read or written: a folder or a file for each, with all that is particular to it.
//!
//! ```text
//!  mod.rs     the specification of each format: an InputSpec to read it, an OutputSpec to write it and read it back
//!
//!              text  jsonl  csv  parquet  arrow  matrix  pgcopy
//!  reader       ×      ×     ×      ×       ×
//!  writer              ×            ×       ×       ×       ×
//! ```
//!
//! Names, endings and abilities of formats are in [`crate::reading::format`] and [`crate::writing::format`]. `rows` and
//! `parse` read lines, `columnar` reads tables, `json_columns` writes columns as JSON.

pub(crate) mod arrow;
mod columnar;
mod csv;
pub(crate) mod input;
pub(crate) mod jsonl;
pub(crate) mod matrix;
pub(crate) mod output;
pub(crate) mod parquet;
mod pgcopy;
pub(crate) mod reader;
mod rows;

use self::input::InputSpec;
use self::output::OutputSpec;
use crate::writing::format::{Compression, OutputFormat};
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::FieldRef;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{KEEP, OUTPUT_FORMAT};
use embedctl_records::format::InputFormat;
use embedctl_records::json_rows::JsonColumns;

/// How sources of a format are read.
pub(crate) fn input_spec(format: InputFormat) -> &'static dyn InputSpec {
    use InputFormat::{Arrow, Csv, File, Json, Jsonl, OpenAiBatch, Parquet, Text, Tsv};
    match format {
        Text | File | Jsonl | Json | OpenAiBatch => &rows::LineInput,
        Csv => &csv::CsvInput { separator: b',' },
        Tsv => &csv::CsvInput { separator: b'\t' },
        Parquet => &parquet::ParquetInput,
        Arrow => &arrow::ArrowInput,
    }
}

impl OutputFormat {
    /// How it is written and read back.
    pub(crate) fn spec(self) -> &'static dyn OutputSpec {
        match self {
            Self::Parquet => &parquet::ParquetOutput,
            Self::Arrow => &arrow::ArrowFileOutput,
            Self::Arrows => &arrow::ArrowStreamOutput,
            Self::Npy => &matrix::MatrixOutput::Npy,
            Self::Npz => &matrix::NpzOutput,
            Self::Jsonl(Compression::None) => &jsonl::JsonlOutput(Compression::None),
            Self::Jsonl(Compression::Gzip) => &jsonl::JsonlOutput(Compression::Gzip),
            Self::Jsonl(Compression::Zstd) => &jsonl::JsonlOutput(Compression::Zstd),
            Self::Pgcopy => &pgcopy::PgcopyOutput,
            Self::Fbin => &matrix::MatrixOutput::Fbin,
            Self::I8bin => &matrix::MatrixOutput::I8bin,
            Self::U8bin => &matrix::MatrixOutput::U8bin,
        }
    }

    /// Checks that the format has a form for a kept column of this type.
    ///
    /// # Errors
    /// If it has none; the remedy names the formats that have one.
    pub(crate) fn check_type(self, field: &FieldRef) -> Result<()> {
        self.spec()
            .check_type(field)
            .map_err(|reason| refused_type(field, &reason))
    }
}

/// The columns of some rows as JSON.
///
/// # Errors
/// If JSON has no form for one.
fn json_columns(batch: &RecordBatch) -> Result<JsonColumns<'_>> {
    JsonColumns::new(batch).map_err(|(field, reason)| refused_type(&field, &reason))
}

/// The error for a kept column that a format cannot hold, for `reason`. The remedy names the formats that can.
pub(crate) fn refused_type(field: &FieldRef, reason: &str) -> Error {
    let others = OutputFormat::all().filter(|format| format.spec().check_type(field).is_ok());
    let others: Vec<_> = others
        .map(|format| format!("{OUTPUT_FORMAT} {format}"))
        .collect();
    let remedy = match others.split_last() {
        None => "leave it out".to_owned(),
        Some((one, [])) => format!("leave it out, or choose {one}"),
        Some((last, others)) => {
            format!("leave it out, or choose {} or {last}", others.join(", "))
        }
    };
    Error::usage(format!("{KEEP} {}: {reason}", field.name())).with_remedy(remedy)
}
