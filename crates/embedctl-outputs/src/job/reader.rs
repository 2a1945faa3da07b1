//! Reading a job's input: every window gets a mark by which a later run finds its place, and records that earlier runs
//! have embedded are skipped.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::Job;
use super::part::Point;
use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::input::RecordReader;
use crate::position::Position;
use crate::record::Window;
use arrow::ipc::writer::StreamWriter;
use embedctl_records::marks::{TextHash, WindowSpan, WindowStart};

/// An embedded stretch of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedRange {
    /// Where it starts.
    pub start: Point,
    /// Where it ends.
    pub end: Point,
}

/// Reads the windows of a job that are not embedded yet, with their marks.
pub struct JobReader {
    inner: RecordReader,
    records: u64,
    /// Where the next record stands; `None`: at the begin of the input.
    position: Option<Position>,
    chain: ChainedHash,
    /// The stretches that are still to be skipped, in order.
    covered: std::collections::VecDeque<EmbeddedRange>,
    /// For messages.
    job: Job,
}

impl JobReader {
    /// Skips the `covered` stretches, which are in order and don't overlap. `from` is the start of `inner`.
    #[must_use]
    pub fn new(
        inner: RecordReader,
        from: WindowStart,
        covered: Vec<EmbeddedRange>,
        job: &Job,
    ) -> Self {
        Self {
            inner,
            records: from.records,
            position: from.position,
            chain: ChainedHash(from.hash),
            covered: covered.into(),
            job: job.clone(),
        }
    }

    /// The underlying reader.
    #[must_use]
    pub fn input(&self) -> &RecordReader {
        &self.inner
    }

    /// The next window that is not embedded yet, or not all of it, with its mark; `None` at the end.
    ///
    /// # Errors
    /// As [`RecordReader::next_window`]; or if the input is not the one that was embedded.
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        while let Some(mut window) = self.inner.next_window()? {
            let start = WindowStart {
                records: self.records,
                hash: self.chain.0.clone(),
                position: self.position.replace(window.position),
            };
            let texts: Vec<TextHash> = window.texts.iter().map(text_hash).collect();
            let missing = self.missing(&window, &texts)?;
            let end = start.records + window.records() as u64;
            let hash = self.chain.behind(&window, &texts, window.records())?;
            self.records = end;
            self.chain = ChainedHash(hash.clone());
            if missing.is_empty() {
                continue;
            }
            window.mark = Some(WindowSpan {
                position: Some(window.position),
                columns: self.inner.columns(),
                start: start.records,
                before: start.hash.clone(),
                end,
                hash,
                texts,
                missing,
                window: start,
                is_inside: false,
            });
            return Ok(Some(window));
        }
        match self.covered.front() {
            Some(covered) => Err(self.differs(covered.end.records)),
            None => Ok(None),
        }
    }

    /// The records of the window behind those read so far that are not embedded yet. A stretch that begins or ends
    /// inside of it must do so behind the same records.
    fn missing(&mut self, window: &Window, texts: &[TextHash]) -> Result<Vec<Range<u64>>> {
        let (start, records) = (self.records, window.records() as u64);
        let end = start + records;
        let is_same = |point: &Point| -> Result<bool> {
            let inside = point.records.checked_sub(start);
            let inside = inside.and_then(|inside| usize::try_from(inside).ok());
            match inside {
                Some(inside) => Ok(self.chain.behind(window, texts, inside)? == point.hash),
                None => Ok(true), // a window before it
            }
        };
        let (mut at, mut missing) = (start, Vec::new());
        while let Some(covered) = self.covered.front() {
            if covered.start.records >= end {
                break;
            }
            if !is_same(&covered.start)? {
                return Err(self.differs(covered.start.records));
            }
            if covered.start.records > at {
                missing.push(at..covered.start.records);
            }
            if covered.end.records > end {
                at = end;
                break;
            }
            if !is_same(&covered.end)? {
                return Err(self.differs(covered.end.records));
            }
            at = covered.end.records;
            self.covered.pop_front();
        }
        if at < end {
            missing.push(at..end);
        }
        Ok(missing)
    }

    /// How many of the records that follow are embedded already.
    #[must_use]
    pub fn covered_records(&self) -> u64 {
        let covered = self.covered.iter();
        let records = covered.map(|it| it.end.records - it.start.records.max(self.records));
        records.sum()
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
struct ChainedHash(String);

impl ChainedHash {
    /// The chain behind the first `records` records of a window; `texts` are the hashes of its texts.
    fn behind(&self, window: &Window, texts: &[TextHash], records: usize) -> Result<String> {
        if records == 0 {
            return Ok(self.0.clone());
        }
        let count = window.texts_before(records);
        let mut bytes = Vec::with_capacity(count * (size_of::<TextHash>() + 12));
        for (hash, origin) in texts.iter().zip(window.origins()).take(count) {
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&origin.source.to_le_bytes());
            bytes.extend_from_slice(&origin.line.to_le_bytes());
        }
        for reject in window.rejects().take(records - count) {
            bytes.extend_from_slice(&reject.origin.source.to_le_bytes());
            bytes.extend_from_slice(&reject.origin.line.to_le_bytes());
            bytes.extend_from_slice(&(reject.raw.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&reject.raw);
        }
        let mut chain = Hash::default();
        chain.add(&self.0);
        chain.add(&bytes);
        // Arrow's own encoding: whatever types columns have, and however they are cut from larger ones.
        let columns = window.columns.slice(0, count);
        let written = StreamWriter::try_new(&mut chain, &columns.schema())
            .and_then(|mut writer| writer.write(&columns).and_then(|()| writer.finish()));
        written.map_err(|error| Error::internal(format!("hashing the input: {error}")))?;
        Ok(chain.hex())
    }
}

/// The end of the first `records` records of a window, which is read from `mark` on.
///
/// # Errors
/// On an internal error.
pub fn point_inside(window: &Window, mark: &WindowSpan, records: usize) -> Result<Point> {
    let chain = ChainedHash(mark.window.hash.clone());
    Ok(Point {
        records: mark.window.records + records as u64,
        hash: chain.behind(window, &mark.texts, records)?,
    })
}

/// The hash that identifies a text.
#[must_use]
pub fn text_hash(text: &str) -> TextHash {
    let hash = Sha256::digest(text.as_bytes());
    let mut short = TextHash::default();
    let length = short.len();
    short.copy_from_slice(&hash[..length]);
    short
}
