//! Output formats: names, endings and abilities, the writer of each, and the way it is read back.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::input::InputFormat;
use super::{arrow, jsonl, matrix, parquet, pgcopy};
use crate::output::columns::check_json_type;
use crate::output::encoding::VectorEncoding;
use crate::output::made;
use crate::output::quantize::Dtype;
use crate::output::read::{ChosenRows, Said, TakeVector, in_order};
use crate::output::sidecar::PROVENANCE;
use crate::output::target::Target;
use crate::output::writer::VectorWriter;
use crate::record::SourceNames;
use ::arrow::datatypes::FieldRef;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::KEEP;
use embedctl_storage::Readable;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Apache Parquet: `id`, kept fields, vectors.
    Parquet,
    /// Arrow's IPC file (Feather, version 2); to anything but a regular file, its IPC stream.
    Arrow,
    /// Arrow's IPC stream, in files too.
    Arrows,
    /// `NumPy`'s array file, with its rows described in a file beside it.
    Npy,
    /// One JSON object per line.
    Jsonl(Compression),
    /// The input of PostgreSQL's `COPY … WITH (FORMAT binary)`, with vectors in pgvector's types.
    Pgcopy,
    /// Rows and width as u32, then float32 values: DiskANN's, cuVS' and usearch's.
    Fbin,
    /// The same with int8 values.
    I8bin,
    /// The same with uint8 values.
    U8bin,
}

/// How a line format is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// The form of vectors in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorShape {
    /// Columns of Arrow's lists.
    Lists,
    /// Fields of rows.
    Fields,
    /// Rows of one matrix, which has neither names nor nulls.
    Matrix,
}

/// Where the texts of an output's rows can be read, if they were kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowTexts {
    /// In the output, which is of this input format too.
    In(InputFormat),
    /// In the file beside it that describes its rows ([`ROWS`](crate::output::ROWS)).
    Beside,
    /// Nowhere.
    Nowhere,
}

/// Name of the hash of a provenance that stands beside its output.
pub(crate) const SIDECAR_HASH: &str = "provenance";

/// The parts of a new writer.
pub(crate) struct Beginning {
    pub target: Target,
    pub encoding: VectorEncoding,
    /// Names of the sources.
    pub names: SourceNames,
    /// Whether the caller begins and ends stream after stream.
    pub streams: bool,
}

/// The constants of an output format.
#[derive(Debug)]
pub struct OutputFacts {
    /// Endings of its files, without the first dot; the first is its name.
    pub endings: &'static [&'static str],
    /// One line for people who choose between formats.
    pub about: &'static str,
    /// The form of its vectors.
    pub shape: VectorShape,
    /// Whether people can read it on a screen.
    pub is_text: bool,
    /// Types of components that it holds; the first where none is asked for.
    pub dtypes: &'static [Dtype],
    /// Endings of the files that stand beside a file of this format.
    pub sidecars: &'static [&'static str],
    /// Names of the hashes in its provenance that cover the file and those beside it; that of its vectors first.
    pub hashes: &'static [&'static str],
    /// Where the texts of its rows can be read.
    pub row_texts: RowTexts,
    /// Whether its vectors are read back with the names of their columns, as the provenance has them.
    pub names_vectors: bool,
}

impl OutputFacts {
    /// The values of a format that sets no others; every format sets its endings, its line and its hashes.
    pub(crate) const DEFAULT: Self = Self {
        endings: &[],
        about: "",
        shape: VectorShape::Fields,
        is_text: false,
        dtypes: &Dtype::ALL,
        sidecars: &[PROVENANCE],
        hashes: &[],
        row_texts: RowTexts::Nowhere,
        names_vectors: true,
    };
}

/// An output format: its facts, how it is written, and how it is read back.
pub(crate) trait OutputSpec: Sync {
    /// Its constants.
    fn facts(&self) -> OutputFacts;

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
    /// All of them, in the order in which they are listed to people.
    const ALL: [Self; 11] = [
        Self::Parquet,
        Self::Arrow,
        Self::Arrows,
        Self::Npy,
        Self::Jsonl(Compression::None),
        Self::Jsonl(Compression::Gzip),
        Self::Jsonl(Compression::Zstd),
        Self::Pgcopy,
        Self::Fbin,
        Self::I8bin,
        Self::U8bin,
    ];

    pub(crate) fn spec(self) -> &'static dyn OutputSpec {
        match self {
            Self::Parquet => &parquet::ParquetOutput,
            Self::Arrow => &arrow::ArrowFileOutput,
            Self::Arrows => &arrow::ArrowStreamOutput,
            Self::Npy => &matrix::MatrixOutput::Npy,
            Self::Jsonl(Compression::None) => &jsonl::JsonlOutput(Compression::None),
            Self::Jsonl(Compression::Gzip) => &jsonl::JsonlOutput(Compression::Gzip),
            Self::Jsonl(Compression::Zstd) => &jsonl::JsonlOutput(Compression::Zstd),
            Self::Pgcopy => &pgcopy::PgcopyOutput,
            Self::Fbin => &matrix::MatrixOutput::Fbin,
            Self::I8bin => &matrix::MatrixOutput::I8bin,
            Self::U8bin => &matrix::MatrixOutput::U8bin,
        }
    }

    /// Its constants.
    #[must_use]
    pub fn facts(self) -> OutputFacts {
        self.spec().facts()
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

    /// All of them, in the order in which they are listed to people.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// The format that a path's ending names.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name().and_then(OsStr::to_str)?;
        let name = name.to_ascii_lowercase();
        let ends = |ending: &&str| {
            let stem = name.strip_suffix(ending);
            stem.is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
        };
        Self::all().find(|format| format.facts().endings.iter().any(ends))
    }

    /// The format that is called `name`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|format| format.name() == name)
    }

    /// Its name, which is also the usual ending of its files, without the dot.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().endings[0]
    }

    /// Endings of the files that stand beside a file of this format.
    #[must_use]
    pub fn sidecars(self) -> &'static [&'static str] {
        self.facts().sidecars
    }

    /// Whether it is one matrix, which has neither names nor nulls.
    #[must_use]
    pub fn is_matrix(self) -> bool {
        self.facts().shape == VectorShape::Matrix
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
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

/// The usual ending of every format, for messages.
pub(crate) fn endings() -> String {
    let names = OutputFormat::ALL.map(|format| format!(".{format}"));
    let (last, others) = names.split_last().expect("there are formats");
    format!("{} or {last}", others.join(", "))
}
