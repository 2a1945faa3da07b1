//! The server's view of an output whose rows are compared with queries.

use embedctl_common::cancel::CancelToken;
use embedctl_common::error::Result;
use embedctl_vectors::RowVector;
use serde::Serialize;
use serde_json::Value;

/// Rows that a server finds by their vectors.
pub trait ServedCorpus: Send + Sync {
    /// How it is called: the path of its file.
    fn name(&self) -> &str;

    /// Components of its vectors, where they are in full: a query has as many.
    fn width(&self) -> Option<usize>;

    /// The name of the prompt that queries get if a request names none; `None`: the server's own prompt.
    fn prompt_name(&self) -> Option<&str>;

    /// The `most` rows nearest to a query, best first. It may take as long as reading all rows takes.
    ///
    /// # Errors
    /// If the rows cannot be read, are not those that the server was started with, or `cancel` is cancelled.
    fn nearest(
        &self,
        query: RowVector<'_>,
        most: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<CorpusRow>>;
}

/// A row that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CorpusRow {
    /// Its number in the output, from 0.
    pub row: u64,
    /// Its id, if it has one.
    pub id: Option<Value>,
    /// The number of the chunk in its text, from 0, where rows are chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// Its text, if it was kept.
    pub text: Option<String>,
    /// How near it is.
    pub score: f32,
}
