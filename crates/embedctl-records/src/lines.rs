//! Lines of a stream, or the whole of it as one, without copying those that lie in the buffer.
//!
//! The buffer grows with the longest line up to the limit of a record; a longer line is skipped while
//! it is being read, and only its start is kept.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memchr::memchr;

use crate::expansion::Expansion;
use crate::record::Reject;
use embedctl_common::error::{Cause, Error};

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line, without its end (`\n` or `\r\n`).
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes; of a line above the limit the first ones only.
    pub bytes: &'a [u8],
    /// How long the whole line is.
    pub length: u64,
    /// Its number, counted from 1.
    pub number: u64,
    /// Where it starts in the stream.
    pub offset: u64,
    /// Whether it is all of the stream, without a line feed.
    pub is_all: bool,
}

impl Line<'_> {
    /// Whether a stream without a line feed has carriage returns between others of its bytes: its lines end so.
    pub(crate) fn has_old_ends(&self) -> bool {
        let place = memchr(b'\r', self.bytes);
        self.is_all && place.is_some_and(|place| place + 1 < self.bytes.len())
    }
}

/// How a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStart {
    /// Nothing speaks against UTF-8.
    Utf8,
    /// UTF-16, as iconv calls it: a byte-order mark and an ASCII character, or two ASCII characters without a
    /// mark.
    Utf16(&'static str),
}

/// How filling a window with the records of lines ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// The window is full.
    Full,
    /// The next record is not all here yet: the source has to be read on.
    Waits,
    /// There are no more records.
    End,
}

/// Why no more records come from a source.
#[derive(Debug)]
pub enum ReadFault {
    /// It cannot be read on.
    Source(io::Error),
    /// What it holds is none of its format's records.
    Content(Error),
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

impl From<Error> for ReadFault {
    fn from(error: Error) -> Self {
        Self::Content(error)
    }
}

/// Reads lines.
pub struct LineReader {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Bytes read and not yet returned lie at `start..end`; no line ends in `start..scanned`.
    start: usize,
    scanned: usize,
    end: usize,
    ended: bool,
    number: u64,
    /// Offset of `start` in the stream.
    offset: u64,
    /// Bytes of a line at most.
    limit: usize,
    /// Whether line feeds end lines; else the whole stream is one.
    has_ends: bool,
    /// Of a compressed stream, how many of its bytes were read.
    compressed: Option<Arc<AtomicU64>>,
}

/// What `iconv` calls the encoding of a text that begins so, if that is UTF-16.
pub(crate) fn utf16(start: &[u8]) -> Option<&'static str> {
    match start {
        &[0xff, 0xfe, ascii, 0, ..] | &[0xfe, 0xff, 0, ascii, ..] if ascii != 0 => Some("UTF-16"),
        &[first, 0, second, 0, ..] if first != 0 && second != 0 => Some("UTF-16LE"),
        &[0, first, 0, second, ..] if first != 0 && second != 0 => Some("UTF-16BE"),
        _ => None,
    }
}

/// The cause for what `is` in the encoding that `iconv` calls so.
#[must_use]
pub fn is_utf16(is: &str, name: &str) -> Cause {
    Cause::of(format!("{is} UTF-16")).with(format!(
        "convert it to UTF-8 first, for example with `iconv -f {name} -t UTF-8`"
    ))
}

impl LineReader {
    /// Reads nothing yet. Lines above `limit` bytes are returned in part.
    #[must_use]
    pub fn new(reader: Box<dyn Read + Send>, limit: usize) -> Self {
        Self {
            reader,
            buffer: vec![0; CHUNK],
            start: 0,
            scanned: 0,
            end: 0,
            ended: false,
            number: 0,
            offset: 0,
            limit,
            has_ends: true,
            compressed: None,
        }
    }

    /// The same for a stream that is one line, whatever is in it, and also if it is empty.
    #[must_use]
    pub fn whole(self) -> Self {
        Self {
            has_ends: false,
            ..self
        }
    }

    /// The same for a compressed stream; `compressed` counts its bytes. A line above the limit that comes from few
    /// compressed bytes is an error ([`Expansion`]): its end may be arbitrarily far away.
    pub fn of_compressed(self, compressed: Arc<AtomicU64>) -> Self {
        let compressed = Some(compressed);
        Self { compressed, ..self }
    }

    /// The same after `number` lines and `offset` bytes of a stream.
    #[must_use]
    pub fn behind(reader: Box<dyn Read + Send>, limit: usize, number: u64, offset: u64) -> Self {
        Self {
            number,
            offset,
            ..Self::new(reader, limit)
        }
    }

    /// Bytes of the stream that were read and not returned yet.
    #[must_use]
    pub fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Looks at the first bytes, and drops a UTF-8 byte-order mark. `may_begin` says whether more bytes than these are needed
    /// to recognise what the stream is.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub fn begin(&mut self, may_begin: fn(&[u8]) -> bool) -> io::Result<TextStart> {
        // A terminal or a pipe may give one byte at a time: wait for more only where they matter.
        let matters = |bytes: &[u8]| {
            let utf16 = matches!(
                bytes,
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [_, 0, ..] | [0, _, ..]
            );
            // A line of one byte is whole; of anything else there is more to come.
            matches!(bytes, [first] if *first != b'\n')
                || (utf16 && bytes.len() < 4)
                || (bytes.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(bytes))
                || may_begin(bytes)
        };
        while !self.ended && matters(&self.buffer[self.start..self.end]) {
            self.fill()?;
        }
        let bytes = &self.buffer[self.start..self.end];
        if let Some(name) = utf16(bytes) {
            return Ok(TextStart::Utf16(name));
        }
        if bytes.starts_with(BYTE_ORDER_MARK) {
            self.consume(BYTE_ORDER_MARK.len());
        }
        Ok(TextStart::Utf8)
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// If the stream cannot be read, or expands as no text does.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(found) = self.end_of_line(self.scanned) {
                let end = self.scanned + found;
                return Ok(Some(self.line(end, end + 1)));
            }
            self.scanned = self.end;
            if self.ended {
                let is_left = self.start < self.end || !self.has_ends && self.number == 0;
                if !is_left {
                    return Ok(None);
                }
                return Ok(Some(self.line(self.end, self.end)));
            }
            // One byte more may be the `\r` of a line's end.
            if self.end - self.start > self.limit + 1 {
                return self.skip().map(Some);
            }
            self.fill()?;
        }
    }

    /// Whether a line can be had without a read, or is too long to be kept.
    pub(crate) fn has_line(&mut self) -> bool {
        match self.end_of_line(self.scanned) {
            // Scanned bytes are not scanned again.
            Some(found) => self.scanned += found,
            None => self.scanned = self.end,
        }
        self.scanned < self.end || self.ended || self.end - self.start > self.limit + 1
    }

    /// Bytes from `start` in the buffer to the next end of a line, if it is in the buffer.
    fn end_of_line(&self, start: usize) -> Option<usize> {
        self.has_ends
            .then(|| memchr(b'\n', &self.buffer[start..self.end]))
            .flatten()
    }

    /// Reads once, for a line that is not all here yet.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub fn read_on(&mut self) -> io::Result<()> {
        self.fill()
    }

    /// How many lines were returned.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes of the stream were returned.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.scanned = self.scanned.max(self.start);
        self.offset += bytes as u64;
    }

    /// The line from `start` up to `end`, which is followed by another one at `next`.
    fn line(&mut self, end: usize, next: usize) -> Line<'_> {
        let (start, offset) = (self.start, self.offset);
        self.consume(next - start);
        self.number += 1;
        let mut bytes = &self.buffer[start..end];
        if next > end {
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        Line {
            bytes,
            length: bytes.len() as u64,
            number: self.number,
            offset,
            is_all: next == end && self.number == 1 && self.has_ends,
        }
    }

    /// Skips the rest of a line that is above the limit; its start stays at the front of the buffer.
    fn skip(&mut self) -> io::Result<Line<'_>> {
        let offset = self.offset;
        let kept = (self.end - self.start).min(Reject::RAW_BYTES);
        self.buffer.copy_within(self.start..self.start + kept, 0);
        let mut length = (self.end - self.start) as u64;
        let mut last = self.buffer[self.end - 1];
        let compressed = self.compressed.clone();
        let mut has_end = false;
        let mut expansion = compressed.map(|read| Expansion::begin(read, self.number + 1));
        loop {
            self.offset += (self.end - self.start) as u64;
            (self.start, self.scanned, self.end) = (kept, kept, kept);
            self.read()?;
            let bytes = &self.buffer[kept..self.end];
            let found = self.end_of_line(kept);
            let rest = &bytes[..found.unwrap_or(bytes.len())];
            length += rest.len() as u64;
            if let Some(expansion) = &mut expansion {
                expansion.add(rest.len())?;
            }
            last = rest.last().copied().unwrap_or(last);
            if let Some(found) = found {
                self.consume(found + 1);
                length -= u64::from(last == b'\r');
                has_end = true;
                break;
            }
            if self.ended {
                break;
            }
        }
        self.number += 1;
        Ok(Line {
            bytes: &self.buffer[..kept],
            length,
            number: self.number,
            offset,
            is_all: !has_end && self.number == 1 && self.has_ends,
        })
    }

    /// Reads more behind the unfinished line, making room as needed.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.scanned -= self.start;
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            // Doubling, but no further than one line at the limit and a chunk after it.
            let most = self.limit.saturating_add(CHUNK).max(self.end + 1);
            self.buffer.resize((self.end * 2).min(most), 0);
        }
        self.read()
    }

    /// Reads once into the buffer's free part.
    fn read(&mut self) -> io::Result<()> {
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
