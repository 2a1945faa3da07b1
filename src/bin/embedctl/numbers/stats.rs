//! The summary as one JSON object: docs/numbers.md lists its members.

use serde_json::{Value, json};

use super::{NumbersState, RunNumbers, now};
use crate::printer::stage_fields;

/// Counts up when a member goes or changes its meaning.
const SCHEMA: u32 = 2;

/// The file's text.
pub(super) fn text(numbers: &RunNumbers, state: &NumbersState) -> String {
    let reading = state.meter.read(numbers.worked(state));
    let counts = &state.counts;
    // A run that has ended has nothing left.
    let left = reading
        .left
        .filter(|_| state.end.is_none() && state.summary.is_none());
    let end = state.end.as_ref();
    let stages = state
        .stages
        .as_ref()
        .map(embedctl::stage::StageWatch::times);
    let mut object = json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "state": state.name(),
        "exit_code": end.map(|end| end.code.number()),
        "error": end.and_then(|end| end.error.as_deref()),
        "started_at": numbers.began_at,
        "updated_at": end.map_or_else(now, |end| end.at),
        "seconds": numbers.began.elapsed().as_secs_f64(),
        "progress": {
            "rows": counts.rows,
            "share": if state.summary.is_some() { Some(1.0) } else { reading.share },
            "seconds_left": left.map(|left| left.as_secs_f64()),
            "bytes_read": counts.consumed,
            "bytes": state.total_bytes,
        },
        "read": counts.read,
        "embedded": counts.embedded,
        "chunks": null,
        "rejected": counts.rejected,
        "tokens": counts.tokens,
        "truncated": counts.truncated,
        "overflowed": counts.overflowed,
        "max_length": null,
        "dimensions": null,
        "model": numbers.model,
        "engine": state.engine,
        "threads": null,
        "load_seconds": state.working.map(|start| (start - numbers.began).as_secs_f64()),
        "run_seconds": numbers.worked(state).as_secs_f64(),
        "stages": stages.as_ref().map(stage_fields),
        "repeated": stages.as_ref().map(|stages| stages.duplicates),
        "reused": Some(counts.reused).filter(|_| numbers.reuses),
        "rows_per_second": reading.rows_per_second,
        "tokens_per_second": reading.tokens_per_second,
        "output": numbers.output,
        "rejects": [],
        "rejects_file": null,
        "notes": [],
    });
    if let (Value::Object(object), Some(summary)) = (&mut object, &state.summary) {
        object.extend(summary.clone());
    }
    let object = numbers.printer.safe_json(&object);
    format!("{object}\n")
}
