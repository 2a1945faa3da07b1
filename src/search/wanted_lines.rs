//! Lines of a file of rows that a search wants, without a parse of the others.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use memchr::memchr_iter;
use memchr::memmem::Finder;

use crate::error::Result;
use embedctl_storage::{Bytes, Readable};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// The rows of a file that are wanted.
#[derive(Debug, Clone)]
pub(super) enum WantedRows<'a> {
    All,
    /// Those of these numbers, from 0, in ascending order.
    Numbers(&'a [u64]),
    /// Those whose lines hold this text, of formats of lines; of others all.
    Holding(&'a str),
}

/// A file in whose place stand the wanted lines, and an empty line for each of the others: numbers of lines stay.
pub(super) fn with_wanted_lines(file: &Readable, wanted: &WantedRows<'_>) -> Readable {
    let wanted = match wanted {
        WantedRows::All => return file.clone(),
        WantedRows::Numbers(numbers) => WantedLines::Numbers((*numbers).into()),
        WantedRows::Holding(text) => WantedLines::Holding((*text).into()),
    };
    Readable {
        name: file.name.clone(),
        bytes: Arc::new(LinesOf {
            inner: Arc::clone(&file.bytes),
            wanted,
        }),
    }
}

#[derive(Clone)]
enum WantedLines {
    Numbers(Arc<[u64]>),
    Holding(Arc<str>),
}

struct LinesOf {
    inner: Arc<dyn Bytes>,
    wanted: WantedLines,
}

impl Bytes for LinesOf {
    /// A lower bound: how many there are is known once they were read.
    fn len(&self) -> u64 {
        0
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, into)
    }

    fn reader_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(LineFilter {
            inner: BufReader::with_capacity(CHUNK, self.inner.reader_from(offset)?),
            wanted: self.wanted.clone(),
            line: 0,
            taken: 0,
            out: Vec::new(),
            given: 0,
        }))
    }

    fn copied(&self) -> Option<&'static str> {
        self.inner.copied()
    }

    fn close(&self) {
        self.inner.close();
    }

    fn beside(&self, ending: &str) -> Result<Option<Readable>> {
        self.inner.beside(ending)
    }
}

/// Reads a file with the lines that are not wanted emptied, up to the last that is.
struct LineFilter {
    inner: BufReader<Box<dyn Read + Send>>,
    wanted: WantedLines,
    /// The number of the line that comes next.
    line: u64,
    /// How many of the wanted lines were read.
    taken: usize,
    /// What is to be given, and how much of it was.
    out: Vec<u8>,
    given: usize,
}

impl LineFilter {
    /// Reads on; nothing to be given is the end.
    fn fill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        let wanted = self.wanted.clone();
        while self.out.len() < CHUNK {
            let has_more = match &wanted {
                WantedLines::Numbers(numbers) => match numbers.get(self.taken) {
                    Some(next) if *next == self.line => self.take_line()?,
                    Some(next) => self.skip_to(*next)?,
                    None => false,
                },
                WantedLines::Holding(text) => self.take_if_holds(&Finder::new(text.as_bytes()))?,
            };
            if !has_more {
                break;
            }
        }
        Ok(())
    }

    /// Gives the next line; false at the end.
    fn take_line(&mut self) -> io::Result<bool> {
        let count = self.inner.read_until(b'\n', &mut self.out)?;
        self.line += 1;
        self.taken += 1;
        Ok(count > 0)
    }

    /// Empties lines before number `next`, as many as are in the buffer; false at the end.
    fn skip_to(&mut self, next: u64) -> io::Result<bool> {
        let buffer = self.inner.fill_buf()?;
        let mut used = buffer.len();
        for end in memchr_iter(b'\n', buffer) {
            self.out.push(b'\n');
            self.line += 1;
            if self.line == next {
                used = end + 1;
                break;
            }
        }
        let has_more = !buffer.is_empty();
        self.inner.consume(used);
        Ok(has_more)
    }

    /// Gives the next line, emptied if the text is not in it; false at the end.
    fn take_if_holds(&mut self, text: &Finder<'_>) -> io::Result<bool> {
        let begin = self.out.len();
        let count = self.inner.read_until(b'\n', &mut self.out)?;
        if text.find(&self.out[begin..]).is_none() && count > 0 {
            self.out.truncate(begin);
            self.out.push(b'\n');
        }
        Ok(count > 0)
    }
}

impl Read for LineFilter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.fill()?;
        }
        let count = (&self.out[self.given..]).read(buffer)?;
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn read(path: &Path, wanted: &WantedRows<'_>) -> String {
        let file = Readable::file(path).unwrap();
        let mut text = String::new();
        let lines = with_wanted_lines(&file, wanted);
        let mut reader = lines.bytes.reader_from(0).unwrap();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn lines_that_are_not_wanted_are_empty_and_keep_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        // Longer than a chunk, with and without an end of the last line.
        let line = |row: u64| format!("{{\"row\":{row},\"id\":\"{row}{}\"}}", "x".repeat(1000));
        let lines: Vec<String> = (0..3000).map(line).collect();
        for end in ["", "\n"] {
            fs::write(&path, lines.join("\n") + end).unwrap();
            for numbers in [
                &[][..],
                &[0],
                &[2999],
                &[0, 1, 1500, 2999],
                &[5, 2998],
                &[4000],
            ] {
                let text = read(&path, &WantedRows::Numbers(numbers));
                let found: Vec<&str> = text.lines().collect();
                let all = numbers.iter().filter(|row| **row < 3000);
                for row in all.clone() {
                    assert_eq!(found[*row as usize], lines[*row as usize], "{numbers:?}");
                }
                let filled = found.iter().filter(|line| !line.is_empty());
                assert_eq!(filled.count(), all.count(), "{numbers:?}");
            }
            let text = read(&path, &WantedRows::Holding("\"row\":1234,"));
            let found: Vec<&str> = text.lines().collect();
            assert_eq!(found.len(), 3000);
            assert_eq!(found[1234], lines[1234]);
            assert_eq!(found.iter().filter(|line| !line.is_empty()).count(), 1);
            assert_eq!(read(&path, &WantedRows::All), lines.join("\n") + end);
        }
    }
}
