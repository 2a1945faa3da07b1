//! The hits of a search, and tables of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use serde::Serialize;
use serde_json::Value;

use super::row_fields::{CHUNK, RowFields};
use crate::error::{Error, Result};

/// A hit, as it is written.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// The query's number, from 0.
    #[serde(skip)]
    pub query_number: usize,
    /// The query's id: the number of its line, where it has no other.
    pub query_id: String,
    /// The query.
    pub query: String,
    /// From 1.
    pub rank: u64,
    /// The row's number in the output, from 0.
    pub row: u64,
    /// Id and text.
    #[serde(flatten)]
    pub fields: RowFields,
    /// How near it is.
    pub score: f32,
}

/// The column of ids: of integers if all are, as in the output itself, else of texts.
fn ids(hits: &[Hit]) -> ArrayRef {
    let own = || hits.iter().map(|hit| hit.fields.id.as_ref());
    let has_some = own().flatten().next().is_some();
    match has_some && own().flatten().all(Value::is_i64) {
        true => Arc::new(
            own()
                .map(|id| id.and_then(Value::as_i64))
                .collect::<Int64Array>(),
        ),
        false => {
            let texts = hits.iter().map(|hit| hit.fields.id_text());
            Arc::new(texts.collect::<StringArray>())
        }
    }
}

/// Hits as a table: `query_id`, `query`, `rank`, `id`, `chunk` (where rows are chunks), `row`, `score`.
///
/// # Errors
/// If there are too many for a table.
pub fn table(hits: &[Hit]) -> Result<RecordBatch> {
    let texts = |of: &dyn Fn(&Hit) -> Option<String>| -> ArrayRef {
        Arc::new(hits.iter().map(of).collect::<StringArray>())
    };
    let numbers = |of: &dyn Fn(&Hit) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(hits.iter().map(of)))
    };
    let scores = Float32Array::from_iter_values(hits.iter().map(|hit| hit.score));
    let mut columns = vec![
        ("query_id", texts(&|hit| Some(hit.query_id.clone()))),
        ("query", texts(&|hit| Some(hit.query.clone()))),
        ("rank", numbers(&|hit| hit.rank)),
        ("id", ids(hits)),
    ];
    if hits.iter().any(|hit| hit.fields.chunk.is_some()) {
        let chunks: UInt64Array = hits.iter().map(|hit| hit.fields.chunk).collect();
        columns.push((CHUNK, Arc::new(chunks)));
    }
    columns.push(("row", numbers(&|hit| hit.row)));
    columns.push(("score", Arc::new(scores)));
    RecordBatch::try_from_iter(columns)
        .map_err(|error| Error::internal(format!("hits as a table: {error}")))
}
