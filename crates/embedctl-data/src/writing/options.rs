//! The options of an output.

use std::path::PathBuf;
use std::sync::Arc;

use super::calibration::Calibration;
pub use super::numbers::{AdditionalVectors, RowNumbers};
use super::quantize::Dtype;
use crate::record::RowVectors;
pub use crate::writing::format::{Compression, OutputFormat};
use crate::writing::format::{SparseForm, TokenForm, endings};
use crate::writing::kinds::KindColumns;
use embedctl_common::error::{Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{
    CALIBRATION, DTYPE, OUTPUT, OUTPUT_FORMAT, SPARSE_TOKENS, VECTOR_TYPE, VECTORS,
};

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
    /// Type of a vector's components; `None`: the format's first, which is float32 for most.
    pub dtype: Option<Dtype>,
    /// By which int8 and uint8 divide components into steps.
    pub calibration: Option<Calibration>,
    /// Kind of list; `None`: see [`OutputOptions::resolved_vector_type`]. Parquet and Arrow have such alone.
    pub vector_type: Option<VectorType>,
    /// What is written.
    pub numbers: RowNumbers,
    /// The other kinds of vectors that a row has, each of which gets a column.
    pub beside: Vec<AdditionalVectors>,
    /// Whether sparse vectors are maps from terms to weights, in place of indices and values.
    pub sparse_tokens: bool,
    /// Whether the file beside a matrix names the source of each row even if there is one alone. It gives its line in any
    /// case.
    pub names_files: bool,
    /// The terms of such maps, by their indices.
    pub terms: Option<Arc<[String]>>,
    /// Name of the vectors' column; `None`: [`EMBEDDING`], or `score` and `scores`. Where vectors of several widths are written, that
    /// is what their names begin with: `embedding_64`.
    pub embedding_field: Option<String>,
    /// Whether rows may be without a vector, which is null then.
    pub nullable: bool,
    /// Whether the output is Arrow stream after stream, each begun and ended by the caller.
    pub streams: bool,
}

impl OutputOptions {
    /// The kind of list: of variable length for nullable vectors in Parquet, unless one is named. Parquet's readers before
    /// pyarrow 26 refuse lists of fixed size that are null.
    #[must_use]
    pub fn resolved_vector_type(&self) -> VectorType {
        let is_parquet = self
            .resolved_format()
            .is_ok_and(|it| it == OutputFormat::Parquet);
        self.vector_type
            .unwrap_or(match self.nullable && is_parquet {
                true => VectorType::List,
                false => VectorType::Fixed,
            })
    }

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
                .with_remedy(match path.extension() {
                    Some(_) => format!("end it in {}, or say which with {OUTPUT_FORMAT}", endings()),
                    // A folder that is not there yet is told by its slash.
                    None => format!(
                        "for a folder of parts write {OUTPUT} {}/; a file ends in {}, or say which format it has \
                         with {OUTPUT_FORMAT}",
                        path.display(),
                        endings()
                    ),
                })
            }),
        }
    }

    /// No vectors yet of the form that is written, `width` components wide.
    #[must_use]
    pub fn no_rows(&self, width: usize) -> RowVectors {
        let own = self.numbers.no_rows(width);
        if self.beside.is_empty() {
            return own;
        }
        let beside = self.beside.iter().map(|it| it.numbers.no_rows(it.width));
        RowVectors::Several(std::iter::once(own).chain(beside).collect())
    }

    /// What the numbers of a row are, of each kind that it has.
    pub(super) fn all_numbers(&self) -> Vec<RowNumbers> {
        let beside = (self.beside.iter()).map(|it| it.numbers);
        std::iter::once(self.numbers).chain(beside).collect()
    }

    /// The options of each kind of vectors alone, where a row has several.
    pub(crate) fn of_each_kind(&self) -> Vec<Self> {
        let kinds = self.all_numbers();
        let name = self.embedding_field.as_deref().unwrap_or(EMBEDDING);
        let alone = |&numbers: &RowNumbers| {
            let mut options = self.clone();
            options.numbers = numbers;
            options.beside = Vec::new();
            options.embedding_field = Some(format!("{name}{}", numbers.ending()));
            // An option is about the kinds that know it, and is refused where there is none.
            if numbers != RowNumbers::Sparse && kinds.contains(&RowNumbers::Sparse) {
                options.sparse_tokens = false;
            }
            if numbers == RowNumbers::Sparse {
                options.dtype = None;
                options.calibration = None;
            }
            if numbers != RowNumbers::Vectors && kinds.contains(&RowNumbers::Vectors) {
                options.vector_type = None;
            }
            options
        };
        kinds.iter().map(alone).collect()
    }

    /// Where an output made with these options has the vectors of each kind; the first kind's have these widths, in the
    /// order of columns.
    #[must_use]
    pub fn kind_columns(&self, widths: &[usize]) -> Vec<KindColumns> {
        let of_one = |options: &Self, widths: &[usize]| {
            let columns = options.columns(widths).into_iter();
            let mut columns = columns.zip(widths.iter().copied());
            match options.numbers {
                RowNumbers::Vectors | RowNumbers::Scores => KindColumns::Dense(columns.collect()),
                RowNumbers::Sparse => {
                    let (name, width) = columns.next().unwrap_or_default();
                    KindColumns::Sparse(name, width)
                }
                RowNumbers::Multi => {
                    let (name, width) = columns.next().unwrap_or_default();
                    KindColumns::Multi(name, width)
                }
            }
        };
        if self.beside.is_empty() {
            return vec![of_one(self, widths)];
        }
        let kinds = self.of_each_kind();
        let others = kinds[1..].iter().zip(&self.beside);
        let others = others.map(|(options, kind)| of_one(options, &[kind.width]));
        std::iter::once(of_one(&kinds[0], widths))
            .chain(others)
            .collect()
    }

    /// Checks that a format holds vectors of the kinds that are asked for, as they are asked for.
    ///
    /// # Errors
    /// If it does not; the remedy names what does.
    pub fn check_form(&self) -> Result<()> {
        if self.beside.is_empty() {
            return self.check_form_of_one();
        }
        self.check_several()?;
        self.of_each_kind()
            .iter()
            .try_for_each(Self::check_form_of_one)
    }

    /// Checks that the format holds several kinds of vectors.
    ///
    /// # Errors
    /// If it does not; the remedy names what does.
    pub fn check_several(&self) -> Result<()> {
        let format = self.resolved_format()?;
        if !format.holds_several_kinds() {
            let others = OutputFormat::all().filter(|it| it.holds_several_kinds());
            let names: Vec<String> = others.map(|it| format!("{OUTPUT_FORMAT} {it}")).collect();
            return Err(Error::usage(format!(
                "{VECTORS}: {format} output holds one kind of vectors, but several are asked for"
            ))
            .with_remedy(format!("choose {}, or one kind", names.join(", "))));
        }
        Ok(())
    }

    fn check_form_of_one(&self) -> Result<()> {
        let format = self.resolved_format()?;
        let facts = format.facts();
        let holding = |holds: &dyn Fn(&OutputFormat) -> bool| {
            let names: Vec<String> = OutputFormat::all()
                .filter(holds)
                .map(|format| format!("{OUTPUT_FORMAT} {format}"))
                .collect();
            format!("choose {}", names.join(", "))
        };
        if self.numbers != RowNumbers::Sparse {
            if facts.sparse == SparseForm::Alone {
                return Err(Error::usage(format!(
                    "{format} output holds sparse vectors, but this model's are given in full"
                ))
                .with_remedy(format!("choose {OUTPUT_FORMAT} npy or another format")));
            }
            if self.sparse_tokens {
                return Err(Error::usage(format!(
                    "{SPARSE_TOKENS} is about sparse vectors, but this model's are given in full"
                ))
                .with_remedy("leave it out"));
            }
            if self.numbers == RowNumbers::Multi {
                if facts.multi == TokenForm::None {
                    return Err(Error::usage(format!(
                        "{format} output holds one vector for a row, but this model gives one for each token"
                    ))
                    .with_remedy(holding(&|it| it.facts().multi != TokenForm::None)));
                }
                if self.vector_type == Some(VectorType::List) {
                    return Err(Error::usage(format!(
                        "{VECTOR_TYPE} list: the vectors of a row's tokens are lists of fixed size in a list"
                    ))
                    .with_remedy("leave it out"));
                }
            }
            return Ok(());
        }
        if facts.sparse == SparseForm::None {
            return Err(Error::usage(format!(
                "{format} output holds vectors in full, but this model's are sparse"
            ))
            .with_remedy(holding(&|it| it.facts().sparse != SparseForm::None)));
        }
        if self.sparse_tokens && facts.sparse != SparseForm::Structs {
            return Err(Error::usage(format!(
                "{SPARSE_TOKENS}: {format} output holds indices, not terms"
            ))
            .with_remedy(holding(&|it| it.facts().sparse == SparseForm::Structs)));
        }
        let dense = [
            (DTYPE, self.dtype.is_some_and(|dtype| dtype != Dtype::F32)),
            (VECTOR_TYPE, self.vector_type.is_some()),
            (CALIBRATION, self.calibration.is_some()),
        ];
        match dense.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::usage(format!(
                "{option} is about vectors in full, but this model's are sparse: their values are float32"
            ))
            .with_remedy("leave it out")),
            None => Ok(()),
        }
    }

    /// The type of a vector's components that will be written.
    ///
    /// # Errors
    /// If the format is not known, or does not hold that type.
    pub fn resolved_dtype(&self) -> Result<Dtype> {
        let format = self.resolved_format()?;
        let held = format.facts().dtypes;
        let dtype = self.dtype.unwrap_or(held[0]);
        if !held.contains(&dtype) {
            let held: Vec<&str> = held.iter().map(|it| it.name()).collect();
            return Err(Error::usage(format!(
                "{DTYPE} {dtype}: {format} output holds {}",
                held.join(", ")
            ))
            .with_remedy(format!(
                "choose one of these, or another output format ({OUTPUT_FORMAT})"
            )));
        }
        if dtype.needs_ranges() && self.calibration.is_none() {
            return Err(Error::usage(format!(
                "{DTYPE} {dtype} needs {CALIBRATION} FILE. The ranges must not come from this run's records, or one \
                 text gets different vectors in two runs"
            ))
            .with_remedy(format!(
                "embed some thousand records with {DTYPE} f32 {OUTPUT} calibration.npy first, and give that file"
            )));
        }
        Ok(dtype)
    }

    /// Names of the columns that hold vectors of these widths.
    #[must_use]
    pub fn columns(&self, dimensions: &[usize]) -> Vec<String> {
        let default = match (self.numbers, dimensions) {
            (RowNumbers::Vectors | RowNumbers::Sparse | RowNumbers::Multi, _) => EMBEDDING,
            (RowNumbers::Scores, [] | [1]) => "score",
            (RowNumbers::Scores, _) => "scores",
        };
        let name = self.embedding_field.as_deref().unwrap_or(default);
        match dimensions {
            [] | [_] => vec![name.to_owned()],
            several => several.iter().map(|it| format!("{name}_{it}")).collect(),
        }
    }
}
