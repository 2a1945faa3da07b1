//! An output, and the forms of the rows that are written to it.

use super::assembly::ExtraColumns;
use crate::error::Result;
use crate::output::{self, Forms, OutputFormat, OutputOptions, RunOutput};
use arrow::datatypes::{Schema, SchemaRef};

/// The output as it will be written.
pub(super) struct OutputForms {
    pub(super) output: RunOutput,
    /// The forms of the model's rows.
    pub(super) forms: Forms,
}

impl OutputForms {
    pub(super) fn options(&self) -> &OutputOptions {
        &self.output.options
    }

    pub(super) fn format(&self) -> Result<OutputFormat> {
        self.output.format()
    }

    /// The columns of rows for records with these columns, from so many sources. None may have the name of an output column.
    ///
    /// # Errors
    /// If one has.
    pub(super) fn columns(
        &self,
        extra: &ExtraColumns,
        sources: usize,
        records: &Schema,
    ) -> Result<SchemaRef> {
        let schema = extra.schema(records)?;
        output::check_options(&self.output, &self.forms)?;
        self.output.check_names(&self.forms, &schema, sources)?;
        Ok(schema)
    }
}
