//! The ranges that `int8` and `uint8` divide into steps: from a file of vectors, or from one that states them.
//!
//! They come from a file, and stand in the output's provenance, so that one text gets one vector whatever
//! stands beside it.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::quantize::{Dtype, Ranges};
use super::read::{read_vectors, unreadable};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::storage::Readable;

/// A file of ranges that is larger is none.
const MAX_BYTES: u64 = 64 << 20;

/// The ranges of a file's columns.
#[derive(Debug, Clone)]
pub struct Calibration {
    file: PathBuf,
    /// By name; a matrix and a file of one set of ranges have none.
    columns: Vec<(String, Ranges)>,
}

impl Calibration {
    /// Reads a file or object: JSON ranges where it ends in `.json`, else vectors in any format that is written.
    ///
    /// # Errors
    /// If it cannot be read, or holds neither.
    pub fn read(file: &Readable) -> Result<Self> {
        let path = file.path();
        let columns = match path.extension().is_some_and(|ending| ending == "json") {
            true => of_json(file)?,
            false => of_vectors(file)?,
        };
        if columns.is_empty() {
            let reason = "there is neither a vector of float32 or float16 in it nor ranges";
            return Err(unreadable(path, reason).with_remedy(
                "--calibration takes an output of this model that was written with --dtype f32",
            ));
        }
        Ok(Self {
            file: path.to_owned(),
            columns,
        })
    }

    /// By which two are told apart.
    pub(crate) fn hash(&self) -> Hash {
        let mut hash = Hash::default();
        for (name, ranges) in &self.columns {
            hash.add(name.as_bytes());
            for value in ranges.min.iter().chain(&ranges.max) {
                hash.add(value.to_le_bytes());
            }
        }
        hash
    }

    /// The ranges for the vectors of a column: those of its name, else the only ones as wide.
    ///
    /// # Errors
    /// If there are none.
    pub(super) fn of_column(&self, name: &str, dimensions: usize) -> Result<Ranges> {
        let as_wide = || {
            self.columns
                .iter()
                .filter(|(_, ranges)| ranges.min.len() == dimensions)
        };
        let named = as_wide().find(|(column, _)| column == name);
        let only = as_wide().next().filter(|_| as_wide().count() == 1);
        if let Some((_, ranges)) = named.or(only) {
            return Ok(ranges.clone());
        }
        let there = self
            .columns
            .iter()
            .map(|(name, ranges)| match name.as_str() {
                "" => format!("{} components", ranges.min.len()),
                name => format!("{name} ({} components)", ranges.min.len()),
            });
        let there = there.collect::<Vec<_>>().join(", ");
        Err(Error::usage(format!(
            "--calibration {}: {name} has {dimensions} components, and there is {there}",
            self.file.display()
        ))
        .with_remedy("make the file with the same model and --dimensions, and --dtype f32"))
    }
}

fn of_vectors(file: &Readable) -> Result<Vec<(String, Ranges)>> {
    let path = file.path();
    let mut columns: Vec<(String, Ranges)> = Vec::new();
    read_vectors(file, &mut |vector| {
        if !matches!(vector.dtype, Dtype::F32 | Dtype::F16) {
            return Ok(());
        }
        if let Some(value) = vector.values.iter().find(|value| !value.is_finite()) {
            return Err(unreadable(
                path,
                format!("there is a vector with {value} in it"),
            ));
        }
        let known = columns.iter_mut().find(|(name, ranges)| {
            name == vector.column && ranges.min.len() == vector.values.len()
        });
        match known {
            Some((_, ranges)) => ranges.add(vector.values),
            None => {
                let mut ranges = Ranges::new(vector.values.len());
                ranges.add(vector.values);
                columns.push((vector.column.to_owned(), ranges));
            }
        }
        Ok(())
    })?;
    Ok(columns)
}

/// `{"min": […], "max": […]}`, several of these under their columns' names, or a provenance that holds such.
fn of_json(file: &Readable) -> Result<Vec<(String, Ranges)>> {
    let path = file.path();
    let text = file.read_whole(MAX_BYTES)?;
    let refuse = |error: serde_json::Error| unreadable(path, error.to_string());
    let value: Value = serde_json::from_slice(&text).map_err(refuse)?;
    let stated = match value.pointer("/calibration/ranges") {
        Some(ranges) => ranges,
        None => &value,
    };
    let columns: Map<String, Value> = match stated.as_object() {
        Some(object) if object.contains_key("min") => {
            [(String::new(), stated.clone())].into_iter().collect()
        }
        Some(object) => object.clone(),
        None => return Ok(Vec::new()),
    };
    let columns = columns
        .into_iter()
        .filter(|(_, value)| value.get("min").is_some());
    let ranges = columns.map(|(name, value)| {
        let ranges: Ranges = serde_json::from_value(value).map_err(refuse)?;
        let wrong = ranges
            .min
            .iter()
            .zip(&ranges.max)
            .any(|(min, max)| min > max);
        if wrong || ranges.min.len() != ranges.max.len() {
            return Err(unreadable(
                path,
                "min and max are not as long as each other, or a min is above its max",
            ));
        }
        Ok((name, ranges))
    });
    ranges.collect()
}
