//! JSON Lines: a line is a JSON object.
//!
//! Arrow's reader of JSON is not used: it stops at a bad line, where a record is to be rejected with its line and kept as
//! it was written.

mod read;
mod vectors;
mod write;

use std::io::Read;

pub(crate) use read::{Jsonl, Unseen, fields, is_blank};

use super::input::{InputFacts, InputFormat, InputSpec};
use super::output::{
    Beginning, Compression, OutputFacts, OutputSpec, RowTexts, SIDECAR_HASH, VectorShape,
};
use crate::output::read::{Said, TakeVector, in_order};
use crate::output::writer::VectorWriter;
use embedctl_common::error::Result;
use embedctl_storage::Readable;

/// The format of records.
pub(super) struct JsonlInput;

impl InputSpec for JsonlInput {
    fn facts(&self) -> InputFacts {
        InputFacts {
            endings: &["jsonl", "ndjson"],
            about: "A line is a JSON object",
            ..InputFacts::DEFAULT
        }
    }
}

/// The format of vectors.
pub(super) struct JsonlOutput(pub Compression);

impl OutputSpec for JsonlOutput {
    fn facts(&self) -> OutputFacts {
        OutputFacts {
            endings: match self.0 {
                Compression::None => &["jsonl", "ndjson"],
                Compression::Gzip => &["jsonl.gz", "ndjson.gz"],
                Compression::Zstd => &["jsonl.zst", "ndjson.zst"],
            },
            about: match self.0 {
                Compression::None => "A JSON object for each row",
                Compression::Gzip => "The same, compressed with gzip",
                Compression::Zstd => "The same, compressed with zstd",
            },
            shape: VectorShape::Fields,
            is_text: self.0 == Compression::None,
            hashes: &["lines", SIDECAR_HASH],
            row_texts: RowTexts::In(InputFormat::Jsonl),
            ..OutputFacts::DEFAULT
        }
    }

    fn create(&self, begin: Beginning) -> Result<Box<dyn VectorWriter>> {
        Ok(Box::new(write::JsonlWriter::new(
            begin.target,
            begin.encoding,
            self.0,
        )?))
    }

    fn read_vectors(&self, file: &Readable, said: &Said, take: &mut TakeVector<'_>) -> Result<()> {
        vectors::read(file, self.0, said, take)
    }

    /// Of lines: as they were before they were compressed.
    fn hashed(&self, file: &Readable, name: &str) -> Result<Box<dyn Read>> {
        match name {
            "lines" => vectors::lines(file, self.0),
            _ => Ok(Box::new(in_order(file)?)),
        }
    }
}
