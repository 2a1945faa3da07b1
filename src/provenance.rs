//! What made an output file, as one JSON object that goes into it or beside it.
//!
//! No time stamps. The same input, model, settings, engine and machine give the same object, but for what an
//! engine measures while it is opened: the token budget of a device, and the cosine to the CPU.

use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{EngineInfo, Provider};
use crate::model::{Dimensions, Model, ModelProvenance, OutputChoice};
use crate::profile::Tuned;
use crate::progress::Counts;
use crate::tokenize::Chunked;

/// Version of this object's schema.
pub const SCHEMA: u32 = 1;

/// A finished run's provenance.
#[derive(Debug, Serialize)]
pub struct Provenance<'a> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What wrote the file.
    pub tool: Tool,
    /// The model's id, revision, and files with their hashes.
    pub model: &'a ModelProvenance,
    /// Path of the weights' main file inside the model's folder: of the ONNX file or the checkpoint.
    pub model_file: String,
    /// Pooling modes; empty where the graph gives finished vectors.
    pub pooling: Vec<&'static str>,
    /// Whether prompt tokens take part in pooling.
    pub include_prompt: bool,
    /// Whether vectors have unit length.
    pub normalized: bool,
    /// The prompt put before every text.
    pub prompt: &'a str,
    /// Tokens of a row at most; absent where the model has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The field that texts came from, or the template that put them together; absent where it is `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Width of a vector; a list where a row has several.
    pub dimensions: Dimensions,
    /// How texts were cut into chunks; absent where they were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunking: Option<Chunked>,
    /// Engine and provider that did the work.
    pub engine: &'a EngineInfo,
    /// The tuned profile that was used; absent where none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'a ProfileUsed>,
    /// Counts of rows.
    pub rows: RowCounts,
    /// Counts of tokens.
    pub tokens: TokenCounts,
}

/// A tuned profile, and what was taken from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileUsed {
    /// Name of its file, without the folder.
    pub name: String,
    /// Its settings, those left out that options overrode.
    #[serde(flatten)]
    pub settings: Tuned,
}

/// What wrote a file.
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

/// Of an engine, as it stands in a provenance, in which numbers it computes: vectors are of one kind where this is
/// equal.
#[must_use]
pub fn precision(engine: &Value) -> Value {
    let native = engine["provider"] == Provider::Native.name();
    let mut precision = json!({
        "engine": if native { "native" } else { "onnx" },
        "precision": engine["precision"],
    });
    if let Some(version) = engine.get("arithmetic") {
        precision["arithmetic"] = version.clone();
    }
    precision
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
        profile: Option<&'a ProfileUsed>,
    ) -> Self {
        let config = &model.config;
        Self {
            schema: SCHEMA,
            tool: Tool {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
            },
            model: files,
            model_file: model.weights_name(engine.provider.weights()),
            pooling: match config.output {
                OutputChoice::Tokens(_) => config.pooling.iter().map(|mode| mode.name()).collect(),
                OutputChoice::Sentence(_) => Vec::new(),
            },
            include_prompt: config.include_prompt,
            normalized: config.normalized(),
            prompt: &config.prompt,
            max_length: config.limit(),
            text: None,
            dimensions: config.vectors(),
            chunking,
            engine,
            profile,
            rows: RowCounts {
                chunks: chunking.map(|_| counts.rows),
                read: counts.read,
                embedded: counts.embedded,
                rejected: counts.rejected,
                reused: counts.reused,
                truncated: counts.truncated,
            },
            tokens: TokenCounts {
                embedded: counts.tokens,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Arithmetic;

    #[test]
    fn vectors_of_another_arithmetic_are_of_another_kind() {
        let engine = |arithmetic: Arithmetic, version: Option<u32>| {
            let info = EngineInfo {
                precision: Some(arithmetic.name()),
                arithmetic: version,
                ..EngineInfo::new("native", String::new(), Provider::Native)
            };
            precision(&serde_json::to_value(info).unwrap())
        };
        let now = |arithmetic: Arithmetic| engine(arithmetic, arithmetic.version());
        // As earlier outputs say it.
        let before = |name: &str| json!({"engine": "native", "precision": name});
        assert_eq!(now(Arithmetic::Fp32), before("fp32"));
        for reduced in [Arithmetic::Int16, Arithmetic::Int8] {
            assert_eq!(engine(reduced, None), before(reduced.name()));
            assert_ne!(now(reduced), before(reduced.name()));
        }
        let onnx = json!({"provider": "cpu", "version": "1"});
        assert_eq!(
            precision(&onnx),
            json!({"engine": "onnx", "precision": null})
        );
    }
}
