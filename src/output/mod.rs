//! Writing vectors: one trait, one file per format.
//!
//! A writer is created before any work, so that a bad path fails at once; it writes beside the final
//! name and renames at the end, so that the name never holds half a result. Files that belong together
//! get their names together (`publish`), and the provenance holds the hashes by which a reader can tell
//! that they do.

mod columns;
mod fault;
mod handle;
mod jsonl;
mod npy;
mod options;
mod overlap;
mod parquet;
pub(crate) mod place;
mod publish;
mod sidecar;
pub(crate) mod target;
mod temporary;
#[cfg(test)]
mod testing;

use arrow::datatypes::{Schema, SchemaRef};
use sha2::{Digest, Sha256};

pub use options::{Destination, OutputFormat, OutputOptions};
pub use overlap::refuse_overlap;
pub use temporary::RunFiles;

use self::place::Place;
use self::target::Target;
use crate::error::{Error, Result};
use crate::record::{Rows, SourceNames};
use crate::rejects::RejectsWriter;

/// Name of the vectors' column, in every format that has names.
pub const EMBEDDING: &str = "embedding";

impl OutputOptions {
    /// Whether somebody may read the output while it is written: a pipe, a terminal, a device.
    ///
    /// # Errors
    /// If it is a folder, or lies in none.
    pub fn is_stream(&self) -> Result<bool> {
        Ok(Place::find(&self.destination, "-o")?.file().is_none())
    }
}

/// What a writer needs to know at the end.
#[derive(Debug)]
pub struct Finish<'a> {
    /// Schema of `id` and the kept fields, for outputs without any row.
    pub schema: SchemaRef,
    /// The run's provenance: one JSON object.
    pub provenance: &'a serde_json::Value,
    /// The rejected records, published with the output; of the same [`RunFiles`].
    pub rejects: Option<RejectsWriter>,
}

impl Finish<'_> {
    /// The provenance with the hashes of what was written with it, under `sha256`: they are what says that
    /// files beside each other are of one run.
    fn provenance(&self, written: &[(&str, &Hash)]) -> serde_json::Value {
        let rejects = self
            .rejects
            .as_ref()
            .map(|rejects| ("rejects", rejects.hash()));
        let hashes: serde_json::Map<_, _> = (written.iter().copied())
            .chain(rejects)
            .map(|(name, hash)| (name.to_owned(), hash.hex().into()))
            .collect();
        let mut provenance = self.provenance.clone();
        if let (Some(object), false) = (provenance.as_object_mut(), hashes.is_empty()) {
            object.insert("sha256".to_owned(), hashes.into());
        }
        provenance
    }
}

/// The SHA-256 of what was written so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hash(Sha256);

impl Hash {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn hex(&self) -> String {
        let hash = self.0.clone().finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Writes rows in the order in which they come.
///
/// Dropped without [`VectorWriter::finish`], a writer removes whatever it has written.
pub trait VectorWriter: Send {
    /// Appends rows; may be called with none. The columns' types are those of the first call with
    /// any row.
    ///
    /// # Errors
    /// If the system refuses (a full disk, a closed pipe).
    fn write(&mut self, rows: Rows) -> Result<()>;

    /// Completes the output and publishes it under its name, with the files beside it and the rejects: all
    /// of them or none.
    ///
    /// # Errors
    /// If the system refuses; nothing new stands under any final name then.
    fn finish(self: Box<Self>, finish: Finish<'_>) -> Result<()>;
}

/// Creates the output (beside its final name), before any work.
///
/// `dimensions` is the width of a vector; `names` are the sources' names; `columns` are `id` and the
/// kept fields, whose types may still change until the first row; `files` is the run's list of files.
///
/// # Errors
/// If the output exists and `force` is not given, its folder is missing or cannot be written to, the
/// format cannot be written there, or a kept field bears a name that the format uses itself.
pub fn create(
    options: &OutputOptions,
    dimensions: usize,
    names: SourceNames,
    columns: &Schema,
    files: &RunFiles,
) -> Result<Box<dyn VectorWriter>> {
    let (format, place) = plan(options, names.len(), columns)?;
    let target = Target::create(&place, options.force, format.sidecars(), files)?;
    Ok(match format {
        OutputFormat::Parquet => Box::new(parquet::ParquetWriter::new(target, dimensions)?),
        OutputFormat::Npy => Box::new(npy::NpyWriter::new(target, dimensions, names)?),
        OutputFormat::Jsonl => Box::new(jsonl::JsonlWriter::new(target, dimensions)),
    })
}

/// Whether [`create`] can succeed, found out without knowing the vectors' width. What is made for that is
/// removed again; pipes and devices are not touched.
///
/// # Errors
/// As [`create`].
pub fn check(
    options: &OutputOptions,
    sources: usize,
    columns: &Schema,
    files: &RunFiles,
) -> Result<()> {
    let (format, place) = plan(options, sources, columns)?;
    Target::check(&place, options.force, format.sidecars(), files)
}

/// The format and the place of an output that options and columns allow.
fn plan(
    options: &OutputOptions,
    sources: usize,
    columns: &Schema,
) -> Result<(OutputFormat, Place)> {
    let format = options.resolved_format()?;
    check_names(format, columns, sources)?;
    let place = Place::find(&options.destination, "-o")?;
    match format {
        OutputFormat::Npy if place.file().is_none() => {
            return Err(Error::usage(format!(
                "NPY needs a regular file, since its header is completed at the end, and {} is none; \
                 name a file with -o, or choose -f jsonl or -f parquet",
                place.shown().display()
            )));
        }
        OutputFormat::Parquet if place.is_terminal() => {
            return Err(Error::usage(
                "Parquet is not written to a terminal; name a file with -o, redirect standard \
                 output, or choose -f jsonl",
            ));
        }
        _ => {}
    }
    Ok((format, place))
}

/// Refuses kept fields whose name is taken by the format. That no field is kept twice is the input's check.
fn check_names(format: OutputFormat, columns: &Schema, sources: usize) -> Result<()> {
    let own: &[&str] = match format {
        OutputFormat::Parquet | OutputFormat::Jsonl => &[EMBEDDING],
        OutputFormat::Npy if sources > 1 => &["row", "line", "file"],
        OutputFormat::Npy => &["row", "line"],
    };
    for field in columns.fields() {
        let name = field.name().as_str();
        if own.contains(&name) {
            return Err(Error::usage(format!(
                "--keep {name}: {format} output has a column of its own by that name; rename the \
                 field, or leave it out"
            )));
        }
    }
    Ok(())
}

/// A promise of the pipeline's: rows are as wide as was said, and complete.
fn check_shape(rows: &Rows, dimensions: usize) -> Result<()> {
    if rows.dimensions == dimensions
        && rows.vectors.len() == rows.len() * dimensions
        && rows.columns.num_rows() == rows.len()
        && rows.origins.len() == rows.len()
    {
        return Ok(());
    }
    Err(Error::internal(format!(
        "{} rows of {} dimensions came with {} values, {} ids and {} origins, to an output of {} \
         dimensions",
        rows.len(),
        rows.dimensions,
        rows.vectors.len(),
        rows.columns.num_rows(),
        rows.origins.len(),
        dimensions
    )))
}

#[cfg(test)]
mod tests;
