//! Lines of a file of rows that a search wants, without a parse of the others.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};

use crate::error::Result;
use crate::locked;
use embedctl_storage::{Bytes, Readable};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// Bytes whose lines are counted at once.
const BLOCK: usize = 1 << 14;

/// The rows of a file that are wanted.
#[derive(Debug, Clone)]
pub(super) enum WantedRows<'a> {
    All,
    /// Those of these numbers, from 0, in ascending order.
    Numbers(&'a [u64]),
    /// Those whose lines hold this text, of formats of lines; of others all.
    Holding(&'a str),
}

/// A file of lines, or the wanted ones alone.
pub(super) struct WantedLines {
    /// The lines that are read.
    pub file: Readable,
    /// The number in the whole file of each of them; `None` if they are all.
    numbers: Option<Arc<Mutex<Vec<u64>>>>,
}

impl WantedLines {
    /// Those of a file.
    pub fn of(file: &Readable, wanted: &WantedRows<'_>) -> Self {
        let wanted = match wanted {
            WantedRows::All => return Self::all(file),
            WantedRows::Numbers(numbers) => Wanted::Numbers((*numbers).into()),
            WantedRows::Holding(text) => Wanted::Holding((*text).into()),
        };
        let numbers = Arc::default();
        Self {
            file: Readable {
                name: file.name.clone(),
                bytes: Arc::new(LinesOf {
                    inner: Arc::clone(&file.bytes),
                    wanted,
                    numbers: Arc::clone(&numbers),
                }),
            },
            numbers: Some(numbers),
        }
    }

    /// Every line of a file.
    pub fn all(file: &Readable) -> Self {
        Self {
            file: file.clone(),
            numbers: None,
        }
    }

    /// The number in the whole file, from 0, of the line that is read as that number.
    pub fn number(&self, read: u64) -> u64 {
        let Some(numbers) = &self.numbers else {
            return read;
        };
        let place = usize::try_from(read).unwrap_or(usize::MAX);
        locked(numbers).get(place).copied().unwrap_or(read)
    }
}

#[derive(Clone)]
enum Wanted {
    Numbers(Arc<[u64]>),
    Holding(Arc<str>),
}

struct LinesOf {
    inner: Arc<dyn Bytes>,
    wanted: Wanted,
    /// The numbers of the lines that were given: the same in each reading.
    numbers: Arc<Mutex<Vec<u64>>>,
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
            inner: self.inner.reader_from(offset)?,
            wanted: self.wanted.clone(),
            numbers: Arc::clone(&self.numbers),
            line: 0,
            taken: 0,
            buffer: Vec::new(),
            begin: 0,
            has_ended: false,
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

/// Reads the wanted lines of a file.
struct LineFilter {
    inner: Box<dyn Read + Send>,
    wanted: Wanted,
    numbers: Arc<Mutex<Vec<u64>>>,
    /// The number of the line that begins at `begin`.
    line: u64,
    /// How many lines were given.
    taken: usize,
    /// What was read.
    buffer: Vec<u8>,
    /// Where in it the lines begin that were not looked at.
    begin: usize,
    has_ended: bool,
    /// What is to be given, and how much of it was.
    out: Vec<u8>,
    given: usize,
}

impl LineFilter {
    /// Reads on; nothing to be given is the end.
    fn fill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.len() < CHUNK {
            let end = match self.has_ended {
                true => self.buffer.len(),
                false => memrchr(b'\n', &self.buffer[self.begin..])
                    .map_or(self.begin, |last| self.begin + last + 1),
            };
            let is_done = match &self.wanted {
                Wanted::Numbers(numbers) => self.taken == numbers.len(),
                Wanted::Holding(_) => false,
            };
            if is_done || self.begin == end && self.has_ended {
                break;
            }
            if self.begin == end {
                self.read_more()?;
                continue;
            }
            let wanted = self.wanted.clone();
            match wanted {
                Wanted::Numbers(numbers) => self.up_to(end, numbers[self.taken]),
                Wanted::Holding(text) => self.up_to_text(end, &Finder::new(text.as_bytes())),
            }
        }
        Ok(())
    }

    fn read_more(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        let mut more = (&mut self.inner).take(CHUNK as u64);
        self.has_ended = more.read_to_end(&mut self.buffer)? == 0;
        Ok(())
    }

    /// Passes whole lines, which end at `end`, up to number `next`, and gives that one.
    fn up_to(&mut self, end: usize, next: u64) {
        while self.begin < end {
            let block = &self.buffer[self.begin..end.min(self.begin + BLOCK)];
            let ends = memchr_iter(b'\n', block).count() as u64;
            // The line is not in this block, or begins behind it.
            if self.line + ends < next {
                self.line += ends;
                self.begin += block.len();
                continue;
            }
            let before = usize::try_from(next - self.line).unwrap_or(usize::MAX);
            if let Some(last) = before.checked_sub(1) {
                let place = memchr_iter(b'\n', block).nth(last).unwrap_or(0);
                self.begin += place + 1;
            }
            self.line = next;
            if self.begin < end {
                self.give(self.begin, end);
            }
            return;
        }
    }

    /// Passes whole lines, which end at `end`, up to one that holds the text, and gives that one.
    fn up_to_text(&mut self, end: usize, text: &Finder<'_>) {
        let lines = &self.buffer[self.begin..end];
        let found = text.find(lines);
        let before = found.map_or(lines.len(), |place| {
            memrchr(b'\n', &lines[..place]).map_or(0, |last| last + 1)
        });
        self.line += memchr_iter(b'\n', &lines[..before]).count() as u64;
        self.begin += before;
        if found.is_some() {
            self.give(self.begin, end);
        }
    }

    /// Gives the line that begins there.
    fn give(&mut self, begin: usize, end: usize) {
        let lines = &self.buffer[begin..end];
        let line = memchr(b'\n', lines).map_or(lines, |last| &lines[..=last]);
        self.out.extend_from_slice(line);
        self.begin += line.len();
        let mut numbers = locked(&self.numbers);
        if numbers.len() == self.taken {
            numbers.push(self.line);
        }
        self.taken += 1;
        self.line += 1;
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

    /// The lines that are read, with their numbers.
    fn read(path: &Path, wanted: &WantedRows<'_>) -> Vec<(u64, String)> {
        let file = Readable::file(path).unwrap();
        let lines = WantedLines::of(&file, wanted);
        let read = || {
            let mut text = String::new();
            let mut reader = lines.file.bytes.reader_from(0).unwrap();
            reader.read_to_string(&mut text).unwrap();
            let own = text.lines().map(str::to_owned);
            (0..)
                .zip(own)
                .map(|(read, line)| (lines.number(read), line))
                .collect()
        };
        let first: Vec<_> = read();
        // A second reading has the same numbers.
        assert_eq!(first, read());
        first
    }

    #[test]
    fn wanted_lines_keep_their_numbers() {
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
                &[0, 1, 1500, 1501, 2999],
                &[5, 2998],
                &[2998, 4000],
                &[4000],
            ] {
                let found = read(&path, &WantedRows::Numbers(numbers));
                let wanted = numbers.iter().filter(|row| **row < 3000);
                let wanted = wanted.map(|row| (*row, lines[*row as usize].clone()));
                assert!(found.into_iter().eq(wanted), "{numbers:?}");
            }
            for (text, rows) in [
                ("\"row\":1234,", &[1234][..]),
                ("99x", &[]),
                ("\"row\":2999", &[2999]),
            ] {
                let found = read(&path, &WantedRows::Holding(text));
                let wanted = (0..3000).filter(|row| lines[*row as usize].contains(text));
                let wanted: Vec<u64> = wanted.collect();
                assert!(
                    rows.iter()
                        .all(|row| wanted.contains(&(*row as usize as u64)))
                );
                assert_eq!(found.len(), wanted.len());
                for ((number, line), row) in found.into_iter().zip(wanted) {
                    assert_eq!((number, &line), (row, &lines[row as usize]), "{text}");
                }
            }
            let all = read(&path, &WantedRows::All);
            assert!(all.into_iter().eq((0..).zip(lines.iter().cloned())));
        }
    }
}
