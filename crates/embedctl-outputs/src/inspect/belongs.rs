//! Whether files that stand together were written together: their SHA-256 against the provenance's.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::output::{OutputFormat, proof};
use crate::storage::{Address, Readable};

/// The comparison of something that was written with a file with its recorded hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContentCheck {
    /// Its name in the provenance: `file`, `header`, `values`, `rows`, `lines`, `stream`, `provenance`, `rejects`.
    pub name: String,
    /// Its path; `None` if the path is unknown.
    pub path: Option<PathBuf>,
    /// Whether its hash is the recorded one; `None` if it was not compared.
    pub same: Option<bool>,
}

impl ContentCheck {
    /// `the values of a.npy are`, `a.npy.rows.jsonl is`
    pub(super) fn is(&self) -> String {
        let path = self
            .path
            .as_ref()
            .map_or("", |path| path.to_str().unwrap_or(""));
        match self.name.as_str() {
            "values" => format!("the values of {path} are"),
            "header" => format!("the header of {path} is"),
            _ => format!("{path} is"),
        }
    }
}

/// Compares everything that the provenance has a hash of, but for the hash of a whole table on a store or a web server.
pub(super) fn check(
    file: &Readable,
    format: OutputFormat,
    rejects: Option<&Readable>,
    provenance: &Value,
    cancel: &CancelToken,
) -> Result<Vec<ContentCheck>> {
    let stop = || match cancel.is_cancelled() {
        true => Err(Error::interrupted()),
        false => Ok(()),
    };
    let mut provenance = provenance.clone();
    // The hash of a whole file would fetch columns that nothing else here reads.
    let is_far = Address::is_url_path(file.path());
    let hashes = provenance[proof::HASHES].as_object_mut();
    let left_out = hashes
        .filter(|_| is_far)
        .and_then(|hashes| hashes.shift_remove(proof::FILE));
    let found = proof::compare(file, format, rejects, &provenance, &stop)?;
    let belongs = |one: proof::HashedContent| ContentCheck {
        name: one.name,
        path: one.path,
        same: one.same,
    };
    let left_out = left_out.map(|_| ContentCheck {
        name: proof::FILE.to_owned(),
        path: Some(file.path().into()),
        same: None,
    });
    Ok(found.into_iter().map(belongs).chain(left_out).collect())
}
