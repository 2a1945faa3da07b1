//! The ranges that `int8` and `uint8` divide into steps: from a file of vectors, or from one that states them.
//!
//! They come from a file, and stand in the output's provenance, so that one text gets one vector whatever
//! stands beside it.

use std::path::{Path, PathBuf};

use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_common::setting::{CALIBRATION, DIMENSIONS, DTYPE};
use embedctl_records::quantize::{Dtype, Ranges};

/// The ranges of a file's columns.
#[derive(Debug, Clone)]
pub struct Calibration {
    file: PathBuf,
    /// By name; a matrix and a file of one set of ranges have none.
    columns: Vec<(String, Ranges)>,
    /// How many vectors they come from, if that is known.
    vectors: Option<u64>,
}

impl Calibration {
    /// One that is named and not read yet: it does for checks of options and places, and for no run.
    #[must_use]
    pub fn named(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            columns: Vec::new(),
            vectors: None,
        }
    }

    /// The ranges of a file's columns, by name, and how many vectors they come from.
    pub(crate) fn new(file: &Path, columns: Vec<(String, Ranges)>, vectors: Option<u64>) -> Self {
        Self {
            file: file.to_owned(),
            columns,
            vectors,
        }
    }

    /// How many vectors its ranges come from, if that is known: not of a file that states ranges.
    #[must_use]
    pub fn vectors(&self) -> Option<u64> {
        self.vectors
    }

    /// Where its ranges come from.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Whether vectors of `dtype` are quantized by one.
    ///
    /// # Errors
    /// If they are not, so that it was given in vain.
    pub fn check(dtype: Dtype) -> Result<()> {
        if dtype.needs_ranges() {
            return Ok(());
        }
        let reason = format!("{CALIBRATION} is for {DTYPE} int8 and uint8, but this is {dtype}");
        Err(Error::usage(reason).with_remedy("leave it out, or choose one of these"))
    }

    /// By which two are told apart.
    #[must_use]
    pub fn hash(&self) -> Hash {
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
            "{CALIBRATION} {}: {name} has {dimensions} components, but the file has {there}",
            self.file.display()
        ))
        .with_remedy(format!(
            "make the file with the same model and {DIMENSIONS}, and {DTYPE} f32"
        )))
    }
}
