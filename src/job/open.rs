//! The part in hand: windows added to it, and what it says of itself when it is published.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::part::{PartInfo, Point, encoded};
use super::parts::About;
use crate::arrow::datatypes::SchemaRef;
use crate::error::{Error, Result};
use crate::hash::{self, Hash};
use crate::output::VectorWriter;
use crate::position::Position;
use crate::progress::Counts;
use crate::record::{Mark, Rows, TextHash};
use crate::remedies::with_remedy;

/// A window, embedded.
pub struct Done {
    /// Its mark.
    pub mark: Mark,
    /// Its rows; may be none.
    pub rows: Rows,
    /// The hashes of its rows' texts.
    pub texts: Vec<u8>,
    /// Lines of the file of rejects.
    pub rejects: Vec<u8>,
    /// Places of its embedded records, in lines ([`RecordPlace::to_line`](super::RecordPlace::to_line)); only where
    /// records are tried again.
    pub embedded: Vec<u8>,
    /// Counts of the run, this window counted.
    pub counts: Counts,
}

/// The part in hand.
pub(super) struct Open {
    pub writer: Box<dyn VectorWriter>,
    pub number: u32,
    /// Whether there is no number left for another part before the next that is there.
    pub is_last: bool,
    pub start: Point,
    pub end: Point,
    pub position: Option<Position>,
    pub columns: Option<SchemaRef>,
    /// Index of the source in which the part before it ends.
    pub source: u32,
    /// Records in it, as far as its size is concerned.
    pub records: u64,
    pub counts: Counts,
    pub schema: SchemaRef,
    pub rejects: Vec<u8>,
    pub embedded: Vec<u8>,
    pub texts: Hashes,
    pub bytes: u64,
    pub began: Instant,
}

impl Open {
    /// Adds a window of that many records.
    pub fn add(&mut self, done: Done, records: u64) -> Result<()> {
        let Done {
            mark,
            rows,
            texts,
            rejects,
            embedded,
            counts,
        } = done;
        self.bytes += bytes(&rows);
        if !rows.is_empty() {
            self.schema = rows.columns.schema();
            self.writer.write(rows)?;
        }
        self.texts.add(&texts)?;
        self.rejects.extend(rejects);
        self.embedded.extend(embedded);
        self.records += records;
        self.position = mark.position;
        self.columns = mark.columns;
        self.end = Point {
            records: mark.end,
            hash: mark.hash,
        };
        self.counts = counts;
        Ok(())
    }

    /// What it says of itself, with these counts of its own.
    pub fn info(&self, about: &About, counts: &Counts) -> Result<PartInfo> {
        let sum = |list: &[u8]| (!list.is_empty()).then(|| hash::of(list));
        Ok(PartInfo {
            shard: about.job.shard().index,
            shards: about.job.shard().count,
            number: self.number,
            start: self.start.clone(),
            end: self.end.clone(),
            position: self.position,
            sources: match about.job.retries() {
                // All of them were compared.
                true => about.sources.clone(),
                // Also what had no record: it may have some when the next run comes by.
                false => {
                    let behind = self
                        .position
                        .map_or(0, |position| position.source as usize + 1);
                    let sources = about.sources.iter().take(behind);
                    sources.skip(self.source as usize).cloned().collect()
                }
            },
            rows: self.texts.rows,
            embedded: counts.embedded,
            rejected: counts.rejected,
            truncated: counts.truncated,
            tokens: counts.tokens,
            reused: counts.reused,
            retry: about.job.retries(),
            rejects_sha256: sum(&self.rejects),
            retried_sha256: sum(&self.embedded),
            texts_sha256: Some(self.texts.hash.hex()),
            columns: self.columns.as_deref().map(encoded).transpose()?,
            tag: None,
            fingerprint: about.fingerprint.clone(),
        })
    }
}

/// The hashes of a part's texts, in a file of the scratch folder: a part may have any number of rows.
pub(super) struct Hashes {
    path: PathBuf,
    file: BufWriter<File>,
    hash: Hash,
    rows: u64,
}

impl Hashes {
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|error| refused(&path, error))?;
        let file = BufWriter::new(file);
        Ok(Self {
            path,
            file,
            hash: Hash::default(),
            rows: 0,
        })
    }

    fn add(&mut self, hashes: &[u8]) -> Result<()> {
        self.rows += (hashes.len() / size_of::<TextHash>()) as u64;
        self.hash.add(hashes);
        let written = self.file.write_all(hashes);
        written.map_err(|error| refused(&self.path, error))
    }

    /// The file, complete.
    pub fn finish(mut self) -> Result<PathBuf> {
        let written = self.file.flush();
        written.map_err(|error| refused(&self.path, error))?;
        Ok(self.path)
    }
}

fn refused(path: &Path, error: io::Error) -> Error {
    Error::io("write to", path, with_remedy(error))
}

/// How much rows add to a part, about.
fn bytes(rows: &Rows) -> u64 {
    (rows.vectors.len() * size_of::<f32>() + rows.columns.get_array_memory_size()) as u64
}
