//! The options of an output.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::calibration::Calibration;
use crate::writing::format::endings;
pub use crate::writing::format::{Compression, OutputFormat};
use embedctl_common::error::{Error, Result};
use embedctl_common::named::named;
use embedctl_common::setting::{CALIBRATION, DTYPE, OUTPUT, OUTPUT_FORMAT};
use embedctl_records::quantize::Dtype;

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
    /// Whether sparse vectors are maps from terms to weights, in place of indices and values.
    pub sparse_tokens: bool,
    /// Name of the vectors' column; `None`: `embedding`, or `score` and `scores`. Where vectors of several widths are written, that
    /// is what their names begin with: `embedding_64`.
    pub embedding_field: Option<String>,
}

/// An output as a run writes it: its options, and what follows for it from the rest of the run.
#[derive(Debug, Clone)]
pub struct RunOutput {
    /// The options.
    pub options: OutputOptions,
    /// Whether rows may be without a vector, which is null then.
    pub nullable: bool,
    /// Whether the output is Arrow stream after stream, each begun and ended by the caller.
    pub streams: bool,
    /// Whether the file beside a matrix names the source of each row even if there is one alone. It gives its line in any
    /// case.
    pub names_files: bool,
}

impl From<OutputOptions> for RunOutput {
    /// One stream or file in which every row has its vectors.
    fn from(options: OutputOptions) -> Self {
        Self {
            options,
            nullable: false,
            streams: false,
            names_files: false,
        }
    }
}

impl RunOutput {
    /// The format that will be written.
    ///
    /// # Errors
    /// As [`OutputOptions::resolved_format`].
    pub fn format(&self) -> Result<OutputFormat> {
        self.options.resolved_format()
    }

    /// The options that decide rows or columns, each by its key in the fingerprint of a run.
    ///
    /// # Errors
    /// As [`RunOutput::format`].
    pub fn deciding(&self) -> Result<Vec<(&'static str, Value)>> {
        // An option that is added decides here whether it changes rows or columns; one that changes values is a part of the
        // identity, too.
        let OutputOptions {
            destination: _,
            format: _,
            force: _,
            dtype: _, // these two are in the identity
            calibration: _,
            vector_type,
            embedding_field,
            sparse_tokens,
        } = &self.options;
        let mut all = vec![
            ("format", json!(self.format()?.name())),
            ("vector_type", json!(format!("{vector_type:?}"))),
            ("embedding_field", json!(embedding_field)),
            ("nullable", json!(self.nullable)),
        ];
        all.extend(sparse_tokens.then(|| ("sparse_tokens", json!(true))));
        Ok(all)
    }
}

impl OutputOptions {
    /// The kind of list: of variable length for `nullable` vectors in Parquet, unless one is named. Parquet's readers before
    /// pyarrow 26 refuse lists of fixed size that are null.
    #[must_use]
    pub fn resolved_vector_type(&self, nullable: bool) -> VectorType {
        let is_parquet = self
            .resolved_format()
            .is_ok_and(|it| it == OutputFormat::Parquet);
        self.vector_type.unwrap_or(match nullable && is_parquet {
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
            // A name that promises a compression is kept to.
            (Some(OutputFormat::Jsonl(Compression::None)), Destination::Path(path)) => {
                Ok(OutputFormat::Jsonl(Compression::promised(path)))
            }
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
}
