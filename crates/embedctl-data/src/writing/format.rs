//! Output formats: names, endings and abilities.

use std::fmt;
use std::path::Path;

use super::proof::FILE;
use super::sidecar::{LENGTHS, PROVENANCE, ROWS};
use embedctl_records::format::{ARROW_MAGIC, ARROW_STREAM_START, InputFormat, PARQUET_MAGIC};
use embedctl_records::quantize::Dtype;
use embedctl_vectors::{Forms, RowForm};

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
    /// scipy's file of a sparse matrix, with its rows described in a file beside it.
    Npz,
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

impl Compression {
    /// The compression that a path's last ending promises.
    #[must_use]
    pub(crate) fn promised(path: &Path) -> Self {
        let ending = path.extension().unwrap_or_default();
        let is = |name: &str| ending.eq_ignore_ascii_case(name);
        match () {
            () if is("gz") => Self::Gzip,
            () if is("zst") => Self::Zstd,
            () => Self::None,
        }
    }
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
    /// In the file beside it that describes its rows ([`ROWS`]).
    Beside,
    /// Nowhere.
    Nowhere,
}

/// Name of the hash of a provenance that stands beside its output.
pub(crate) const SIDECAR_HASH: &str = "provenance";

/// The constants of an output format.
#[derive(Debug)]
pub struct OutputFacts {
    /// Endings of its files, without the first dot; the first is its name.
    pub endings: &'static [&'static str],
    /// The bytes that one of its files begins with, where they tell it; none where any may stand there.
    pub starts: &'static [&'static [u8]],
    /// One line for people who choose between formats.
    pub about: &'static str,
    /// The form of its vectors.
    pub shape: VectorShape,
    /// Whether it holds numbers of a form.
    pub holds: fn(&RowForm) -> bool,
    /// Whether it holds sparse vectors as maps from terms to weights, too.
    pub holds_terms: bool,
    /// Whether people can read it on a screen.
    pub is_text: bool,
    /// Types of components that it holds; the first where none is asked for.
    pub dtypes: &'static [Dtype],
    /// Endings of the files that stand beside every file of this format.
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
    const DEFAULT: Self = Self {
        endings: &[],
        starts: &[],
        about: "",
        shape: VectorShape::Fields,
        holds: RowForm::is_dense,
        holds_terms: false,
        is_text: false,
        dtypes: &Dtype::ALL,
        sidecars: &[PROVENANCE],
        hashes: &[],
        row_texts: RowTexts::Nowhere,
        names_vectors: true,
    };

    /// The values of a matrix, which has its rows described in a file beside it.
    const MATRIX: Self = Self {
        shape: VectorShape::Matrix,
        sidecars: &[ROWS, PROVENANCE],
        hashes: &["values", "header", "rows", SIDECAR_HASH],
        row_texts: RowTexts::Beside,
        names_vectors: false,
        ..Self::DEFAULT
    };

    /// Whether it holds numbers of this form.
    #[must_use]
    pub fn holds(&self, form: &RowForm) -> bool {
        (self.holds)(form)
    }

    /// Whether it holds sparse vectors, and no others.
    #[must_use]
    pub fn holds_sparse_alone(&self) -> bool {
        let mut all = RowForm::of_vectors().into_iter();
        all.all(|form| self.holds(&form) == form.is_sparse())
    }

    /// Whether a row may have vectors of several kinds, in columns or fields of their own.
    #[must_use]
    pub fn holds_several_kinds(&self) -> bool {
        RowForm::of_vectors().iter().all(self.holds)
    }

    /// The ending of the file that says how many vectors each row has, where tokens have one each and the format does not
    /// say so itself.
    #[must_use]
    pub fn lengths(&self) -> Option<&'static str> {
        let is_matrix = self.shape == VectorShape::Matrix;
        (is_matrix && self.holds(&RowForm::Tokens(0))).then_some(LENGTHS)
    }
}

impl OutputFormat {
    /// All of them, in the order in which they are listed to people.
    const ALL: [Self; 12] = [
        Self::Parquet,
        Self::Arrow,
        Self::Arrows,
        Self::Npy,
        Self::Npz,
        Self::Jsonl(Compression::None),
        Self::Jsonl(Compression::Gzip),
        Self::Jsonl(Compression::Zstd),
        Self::Pgcopy,
        Self::Fbin,
        Self::I8bin,
        Self::U8bin,
    ];

    /// Its constants.
    #[must_use]
    pub fn facts(self) -> OutputFacts {
        match self {
            Self::Parquet => OutputFacts {
                endings: &["parquet"],
                starts: &[PARQUET_MAGIC],
                about: "Columns id, kept fields and embedding",
                shape: VectorShape::Lists,
                holds: |_| true,
                holds_terms: true,
                sidecars: &[],
                hashes: &[FILE],
                row_texts: RowTexts::In(InputFormat::Parquet),
                ..OutputFacts::DEFAULT
            },
            Self::Arrow => OutputFacts {
                endings: &["arrow", "ipc", "feather"],
                starts: &[ARROW_MAGIC],
                about: "The same columns as an Arrow IPC file (Feather); a stream if OUT is not a file",
                shape: VectorShape::Lists,
                holds: |_| true,
                holds_terms: true,
                sidecars: &[],
                hashes: &[FILE],
                row_texts: RowTexts::In(InputFormat::Arrow),
                ..OutputFacts::DEFAULT
            },
            Self::Arrows => OutputFacts {
                endings: &["arrows"],
                starts: &[ARROW_STREAM_START],
                about: "The same columns as an Arrow IPC stream",
                shape: VectorShape::Lists,
                holds: |_| true,
                holds_terms: true,
                hashes: &["stream", SIDECAR_HASH],
                row_texts: RowTexts::In(InputFormat::Arrow),
                ..OutputFacts::DEFAULT
            },
            Self::Npy => OutputFacts {
                endings: &["npy"],
                starts: &[b"\x93NUMPY"],
                about: "A matrix, with the row ids in a file beside it",
                holds: |form| !form.is_sparse(),
                ..OutputFacts::MATRIX
            },
            Self::Npz => OutputFacts {
                endings: &["npz"],
                starts: &[b"PK\x03\x04"],
                about: "A sparse matrix of compressed rows (scipy.sparse.load_npz), with the row ids in a file beside it",
                dtypes: &[Dtype::F32],
                holds: RowForm::is_sparse,
                hashes: &["stream", "rows", SIDECAR_HASH],
                ..OutputFacts::MATRIX
            },
            Self::Jsonl(compression) => OutputFacts {
                endings: match compression {
                    Compression::None => &["jsonl", "ndjson"],
                    Compression::Gzip => &["jsonl.gz", "ndjson.gz"],
                    Compression::Zstd => &["jsonl.zst", "ndjson.zst"],
                },
                starts: match compression {
                    Compression::None => &[b"{"],
                    Compression::Gzip => &[b"\x1f\x8b"],
                    Compression::Zstd => &[b"\x28\xb5\x2f\xfd"],
                },
                about: match compression {
                    Compression::None => "A JSON object for each row",
                    Compression::Gzip => "The same, compressed with gzip",
                    Compression::Zstd => "The same, compressed with zstd",
                },
                is_text: compression == Compression::None,
                holds: |_| true,
                holds_terms: true,
                hashes: &["lines", SIDECAR_HASH],
                row_texts: RowTexts::In(InputFormat::Jsonl),
                ..OutputFacts::DEFAULT
            },
            Self::Pgcopy => OutputFacts {
                endings: &["pgcopy"],
                starts: &[b"PGCOPY\n\xff\r\n\0"],
                about: "Rows for PostgreSQL's COPY ... WITH (FORMAT binary), vectors in pgvector's types",
                dtypes: &[Dtype::F32, Dtype::F16, Dtype::Binary, Dtype::Ubinary],
                holds: RowForm::is_one_per_row,
                hashes: &["stream", SIDECAR_HASH],
                names_vectors: false,
                ..OutputFacts::DEFAULT
            },
            Self::Fbin => OutputFacts {
                endings: &["fbin"],
                about: "A matrix: rows and width as u32, then float32 (DiskANN, cuVS, usearch), with its rows' ids beside it",
                dtypes: &[Dtype::F32],
                ..OutputFacts::MATRIX
            },
            Self::I8bin => OutputFacts {
                endings: &["i8bin"],
                about: "The same with int8",
                dtypes: &[Dtype::Int8, Dtype::Binary],
                ..OutputFacts::MATRIX
            },
            Self::U8bin => OutputFacts {
                endings: &["u8bin"],
                about: "The same with uint8",
                dtypes: &[Dtype::Uint8, Dtype::Ubinary],
                ..OutputFacts::MATRIX
            },
        }
    }

    /// All of them, in the order in which they are listed to people.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// The format that a path's ending names.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        // The name before the ending may have any bytes.
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let ends = |ending: &&str| {
            let stem = name.strip_suffix(ending);
            stem.is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
        };
        Self::all().find(|format| format.facts().endings.iter().any(ends))
    }

    /// The format that a file's first bytes tell.
    #[must_use]
    pub fn of_start(start: &[u8]) -> Option<Self> {
        Self::all().find(|format| {
            let mut starts = format.facts().starts.iter();
            starts.any(|own| start.starts_with(own))
        })
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

    /// Endings of the files that stand beside every file of this format, whatever the form of its rows is.
    #[must_use]
    pub fn sidecars(self) -> &'static [&'static str] {
        self.facts().sidecars
    }

    /// Endings of the files that stand beside a file of this format that holds rows of these forms.
    #[must_use]
    pub fn sidecars_of(self, forms: &Forms) -> Vec<&'static str> {
        let lengths = self.facts().lengths();
        let lengths = lengths.filter(|_| forms.has(|form| !form.is_one_per_row()));
        self.sidecars().iter().copied().chain(lengths).collect()
    }

    /// Endings of the files that may stand beside a file of this format: those of rows of any form.
    #[must_use]
    pub fn possible_sidecars(self) -> Vec<&'static str> {
        let lengths = self.facts().lengths();
        self.sidecars().iter().copied().chain(lengths).collect()
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

/// The usual ending of every format, for messages.
pub(crate) fn endings() -> String {
    let names = OutputFormat::ALL.map(|format| format!(".{format}"));
    let (last, others) = names.split_last().expect("there are formats");
    format!("{} or {last}", others.join(", "))
}
