//! Sources of lines: each is a record, a bad one, or nothing.

mod opening;

pub(super) use opening::LineInput;

use std::sync::Arc;

use super::reader::Reader;
use crate::reading::pace::WindowPacing;
use crate::reading::source::{OpenSource, Planned};
use embedctl_common::error::Result;
use embedctl_records::lines::Filled;
use embedctl_records::parse::Parser;
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;

/// Reads lines.
struct RowReader {
    source: Arc<Planned>,
    opened: OpenSource,
    /// The byte at which no line of this part begins any more.
    end: u64,
}

impl Reader for RowReader {
    fn fill(
        &mut self,
        parser: &mut Parser,
        filling: &mut OpenWindow,
        pace: &mut WindowPacing,
    ) -> Result<Filled> {
        loop {
            let lines = &mut self.opened.lines;
            let filled = parser.fill(&self.source.facts, lines, self.end, filling);
            match filled.map_err(|fault| self.source.faulty(&self.opened, fault))? {
                Filled::Waits if !pace.pauses(parser.decides(&filling.columns)) => {
                    self.source.read_on(&mut self.opened)?;
                }
                filled => return Ok(filled),
            }
        }
    }

    fn consumed(&self) -> u64 {
        self.opened.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        self.opened.place()
    }
}
