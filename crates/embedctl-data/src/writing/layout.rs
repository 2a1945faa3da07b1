//! All names that an output takes for itself, in one list: its columns of vectors of every kind and width, the fields that
//! describe a row of a matrix, and the files beside it.

use std::collections::HashSet;

use super::options::RunOutput;
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{EMBEDDING_FIELD, KEEP};
use embedctl_vectors::Forms;

/// Fields of [`ROWS`](super::sidecar::ROWS) beside those of the records; the last one stands there if there are several
/// sources.
const OF_MATRIX_ROWS: [&str; 3] = ["row", "line", "file"];

/// The names of an output's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputNames {
    /// The forms of a row's numbers, with their columns. Of a matrix the names are in its provenance alone.
    pub vectors: Forms,
    /// Names that no column of a record may have, each once.
    columns: Vec<String>,
    /// Endings of the files beside the output.
    pub sidecars: Vec<&'static str>,
}

impl RunOutput {
    /// The names that the output takes for rows of these forms; `sources` is the number of inputs.
    ///
    /// # Errors
    /// If the format is not known, or two columns of vectors would have one name.
    pub fn names(&self, forms: &Forms, sources: usize) -> Result<OutputNames> {
        let format = self.format()?;
        let vectors = (forms.clone()).named(self.options.embedding_field.as_deref());
        let columns: Vec<String> = match format.is_matrix() {
            true => {
                let fields = OF_MATRIX_ROWS.len() - usize::from(sources < 2 && !self.names_files);
                OF_MATRIX_ROWS[..fields]
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect()
            }
            false => (vectors.columns())
                .map(|(_, name, _)| name.to_owned())
                .collect(),
        };
        let mut seen = HashSet::new();
        if let Some(name) = columns.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(
                Error::usage(format!("two columns of vectors would be called `{name}`"))
                    .with_remedy(format!(
                        "name each width and each kind once, or choose another {EMBEDDING_FIELD}"
                    )),
            );
        }
        Ok(OutputNames {
            sidecars: format.sidecars_of(forms),
            vectors,
            columns,
        })
    }

    /// Refuses columns of records whose name the output takes, or that two of them have.
    ///
    /// # Errors
    /// As [`RunOutput::names`], or if there is such a column.
    pub fn check_names(&self, forms: &Forms, columns: &Schema, sources: usize) -> Result<()> {
        let (format, own) = (self.format()?, self.names(forms, sources)?);
        let mut seen: HashSet<&str> = own.columns.iter().map(String::as_str).collect();
        let mut names = columns.fields().iter().map(|field| field.name());
        let Some(name) = names.find(|name| !seen.insert(name.as_str())) else {
            return Ok(());
        };
        let reason = format!("{format} output would have two columns called `{name}`");
        let is_of_vectors = !format.is_matrix() && own.columns.contains(name);
        let or_named = match is_of_vectors {
            true => format!(", or name the vectors otherwise with {EMBEDDING_FIELD}"),
            false => String::new(),
        };
        Err(Error::usage(reason).with_remedy(format!(
            "rename the field in the input, leave it out of {KEEP}{or_named}"
        )))
    }
}
