//! The files beside an output: their names, and how they are told from other files.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::npy::{HEADER, is_lengths};
use embedctl_common::atomic::Sidecars;

/// Ending of the file that holds a run's provenance.
pub const PROVENANCE: &str = ".json";

/// Ending of the file that says which record each row of an array came from.
pub const ROWS: &str = ".rows.jsonl";

/// Ending of the file that says how many vectors each row of an array has, where its tokens have one each.
pub const LENGTHS: &str = ".lengths.npy";

/// A sidecar that is larger than this was not written as provenance.
const MAX_PROVENANCE: u64 = 1 << 20;

/// The sidecars of every format.
pub(crate) const SIDECARS: Sidecars = Sidecars {
    endings: &[PROVENANCE, ROWS, LENGTHS],
    is_own: is_sidecar,
};

/// Whether a file beside a replaced output was written by an earlier run, by its beginning: an unrelated
/// `data.parquet.json` of the user is not.
fn is_sidecar(path: &Path) -> bool {
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let Some(file) = plain.then(|| File::open(path).ok()).flatten() else {
        return false;
    };
    let mut content = Vec::new();
    let name = path.as_os_str().as_encoded_bytes();
    if name.ends_with(LENGTHS.as_bytes()) {
        let read = file.take(HEADER as u64).read_to_end(&mut content);
        return read.is_ok() && is_lengths(&content);
    }
    if file.take(MAX_PROVENANCE).read_to_end(&mut content).is_err() {
        return false;
    }
    if name.ends_with(ROWS.as_bytes()) {
        return content.is_empty() || content.starts_with(br#"{"row":0,"#);
    }
    serde_json::from_slice::<serde_json::Value>(&content)
        .is_ok_and(|value| value["schema"].is_u64() && value["model"].is_object())
}
