//! Whether files that stand together were written together: their SHA-256 against the provenance's.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::output::{self, OutputFormat};
use crate::storage::Readable;

/// Something that was written with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Belongs {
    /// What the provenance calls it: `values`, `rows`, `lines`, `stream`, `rejects`.
    pub name: String,
    /// Where it was looked for; `None`: nobody has said where it is.
    pub path: Option<PathBuf>,
    /// Whether it is what was written; `None`: it was not looked at.
    pub same: Option<bool>,
}

impl Belongs {
    /// `the values of a.npy are`, `a.npy.rows.jsonl is`
    pub(super) fn is(&self) -> String {
        let path = self
            .path
            .as_ref()
            .map_or("", |path| path.to_str().unwrap_or(""));
        match self.name.as_str() {
            "values" => format!("the values of {path} are"),
            _ => format!("{path} is"),
        }
    }
}

/// Compares everything that the provenance has a hash of.
pub(super) fn check(
    file: &Readable,
    format: OutputFormat,
    rejects: Option<&Readable>,
    provenance: &Value,
    cancel: &CancelToken,
) -> Result<Vec<Belongs>> {
    let mut found = Vec::new();
    for (name, expected) in provenance["sha256"].as_object().into_iter().flatten() {
        let (path, place) = match name.as_str() {
            "values" | "lines" | "stream" => (Some(file.path().into()), Some(file.clone())),
            "rows" => (
                Some(output::sidecar_path(file.path(), output::ROWS)),
                file.bytes.beside(output::ROWS)?,
            ),
            "rejects" => (
                rejects.map(|rejects| rejects.path().into()),
                rejects.cloned(),
            ),
            _ => (None, None),
        };
        let same = match &place {
            Some(place) => {
                Some(Some(hash(place, name, format, cancel)?.as_str()) == expected.as_str())
            }
            // What should be there and is not.
            None => path.as_ref().map(|_| false),
        };
        found.push(Belongs {
            name: name.clone(),
            path,
            same,
        });
    }
    Ok(found)
}

/// The SHA-256 of what the provenance means by `name`.
fn hash(file: &Readable, name: &str, format: OutputFormat, cancel: &CancelToken) -> Result<String> {
    let mut content = BufReader::with_capacity(1 << 18, output::hashed(file, format, name)?);
    let mut hash = Hash::default();
    loop {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let bytes = content.fill_buf().map_err(|error| file.failed(error))?;
        if bytes.is_empty() {
            return Ok(hash.hex());
        }
        hash.add(bytes);
        let count = bytes.len();
        content.consume(count);
    }
}
