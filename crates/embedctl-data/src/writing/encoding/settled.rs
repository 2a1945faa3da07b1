//! From the options of an output to the form of its vectors.

use super::{VectorColumn, VectorEncoding};
use crate::writing::options::{OutputOptions, RunOutput, VectorType};
use embedctl_common::error::{Error, Result};
use embedctl_vectors::{Forms, RowForm};

impl VectorEncoding {
    /// How numbers of these forms are written to an output.
    ///
    /// # Errors
    /// If the options contradict each other or the format.
    pub fn new(output: &RunOutput, forms: &Forms) -> Result<Self> {
        let named = (forms.clone()).named(output.options.embedding_field.as_deref());
        let encodings = named.each().map(|(form, columns)| {
            let options = output.options.of_form(form, forms);
            Self::of_one_form(&options, output.nullable, (form, columns))
        });
        let mut encodings = encodings.collect::<Result<Vec<_>>>()?;
        let beside = encodings.split_off(1);
        let first = encodings.pop();
        let first = first.ok_or_else(|| Error::internal("rows without a form"))?;
        Ok(Self { beside, ..first })
    }

    fn of_one_form<'f>(
        options: &OutputOptions,
        nullable: bool,
        (form, columns): (&RowForm, impl Iterator<Item = (&'f str, usize)>),
    ) -> Result<Self> {
        let dtype = options.resolved_dtype()?;
        let calibration = options.calibration.as_ref();
        let calibration = calibration.filter(|_| dtype.needs_ranges());
        let columns = columns.map(|(name, dimensions)| {
            let ranges = calibration
                .map(|all| all.of_column(name, dimensions))
                .transpose()?;
            Ok(VectorColumn {
                name: name.to_owned(),
                dimensions,
                width: dtype.width(dimensions),
                ranges,
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            dtype,
            list: match form.is_one_per_row() {
                true => options.resolved_vector_type(nullable),
                false => VectorType::Fixed,
            },
            form: form.clone(),
            nullable,
            beside: Vec::new(),
        })
    }

    /// Bytes of a row's vectors; of sparse ones a usual number.
    pub fn row_bytes(&self) -> usize {
        self.kinds().map(Self::row_bytes_of_one).sum()
    }

    fn row_bytes_of_one(&self) -> usize {
        let widths = self.columns.iter().map(|column| column.width);
        self.form
            .usual_bytes(widths.sum::<usize>() * self.dtype.bytes())
    }
}
