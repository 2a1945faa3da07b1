//! A run's fingerprint: the identity of its vectors, and the options that decide its rows and columns.

use serde_json::{Value, json};

use super::EmbedOptions;
use crate::error::Result;
use crate::identity::VectorIdentity;
use crate::job::{Fingerprint, INPUT_NAMES, INPUT_SIZES, SourceState};
use crate::output::RunOutput;
use crate::tokenize::chunks::Chunking;
use embedctl_records::fields::LineIds;
use embedctl_records::options::ID;

/// What ids of JSON become in an output with this fingerprint.
pub(super) fn line_ids(then: &Fingerprint) -> LineIds {
    let ids = then.get(ID).and_then(Value::as_array);
    match ids.is_some_and(|ids| ids.len() < 3) {
        true => LineIds::Strings,
        false => LineIds::Typed,
    }
}

/// A few values, or the hash of many.
fn listed(values: impl Iterator<Item = Value>) -> Value {
    let values: Vec<Value> = values.collect();
    if values.len() <= LISTED {
        return values.into();
    }
    let count = values.len();
    let mut all = Fingerprint::default();
    all.set("values", values);
    json!({"count": count, "sha256": all.hash()})
}

/// What stands under [`INPUT_SIZES`].
pub(super) fn sizes(sources: &[SourceState]) -> Value {
    listed(sources.iter().map(|source| json!(source.size)))
}

/// Names of inputs that a fingerprint lists; of more it holds a hash.
const LISTED: usize = 20;

/// All that decides a vector, a row or a column of a run's output.
pub(super) fn fingerprint(
    options: &EmbedOptions,
    output: &RunOutput,
    sources: &[SourceState],
    identity: &VectorIdentity,
) -> Result<Fingerprint> {
    let mut all = Fingerprint::new(identity);
    all.set(
        INPUT_NAMES,
        listed(sources.iter().map(|source| json!(source.name))),
    );
    all.set(INPUT_SIZES, sizes(sources));
    let input = options.input.deciding();
    for (key, value) in input.into_iter().chain(output.deciding()?) {
        all.set(key, value);
    }
    all.set("source_columns", options.input.source_columns);
    set_rows(&mut all, options);
    Ok(all)
}

/// Which rows a record becomes, and how a job divides them.
fn set_rows(all: &mut Fingerprint, options: &EmbedOptions) {
    let chunking = options.chunking.map(
        |Chunking {
             by,
             tokens,
             overlap,
             text,
             id,
             heading,
         }| {
            let mut values = vec![json!(by), json!(tokens), json!(overlap), json!(text)];
            values.extend(id.then(|| json!("id")));
            values.extend(heading.then(|| json!("heading")));
            values
        },
    );
    if options.uuid {
        all.set("uuid", true);
    }
    all.set("chunking", chunking);
    if let Some(top) = options.top_labels {
        all.set("top_labels", top);
    }
    all.set("part_rows", options.job.part_rows);
    all.set("shards", options.job.shard.count);
}
