//! The provenance of an output file: one JSON object in the file or beside it.
//!
//! No time stamps. The same input, model, settings, engine and machine give the same object, but for what an
//! engine measures while it is opened: the token budget of a device, and the cosine to the CPU.

use serde::Serialize;

use super::VectorSettings;
use crate::engine::EngineInfo;
use crate::model::{Model, ModelProvenance};
use crate::progress::Counts;
use crate::tokenize::chunks::Chunked;

/// Version of this object's schema.
pub const SCHEMA: u32 = 1;

/// A finished run's provenance.
#[derive(Debug, Serialize)]
pub struct Provenance<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program that wrote the file.
    pub tool: Tool,
    /// The model's id, revision, and files with their hashes.
    pub model: &'a ModelProvenance,
    /// The model's settings.
    #[serde(flatten)]
    pub settings: VectorSettings,
    /// The field that texts came from, or the template that put them together; absent where it is `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The field that the queries of pairs came from; absent where texts were no pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The field that ids came from; absent where it is `id`, and where there are none. Ids have its name where a field
    /// `id` is kept beside them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How texts were cut into chunks; absent where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunking: Option<Chunked>,
    /// Engine and provider that did the work.
    pub engine: &'a EngineInfo,
    /// Counts of rows.
    pub rows: RowCounts,
    /// Counts of tokens.
    pub tokens: TokenCounts,
}

/// The program that wrote a file.
#[derive(Debug, Serialize)]
pub struct Tool {
    /// `embedctl`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Counts of rows; `embedded + rejected == read`.
#[derive(Debug, Serialize)]
pub struct RowCounts {
    /// Records read.
    pub read: u64,
    /// Records embedded.
    pub embedded: u64,
    /// Records rejected.
    pub rejected: u64,
    /// Chunks embedded, where records were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// Rows whose vectors were taken from an earlier output; absent where none was.
    #[serde(skip_serializing_if = "is_zero")]
    pub reused: u64,
    /// Rows whose vectors overflowed in fp16 and were computed in bf16; absent where none was.
    #[serde(skip_serializing_if = "is_zero")]
    pub overflowed: u64,
    /// Rows cut to the model's length.
    pub truncated: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Counts of tokens.
#[derive(Debug, Serialize)]
pub struct TokenCounts {
    /// Tokens embedded, special tokens counted, padding not.
    pub embedded: u64,
}

impl<'a> Provenance<'a> {
    /// The provenance of a run of `model` on `engine`.
    #[must_use]
    pub fn new(
        model: &'a Model,
        files: &'a ModelProvenance,
        engine: &'a EngineInfo,
        chunking: Option<Chunked>,
        counts: &Counts,
    ) -> Self {
        Self {
            schema: SCHEMA,
            tool: Tool {
                name: "embedctl",
                version: env!("CARGO_PKG_VERSION"),
            },
            model: files,
            settings: VectorSettings::new(model, Some(engine.provider.weights_of(model))),
            text: None,
            query: None,
            id: None,
            chunking,
            engine,
            rows: RowCounts {
                chunks: chunking.map(|_| counts.rows),
                read: counts.read,
                embedded: counts.embedded,
                rejected: counts.rejected,
                reused: counts.reused,
                overflowed: counts.overflowed,
                truncated: counts.truncated,
            },
            tokens: TokenCounts {
                embedded: counts.tokens,
            },
        }
    }
}
