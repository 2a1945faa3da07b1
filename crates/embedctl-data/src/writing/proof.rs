//! Files that prove themselves: the provenance holds the SHA-256 of all that was written with it, under `sha256`.
//!
//! ```text
//!  file                 a Parquet or Arrow file, all of its bytes
//!  header, values       a matrix, what comes before its values, and those
//!  rows                 the file beside a matrix that describes its rows
//!  lengths              the file beside a matrix of tokens' vectors that says how many each row has
//!  lines                JSONL, before it is compressed
//!  stream               an Arrow stream, or PostgreSQL's binary COPY
//!  provenance           the file beside an output that holds the provenance itself
//!  rejects              the file of rejected records
//! ```
//!
//! A hash that stands in the bytes that it is over (`file`, `provenance`) is of those bytes with 64 zeros in the place of
//! its own digits.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::Value;

use embedctl_common::background_hash::BackgroundHash;
use embedctl_common::error::{Error, Result};
use embedctl_common::hash::{self, Hash};
use embedctl_common::stage::Clock;

/// Names of hashes that stand in the bytes that they are over.
pub const FILE: &str = "file";
pub(crate) const SIDECAR: &str = "provenance";

/// Key of a provenance that holds the hashes.
pub const HASHES: &str = "sha256";

/// Stands in the place of the digits while a hash is taken.
pub(crate) const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A footer is at most so long, as far as the own hash is looked for in it.
pub(crate) const MOST_FOOTER: u64 = 64 << 20;

/// Writes a file that holds its own hash: hashes all that passes, and remembers what is written once the footer has
/// begun.
pub struct SelfHashed<W> {
    inner: W,
    hash: Option<BackgroundHash>,
    written: u64,
    /// Where the footer begins, and what was written of it.
    footer: Option<(u64, Vec<u8>)>,
}

impl<W> SelfHashed<W> {
    /// Writes to `inner`; `proves` says whether it can be rewritten, so that a hash gets into it. `clock` counts the
    /// processor time of hashing.
    pub fn new(inner: W, proves: bool, clock: &Arc<Clock>) -> Self {
        Self {
            inner,
            hash: proves.then(|| BackgroundHash::new(clock)),
            written: 0,
            footer: None,
        }
    }

    /// Whether the file will hold its own hash.
    pub fn proves(&self) -> bool {
        self.hash.is_some()
    }

    /// The hash of what has passed, where it is taken.
    pub fn hash(&mut self) -> Option<&Hash> {
        self.hash.as_mut().map(BackgroundHash::hash)
    }

    /// The bytes written from now on are the footer. All earlier bytes must have left their buffers.
    pub fn begin_footer(&mut self) {
        self.footer = Some((self.written, Vec::new()));
    }

    /// The underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// What it writes to, for good.
    pub fn into_inner(self) -> W {
        self.inner
    }

    /// Where the digits of the hash belong, and which they are; `None` where the file does not hold its hash.
    ///
    /// # Errors
    /// If the footer has no place for them.
    pub fn digits(&mut self) -> Result<Option<(u64, String)>> {
        let (Some(hash), Some((start, footer))) = (&mut self.hash, &self.footer) else {
            return Ok(None);
        };
        let at = place_of(footer, FILE, BLANK)
            .ok_or_else(|| Error::internal("a footer without a place for its hash"))?;
        Ok(Some((start + at as u64, hash.hash().hex())))
    }
}

impl<W: Write> Write for SelfHashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        let bytes = &bytes[..count];
        self.written += count as u64;
        if let Some(hash) = &mut self.hash {
            hash.add(bytes);
            if let Some((_, footer)) = &mut self.footer {
                footer.extend_from_slice(bytes);
            }
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The provenance with a place for the hash of the file that it stands in.
#[must_use]
pub fn with_place(provenance: &Value) -> Value {
    with_hash(provenance, FILE, BLANK)
}

fn with_hash(provenance: &Value, name: &str, digits: &str) -> Value {
    let mut provenance = provenance.clone();
    if let Some(object) = provenance.as_object_mut() {
        let hashes = object
            .entry(HASHES)
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(hashes) = hashes.as_object_mut() {
            hashes.insert(name.to_owned(), digits.into());
        }
    }
    provenance
}

/// The text of a provenance that stands beside an output, with the hash of that text in it.
#[must_use]
pub fn sidecar_text(provenance: &Value) -> Vec<u8> {
    let text = format!("{:#}\n", with_hash(provenance, SIDECAR, BLANK));
    let mut bytes = text.into_bytes();
    let digits = hash::of(&bytes);
    if let Some(at) = place_of(&bytes, SIDECAR, BLANK) {
        bytes[at..at + digits.len()].copy_from_slice(digits.as_bytes());
    }
    bytes
}

/// Where the `digits` stand under the key `name` of a JSON text among these bytes.
pub(crate) fn place_of(bytes: &[u8], name: &str, digits: &str) -> Option<usize> {
    if digits.len() != BLANK.len() {
        return None;
    }
    let end = format!("{digits}\"");
    let starts = [format!("\"{name}\":\""), format!("\"{name}\": \"")];
    let places = bytes.windows(end.len()).enumerate();
    let mut places = places.filter(|(_, window)| *window == end.as_bytes());
    places.find_map(|(at, _)| {
        let before = &bytes[..at];
        let is_key = starts
            .iter()
            .any(|start| before.ends_with(start.as_bytes()));
        is_key.then_some(at)
    })
}
