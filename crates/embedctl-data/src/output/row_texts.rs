//! The file from which ids and texts of an output's rows are read back.

use std::io;
use std::path::Path;

use embedctl_common::error::{Error, Result};
use embedctl_common::hash::Hash;
use embedctl_records::format::InputFormat;
use embedctl_storage::Readable;
use serde_json::Value;

use crate::reading::format::by_ending;
use crate::writing::format::{Compression, OutputFormat, RowTexts};
use crate::writing::sidecar::ROWS;

/// A file that has the ids of an output's rows, and their texts if they were kept.
#[derive(Debug, Clone)]
pub struct RowTextFile {
    /// The file.
    pub file: Readable,
    /// Its format as an input.
    pub format: InputFormat,
    /// Whether each of its lines is a row, and none is compressed.
    pub is_lines: bool,
    /// Whether it lies beside the output.
    pub is_beside: bool,
}

/// That of an output in this format: itself, or the one beside it. `None` where the format has none, or it is not there.
///
/// # Errors
/// If the system or the store refuses.
pub fn row_texts_of(file: &Readable, format: OutputFormat) -> Result<Option<RowTextFile>> {
    Ok(match format.facts().row_texts {
        RowTexts::In(input) => Some(RowTextFile {
            file: called_by_content(file, format, input),
            format: input,
            is_lines: format == OutputFormat::Jsonl(Compression::None),
            is_beside: false,
        }),
        RowTexts::Beside => (file.bytes.beside(ROWS)?).map(|file| RowTextFile {
            file,
            format: InputFormat::Jsonl,
            is_lines: true,
            is_beside: true,
        }),
        RowTexts::Nowhere => None,
    })
}

impl RowTextFile {
    /// Whether a file beside an output with this provenance is the one that was written there, where its hash is recorded.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_as_written(&self, made: &Value) -> Result<bool> {
        let Some(written) = made["sha256"]["rows"].as_str().filter(|_| self.is_beside) else {
            return Ok(true);
        };
        let mut hash = Hash::default();
        let read =
            (self.file.bytes.reader_from(0)).and_then(|mut all| io::copy(&mut all, &mut hash));
        read.map_err(|error| Error::io("read", &self.file.name, error))?;
        Ok(hash.hex() == written)
    }
}

/// The file under a name that says what it holds: readers of records go by a name's ending.
fn called_by_content(file: &Readable, format: OutputFormat, input: InputFormat) -> Readable {
    let name = format!("{}.{format}", file.name);
    let own = by_ending(Path::new(&file.name));
    let is_right = own.0.is_none_or(|own| own == input) && own.1 == by_ending(Path::new(&name)).1;
    match is_right {
        true => file.clone(),
        false => Readable {
            name,
            bytes: file.bytes.clone(),
        },
    }
}
