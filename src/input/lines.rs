//! Lines of a stream, without copying those that lie in the buffer.
//!
//! The buffer grows with the longest line up to the limit of a record; what is longer is skipped while
//! it is being read, and only its start is kept.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

use super::format::{ARROW, PARQUET};
use crate::record::Reject;

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line, without its end (`\n` or `\r\n`).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Its bytes; of a line above the limit the first ones only.
    pub bytes: &'a [u8],
    /// How long the whole line is.
    pub length: u64,
    /// Its number, counted from 1.
    pub number: u64,
    /// Where it starts in the stream.
    pub offset: u64,
}

/// How a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing speaks against UTF-8.
    Utf8,
    /// UTF-16, as iconv calls it: a byte-order mark and an ASCII character, or two ASCII characters without a
    /// mark.
    Utf16(&'static str),
}

/// Reads lines.
pub(super) struct LineReader {
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
}

impl LineReader {
    /// Reads nothing yet. Lines above `limit` bytes are returned in part.
    pub(super) fn new(reader: Box<dyn Read + Send>, limit: usize) -> Self {
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
        }
    }

    /// The same for what follows `number` lines and `offset` bytes of a stream.
    pub(super) fn behind(
        reader: Box<dyn Read + Send>,
        limit: usize,
        number: u64,
        offset: u64,
    ) -> Self {
        Self {
            number,
            offset,
            ..Self::new(reader, limit)
        }
    }

    /// What was read of the stream and not returned yet.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Looks at the first bytes, and drops a UTF-8 byte-order mark.
    pub(super) fn begin(&mut self) -> io::Result<Start> {
        // A terminal or a pipe may give one byte at a time: wait for more only where they matter.
        let matters = |bytes: &[u8]| {
            let utf16 = matches!(
                bytes,
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [_, 0, ..] | [0, _, ..]
            );
            // A line of one byte is whole; of anything else there is more to come.
            matches!(bytes, [first] if *first != b'\n')
                || (utf16 && bytes.len() < 4)
                || [BYTE_ORDER_MARK, PARQUET, ARROW]
                    .iter()
                    .any(|start| bytes.len() < start.len() && start.starts_with(bytes))
        };
        while !self.ended && matters(&self.buffer[self.start..self.end]) {
            self.fill()?;
        }
        match &self.buffer[self.start..self.end] {
            &[0xff, 0xfe, ascii, 0, ..] | &[0xfe, 0xff, 0, ascii, ..] if ascii != 0 => {
                return Ok(Start::Utf16("UTF-16"));
            }
            &[first, 0, second, 0, ..] if first != 0 && second != 0 => {
                return Ok(Start::Utf16("UTF-16LE"));
            }
            &[0, first, 0, second, ..] if first != 0 && second != 0 => {
                return Ok(Start::Utf16("UTF-16BE"));
            }
            bytes if bytes.starts_with(BYTE_ORDER_MARK) => self.consume(BYTE_ORDER_MARK.len()),
            _ => {}
        }
        Ok(Start::Utf8)
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(found) = memchr(b'\n', &self.buffer[self.scanned..self.end]) {
                let end = self.scanned + found;
                return Ok(Some(self.line(end, end + 1)));
            }
            self.scanned = self.end;
            if self.ended {
                if self.start == self.end {
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
    pub(super) fn has_line(&mut self) -> bool {
        match memchr(b'\n', &self.buffer[self.scanned..self.end]) {
            // What is scanned is not scanned again.
            Some(found) => self.scanned += found,
            None => self.scanned = self.end,
        }
        self.scanned < self.end || self.ended || self.end - self.start > self.limit + 1
    }

    /// Reads once, for a line that is not all here yet.
    pub(super) fn read_on(&mut self) -> io::Result<()> {
        self.fill()
    }

    /// How many lines were returned.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes of the stream were returned.
    pub(super) fn offset(&self) -> u64 {
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
        }
    }

    /// Skips the rest of a line that is above the limit; its start stays at the front of the buffer.
    fn skip(&mut self) -> io::Result<Line<'_>> {
        let offset = self.offset;
        let kept = (self.end - self.start).min(Reject::RAW_BYTES);
        self.buffer.copy_within(self.start..self.start + kept, 0);
        let mut length = (self.end - self.start) as u64;
        let mut last = self.buffer[self.end - 1];
        loop {
            self.offset += (self.end - self.start) as u64;
            (self.start, self.scanned, self.end) = (kept, kept, kept);
            self.read()?;
            let bytes = &self.buffer[kept..self.end];
            let found = memchr(b'\n', bytes);
            let rest = &bytes[..found.unwrap_or(bytes.len())];
            length += rest.len() as u64;
            last = rest.last().copied().unwrap_or(last);
            if let Some(found) = found {
                self.consume(found + 1);
                length -= u64::from(last == b'\r');
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
        })
    }

    /// Reads more behind the unfinished line, making room as needed.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.scanned -= self.start;
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            // Doubling, but no further than one line at the limit and a chunk of what follows it.
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
mod tests {
    use super::*;

    /// Gives `step` bytes at a time, as a slow pipe would.
    struct Drip(Vec<u8>, usize);

    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(self.1).min(into.len());
            into[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0.drain(..bytes);
            Ok(bytes)
        }
    }

    /// Start, length, number and offset of every line.
    fn lines(input: &[u8], step: usize, limit: usize) -> Vec<(Vec<u8>, u64, u64, u64)> {
        let mut reader = LineReader::new(Box::new(Drip(input.to_vec(), step)), limit);
        assert_eq!(reader.begin().unwrap(), Start::Utf8);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().unwrap() {
            lines.push((line.bytes.to_vec(), line.length, line.number, line.offset));
        }
        assert_eq!(reader.number(), lines.len() as u64);
        assert_eq!(reader.offset(), input.len() as u64);
        lines
    }

    fn texts(input: &str) -> Vec<String> {
        let expected = lines(input.as_bytes(), usize::MAX, 100);
        for step in 1..5 {
            assert_eq!(lines(input.as_bytes(), step, 100), expected);
        }
        expected
            .into_iter()
            .map(|line| String::from_utf8(line.0).unwrap())
            .collect()
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts("\n"), [""]);
        assert_eq!(texts("a"), ["a"]);
        assert_eq!(texts("a\n"), ["a"]);
        assert_eq!(texts("a\n\nb"), ["a", "", "b"]);
        assert_eq!(texts("a\r\n\r\nb\r\n"), ["a", "", "b"]);
        // A carriage return is part of the line's end only before a line feed.
        assert_eq!(texts("a\rb\n\r\r\nc\r"), ["a\rb", "\r", "c\r"]);
    }

    #[test]
    fn numbers_and_offsets_count_in_the_stream() {
        let found = lines("\u{feff}a\r\n\nbc\nd".as_bytes(), 2, 100);
        let places: Vec<_> = found.iter().map(|line| (line.2, line.3)).collect();
        assert_eq!(places, [(1, 3), (2, 6), (3, 7), (4, 10)]);
    }

    #[test]
    fn only_a_byte_order_mark_at_the_start_is_dropped() {
        assert_eq!(texts("\u{feff}a\n\u{feff}b"), ["a", "\u{feff}b"]);
        assert_eq!(texts("\u{feff}"), [""; 0]);
        assert_eq!(texts("\u{feff}\n"), [""]);
        assert_eq!(lines(b"\xef\xbb", 1, 100)[0].0, b"\xef\xbb");
        assert_eq!(lines(b"\xff\xfe\n", 1, 100)[0].0, b"\xff\xfe");
    }

    #[test]
    fn utf_16_is_recognised() {
        for (bytes, name) in [
            (&b"\xff\xfea\0\n\0"[..], "UTF-16"),
            (b"\xfe\xff\0a\0\n", "UTF-16"),
            (b"a\0\n\0", "UTF-16LE"),
            (b"\0a\0\n", "UTF-16BE"),
        ] {
            let mut reader = LineReader::new(Box::new(Drip(bytes.to_vec(), 1)), 10);
            assert_eq!(reader.begin().unwrap(), Start::Utf16(name));
        }
    }

    #[test]
    fn lines_above_the_limit_are_skipped_and_measured() {
        for step in [1, 2, 3, 7, 1000, usize::MAX] {
            for end in ["\n", "\r\n"] {
                let input = ["abcd", "abcde", &"x".repeat(5000), "", "z"].join(end);
                let found = lines(input.as_bytes(), step, 4);
                let lengths: Vec<_> = found.iter().map(|line| line.1).collect();
                assert_eq!(lengths, [4, 5, 5000, 0, 1], "{step} {end:?}");
                assert_eq!(found[0].0, b"abcd");
                assert_eq!(found[1].0[..5], *b"abcde");
                assert!(found[2].0.starts_with(b"xxxxx"));
                assert_eq!(found[4].0, b"z");
                assert_eq!(found[4].3, (input.len() - 1) as u64);
            }
        }
        // The last line, without an end.
        let found = lines(&[b'x'; 5000], 999, 4);
        assert_eq!((found.len(), found[0].1), (1, 5000));
    }

    proptest::proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_come(
            input in "([a-z]{0,9}(\r|\n|\r\n)?){0,20}",
            step in 1usize..12,
            limit in 1usize..8,
        ) {
            let mut expected: Vec<&str> = input.split('\n').collect();
            // What follows the last end of a line is a line only if it holds something.
            let open = expected.pop().filter(|line| !line.is_empty());
            let whole = expected.iter().map(|line| line.strip_suffix('\r').unwrap_or(line));
            let expected: Vec<&str> = whole.chain(open).collect();
            let found = lines(input.as_bytes(), step, limit);
            proptest::prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                proptest::prop_assert_eq!(found.1, expected.len() as u64);
                proptest::prop_assert!(expected.as_bytes().starts_with(&found.0) || found.1 > limit as u64);
                proptest::prop_assert!(found.1 > limit as u64 || found.0 == expected.as_bytes());
                let rest = &input.as_bytes()[usize::try_from(found.3).unwrap()..];
                proptest::prop_assert!(rest.starts_with(expected.as_bytes()));
            }
        }
    }

    #[test]
    fn memory_stays_bounded() {
        let limit = 1024 * 1024;
        let mut input = vec![b'x'; 20 * limit];
        input.push(b'\n');
        input.extend(vec![b'y'; limit]);
        let mut reader = LineReader::new(Box::new(io::Cursor::new(input)), limit);
        let line = reader.next().unwrap().unwrap();
        assert_eq!(line.length, 20 * limit as u64);
        assert_eq!(line.bytes, [b'x'; Reject::RAW_BYTES]);
        let line = reader.next().unwrap().unwrap();
        assert_eq!(line.bytes, vec![b'y'; limit]);
        assert!(reader.next().unwrap().is_none());
        assert!(reader.buffer.len() <= limit + CHUNK);
    }

    #[test]
    fn an_error_comes_after_the_whole_lines_before_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let stream = io::Cursor::new(b"a\nhalf").chain(Fails);
        let mut reader = LineReader::new(Box::new(stream), 100);
        assert_eq!(reader.next().unwrap().unwrap().bytes, b"a");
        assert_eq!(reader.next().unwrap_err().to_string(), "broken");
    }
}
