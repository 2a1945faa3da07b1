//! A part's record of itself: its stretch of the input, and the counts and hashes of the result.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};

use super::names;
use super::seal::opened;
use super::shards::ShardRange;
use crate::error::{Error, Result};
use crate::hash;
use crate::input::Source;
use crate::position::Position;
use crate::setting::FORCE;
use crate::storage::SharedFolder;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use embedctl_records::marks::{TextHash, WindowStart};

/// A point between two records of a shard's input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Records before it, rejected ones counted.
    pub records: u64,
    /// SHA-256 over all of them, as they were read: texts, columns, origins, rejects.
    pub hash: String,
}

/// A source as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// As the user named it.
    pub name: String,
    /// Bytes, of a regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Nanoseconds since 1970, of a regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
    /// An object's etag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl SourceState {
    /// Looks at `source`, called `name`.
    #[must_use]
    pub fn of(source: &Source, name: &str) -> Self {
        if let Source::Object(object) = source {
            return Self {
                name: name.to_owned(),
                size: Some(object.bytes.len()),
                modified: None,
                etag: object.bytes.etag().map(str::to_owned),
            };
        }
        let metadata = source.path().and_then(|path: &Path| path.metadata().ok());
        let metadata = metadata.filter(std::fs::Metadata::is_file);
        let modified = metadata.as_ref().and_then(|metadata| {
            let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
            u64::try_from(since.as_nanos()).ok()
        });
        Self {
            name: name.to_owned(),
            size: metadata.map(|metadata| metadata.len()),
            modified,
            etag: None,
        }
    }

    /// Whether `now` is the same version of the same source, by its strong etag, else by its time. False also if
    /// neither is known: then only a comparison of the content can decide.
    #[must_use]
    pub fn is_same_version(&self, now: &Self) -> bool {
        let is_known = self.modified.is_some() || self.etag.as_deref().is_some_and(is_strong);
        is_known && self == now
    }

    /// Its version, for messages.
    pub(super) fn version(&self) -> String {
        let time = self.modified.and_then(|nanoseconds| {
            let time = DateTime::from_timestamp_nanos(i64::try_from(nanoseconds).ok()?);
            Some(time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
        });
        let etag = self.etag.as_ref().map(|etag| format!("etag {etag}"));
        let known: Vec<String> = time.into_iter().chain(etag).collect();
        match known.is_empty() {
            true => "unknown time".to_owned(),
            false => known.join(", "),
        }
    }
}

/// Whether an etag stands for one sequence of bytes, not for several that mean the same.
fn is_strong(etag: &str) -> bool {
    !etag.starts_with("W/")
}

/// A stretch of a shard's input, embedded. Stands in the part's provenance under `part`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// Number of the shard, from 1.
    pub shard: u32,
    /// Shards of the job.
    pub shards: u32,
    /// Number among the parts of its shard, from 0.
    pub number: u32,
    /// Where it starts.
    pub start: Point,
    /// Where it ends.
    pub end: Point,
    /// Where the record behind it stands in its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Where the window begins in which it ends, unless it ends with a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowStart>,
    /// The sources that it read from.
    pub sources: Vec<SourceState>,
    /// Rows in it: more than records where records are cut into chunks.
    pub rows: u64,
    /// Records of its stretch that were embedded.
    pub embedded: u64,
    /// Records of its stretch that were rejected.
    pub rejected: u64,
    /// Rows cut to the model's length.
    pub truncated: u64,
    /// Tokens embedded.
    pub tokens: u64,
    /// Rows whose vectors were taken from an earlier output.
    #[serde(default, skip_serializing_if = "crate::provenance::is_zero")]
    pub reused: u64,
    /// Rows whose vectors overflowed in fp16 and were computed in bf16.
    #[serde(default, skip_serializing_if = "crate::provenance::is_zero")]
    pub overflowed: u64,
    /// SHA-256 of the list of its rejected records, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects_sha256: Option<String>,
    /// SHA-256 of the hashes of its rows' texts; none of an older build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts_sha256: Option<String>,
    /// Types of the kept columns, where there are some and they are decided: Arrow's stream of their schema, in
    /// hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// In a storage without exclusive locks: a hash of all other fields and of the texts. The names of the part's lists
    /// carry it, so that two runs do not confuse their lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Hash of the job's fingerprint.
    pub fingerprint: String,
}

/// A schema as [`PartInfo::columns`] holds it.
pub(super) fn encoded(schema: &Schema) -> Result<String> {
    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, schema)
        .and_then(|mut writer| writer.finish())
        .map_err(|error| Error::internal(format!("writing a schema: {error}")))?;
    Ok(hash::hex(&bytes))
}

impl PartInfo {
    /// Types of the kept columns, which all parts share.
    #[must_use]
    pub fn columns(&self) -> Option<SchemaRef> {
        let digits = self.columns.as_ref()?.as_bytes().chunks(2);
        let bytes = digits.map(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
        Some(StreamReader::try_new(&bytes[..], None).ok()?.schema())
    }

    /// Its name, without an ending.
    pub(super) fn name(&self) -> String {
        names::part(self.shard, self.number)
    }

    /// Where its rejected records are listed, if it has any.
    pub(super) fn rejects(&self) -> String {
        self.list(names::REJECTS)
    }

    /// Where the hashes of its rows' texts are.
    #[must_use]
    pub fn texts(&self) -> String {
        self.list(names::TEXTS)
    }

    /// Its list in that folder.
    fn list(&self, folder: &str) -> String {
        names::list(folder, &self.name(), self.tag.as_deref())
    }
}

/// A part that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its file's name.
    pub file: String,
    /// Bytes of that file.
    pub bytes: u64,
    /// SHA-256 of its content, under the names of `sha256` in its provenance; none of an older build.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, String>,
    /// Its record of itself.
    #[serde(flatten)]
    pub info: PartInfo,
}

impl Part {
    /// The hashes of its rows' texts, as they were written; `None` where they are not there.
    ///
    /// # Errors
    /// If they differ from the written ones, or cannot be read.
    pub fn texts(&self, storage: &dyn SharedFolder) -> Result<Option<Vec<u8>>> {
        let name = self.info.texts();
        let Some(bytes) = storage.read(&name)? else {
            return Ok(None);
        };
        let is_so = match &self.info.texts_sha256 {
            Some(sum) => hash::of(&bytes) == *sum,
            // An older build kept none.
            None => bytes.len() as u64 == self.info.rows * size_of::<TextHash>() as u64,
        };
        match is_so {
            true => Ok(Some(bytes)),
            false => Err(self.damaged(storage, &name, "is not what was written with its part")),
        }
    }

    /// Its rejected records, as they were listed, in lines.
    ///
    /// # Errors
    /// If the list is missing or differs from the written one; the message names it.
    pub fn rejected(&self, storage: &dyn SharedFolder) -> Result<Vec<u8>> {
        let name = self.info.rejects();
        let Some(sum) = &self.info.rejects_sha256 else {
            if self.info.rejected == 0 {
                return Ok(Vec::new());
            }
            let why = format!("an older build made it, which kept no hash of {name}");
            return Err(Error::input(storage.place(&self.file), why)
                .with_remedy(format!("write the output anew, with {FORCE}")));
        };
        let why = match storage.read(&name)? {
            Some(lines) if hash::of(&lines) == *sum => return Ok(lines),
            Some(_) => "is not what was written with its part",
            None => "is missing; it was written with its part",
        };
        Err(self.damaged(storage, &name, why))
    }
}

/// A finished shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEnd {
    /// Number of the shard, from 1.
    pub shard: u32,
    /// The end of its input.
    pub end: Point,
    /// Its parts.
    pub parts: u64,
    /// Their rows.
    pub rows: u64,
    /// Records that were rejected.
    pub rejected: u64,
    /// Records of a window at most: the hash of the end is one over windows.
    pub window: u64,
    /// The sources of the shard, as they were when the run began that came to the end.
    pub sources: Vec<SourceState>,
    /// The stretches that it has read of them, in a job with shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<ShardRange>,
}

impl ShardEnd {
    /// The source that a stretch of it is of.
    pub(super) fn source(&self, stretch: &ShardRange) -> Option<&SourceState> {
        let first = self.stretches.first()?.source;
        self.sources.get((stretch.source - first) as usize)
    }
}

/// The whole output, once all shards are at their ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this file's schema.
    pub schema: u32,
    /// Hash of the job's fingerprint.
    pub fingerprint: String,
    /// Shards.
    pub shards: u32,
    /// Records read.
    pub records: u64,
    /// Rows of all parts.
    pub rows: u64,
    /// Records rejected.
    pub rejected: u64,
    /// The parts, in the input's order.
    pub parts: Vec<Part>,
}

impl Manifest {
    /// A job's manifest; `None` if it is missing or damaged: it is then made again from the parts.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(storage: &dyn SharedFolder) -> Result<Option<Self>> {
        let bytes = storage.read(names::MANIFEST)?;
        let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(value.and_then(opened))
    }
}
