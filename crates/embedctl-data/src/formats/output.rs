//! The writer of each output format, and the way it is read back.

use std::io::Read;

use serde_json::Value;

use super::json_columns::check_json_type;
use super::{arrow, jsonl, matrix, parquet, pgcopy};
use crate::record::SourceNames;
use crate::vectors::{ChosenRows, Said, TakeVector, in_order};
use crate::writing::encoding::VectorEncoding;
use crate::writing::format::{Compression, OutputFormat};
use crate::writing::made;
use crate::writing::target::Target;
use crate::writing::writer::VectorWriter;
use ::arrow::datatypes::FieldRef;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::KEEP;
use embedctl_storage::Readable;

/// The parts of a new writer.
pub(crate) struct Beginning {
    pub target: Target,
    pub encoding: VectorEncoding,
    /// Names of the sources.
    pub names: SourceNames,
    /// Whether the caller begins and ends stream after stream.
    pub streams: bool,
}

/// How an output format is written, and how it is read back.
pub(crate) trait OutputSpec: Sync {
    /// Begins an output.
    ///
    /// # Errors
    /// If the format cannot hold such vectors, or the system refuses.
    fn create(&self, begin: Beginning) -> Result<Box<dyn VectorWriter>>;

    /// Checks that the format has a form for a kept column of this type: by default, that JSON has one.
    ///
    /// # Errors
    /// The reason why it has none.
    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        check_json_type(field)
    }

    /// The provenance of an output, which stands beside it unless the format has a place for it; `None` where there is
    /// none, or none that can be read.
    ///
    /// # Errors
    /// If the system or a store refuses.
    fn provenance(&self, file: &Readable) -> Result<Option<Value>> {
        made::beside(file)
    }

    /// Hands every vector of a file to `take`.
    ///
    /// # Errors
    /// If the file cannot be read, is of another format, or `take` says so.
    fn read_vectors(&self, file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()>;

    /// Opens a file to read vectors by the numbers of their rows: those in these columns, of these widths. `None` where
    /// the format is read in order alone.
    ///
    /// # Errors
    /// If it cannot be read, or holds no such vectors.
    fn choose_rows(
        &self,
        _file: &Readable,
        _columns: &[(String, usize)],
    ) -> Result<Option<Box<dyn ChosenRows>>> {
        Ok(None)
    }

    /// The bytes that the hash of that name in a file's provenance covers: all of them unless the format divides them.
    ///
    /// # Errors
    /// If the file cannot be read, or begins otherwise.
    fn hashed(&self, file: &Readable, _name: &str) -> Result<Box<dyn Read>> {
        Ok(Box::new(in_order(file)?))
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

/// The error for a kept column that a format cannot hold, for `reason`. The remedy names the formats that can.
pub(crate) fn refused_type(field: &FieldRef, reason: &str) -> Error {
    let others = OutputFormat::all().filter(|format| format.spec().check_type(field).is_ok());
    let others: Vec<_> = others.map(|format| format!("-f {format}")).collect();
    let remedy = match others.split_last() {
        None => "leave it out".to_owned(),
        Some((one, [])) => format!("leave it out, or choose {one}"),
        Some((last, others)) => {
            format!("leave it out, or choose {} or {last}", others.join(", "))
        }
    };
    Error::usage(format!("{KEEP} {}: {reason}", field.name())).with_remedy(remedy)
}
