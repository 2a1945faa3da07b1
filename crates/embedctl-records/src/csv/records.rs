//! Putting records together from lines, by their quotes.

use std::collections::VecDeque;

use crate::csv_options::CsvDialect;
use crate::fault::too_long;
use crate::lines::{LineReader, ReadFault};
use crate::record::Origin;
use crate::source::SourceFacts;
use embedctl_common::error::Cause;
use embedctl_common::setting::{CSV_QUOTE, MAX_RECORD_BYTES};

/// The state of the next record; its lines are in [`Records::record`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextRecord {
    Record,
    Bad(Cause),
    /// Its quotes do not balance.
    Misquoted(Cause),
    /// More has to be read first.
    Waits,
    /// There is none.
    End,
}

/// Puts records together from lines.
pub(super) struct Records {
    dialect: CsvDialect,
    pub limit: usize,
    /// The lines of the record in hand, without the last one's end.
    pub record: Vec<u8>,
    /// Where each of these lines ends in it, if they are several.
    ends: Vec<usize>,
    /// Where it begins.
    pub origin: Origin,
    /// The lines so far of an unfinished record, the state of its quotes, and its length.
    lines: Vec<KeptLine>,
    quotes: Quotes,
    size: usize,
    /// Lines that were read in vain, as a part of a record that was none.
    again: VecDeque<KeptLine>,
}

/// A line, kept.
struct KeptLine {
    /// With its end.
    bytes: Vec<u8>,
    /// How much of that is the end.
    end: usize,
    number: u64,
    offset: u64,
    length: u64,
}

impl Records {
    pub(super) fn new(dialect: CsvDialect, limit: usize) -> Self {
        Self {
            dialect,
            limit,
            record: Vec::new(),
            ends: Vec::new(),
            origin: Origin {
                source: 0,
                line: 0,
                offset: 0,
            },
            lines: Vec::new(),
            quotes: Quotes::Start,
            size: 0,
            again: VecDeque::new(),
        }
    }

    /// Whether a line can be had without a read.
    fn has_line(&mut self, lines: &mut LineReader) -> bool {
        !self.again.is_empty() || lines.has_line()
    }

    /// Where the next record stands, if it begins before the line that is read next: the lines before it, and its byte.
    pub(super) fn place(&self) -> Option<(u64, u64)> {
        let line = self.lines.first().or(self.again.front())?;
        Some((line.number - 1, line.offset))
    }

    /// Passes over the lines before number `count`, and that one.
    pub(super) fn skip(
        &mut self,
        source: &SourceFacts,
        lines: &mut LineReader,
        count: u64,
    ) -> Result<(), ReadFault> {
        while self.place().map_or(lines.number(), |(before, _)| before) < count {
            if self.line(source, lines)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn line(
        &mut self,
        source: &SourceFacts,
        lines: &mut LineReader,
    ) -> Result<Option<KeptLine>, ReadFault> {
        if let Some(line) = self.again.pop_front() {
            return Ok(Some(line));
        }
        let Some(line) = lines.next_line()? else {
            return Ok(None);
        };
        source.check_ends(&line)?;
        let (number, offset, length) = (line.number, line.offset, line.length);
        let mut bytes = line.bytes.to_vec();
        // The line's end is not told, but how long it is.
        let end = lines.offset() - offset - length;
        let end = usize::try_from(end).expect("an end of line is two bytes at most");
        bytes.extend_from_slice(match end {
            0 => b"",
            1 => b"\n",
            _ => b"\r\n",
        });
        Ok(Some(KeptLine {
            bytes,
            end,
            number,
            offset,
            length,
        }))
    }

    /// The next record, blank lines passed over. Unless `wait` says so, nothing is read for it: of a record that is
    /// not all here yet the lines are kept until the next call.
    pub(super) fn next(
        &mut self,
        source: &SourceFacts,
        lines: &mut LineReader,
        wait: bool,
    ) -> Result<NextRecord, ReadFault> {
        loop {
            if !wait && !self.has_line(lines) {
                return Ok(NextRecord::Waits);
            }
            let Some(line) = self.line(source, lines)? else {
                if self.lines.is_empty() {
                    return Ok(NextRecord::End);
                }
                // An escape character before the end of the file escapes nothing.
                if self.quotes == Quotes::Escaped {
                    let end = self.lines.last().map_or(0, |line| line.end);
                    return Ok(self.join(end));
                }
                let reason =
                    "its quoting is wrong: a quoted field that begins here is never closed";
                let remedy = format!(
                    "close it, or double the quotes inside of a field (`\"\"`); where quotes are ordinary characters, say \
                     `{CSV_QUOTE} none`"
                );
                self.give_up();
                return Ok(NextRecord::Misquoted(Cause::of(reason).with(remedy)));
            };
            let content = &line.bytes[..line.bytes.len() - line.end];
            if self.lines.is_empty() {
                if line.length == 0 {
                    continue;
                }
                self.origin.line = line.number;
                self.origin.offset = line.offset;
                self.record.clear();
                self.record.extend_from_slice(content);
                if line.length > self.limit as u64 {
                    return Ok(NextRecord::Bad(too_long("record", line.length, self.limit)));
                }
                self.ends.clear();
                let special = match (self.dialect.quote, self.dialect.escape) {
                    (None, None) => None,
                    (Some(one), None) | (None, Some(one)) => memchr::memchr(one, content),
                    (Some(one), Some(other)) => memchr::memchr2(one, other, content),
                };
                if special.is_none() {
                    return Ok(NextRecord::Record);
                }
                self.quotes = Quotes::Start;
                self.size = line.bytes.len();
            } else {
                let length = usize::try_from(line.length).unwrap_or(usize::MAX);
                self.size = self.size.saturating_add(length);
                if self.size > self.limit {
                    self.lines.push(line);
                    let reason = format!(
                        "a quoted field that begins here is not closed within {} bytes",
                        self.limit
                    );
                    let remedy = format!(
                        "close it, or raise the limit with `{MAX_RECORD_BYTES}`; where quotes are ordinary characters, \
                         say `{CSV_QUOTE} none`"
                    );
                    self.give_up();
                    return Ok(NextRecord::Misquoted(Cause::of(reason).with(remedy)));
                }
            }
            let right = self.quotes.over(content, self.dialect);
            let (number, end) = (line.number, line.end);
            self.lines.push(line);
            if right.is_err() {
                let reason = format!(
                    "its quoting is wrong: on line {number} text follows the closing quote of a field"
                );
                let remedy = format!(
                    "double the quotes inside of a field (`\"\"`); where quotes are ordinary characters, say `{CSV_QUOTE} \
                     none`"
                );
                self.give_up();
                return Ok(NextRecord::Misquoted(Cause::of(reason).with(remedy)));
            }
            if !self.quotes.are_open() {
                return Ok(self.join(end));
            }
        }
    }

    /// Makes a record of the lines in hand; `end` is how much of the last one is its end.
    fn join(&mut self, end: usize) -> NextRecord {
        self.record.clear();
        for line in self.lines.drain(..) {
            self.record.extend_from_slice(&line.bytes);
            self.ends.push(self.record.len() - line.end);
        }
        self.record.truncate(self.record.len() - end);
        NextRecord::Record
    }

    /// How many lines the record in hand has.
    pub(super) fn record_lines(&self) -> u64 {
        self.ends.len().max(1) as u64
    }

    /// Whether each line of the record in hand has that many fields, if quotes are ordinary characters.
    pub(super) fn are_whole(&self, fields: usize) -> bool {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let separators = |(start, &end): (usize, &usize)| {
            memchr::memchr_iter(self.dialect.delimiter, &self.record[start..end]).count()
        };
        (starts.zip(&self.ends)).all(|line| separators(line) + 1 == fields)
    }

    /// Puts back all lines but the first of those that were read as one record.
    fn give_up(&mut self) {
        for line in self.lines.drain(1..).rev() {
            self.again.push_front(line);
        }
        self.lines.clear();
    }
}

/// Where a record's quotes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// At the start of a field.
    Start,
    /// In a field that does not begin with a quote; others mean nothing there.
    Plain,
    /// Behind an escape character outside of quotes.
    Escaped,
    /// In a quoted field.
    Inside,
    /// Behind an escape character in a quoted field.
    InsideEscaped,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Closed,
}

impl Quotes {
    /// Goes over a line of the record; an error where something follows a closing quote.
    fn over(&mut self, line: &[u8], dialect: CsvDialect) -> Result<(), ()> {
        *self = match *self {
            // An escaped line break.
            Self::Inside | Self::InsideEscaped => Self::Inside,
            Self::Escaped => Self::Plain,
            _ => Self::Start,
        };
        let is_quote = |byte| dialect.quote == Some(byte);
        let is_escape = |byte| dialect.escape == Some(byte);
        for &byte in line {
            *self = match *self {
                Self::InsideEscaped => Self::Inside,
                Self::Inside if is_quote(byte) => Self::Closed,
                Self::Inside if is_escape(byte) => Self::InsideEscaped,
                Self::Inside => Self::Inside,
                Self::Start | Self::Closed if is_quote(byte) => Self::Inside,
                Self::Escaped => Self::Plain,
                _ if byte == dialect.delimiter => Self::Start,
                Self::Closed => return Err(()),
                // Beside quotes, an escape character has a meaning in quoted fields alone.
                Self::Start | Self::Plain if dialect.quote.is_none() && is_escape(byte) => {
                    Self::Escaped
                }
                Self::Start | Self::Plain => Self::Plain,
            };
        }
        Ok(())
    }

    /// Whether the record goes on in the next line.
    fn are_open(self) -> bool {
        matches!(self, Self::Inside | Self::InsideEscaped | Self::Escaped)
    }
}
