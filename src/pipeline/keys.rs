//! Keys of rows for stores that want one: `chunk_id`, and `uuid`.

use std::fmt::Write;

use sha1::{Digest, Sha1};

use crate::record::{Origin, SourceNames};
use arrow::array::{Array, ArrayRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The namespace of URLs (RFC 9562): Python's `uuid.NAMESPACE_URL`.
const NAMESPACE_URL: u128 = 0x6ba7b811_9dad_11d1_80b4_00c04fd430c8;

/// The ids of some records, as words.
pub(super) struct RecordKeys<'a> {
    ids: &'a ArrayRef,
    words: ArrayFormatter<'a>,
    names: &'a SourceNames,
}

impl<'a> RecordKeys<'a> {
    /// Of records with these ids.
    ///
    /// # Errors
    /// If the ids have a type without words.
    pub(super) fn of(ids: &'a ArrayRef, names: &'a SourceNames) -> Result<Self, ArrowError> {
        const OPTIONS: FormatOptions<'static> = FormatOptions::new();
        let words = ArrayFormatter::try_new(ids.as_ref(), &OPTIONS)?;
        Ok(Self { ids, words, names })
    }

    fn id(&self, row: usize) -> Option<String> {
        (self.ids.is_valid(row)).then(|| self.words.value(row).to_string())
    }

    fn source(&self, origin: &Origin) -> &str {
        let name = self.names.get(origin.source as usize);
        name.map_or("", String::as_str)
    }

    /// `ID#CHUNK`; `SOURCE:LINE#CHUNK` of a record without an id.
    pub(super) fn chunk_id(&self, row: usize, origin: &Origin, chunk: u32) -> String {
        match self.id(row) {
            Some(id) => format!("{id}#{chunk}"),
            None => format!("{}:{}#{chunk}", self.source(origin), origin.line),
        }
    }

    /// The UUID (version 5, of [`NAMESPACE_URL`]) of the lines source, id and chunk; `:LINE` stands for a missing id.
    pub(super) fn uuid(&self, row: usize, origin: &Origin, chunk: Option<u32>) -> String {
        let id = self.id(row).unwrap_or_else(|| format!(":{}", origin.line));
        let mut name = format!("{}\n{id}", self.source(origin));
        if let Some(chunk) = chunk {
            write!(name, "\n{chunk}").expect("a string takes every character");
        }
        hyphenated(version_5(&name))
    }
}

/// The UUID of a name below [`NAMESPACE_URL`].
fn version_5(name: &str) -> u128 {
    let hash = Sha1::new()
        .chain_update(NAMESPACE_URL.to_be_bytes())
        .chain_update(name)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x50;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    u128::from_be_bytes(bytes)
}

/// In groups of 8, 4, 4, 4 and 12 digits.
fn hyphenated(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `uuid.uuid5(uuid.NAMESPACE_URL, name)` gives them in Python.
    #[test]
    fn names_have_the_uuids_of_other_programs() {
        for (name, uuid) in PYTHON {
            assert_eq!(hyphenated(version_5(name)), uuid, "{name:?}");
        }
    }

    const PYTHON: [(&str, &str); 3] = [
        ("", "1b4db7eb-4057-5ddf-91e0-36dec72071f5"),
        ("docs.jsonl\n17", "21767c6a-6c84-5b9d-9032-5fc6c9c3e11f"),
        ("corpus/ä.csv\n7\n3", "9a924bbb-93dd-523a-bec3-60c3b2e17e30"),
    ];
}
