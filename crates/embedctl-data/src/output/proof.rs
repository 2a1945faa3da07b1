//! Comparing files with the hashes in their provenance.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;

use serde_json::Value;

use crate::writing::format::OutputFormat;
use crate::writing::forms::recorded_form;
use crate::writing::proof::{BLANK, MOST_FOOTER, SIDECAR, place_of};
pub use crate::writing::proof::{FILE, HASHES, SelfHashed, sidecar_text, with_place};
use crate::writing::sidecar::{LENGTHS, PROVENANCE, ROWS};
use embedctl_common::atomic::with_ending;
use embedctl_common::error::{Error, ErrorKind, Result, io_errors};
use embedctl_common::hash::Hash;
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

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
            let found = file.bytes.beside(ending)?;
            let path = match &found {
                Some(found) => found.path().into(),
                None => with_ending(file.path(), ending),
            };
            Ok((Some(path), found))
        };
        let (path, place) = match name.as_str() {
            FILE | "header" | "values" | "lines" | "stream" => {
                (Some(file.path().into()), Some(file.clone()))
            }
            "rows" => beside(ROWS)?,
            "lengths" => beside(LENGTHS)?,
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
    let forms = recorded_form(made).map(Forms::from);
    let sidecars = forms.map_or_else(Vec::new, |forms| format.sidecars_of(&forms));
    let lengths = sidecars.contains(&LENGTHS).then_some("lengths");
    let names = names(format).iter().copied().chain(lengths);
    let all = names.into_iter().all(|name| has(made, name));
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
        _ => format.spec().hashed(file, name),
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
