//! Reading a job's input again for the records that were rejected.
//!
//! A record is known again by its source and line. So other records must stand where they stood: an input that was
//! changed since is compared first, text by text, with the hashes beside the parts.

use std::collections::VecDeque;
use std::fmt;

use super::part::{Part, Point};
use super::reader::text_hash;
use super::rejected::{Places, RecordPlace};
use crate::error::{Error, Result};
use crate::input::RecordReader;
use crate::record::{Mark, TextHash, Texts, Window};
use crate::setting::RETRY_REJECTS;
use crate::storage::SharedFolder;

/// Reads the windows of an input, with the wanted records alone.
pub struct RetryReader {
    inner: RecordReader,
    wanted: Places,
    end: Point,
}

impl RetryReader {
    /// Reads the records at the places in `wanted`; `end` is that of the shard's input.
    #[must_use]
    pub fn new(inner: RecordReader, wanted: Places, end: Point) -> Self {
        Self { inner, wanted, end }
    }

    /// What it reads from.
    #[must_use]
    pub fn input(&self) -> &RecordReader {
        &self.inner
    }

    /// The end of the shard's input, which parts of records that are tried again lie behind.
    #[must_use]
    pub fn end(&self) -> Point {
        self.end.clone()
    }

    /// The next window that holds any of the records, and of it nothing else; `None` when all were found.
    ///
    /// # Errors
    /// As [`RecordReader::next_window`]; or if one of them is not there.
    pub fn next_window(&mut self) -> Result<Option<Window>> {
        while !self.wanted.is_empty() {
            let Some(window) = self.inner.next_window()? else {
                return Err(self
                    .wanted
                    .any()
                    .map_or_else(|| moved("a record", GONE), |gone| moved(gone, GONE)));
            };
            if let Some(window) = self.only_wanted(window)? {
                return Ok(Some(window));
            }
        }
        Ok(None)
    }

    fn only_wanted(&mut self, mut window: Window) -> Result<Option<Window>> {
        let (names, wanted) = (&self.inner.names(), &mut self.wanted);
        let origins = window.origins.iter();
        let keep: Vec<bool> = origins
            .map(|origin| wanted.take(&RecordPlace::of(names, origin)))
            .collect();
        (window.rejects).retain(|reject| wanted.take(&RecordPlace::of(names, &reject.origin)));
        if window.rejects.is_empty() && !keep.contains(&true) {
            return Ok(None);
        }
        window.retain(keep)?;
        window.mark = Some(Mark {
            start: self.end.records,
            end: self.end.records,
            before: self.end.hash.clone(),
            hash: self.end.hash.clone(),
            position: None,
            columns: self.inner.columns(),
            texts: window.texts.iter().map(text_hash).collect(),
        });
        Ok(Some(window))
    }
}

/// The hashes of the rows that a text becomes.
pub type RowHashes<'a> = dyn FnMut(&Texts) -> Result<Vec<Vec<TextHash>>> + 'a;

/// Reads the whole input, and compares it with what `parts` were made of: every record must read as it did, but for
/// those that were `rejected` once.
///
/// # Errors
/// If one differs; the message says which.
pub fn compare(
    mut reader: RecordReader,
    storage: &dyn SharedFolder,
    parts: &[Part],
    mut rejected: Places,
    hashes: &mut RowHashes<'_>,
) -> Result<()> {
    let names = reader.names();
    let mut expected = Expected {
        storage,
        parts: parts.iter().filter(|part| !part.info.retry).collect(),
        texts: Vec::new(),
        next: 0,
    };
    let differs = |place: &RecordPlace| moved(place, "reads otherwise than it did");
    while let Some(window) = reader.next_window()? {
        for reject in &window.rejects {
            let place = RecordPlace::of(&names, &reject.origin);
            if !rejected.take(&place) {
                return Err(differs(&place));
            }
        }
        for (origin, rows) in window.origins.iter().zip(hashes(&window.texts)?) {
            let place = RecordPlace::of(&names, origin);
            if rejected.take(&place) {
                continue;
            }
            for hash in rows {
                if expected.next()? != Some(hash) {
                    return Err(differs(&place));
                }
            }
        }
    }
    if let Some(place) = rejected.any() {
        return Err(moved(place, GONE));
    }
    match expected.next()? {
        Some(_) => Err(moved("the input", "is shorter than it was")),
        None => Ok(()),
    }
}

/// The hashes of all rows' texts, part by part.
struct Expected<'a> {
    storage: &'a dyn SharedFolder,
    parts: VecDeque<&'a Part>,
    texts: Vec<u8>,
    next: usize,
}

impl Expected<'_> {
    fn next(&mut self) -> Result<Option<TextHash>> {
        loop {
            if let Some(hash) = self.texts[self.next..].first_chunk() {
                self.next += hash.len();
                return Ok(Some(*hash));
            }
            let Some(part) = self.parts.pop_front() else {
                return Ok(None);
            };
            self.next = 0;
            let name = part.info.texts();
            self.texts = part.texts(self.storage)?.unwrap_or_default();
            if self.texts.len() as u64 != part.info.rows * size_of::<TextHash>() as u64 {
                return Err(Error::input(
                    self.storage.place(&name),
                    "is not what was written with its part, and the changed input cannot be compared",
                )
                .with_remedy("write the output anew"));
            }
        }
    }
}

const GONE: &str = "is not in the input any more";

/// The input is not the one of the output, but for rejected records.
fn moved(what: impl fmt::Display, how: &str) -> Error {
    Error::usage(format!("{RETRY_REJECTS}: {what} {how}")).with_remedy(
        "mend rejected records in their lines and leave all others as they were, or write the output anew",
    )
}
