//! The vectors of a reference, each kind in the form that it has: sparse vectors are not expanded.

use crate::error::{Error, Place, Result};
use crate::output::{
    self, ChosenVectors, KindColumns, LENGTHS, OutputFormat, TemporaryVectors, no_rows,
    read_vectors,
};
use crate::pool::is_finite;
use crate::setting::{DIMENSIONS, VECTORS};
use crate::storage::Readable;
use embedctl_common::vectors::{MultiRow, RowVector, RowVectors, SparseRows};

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
    /// Reads all of a file that holds vectors of these kinds.
    ///
    /// # Errors
    /// If it cannot be read, holds other vectors, or some that are not finite.
    pub fn read(file: &Readable, kinds: Vec<KindColumns>) -> Result<Self> {
        let format = OutputFormat::from_path(file.path());
        let is_matrix = format.is_some_and(OutputFormat::is_matrix);
        let form = match &kinds[..] {
            [KindColumns::Dense(columns)] => {
                let width = columns.iter().map(|(_, width)| width).sum();
                Form::Rows(RowVectors::in_full(width, in_full(file, width)?))
            }
            [KindColumns::Sparse(_, width)] if is_matrix && format != Some(OutputFormat::Npz) => {
                Form::Rows(RowVectors::Sparse(entries(file, *width)?))
            }
            [KindColumns::Multi(_, width)]
                if is_matrix && file.bytes.beside(LENGTHS)?.is_none() =>
            {
                Form::Tokens {
                    width: *width,
                    values: in_full(file, *width)?,
                }
            }
            _ => Form::Rows(chosen(file, format, kinds)?),
        };
        Ok(Self { form, next: 0 })
    }

    /// The vectors of the next row, where the model gives it `ours`; `None` where there is no other.
    pub fn next<'a>(&'a mut self, ours: RowVector<'_>) -> Option<RowVector<'a>> {
        let from = self.next;
        match &self.form {
            Form::Rows(rows) => {
                self.next += 1;
                (from < rows.len()).then(|| rows.get(from))
            }
            Form::Tokens { width, values } => {
                let tokens = ours.multi().map_or(0, |row| row.len());
                self.next += tokens * width;
                let values = values.get(from..self.next)?;
                Some(RowVector::Multi(MultiRow {
                    width: *width,
                    values,
                }))
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

fn in_full(file: &Readable, width: usize) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for_each_in_full(file, width, &mut |vector| all.extend(vector))?;
    Ok(all)
}

/// The entries of a matrix in full, one row at a time.
fn entries(file: &Readable, width: usize) -> Result<SparseRows> {
    let mut rows = SparseRows::default();
    for_each_in_full(file, width, &mut |vector| {
        let entries = (0..).zip(vector.iter().copied());
        rows.push_entries(entries.filter(|(_, value)| *value != 0.0));
    })?;
    Ok(rows)
}

/// The vectors of columns, under the names that the file's provenance has for them.
fn chosen(
    file: &Readable,
    format: Option<OutputFormat>,
    kinds: Vec<KindColumns>,
) -> Result<RowVectors> {
    let format = format.ok_or_else(|| {
        strange(
            file,
            "its ending names no format that vectors are read from".to_owned(),
        )
        .with_remedy("name an output in parquet, arrow, jsonl, npy or npz")
    })?;
    let made = output::provenance(file, format)?;
    let kinds = output::named_in(made.as_ref(), kinds).map_err(|missing| {
        let kind = match missing {
            KindColumns::Dense(_) => "dense vectors",
            KindColumns::Sparse(..) => "sparse vectors with indices",
            KindColumns::Terms(..) => "sparse vectors as maps",
            KindColumns::Multi(..) => "vectors of tokens",
        };
        strange(file, format!("holds no {kind}, which the model gives")).with_remedy(format!(
            "choose the kinds of vectors that it holds with {VECTORS}"
        ))
    })?;
    let mut chosen = ChosenVectors::open(file, format, &kinds, &mut TemporaryVectors::default())?;
    let mut rows = no_rows(&kinds);
    let mut bad = None;
    chosen.for_each(&mut |row| {
        if !row.values().iter().all(|values| is_finite(values)) {
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
