//! Writing vectors, and reading them back. [`crate::formats`] has the particulars of each format.
//!
//! A writer is created before any work, so that a bad path fails at once; it writes beside the final
//! name and renames at the end, so that the name never holds half a result. Files that belong together
//! get their names together (`embedctl_common::atomic`), and the provenance holds the hashes by which a reader can tell
//! that they do.

mod calibration;
mod chosen;
pub mod proof;
mod recognised;
mod recorded;
mod row_texts;

#[cfg(test)]
#[path = "output_tests/mod.rs"]
pub(crate) mod tests;

pub use crate::vectors::MatrixRows;
pub use crate::writing::background::BackgroundWriter;
pub use crate::writing::calibration::Calibration;
pub use crate::writing::encoding::column_of;
pub use crate::writing::format::{Compression, OutputFacts, OutputFormat, RowTexts, VectorShape};
pub use crate::writing::layout::OutputNames;
pub use crate::writing::options::{Destination, OutputOptions, RunOutput, VectorType};
pub use crate::writing::overlap::{refuse_overlap, refuse_to_replace};
pub use crate::writing::proof::SelfHashed;
pub use crate::writing::refused::{RefusedValue, without_refused};
pub use crate::writing::run_files::RunFiles;
pub use crate::writing::sidecar::{LENGTHS, PROVENANCE, ROWS};
pub use crate::writing::table::{publish_file, write_table};
pub use crate::writing::writer::{Finish, VectorWriter};
pub use crate::writing::{fault, rejects};
pub use chosen::{ChosenVectors, TemporaryVectors};
pub use embedctl_vectors::{Forms, RowForm, Terms};
pub use proof::prove;
pub use recognised::format_of;
pub use recorded::{RecordedKind, recorded_kinds};
pub use row_texts::{RowTextFile, row_texts_of};

use crate::vectors::{columns_by_kind, recorded_columns};
use std::sync::Arc;

use serde_json::Value;

use crate::formats::output::WriterParts;
use crate::writing::encoding::VectorEncoding;
use crate::writing::place::OutputPlace;
use crate::writing::target::Target;
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{
    DIMENSIONS, EMBEDDING_FIELD, ON_ERROR, OUTPUT, OUTPUT_FORMAT, VECTOR_TYPE,
};
use embedctl_records::record::SourceNames;
use embedctl_records::vectors::{RecordedColumn, RecordedColumns, TakeVector};
use embedctl_storage::Readable;

impl OutputOptions {
    /// Whether the output can be read while it is written: a pipe, a terminal, a device.
    ///
    /// # Errors
    /// If it is a folder, or lies in none.
    pub fn is_stream(&self) -> Result<bool> {
        Ok(!OutputPlace::find(&self.destination, OutputPlace::OUTPUT)?.is_published())
    }
}

/// Creates the output (beside its final name), before any work.
///
/// `forms` are those of a row's numbers; `names` are the sources' names; `columns` are `id` and the kept fields, whose types may still change until the first row; `files` is the run's list
/// of files.
///
/// # Errors
/// If the output exists and `force` is not given, its folder is missing or cannot be written to, the
/// format cannot be written there, or a kept field bears a name that the format uses itself.
pub fn create(
    output: &RunOutput,
    forms: &Forms,
    names: SourceNames,
    columns: &Schema,
    files: &RunFiles,
) -> Result<Box<dyn VectorWriter>> {
    output.options.check_forms(forms)?;
    let (format, place) = plan(output, forms, names.len(), columns)?;
    let encoding = VectorEncoding::new(output, forms)?;
    let sidecars = output.names(forms, names.len())?.sidecars;
    let target = Target::create(&place, output.options.force, &sidecars, files)?;
    format.spec().create(WriterParts {
        target,
        encoding,
        names,
        names_files: output.names_files,
        streams: output.streams,
        clock: Arc::clone(files.clock()),
    })
}

/// Checks whether [`create`] can succeed, without the vectors' widths: `forms` are those that are asked for. Whether the
/// format holds the forms of the model's rows is checked once it is known ([`OutputOptions::check_forms`]).
/// Files made for the check are removed again; pipes and devices are not touched.
///
/// # Errors
/// As [`create`].
pub fn check(
    output: &RunOutput,
    forms: &Forms,
    sources: usize,
    columns: &Schema,
    files: &RunFiles,
) -> Result<()> {
    let (_, place) = plan(output, forms, sources, columns)?;
    let sidecars = output.names(forms, sources)?.sidecars;
    Target::check(&place, output.options.force, &sidecars, files)
}

/// The format and the place of an output that options and columns allow.
fn plan(
    output: &RunOutput,
    forms: &Forms,
    sources: usize,
    columns: &Schema,
) -> Result<(OutputFormat, OutputPlace)> {
    let place = OutputPlace::find(&output.options.destination, OutputPlace::OUTPUT)?;
    let format = match (output.format()?, place.is_published()) {
        (OutputFormat::Arrow, false) => OutputFormat::Arrows,
        (format, _) => format,
    };
    check_options(output, forms)?;
    output.check_names(forms, columns, sources)?;
    if format.is_matrix() && place.file().is_none() {
        return Err(Error::usage(format!(
            "{format} needs a regular file, since its header is completed at the end, but {} is not one",
            place.shown().display()
        ))
        .with_remedy(format!("name a file with {OUTPUT}, or choose {OUTPUT_FORMAT} jsonl or {OUTPUT_FORMAT} parquet")));
    }
    if !format.facts().is_text && place.is_terminal() {
        return Err(
            Error::usage(format!("{format} is not written to a terminal"))
                .with_remedy(format!("name a file with {OUTPUT}, redirect standard output, or choose {OUTPUT_FORMAT} jsonl")),
        );
    }
    Ok((format, place))
}

/// Refuses options that mean nothing in the format, also of an output in parts, which are created later.
///
/// # Errors
/// If there is one, or the format is not known.
pub fn check_options(output: &RunOutput, forms: &Forms) -> Result<()> {
    let options = &output.options;
    let format = options.resolved_format()?;
    let refuse = |option: &dyn std::fmt::Display, why: &str| {
        let reason = format!("{option}: {format} output {why}");
        let remedy = format!("leave it out, or choose another output format ({OUTPUT_FORMAT})");
        Err(Error::usage(reason).with_remedy(remedy))
    };
    let dtype = options.resolved_dtype()?;
    if options.calibration.is_some() {
        Calibration::check(dtype)?;
    }
    if options.vector_type.is_some() && format.facts().shape != VectorShape::Lists {
        return refuse(&VECTOR_TYPE, "has no list types; Parquet and Arrow have");
    }
    if format.is_matrix() {
        if options.embedding_field.is_some() {
            return refuse(&EMBEDDING_FIELD, "has no column names");
        }
        if output.nullable {
            return refuse(
                &format_args!("{ON_ERROR} null"),
                "is a matrix, which has no nulls",
            );
        }
        if forms.first().widths().len() > 1 {
            return refuse(&DIMENSIONS, "is one matrix, of vectors of one width");
        }
    }
    Ok(())
}

/// The provenance of an output; `None` where there is none, or none that can be read.
///
/// # Errors
/// If the system or a store refuses.
pub fn provenance(file: &Readable, format: OutputFormat) -> Result<Option<Value>> {
    format.spec().provenance(file)
}

/// The names of the columns of vectors in a file with this provenance that hold one vector in each row: vectors of tokens
/// are more, and maps of tokens are not read. `None` where the provenance names no column.
#[must_use]
pub fn one_per_row(made: &Value) -> Option<Vec<String>> {
    let columns = recorded_columns(made).columns;
    let is_named = !columns.is_empty();
    let is_one =
        |column: &RecordedColumn| column.form.as_ref().is_some_and(RowForm::is_one_per_row);
    let own = columns.into_iter().filter(is_one);
    is_named.then(|| own.map(|column| column.name).collect())
}

/// Where a file with this provenance has its vectors of each kind that is read, the first column of each, with the number of
/// the kind among all. `columns` are those that it was read to have, with the widths of their vectors; a matrix has one
/// without a name. `None` where none is read.
#[must_use]
pub fn kinds_of(made: &Value, columns: &[(&str, usize)]) -> Option<(Vec<usize>, Forms)> {
    let kind = |recorded: Vec<RecordedColumn>| {
        let of = |column: &str| columns.iter().find(|(name, _)| [column, ""].contains(name));
        let (name, width) = match &recorded[..] {
            [] => columns.first(),
            recorded => recorded.iter().find_map(|column| of(&column.name)),
        }?;
        let form = match recorded.first() {
            Some(column) => column.form.as_ref()?.of_width(*width),
            None => RowForm::Dense(vec![*width]),
        };
        Some((form, vec![(*name).to_owned()]))
    };
    let kinds = columns_by_kind(made).map(kind).enumerate();
    let read = kinds.filter_map(|(number, kind)| Some((number, kind?)));
    let (numbers, columns): (Vec<usize>, Vec<_>) = read.unzip();
    Some((numbers, Forms::in_columns(columns)?))
}

/// The widths of the dense vectors that a provenance describes, one for each column.
#[must_use]
pub fn dense_widths(made: &Value) -> Vec<usize> {
    let columns = recorded_columns(made).columns.into_iter();
    let dense = columns.filter(|column| column.form.as_ref().is_some_and(RowForm::is_dense));
    dense.filter_map(|column| column.width).collect()
}

/// Where a file has vectors of the forms that are `wanted`: under the names that its provenance has for them, or, if it has
/// none, under the given names.
///
/// # Errors
/// The first of these forms that the provenance does not have, with the names of its columns.
pub fn named_in(
    made: Option<&Value>,
    wanted: Forms,
) -> std::result::Result<Forms, (RowForm, Vec<String>)> {
    let said: Vec<Vec<RecordedColumn>> =
        made.map_or_else(Vec::new, |made| columns_by_kind(made).collect());
    if said.iter().all(Vec::is_empty) {
        return Ok(wanted);
    }
    let found = |form: &RowForm| -> Option<Vec<String>> {
        // Maps have no form in a provenance.
        let is_this = |column: &RecordedColumn| match (&column.form, form.maps()) {
            (None, maps) => maps.is_some(),
            (Some(own), maps) => maps.is_none() && own.is_written_as(form),
        };
        let said = said.iter().find(|said| said.first().is_some_and(is_this));
        let said = said.filter(|said| said.len() >= form.widths().len())?;
        // One of several widths is known by it.
        let of_width = |width: &usize| said.iter().find(|column| column.width == Some(*width));
        let of_widths: Option<Vec<_>> = form.widths().iter().map(of_width).collect();
        let columns = of_widths.unwrap_or_else(|| said[..form.widths().len()].iter().collect());
        Some(columns.iter().map(|column| column.name.clone()).collect())
    };
    let mut named = Vec::new();
    for (form, columns) in wanted.each() {
        let Some(names) = found(form) else {
            let names = columns.map(|(name, _)| name.to_owned());
            return Err((form.clone(), names.collect()));
        };
        named.push((form.clone(), names));
    }
    Ok(Forms::in_columns(named).unwrap_or(wanted))
}

/// Opens a file of dense vectors to read consecutive rows from anywhere, by several threads; `None` where its format or
/// its place does not allow it.
///
/// # Errors
/// If it cannot be read.
pub fn matrix_rows(file: &Readable, format: OutputFormat) -> Result<Option<MatrixRows>> {
    format.spec().matrix(file)
}

/// Hands every vector of a file to `take`. The columns are those named by its provenance; if none of them exists, all
/// lists of numbers are taken. A matrix has one column. Rows without a vector are skipped. Of a Parquet file only the columns
/// of vectors are read.
///
/// # Errors
/// If the file cannot be read, is of another format, or `take` says so.
pub fn read_vectors(file: &Readable, take: &mut TakeVector<'_>) -> Result<()> {
    let format = format_of(file)?;
    let made = match format.facts().names_vectors {
        true => provenance(file, format)?,
        false => None,
    };
    let recorded = made
        .as_ref()
        .map_or_else(RecordedColumns::default, recorded_columns);
    format.spec().read_vectors(file, &recorded, take)
}
