//! A run's fingerprint: the identity of its vectors, and the options that decide its rows and columns.

use serde_json::{Value, json};

use super::EmbedOptions;
use crate::error::Result;
use crate::identity::VectorIdentity;
use crate::job::{Fingerprint, INPUT_NAMES, INPUT_SIZES, SourceState};
use crate::output::{OutputOptions, RunOutput};
use crate::tokenize::chunks::Chunking;
use embedctl_records::csv_options::CsvOptions;
use embedctl_records::fields::LineIds;
use embedctl_records::options::InputOptions;

/// Key of the ids: their field, their type, and whether JSON decides it.
const ID: &str = "id";

/// Stands there where the ids of JSON decide their type. Before they did, nothing stood there.
const TYPED: &str = "typed";

/// What ids of JSON become in an output with this fingerprint.
pub(super) fn line_ids(then: &Fingerprint) -> LineIds {
    let ids = then.get(ID).and_then(Value::as_array);
    match ids.is_some_and(|ids| ids.len() < 3) {
        true => LineIds::Strings,
        false => LineIds::Typed,
    }
}

/// The options that say which records of the inputs are read, with their keys: each is there where it is given.
pub(super) fn records(input: &InputOptions) -> [(&'static str, Option<u64>); 3] {
    let seed = input.sample.map(|_| input.seed);
    [
        ("limit", input.limit),
        ("sample", input.sample),
        ("seed", seed),
    ]
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
    set_input(&mut all, &options.input);
    set_output(&mut all, output)?;
    all.set("source_columns", options.input.source_columns);
    set_rows(&mut all, options);
    Ok(all)
}

/// How records are read.
fn set_input(all: &mut Fingerprint, input: &InputOptions) {
    // An option that is added decides here whether it changes rows or columns.
    let InputOptions {
        format,
        csv:
            CsvOptions {
                delimiter,
                quote,
                escape,
                null,
            },
        text_field,
        id_field,
        id_type,
        line_ids: _, // see `id`
        keep,
        max_record_bytes,
        window_rows: _,
        window_bytes,
        text_template,
        source_columns: _, // with the output's, whose sidecar has them in place of columns
        limit: _,          // these three are `records`
        sample: _,
        seed: _,
        batches: _,
    } = input;
    all.set("input_format", format!("{format:?}"));
    let csv = [
        ("csv_delimiter", delimiter.map(|it| it.to_string())),
        ("csv_quote", quote.map(|it| it.to_string())),
        ("csv_escape", escape.map(|it| it.to_string())),
        ("csv_null", null.clone()),
    ];
    for (key, value) in csv {
        if let Some(value) = value {
            all.set(key, value);
        }
    }
    all.set("text", text_field.clone());
    if let Some(template) = text_template {
        all.set("text_template", template.to_string());
    }
    for (key, value) in records(input) {
        if let Some(value) = value {
            all.set(key, value);
        }
    }
    all.set(
        ID,
        match input.infers_ids() {
            true => json!([id_field, id_type.to_string(), TYPED]),
            false => json!([id_field, id_type.to_string()]),
        },
    );
    let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
    all.set("keep", keep);
    all.set("reading", json!([max_record_bytes, window_bytes]));
}

/// How rows are written.
fn set_output(all: &mut Fingerprint, output: &RunOutput) -> Result<()> {
    // The same; one that changes values is a part of the identity, too.
    let OutputOptions {
        destination: _,
        format: _,
        force: _,
        dtype: _, // these two are in the identity
        calibration: _,
        vector_type,
        embedding_field,
        sparse_tokens,
    } = &output.options;
    all.set("format", output.format()?.name());
    all.set("vector_type", format!("{vector_type:?}"));
    all.set("embedding_field", embedding_field.clone());
    all.set("nullable", output.nullable);
    if *sparse_tokens {
        all.set("sparse_tokens", true);
    }
    Ok(())
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
