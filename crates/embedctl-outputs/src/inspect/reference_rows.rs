//! The vectors of a reference, each kind in the form that it has: sparse vectors are not expanded.

use crate::error::{Error, Place, Result};
use crate::output::{self, ChosenVectors, Forms, OutputFormat, TemporaryVectors, read_vectors};
use crate::setting::{DIMENSIONS, VECTORS};
use crate::storage::Readable;
use embedctl_vectors::is_finite;
use embedctl_vectors::{RowForm, RowParts, RowVector, RowVectors};

/// Vectors of a reference, row by row.
pub(super) struct ReferenceRows {
    form: Form,
    next: usize,
}

enum Form {
    Rows(RowVectors),
    /// Vectors of tokens in a matrix that does not say where a row ends: as many belong to a row as the model gives it.
    Tokens {
        width: usize,
        values: Vec<f32>,
    },
}

impl ReferenceRows {
    /// Reads all of a file that holds vectors of these forms.
    ///
    /// # Errors
    /// If it cannot be read, holds other vectors, or some that are not finite.
    pub fn read(file: &Readable, forms: Forms) -> Result<Self> {
        let format = output::format_of(file)?;
        let one = match forms.all() {
            [one] => Some(one.clone()),
            _ => None,
        };
        let has_several_widths = has_several_widths(file, format, &forms)?;
        // A matrix that is not this format's of such vectors has them in full, line by line.
        let has_lines = |form: &RowForm| -> Result<bool> {
            if !format.is_matrix() {
                return Ok(form.is_dense() && !has_several_widths);
            }
            let facts = format.facts();
            let is_counted = match facts.lengths() {
                Some(ending) => file.bytes.beside(ending)?.is_some(),
                None => true,
            };
            let is_row = form.is_one_per_row() || is_counted;
            Ok(form.is_dense() || !(facts.holds(form) && is_row))
        };
        let form = match one {
            Some(form) if has_lines(&form)? && form.is_one_per_row() => {
                let mut rows = form.no_rows();
                for_each_in_full(file, form.width(), &mut |vector| rows.push_full(vector))?;
                Form::Rows(rows.into())
            }
            Some(form) if has_lines(&form)? => {
                let (width, mut values) = (form.width(), Vec::new());
                for_each_in_full(file, width, &mut |vector| values.extend(vector))?;
                Form::Tokens { width, values }
            }
            _ => Form::Rows(chosen(file, format, forms)?),
        };
        Ok(Self { form, next: 0 })
    }

    /// The vectors of the next row, where the model gives it `ours`; `None` where there is no other.
    pub fn next<'a>(&'a mut self, ours: RowParts<'_>) -> Option<RowParts<'a>> {
        let from = self.next;
        match &self.form {
            Form::Rows(rows) => {
                self.next += 1;
                (from < rows.len()).then(|| rows.get(from))
            }
            Form::Tokens { width, values } => {
                let tokens = ours.first().count().unwrap_or(0);
                self.next += tokens * width;
                let values = values.get(from..self.next)?;
                Some(RowVector::of_vectors(*width, values).into())
            }
        }
    }

    /// Whether all rows have been taken.
    pub fn is_over(&self) -> bool {
        self.next == self.len()
    }

    /// What it holds, in words.
    pub fn count(&self) -> String {
        match &self.form {
            Form::Rows(rows) => format!("the vectors of {} texts", rows.len()),
            Form::Tokens { width, values } => {
                format!("{} vectors of tokens", values.len() / width.max(&1))
            }
        }
    }

    fn len(&self) -> usize {
        match &self.form {
            Form::Rows(rows) => rows.len(),
            Form::Tokens { values, .. } => values.len(),
        }
    }
}

fn strange(file: &Readable, reason: String) -> Error {
    Error::input(Place::file(&file.name), reason)
}

fn not_finite(file: &Readable, row: usize) -> Error {
    let reason = format!(
        "holds NaN or infinity in vector {}, so there is nothing to compare it with",
        row + 1
    );
    strange(file, reason).with_remedy(
        "make these vectors again in single precision: some models exceed the range of float16",
    )
}

/// Whether a file has dense vectors of several widths, in a column each.
///
/// # Errors
/// If none of them is the width of those that are `wanted`.
fn has_several_widths(file: &Readable, format: OutputFormat, wanted: &Forms) -> Result<bool> {
    if format.is_matrix() {
        return Ok(false);
    }
    let made = output::provenance(file, format)?;
    let widths = made.as_ref().map_or_else(Vec::new, output::dense_widths);
    let dense = (wanted.all().iter()).filter(|form| matches!(form, RowForm::Dense(_)));
    let other = dense
        .map(RowForm::width)
        .find(|width| !widths.contains(width));
    match (&widths[..], other) {
        ([_, _, ..], Some(own)) => {
            let all: Vec<String> = widths.iter().map(usize::to_string).collect();
            let all = all.join(" and ");
            let reason = format!("holds vectors of {all} components, but this model's have {own}");
            let remedy = format!("compare one of them: {DIMENSIONS} {}", widths[0]);
            Err(strange(file, reason).with_remedy(remedy))
        }
        (widths, _) => Ok(widths.len() > 1),
    }
}

/// Every vector of a file, one after another; each must have `width` components.
fn for_each_in_full(file: &Readable, width: usize, take: &mut dyn FnMut(&[f32])) -> Result<()> {
    let mut count = 0;
    read_vectors(file, &mut |vector| {
        if vector.values.len() != width {
            let found = vector.values.len();
            let reason =
                format!("holds vectors of {found} components, but this model's have {width}");
            return Err(strange(file, reason).with_remedy(format!(
                "name the model that made them, or say {DIMENSIONS}"
            )));
        }
        if !is_finite(vector.values) {
            return Err(not_finite(file, count));
        }
        count += 1;
        take(vector.values);
        Ok(())
    })
}

/// The vectors of columns, under the names that the file's provenance has for them.
fn chosen(file: &Readable, format: OutputFormat, forms: Forms) -> Result<RowVectors> {
    let made = output::provenance(file, format)?;
    let forms = output::named_in(made.as_ref(), forms).map_err(|(missing, _)| {
        let kind = missing.words();
        strange(file, format!("holds no {kind}, which the model gives")).with_remedy(format!(
            "choose the kinds of vectors that it holds with {VECTORS}"
        ))
    })?;
    let mut chosen = ChosenVectors::open(file, format, &forms, &mut TemporaryVectors::default())?;
    let mut rows = forms.no_rows();
    let mut bad = None;
    chosen.for_each(&mut |row| {
        if !row.values().all(is_finite) {
            bad = bad.or(Some(rows.len()));
        }
        rows.push(row);
    })?;
    chosen.close();
    match bad {
        Some(row) => Err(not_finite(file, row)),
        None => Ok(rows),
    }
}
