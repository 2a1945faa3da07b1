//! Reading ranges from a file.

use serde_json::{Map, Value};

use super::read_vectors;
use crate::vectors::unreadable;
use crate::writing::calibration::Calibration;
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::{CALIBRATION, DTYPE};
use embedctl_common::small_file;
use embedctl_records::quantize::{Dtype, Ranges};
use embedctl_storage::{Address, Readable};

/// A file of ranges that is larger is none.
const MAX_BYTES: u64 = 64 << 20;

impl Calibration {
    /// Reads a file or object: JSON ranges where it ends in `.json`, else vectors in any format that is written.
    ///
    /// # Errors
    /// If it cannot be read, is a file and no regular one, or holds neither; if it was cancelled.
    pub fn read(file: &Readable, cancel: &CancelToken) -> Result<Self> {
        let path = file.path();
        if !Address::is_url_path(path) {
            // A FIFO would be waited for.
            small_file::open(path).map_err(|error| Error::io("read", path, error))?;
        }
        let (columns, vectors) = match path.extension().is_some_and(|ending| ending == "json") {
            true => (of_json(file)?, None),
            false => of_vectors(file, cancel)?,
        };
        if columns.is_empty() {
            let reason = "it holds neither a vector of float32 or float16 nor ranges";
            return Err(unreadable(path, reason).with_remedy(format!(
                "{CALIBRATION} takes an output of this model that was written with {DTYPE} f32"
            )));
        }
        Ok(Self::new(path, columns, vectors))
    }
}

/// Ranges with the names of their columns.
type NamedRanges = Vec<(String, Ranges)>;

/// The ranges of vectors by their columns, and the number of vectors of the column that has the fewest.
fn of_vectors(file: &Readable, cancel: &CancelToken) -> Result<(NamedRanges, Option<u64>)> {
    let path = file.path();
    let mut columns: Vec<(String, Ranges)> = Vec::new();
    let mut counts: Vec<u64> = Vec::new();
    read_vectors(file, &mut |vector| {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        if !matches!(vector.dtype, Dtype::F32 | Dtype::F16) {
            return Ok(());
        }
        if let Some(value) = vector.values.iter().find(|value| !value.is_finite()) {
            return Err(unreadable(
                path,
                format!("there is a vector with {value} in it"),
            ));
        }
        let known = columns.iter().position(|(name, ranges)| {
            name == vector.column && ranges.min.len() == vector.values.len()
        });
        match known {
            Some(column) => {
                columns[column].1.add(vector.values);
                counts[column] += 1;
            }
            None => {
                let mut ranges = Ranges::new(vector.values.len());
                ranges.add(vector.values);
                columns.push((vector.column.to_owned(), ranges));
                counts.push(1);
            }
        }
        Ok(())
    })?;
    Ok((columns, counts.into_iter().min()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read(path: &Path, cancel: &CancelToken) -> Result<Calibration> {
        Calibration::read(&Readable::file(path)?, cancel)
    }

    #[test]
    fn a_cancelled_reading_ends() {
        let path = Path::new("../../fixtures/parity/quantize/calibration.npy");
        let cancel = CancelToken::new();
        assert!(read(path, &cancel).is_ok());
        cancel.cancel();
        assert!(read(path, &cancel).unwrap_err().is_interrupted());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ranges.json", "ranges.npy"] {
            let path = folder.path().join(name);
            let made = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: a C string that outlives the call.
            assert_eq!(unsafe { libc::mkfifo(made.as_ptr(), 0o600) }, 0);
            let error = read(&path, &CancelToken::new()).unwrap_err();
            assert_eq!(
                error.kind(),
                embedctl_common::error::ErrorKind::Io,
                "{error}"
            );
        }
    }
}
