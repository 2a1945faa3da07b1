//! Rejected records, written as JSONL for whoever mends the input.
//!
//! One object per record: `file`, `line` (from 1), `offset` (of its first byte, decompressed), `reason`,
//! and `raw`, the record's beginning as far as it is UTF-8. `"raw_truncated": true` says that the record
//! may go on. The file is published even if it is empty, so that a script can rely on it.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::output::Destination;
use crate::output::place::Place;
use crate::output::target::Target;
use crate::record::Reject;

/// Writes rejected records beside their final name; dropped without [`RejectsWriter::finish`], it
/// removes what it wrote.
#[derive(Debug)]
pub struct RejectsWriter {
    target: Target,
    buffer: Vec<u8>,
}

/// A line of the file.
#[derive(Serialize)]
struct Entry<'a> {
    file: &'a str,
    line: u64,
    offset: u64,
    reason: &'a str,
    raw: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    raw_truncated: bool,
}

impl RejectsWriter {
    /// Creates the file (beside `path`), before any work.
    ///
    /// # Errors
    /// If it exists and `force` is not given, or cannot be written.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let place = Place::find(&Destination::Path(path.to_path_buf()), "--rejects")?;
        Ok(Self {
            target: Target::create(place, force, &[])?,
            buffer: Vec::new(),
        })
    }

    /// Appends a record; `names` are the sources' names.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn write(&mut self, reject: &Reject, names: &[String]) -> Result<()> {
        let source = reject.origin.source;
        let file = names
            .get(source as usize)
            .ok_or_else(|| Error::Internal(format!("a record came from source {source}")))?;
        let raw_truncated = reject.raw.len() >= Reject::RAW_BYTES;
        let raw = if raw_truncated {
            without_cut_character(&reject.raw)
        } else {
            &reject.raw
        };
        let entry = Entry {
            file,
            line: reject.origin.line,
            offset: reject.origin.offset,
            reason: &reject.reason,
            raw: &String::from_utf8_lossy(raw),
            raw_truncated,
        };
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, &entry)
            .expect("a Vec takes every byte, and an entry always encodes");
        self.buffer.push(b'\n');
        // Unbuffered: rejects are few, and a stream's reader wants to see them.
        match self.target.write_all(&self.buffer) {
            // Whoever has seen enough of the rejects does not stop the vectors.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.target.abandon();
                Ok(())
            }
            result => result.map_err(|error| self.target.error(error)),
        }
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn finish(mut self) -> Result<()> {
        self.target.publish()
    }
}

/// Leaves out the first bytes of a character that the cut went through.
fn without_cut_character(raw: &[u8]) -> &[u8] {
    let rest = raw
        .utf8_chunks()
        .last()
        .map_or(&[][..], |last| last.invalid());
    let cut = match rest {
        [0xc2..=0xf4, ..] if rest.len() < 4 => rest.len(),
        _ => 0,
    };
    &raw[..raw.len() - cut]
}
