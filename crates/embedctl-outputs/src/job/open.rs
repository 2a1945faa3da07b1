//! The current part: the windows added to it, and its record of itself when it is published.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::facts::JobFacts;
use super::part::{PartInfo, Point, encoded};
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::output::VectorWriter;
use crate::position::Position;
use crate::progress::Counts;
use crate::record::Rows;
use crate::remedies::with_remedy;
use arrow::datatypes::SchemaRef;
use embedctl_records::marks::{TextHash, WindowSpan, WindowStart};

/// A window, embedded.
pub struct EmbeddedWindow {
    /// Its mark.
    pub mark: WindowSpan,
    /// Its rows; may be none.
    pub rows: Rows,
    /// The hashes of its rows' texts.
    pub texts: Vec<u8>,
    /// Lines of the file of rejects.
    pub rejects: Vec<u8>,
    /// Counts of the run, this window counted.
    pub counts: Counts,
}

/// The current part.
pub(super) struct Open {
    pub writer: Box<dyn VectorWriter>,
    pub number: u32,
    /// Whether there is no number left for another part before the next that is there.
    pub is_last: bool,
    pub start: Point,
    pub end: Point,
    pub position: Option<Position>,
    /// Where the window in hand begins, unless all of it is here.
    pub window: Option<WindowStart>,
    pub columns: Option<SchemaRef>,
    /// Index of the source in which the part before it ends.
    pub source: u32,
    /// Records in it, as far as its size is concerned.
    pub records: u64,
    pub counts: Counts,
    pub schema: SchemaRef,
    pub rejects: PartList,
    pub texts: PartList,
    pub bytes: u64,
    pub began: Instant,
}

impl Open {
    /// Adds a window of that many records.
    pub fn add(&mut self, done: EmbeddedWindow, records: u64) -> Result<()> {
        let EmbeddedWindow {
            mark,
            rows,
            texts,
            rejects,
            counts,
        } = done;
        self.bytes += bytes(&rows) + rejects.len() as u64;
        if !rows.is_empty() {
            self.schema = rows.columns.schema();
            self.writer.write(rows)?;
        }
        self.texts.add(&texts)?;
        self.rejects.add(&rejects)?;
        self.records += records;
        self.position = mark.position;
        self.window = mark.is_inside.then_some(mark.window);
        self.columns = mark.columns;
        self.end = Point {
            records: mark.end,
            hash: mark.hash,
        };
        self.counts = counts;
        Ok(())
    }

    /// Its record of itself, with its own counts.
    pub fn info(&self, about: &JobFacts, counts: &Counts) -> Result<PartInfo> {
        let behind = self
            .position
            .map_or(0, |position| position.source as usize + 1);
        // Sources without a record too: they may have some at the next run.
        let sources = about.sources.iter().take(behind);
        Ok(PartInfo {
            shard: about.job.shard().index,
            shards: about.job.shard().count,
            number: self.number,
            start: self.start.clone(),
            end: self.end.clone(),
            position: self.position,
            window: self.window.clone(),
            sources: sources.skip(self.source as usize).cloned().collect(),
            rows: self.texts.bytes / size_of::<TextHash>() as u64,
            embedded: counts.embedded,
            rejected: counts.rejected,
            truncated: counts.truncated,
            tokens: counts.tokens,
            reused: counts.reused,
            overflowed: counts.overflowed,
            rejects_sha256: (self.rejects.bytes > 0).then(|| self.rejects.hash.hex()),
            texts_sha256: Some(self.texts.hash.hex()),
            columns: self.columns.as_deref().map(encoded).transpose()?,
            tag: None,
            fingerprint: about.fingerprint.clone(),
        })
    }
}

/// A list that belongs to a part, in a file of the scratch folder: a part may have any number of rows, and a rejected
/// record may be as long as a record can be.
pub(super) struct PartList {
    path: PathBuf,
    /// There from the first bytes on.
    file: Option<BufWriter<File>>,
    hash: Hash,
    bytes: u64,
}

impl PartList {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            hash: Hash::default(),
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.bytes += bytes.len() as u64;
        self.hash.add(bytes);
        let written = self.file().and_then(|file| file.write_all(bytes));
        written.map_err(|error| refused(&self.path, error))
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        Ok(match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(&self.path)?)),
        })
    }

    /// The file, complete; on the disk, where it must be `durable`.
    pub fn finish(mut self, durable: bool) -> Result<PathBuf> {
        let file = self.file().and_then(|file| {
            file.flush()?;
            if durable {
                file.get_ref().sync_all()?;
            }
            Ok(())
        });
        file.map_err(|error| refused(&self.path, error))?;
        Ok(self.path)
    }
}

fn refused(path: &Path, error: io::Error) -> Error {
    Error::io("write to", path, with_remedy(error))
}

/// How much rows add to a part, about.
fn bytes(rows: &Rows) -> u64 {
    (rows.vectors.bytes() + rows.columns.get_array_memory_size()) as u64
}
