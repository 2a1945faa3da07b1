//! What decides a vector, taken from what an output says made it, so that two of them can be compared key by key.

use serde_json::{Map, Value};

use crate::job::Fingerprint;
use crate::output::Dtype;
use crate::provenance::precision;
use crate::word_list::words;

/// Keys that a fingerprint and a provenance have in common.
const SHARED: &str = "model_file pooling include_prompt normalized prompt max_length dimensions";

/// Of a provenance, as it stands in every file.
pub(super) fn of_provenance(made: &Value) -> Fingerprint {
    let mut keys = Fingerprint::default();
    keys.set("version", made["tool"]["version"].clone());
    let files = made["model"]["files"].as_array().into_iter().flatten();
    let files: Map<String, Value> = files
        .filter_map(|file| Some((file["path"].as_str()?.to_owned(), file["sha256"].clone())))
        .collect();
    keys.set("model", files);
    for key in words(SHARED) {
        if let Some(value) = made.get(key) {
            keys.set(key, value.clone());
        }
    }
    keys.set("precision", precision(&made["engine"]));
    keys.set("dtype", made["dtype"].as_str().unwrap_or(Dtype::F32.name()));
    keys
}

/// Of a job's fingerprint.
pub(super) fn of_job(job: &Fingerprint) -> Fingerprint {
    let mut keys = Fingerprint::default();
    let own = ["version", "model", "precision", "dtype"];
    for key in own.into_iter().chain(words(SHARED)) {
        if let Some(value) = job.get(key) {
            keys.set(key, value.clone());
        }
    }
    keys
}
