//! What a user can say about the output.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::calibration::Calibration;
use super::quantize::Dtype;
use super::sidecar::{PROVENANCE, ROWS};
use embedctl_common::error::{Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{CALIBRATION, DTYPE};
use embedctl_common::word_list::words;

/// Name of the vectors' column, where none is given.
pub const EMBEDDING: &str = "embedding";

/// Where vectors go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Destination {
    /// Standard output.
    #[default]
    Stdout,
    /// A path: a file to be made, or an existing device or FIFO.
    Path(PathBuf),
}

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
    /// What PostgreSQL's `COPY … WITH (FORMAT binary)` reads, with vectors in pgvector's types.
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

/// Every format, with the endings that mean it; the first is its name.
const FORMATS: [(OutputFormat, &str); 11] = [
    (OutputFormat::Parquet, "parquet"),
    (OutputFormat::Arrow, "arrow ipc feather"),
    (OutputFormat::Arrows, "arrows"),
    (OutputFormat::Npy, "npy"),
    (OutputFormat::Jsonl(Compression::None), "jsonl ndjson"),
    (OutputFormat::Jsonl(Compression::Gzip), "jsonl.gz ndjson.gz"),
    (
        OutputFormat::Jsonl(Compression::Zstd),
        "jsonl.zst ndjson.zst",
    ),
    (OutputFormat::Pgcopy, "pgcopy"),
    (OutputFormat::Fbin, "fbin"),
    (OutputFormat::I8bin, "i8bin"),
    (OutputFormat::U8bin, "u8bin"),
];

impl OutputFormat {
    /// All of them, in the order in which they are listed to people.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.into_iter().map(|(format, _)| format)
    }

    /// The format that a path's ending names.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name().and_then(OsStr::to_str)?;
        let name = name.to_ascii_lowercase();
        let ends = |ending: &str| {
            let stem = name.strip_suffix(ending);
            stem.is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
        };
        let mut formats = FORMATS.iter();
        formats
            .find(|(_, endings)| words(endings).any(ends))
            .map(|(format, _)| *format)
    }

    /// The format that is called `name`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|format| format.name() == name)
    }

    /// Its name, which is also the usual ending of its files, without the dot.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = FORMATS.into_iter().find(|(format, _)| *format == self);
        known
            .and_then(|(_, endings)| words(endings).next())
            .unwrap_or_default()
    }

    /// Endings of the files that stand beside a file of this format.
    #[must_use]
    pub const fn sidecars(self) -> &'static [&'static str] {
        match self {
            Self::Parquet | Self::Arrow => &[],
            Self::Npy | Self::Fbin | Self::I8bin | Self::U8bin => &[ROWS, PROVENANCE],
            Self::Arrows | Self::Jsonl(_) | Self::Pgcopy => &[PROVENANCE],
        }
    }

    /// Whether its vectors are lists of Arrow's types.
    pub(super) const fn has_lists(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow | Self::Arrows)
    }

    /// Whether it is one matrix, which has neither names nor nulls.
    #[must_use]
    pub const fn is_matrix(self) -> bool {
        matches!(self, Self::Npy | Self::Fbin | Self::I8bin | Self::U8bin)
    }

    /// Whether nobody could read it on a screen.
    pub(super) const fn is_binary(self) -> bool {
        !matches!(self, Self::Jsonl(Compression::None))
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

named! {
    /// The kind of list that a vector is, in Parquet and Arrow.
    #[derive(Default)]
    pub enum VectorType {
        /// Of fixed size, as most readers want vectors.
        #[default]
        Fixed = "fixed",
        /// Of variable length, for readers that know no other (Spark).
        List = "list",
    }
}

/// How to write.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Where to.
    pub destination: Destination,
    /// Format; `None`: from the path's ending, JSONL for standard output.
    pub format: Option<OutputFormat>,
    /// Replace an output that exists.
    pub force: bool,
    /// Type of a vector's components; `None`: what the format is for, else float32.
    pub dtype: Option<Dtype>,
    /// By which int8 and uint8 divide components into steps.
    pub calibration: Option<Calibration>,
    /// Kind of list; `None`: of fixed size. Parquet and Arrow have such alone.
    pub vector_type: Option<VectorType>,
    /// Name of the vectors' column; `None`: [`EMBEDDING`]. Where vectors of several widths are written, that
    /// is what their names begin with: `embedding_64`.
    pub embedding_field: Option<String>,
    /// Whether rows may be without a vector, which is null then.
    pub nullable: bool,
    /// Whether the output is Arrow stream after stream, each begun and ended by the caller.
    pub streams: bool,
}

impl OutputOptions {
    /// Everything as it is by default.
    #[must_use]
    pub fn new(destination: Destination) -> Self {
        Self {
            destination,
            ..Self::default()
        }
    }

    /// The format that will be written.
    ///
    /// # Errors
    /// If none is given and the path's ending names none.
    pub fn resolved_format(&self) -> Result<OutputFormat> {
        match (self.format, &self.destination) {
            (Some(OutputFormat::Arrow), Destination::Stdout) => Ok(OutputFormat::Arrows),
            (Some(format), _) => Ok(format),
            (None, Destination::Stdout) => Ok(OutputFormat::Jsonl(Compression::None)),
            (None, Destination::Path(path)) => OutputFormat::from_path(path).ok_or_else(|| {
                Error::usage(format!(
                    "the ending of {} names no output format",
                    path.display()
                ))
                .with_remedy(format!("end it in {}, or say which with -f", endings()))
            }),
        }
    }

    /// The type of a vector's components that will be written.
    ///
    /// # Errors
    /// If the format is not known, or does not hold that type.
    pub fn resolved_dtype(&self) -> Result<Dtype> {
        let format = self.resolved_format()?;
        let held: &[Dtype] = match format {
            OutputFormat::Fbin => &[Dtype::F32],
            OutputFormat::I8bin => &[Dtype::Int8, Dtype::Binary],
            OutputFormat::U8bin => &[Dtype::Uint8, Dtype::Ubinary],
            OutputFormat::Pgcopy => &[Dtype::F32, Dtype::F16, Dtype::Binary, Dtype::Ubinary],
            _ => &Dtype::ALL,
        };
        let dtype = self.dtype.unwrap_or(held[0]);
        if !held.contains(&dtype) {
            let held: Vec<&str> = held.iter().map(|it| it.name()).collect();
            return Err(Error::usage(format!(
                "{DTYPE} {dtype}: {format} output holds {}",
                held.join(", ")
            ))
            .with_remedy("choose one of these, or another output format (-f)"));
        }
        if dtype.needs_ranges() && self.calibration.is_none() {
            return Err(Error::usage(format!(
                "{DTYPE} {dtype} needs {CALIBRATION} FILE: which range of each component is divided into 256 steps \
                 must not depend on the records at hand"
            ))
            .with_remedy(format!(
                "embed some thousand records with {DTYPE} f32 -o calibration.npy first, and give that file"
            )));
        }
        Ok(dtype)
    }

    /// Names of the columns that hold vectors of these widths.
    #[must_use]
    pub fn columns(&self, dimensions: &[usize]) -> Vec<String> {
        let name = self.embedding_field.as_deref().unwrap_or(EMBEDDING);
        match dimensions {
            [] | [_] => vec![name.to_owned()],
            several => several.iter().map(|it| format!("{name}_{it}")).collect(),
        }
    }
}

/// The usual ending of every format, for messages.
pub(super) fn endings() -> String {
    let names = FORMATS.map(|(format, _)| format!(".{format}"));
    let (last, others) = names.split_last().expect("there are formats");
    format!("{} or {last}", others.join(", "))
}
