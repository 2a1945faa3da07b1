//! Reading a job's input: every window gets a mark by which a later run finds its place, and records that earlier runs
//! have embedded are skipped.

use sha2::{Digest, Sha256};

use super::Job;
use super::part::Point;
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::input::RecordReader;
use crate::record::{Mark, TextHash, Window};
use arrow::ipc::writer::StreamWriter;

/// An embedded stretch of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// Where it starts.
    pub start: Point,
    /// Where it ends.
    pub end: Point,
}

/// Reads the windows of a job that are not embedded yet, with their marks.
pub struct JobReader {
    inner: RecordReader,
    records: u64,
    chain: Chain,
    /// The stretches that are still to be skipped, in order.
    covered: std::collections::VecDeque<Covered>,
    /// For messages.
    job: Job,
}

impl JobReader {
    /// Skips the `covered` stretches, which are in order and don't overlap. `from` is the start of `inner`.
    #[must_use]
    pub fn new(inner: RecordReader, from: Point, covered: Vec<Covered>, job: &Job) -> Self {
        Self {
            inner,
            records: from.records,
            chain: Chain(from.hash),
            covered: covered.into(),
            job: job.clone(),
        }
    }

    /// The underlying reader.
    #[must_use]
    pub fn input(&self) -> &RecordReader {
        &self.inner
    }

    /// The next window that is not embedded yet, with its mark; `None` at the end.
    ///
    /// # Errors
    /// As [`RecordReader::next_window`]; or if the input is not the one that was embedded.
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        while let Some(mut window) = self.inner.next_window()? {
            let start = self.records;
            let before = self.chain.0.clone();
            self.records += (window.texts.len() + window.rejects.len()) as u64;
            let texts = self.chain.add(&window)?;
            let end = self.records;
            let hash = self.chain.0.clone();
            if let Some(covered) = self.covered.front() {
                if start >= covered.start.records {
                    if end > covered.end.records
                        || (end == covered.end.records && hash != covered.end.hash)
                    {
                        return Err(self.differs(covered.end.records));
                    }
                    if end == covered.end.records {
                        self.covered.pop_front();
                    }
                    continue;
                }
                if end > covered.start.records
                    || (end == covered.start.records && hash != covered.start.hash)
                {
                    return Err(self.differs(covered.start.records));
                }
            }
            window.mark = Some(Mark {
                position: Some(window.position),
                columns: self.inner.columns(),
                start,
                before,
                end,
                hash,
                texts,
            });
            return Ok(Some(window));
        }
        match self.covered.front() {
            Some(covered) => Err(self.differs(covered.end.records)),
            None => Ok(None),
        }
    }

    /// The end of the records read so far.
    #[must_use]
    pub fn end(&self) -> Point {
        Point {
            records: self.records,
            hash: self.chain.0.clone(),
        }
    }

    /// Reads the whole input, which must have the `end` that it had.
    ///
    /// # Errors
    /// As [`JobReader::next_window`].
    pub fn compare(mut self, end: &Point) -> Result<()> {
        while self.next_window()?.is_some() {}
        match self.end() == *end {
            true => Ok(()),
            false => Err(self.differs(end.records)),
        }
    }

    fn differs(&self, records: u64) -> Error {
        Error::usage(format!(
            "the input is not the one that {} was begun with: its first {records} records differ",
            self.job.shown()
        ))
        .with_remedy(format!(
            "give the same input to resume, write elsewhere, or {}",
            self.job.anew()
        ))
    }
}

/// A chained hash over the records read: of each window and the previous hash, so that another run can continue it.
struct Chain(String);

impl Chain {
    /// Adds a window; the hashes of its texts.
    fn add(&mut self, window: &Window) -> Result<Vec<TextHash>> {
        let mut texts = Vec::with_capacity(window.texts.len());
        let mut bytes = Vec::with_capacity(window.texts.len() * (size_of::<TextHash>() + 12));
        for (text, origin) in window.texts.iter().zip(&window.origins) {
            let hash = text_hash(text);
            bytes.extend_from_slice(&hash);
            bytes.extend_from_slice(&origin.source.to_le_bytes());
            bytes.extend_from_slice(&origin.line.to_le_bytes());
            texts.push(hash);
        }
        for reject in &window.rejects {
            bytes.extend_from_slice(&reject.origin.source.to_le_bytes());
            bytes.extend_from_slice(&reject.origin.line.to_le_bytes());
            bytes.extend_from_slice(&(reject.raw.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&reject.raw);
        }
        let mut chain = Hash::default();
        chain.add(&self.0);
        chain.add(&bytes);
        // Arrow's own encoding: whatever types columns have, and however they are cut from larger ones.
        let schema = window.columns.schema();
        let written = StreamWriter::try_new(&mut chain, &schema)
            .and_then(|mut writer| writer.write(&window.columns).and_then(|()| writer.finish()));
        written.map_err(|error| Error::internal(format!("hashing the input: {error}")))?;
        self.0 = chain.hex();
        Ok(texts)
    }
}

/// The hash that identifies a text.
pub(crate) fn text_hash(text: &str) -> TextHash {
    let hash = Sha256::digest(text.as_bytes());
    let mut short = TextHash::default();
    let length = short.len();
    short.copy_from_slice(&hash[..length]);
    short
}
