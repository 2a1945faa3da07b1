//! The size of an output, from some rows that are written to a temporary folder.

use std::fs;
use std::path::Path;

use crate::atomic::private_folder;
use crate::error::{Error, Result};
use crate::output::{self, Destination, Finish, Forms, OutputOptions, RunFiles, RunOutput};
use crate::record::{RowVectors, Rows, SourceNames};

/// Bytes of an output's provenance, about.
const PROVENANCE: usize = 3000;

/// Writes rows as the run would.
pub(super) struct SizeProbe<'a> {
    pub(super) output: &'a RunOutput,
    pub(super) forms: &'a Forms,
    pub(super) names: &'a SourceNames,
}

/// What an output takes: for each row, and beside its rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OutputSize {
    pub(super) of_row: f64,
    pub(super) beside: f64,
}

impl SizeProbe<'_> {
    /// The size of an output of such rows: all of them and half of them are written, whose difference is that of rows
    /// alone.
    pub(super) fn measure(&self, rows: Rows) -> Result<OutputSize> {
        let (count, half) = (rows.len(), rows.len() / 2);
        let of_half = match half {
            0 => None,
            half => Some(self.written(first(&rows, half))?),
        };
        let all = self.written(rows)?;
        let of_row = match of_half {
            Some(of_half) => all.saturating_sub(of_half) as f64 / (count - half) as f64,
            None => 0.0,
        };
        Ok(OutputSize {
            of_row,
            beside: (all as f64 - of_row * count as f64).max(0.0),
        })
    }

    /// Bytes that rows become in the output's format, the files beside it counted.
    fn written(&self, rows: Rows) -> Result<u64> {
        let folder = private_folder("embedctl-dry-run-", &std::env::temp_dir())
            .map_err(|error| Error::io("create a folder in", std::env::temp_dir(), error))?;
        let files = RunFiles::new();
        let output = RunOutput {
            options: OutputOptions {
                destination: Destination::Path(folder.path().join("out")),
                format: Some(self.output.format()?),
                ..self.output.options.clone()
            },
            // One of Arrow streams is begun for each that comes in, and these are rows of none.
            streams: false,
            ..self.output.clone()
        };
        let schema = rows.columns.schema();
        let names = self.names.clone();
        let mut writer = output::create(&output, self.forms, names, &schema, &files)?;
        writer.write(rows)?;
        writer.finish(Finish {
            schema,
            provenance: &serde_json::json!({"bytes": ".".repeat(PROVENANCE)}),
            rejects: None,
        })?;
        size(folder.path())
    }
}

/// The first rows.
fn first(rows: &Rows, count: usize) -> Rows {
    let mut vectors = rows.vectors.same();
    (0..count).for_each(|row| vectors.push(rows.vectors.get(row)));
    Rows {
        columns: rows.columns.slice(0, count),
        origins: rows.origins[..count].to_vec(),
        refs: rows.refs[..count].to_vec(),
        vectors,
        dimensions: rows.dimensions,
        missing: (rows.missing.as_ref()).map(|missing| missing.slice(0, count)),
    }
}

/// Bytes of a folder's files.
fn size(folder: &Path) -> Result<u64> {
    let failed = |error| Error::io("read", folder, error);
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let metadata = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
        sum += metadata.len();
    }
    Ok(sum)
}

/// A vector for each of these texts by their numbers, the same for the same number: the vector of that number, or one that
/// is made of two others where there are fewer. Repeated vectors would be compressed away.
pub(super) fn distinct(vectors: &RowVectors, numbers: impl Iterator<Item = usize>) -> RowVectors {
    let mut all = vectors.same();
    for number in numbers {
        if number < vectors.len() {
            all.push(vectors.get(number));
            continue;
        }
        let bits = SeededBits(number as u64);
        let other = bits.of(u64::MAX) as usize % vectors.len();
        let one = vectors.get(number % vectors.len());
        let pairs = one.parts().zip(vectors.get(other).parts());
        let made = pairs.map(|(one, other)| one.mixed(other, &|place| bits.at(place)));
        let made: RowVectors = made.collect();
        all.push(made.get(0));
    }
    all
}

/// Bits by a number, the same in every run.
struct SeededBits(u64);

impl SeededBits {
    fn of(&self, place: u64) -> u64 {
        ahash::RandomState::with_seeds(1, 2, 3, 4).hash_one((self.0, place))
    }

    /// Whether this place is taken from the other vector, and a factor near 1.
    fn at(&self, place: usize) -> (bool, f32) {
        let bits = self.of(place as u64);
        let noise = f32::from((bits >> 8) as u16) / f32::from(u16::MAX);
        (bits & 1 == 1, 1.0 + (noise - 0.5) / 256.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_number_have_one_vector_and_others_their_own() {
        let vectors = RowVectors::in_full(2, vec![1.0, -1.0, -3.0, 3.0]);
        let all = distinct(&vectors, [0, 1, 0, 7, 8, 7].into_iter());
        let row = |row: usize| all.get(row).first().in_full(2);
        assert_eq!(
            [row(0), row(1), row(2)],
            [[1.0, -1.0], [-3.0, 3.0], [1.0, -1.0]]
        );
        assert_eq!(row(3), row(5));
        assert_ne!(row(3), row(4));
        for component in row(3).into_iter().chain(row(4)) {
            assert!((0.99..3.01).contains(&component.abs()), "{component}");
        }
    }
}
