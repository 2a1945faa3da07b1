//! Files that prove themselves: the provenance holds the SHA-256 of all that was written with it, under `sha256`.
//!
//! ```text
//!  file                 a Parquet or Arrow file, all of its bytes
//!  header, values       a matrix, what comes before its values, and those
//!  rows                 the file beside a matrix that describes its rows
//!  lines                JSONL, before it is compressed
//!  stream               an Arrow stream, or PostgreSQL's binary COPY
//!  provenance           the file beside an output that holds the provenance itself
//!  rejects              the file of rejected records
//! ```
//!
//! A hash that stands in the bytes that it is over (`file`, `provenance`) is of those bytes with 64 zeros in the place of
//! its own digits.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::PathBuf;

use serde_json::Value;

use super::options::OutputFormat;
use super::sidecar::{PROVENANCE, ROWS};
use embedctl_common::atomic::with_ending;
use embedctl_common::error::{Error, ErrorKind, Result, io_errors};
use embedctl_common::hash::{self, Hash};
use embedctl_storage::Readable;

/// Names of hashes that stand in the bytes that they are over.
pub const FILE: &str = "file";
const SIDECAR: &str = "provenance";

/// Key of a provenance that holds the hashes.
pub const HASHES: &str = "sha256";

/// Stands in the place of the digits while a hash is taken.
pub(super) const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A footer is at most so long, as far as the own hash is looked for in it.
const MOST_FOOTER: u64 = 64 << 20;

/// Writes a file that holds its own hash: hashes all that passes, and remembers what is written once the footer has
/// begun.
pub struct SelfHashed<W> {
    inner: W,
    hash: Option<Hash>,
    written: u64,
    /// Where the footer begins, and what was written of it.
    footer: Option<(u64, Vec<u8>)>,
}

impl<W> SelfHashed<W> {
    /// Writes to `inner`; `proves` says whether it can be rewritten, so that a hash gets into it.
    pub fn new(inner: W, proves: bool) -> Self {
        Self {
            inner,
            hash: proves.then(Hash::default),
            written: 0,
            footer: None,
        }
    }

    /// Whether the file will hold its own hash.
    pub fn proves(&self) -> bool {
        self.hash.is_some()
    }

    /// The hash of what has passed, where it is taken.
    pub fn hash(&self) -> Option<&Hash> {
        self.hash.as_ref()
    }

    /// What follows is the footer. Nothing may wait in a buffer before this one.
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
    pub fn digits(&self) -> Result<Option<(u64, String)>> {
        let (Some(hash), Some((start, footer))) = (&self.hash, &self.footer) else {
            return Ok(None);
        };
        let at = place_of(footer, FILE, BLANK)
            .ok_or_else(|| Error::internal("a footer without a place for its hash"))?;
        Ok(Some((start + at as u64, hash.hex())))
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
fn place_of(bytes: &[u8], name: &str, digits: &str) -> Option<usize> {
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

/// The bytes of a file, with zeros in the place of `digits`, its own hash; as they are where these are not in its footer.
///
/// # Errors
/// If it cannot be read.
pub(super) fn blanked(file: &Readable, digits: &str) -> Result<Box<dyn Read>> {
    let failed = |error| file.failed(error);
    let Some(at) = footer_place(file, digits)? else {
        return Ok(Box::new(file.bytes.reader_from(0).map_err(failed)?));
    };
    let before = file.bytes.reader_from(0).map_err(failed)?.take(at);
    let after = file.bytes.reader_from(at + BLANK.len() as u64);
    let after = after.map_err(failed)?;
    Ok(Box::new(
        before.chain(Cursor::new(BLANK.as_bytes())).chain(after),
    ))
}

/// Where the footer of a Parquet or Arrow file holds these digits as its hash.
fn footer_place(file: &Readable, digits: &str) -> Result<Option<u64>> {
    let len = file.bytes.len();
    let mut end = [0; 10];
    let Some(at) = len.checked_sub(end.len() as u64) else {
        return Ok(None);
    };
    let failed = |error| file.failed(error);
    file.bytes.read_at(at, &mut end).map_err(failed)?;
    let number = |four: &[u8]| u64::from(u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let (footer, trailer) = match &end {
        [.., b'P', b'A', b'R', b'1'] => (number(&end[2..6]), 8),
        [_, _, _, _, b'A', b'R', b'R', b'O', b'W', b'1'] => (number(&end[..4]), 10),
        _ => return Ok(None),
    };
    let start = len.checked_sub(footer + trailer);
    let Some(start) = start.filter(|_| footer <= MOST_FOOTER) else {
        return Ok(None);
    };
    let mut bytes = vec![0; usize::try_from(footer).unwrap_or(0)];
    file.bytes.read_at(start, &mut bytes).map_err(failed)?;
    Ok(place_of(&bytes, FILE, digits).map(|at| start + at as u64))
}

/// Something that was written with a file.
#[derive(Debug, Clone)]
pub struct HashedContent {
    /// Its name in the provenance.
    pub name: String,
    /// Its path; `None` if the path is unknown.
    pub path: Option<PathBuf>,
    /// Whether its hash is the recorded one; `None` if it was not compared.
    pub same: Option<bool>,
}

/// Compares every file for which the provenance `made` has a hash. `rejects` is the file of rejected records, if known.
/// `stop` is polled regularly.
///
/// # Errors
/// If something cannot be read, or `stop` says so.
pub fn compare(
    file: &Readable,
    format: OutputFormat,
    rejects: Option<&Readable>,
    made: &Value,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<HashedContent>> {
    let mut found = Vec::new();
    for (name, expected) in made[HASHES].as_object().into_iter().flatten() {
        let beside = |ending| -> Result<_> {
            let path = with_ending(file.path(), ending);
            Ok((Some(path), file.bytes.beside(ending)?))
        };
        let (path, place) = match name.as_str() {
            FILE | "header" | "values" | "lines" | "stream" => {
                (Some(file.path().into()), Some(file.clone()))
            }
            "rows" => beside(ROWS)?,
            SIDECAR => beside(PROVENANCE)?,
            "rejects" => (
                rejects.map(|rejects| rejects.path().into()),
                rejects.cloned(),
            ),
            _ => (None, None),
        };
        let expected = expected.as_str().unwrap_or_default();
        let same = match &place {
            Some(place) => {
                Some(hash_of(place, format, name, expected, stop)?.as_deref() == Some(expected))
            }
            // A missing file.
            None => path.as_ref().map(|_| false),
        };
        found.push(HashedContent {
            name: name.clone(),
            path,
            same,
        });
    }
    Ok(found)
}

/// The result of comparing a file and the files beside it with the hashes in their provenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// All hashes are equal.
    Whole,
    /// All recorded hashes are equal, but some content has none: an older build wrote it, or it was written to a store.
    Older,
    /// The hash of this name differs.
    Other(String),
}

/// Compares a file and the files beside it with the hashes in its provenance `made`.
///
/// # Errors
/// If something cannot be read.
pub fn prove(file: &Readable, format: OutputFormat, made: &Value) -> Result<Proof> {
    let found = compare(file, format, None, made, &|| Ok(()))?;
    if let Some(other) = found.iter().find(|one| one.same == Some(false)) {
        return Ok(Proof::Other(other.name.clone()));
    }
    let all = names(format).iter().all(|name| has(made, name));
    Ok(if all { Proof::Whole } else { Proof::Older })
}

/// Whether the provenance `made` of a file of `format` has a hash of its vectors.
#[must_use]
pub fn has_vectors(format: OutputFormat, made: &Value) -> bool {
    names(format).first().is_some_and(|name| has(made, name))
}

fn has(made: &Value, name: &str) -> bool {
    made[HASHES].get(name).is_some()
}

/// Names of the hashes that cover all of a file of `format` and of what stands beside it; that of its vectors first.
fn names(format: OutputFormat) -> &'static [&'static str] {
    format.facts().hashes
}

/// The SHA-256 of what the provenance means by `name`, where it says that it is `expected`; `None` where the bytes are
/// too damaged for that.
fn hash_of(
    file: &Readable,
    format: OutputFormat,
    name: &str,
    expected: &str,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Option<String>> {
    let content: Result<Box<dyn Read>> = match name {
        FILE => blanked(file, expected),
        SIDECAR => file.read_whole(MOST_FOOTER).map(|mut bytes| {
            if let Some(at) = place_of(&bytes, SIDECAR, expected) {
                bytes[at..at + BLANK.len()].copy_from_slice(BLANK.as_bytes());
            }
            Box::new(Cursor::new(bytes)) as Box<dyn Read>
        }),
        _ => super::read::hashed(file, format, name),
    };
    let content = match content {
        Err(error) if error.kind() == ErrorKind::Input => return Ok(None),
        content => content?,
    };
    let mut content = BufReader::with_capacity(1 << 18, content);
    let mut hash = Hash::default();
    loop {
        stop()?;
        let bytes = match content.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if is_of_data(&error) => return Ok(None),
            Err(error) => return Err(file.failed(error)),
        };
        if bytes.is_empty() {
            return Ok(Some(hash.hex()));
        }
        hash.add(bytes);
        let count = bytes.len();
        content.consume(count);
    }
}

/// Whether a decoder says that of its data: neither the system nor a store.
fn is_of_data(error: &io::Error) -> bool {
    Error::behind(error).is_none() && io_errors(error).all(|error| error.raw_os_error().is_none())
}
