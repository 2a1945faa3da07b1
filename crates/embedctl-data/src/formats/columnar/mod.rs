//! Tables: Parquet and Arrow. Their columns stay columns, in their own types; texts are taken out.
//!
//! ```text
//!  parquet: row group by row group ─┐
//!  arrow: batch by batch ───────────┴─► batch ──► the asked columns ──► pieces of windows
//! ```

mod checks;
pub(crate) mod open;
mod select;
mod sizes;
pub(crate) mod table;

use std::sync::Arc;

use self::table::{Prepared, RequestedColumns};
use crate::formats::reader::Reader;
use crate::reading::pace::WindowPacing;
use crate::reading::source::Planned;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use embedctl_common::error::Result;
use embedctl_records::lines::Filled;
use embedctl_records::parse::Parser;
use embedctl_records::position::Seek;
use embedctl_records::record::Origin;
use embedctl_records::window::OpenWindow;

/// Record batches of one source, in order.
pub(crate) trait Batches: Send {
    /// Every column that there is, whether it is read or not.
    fn schema(&self) -> SchemaRef;

    /// The next batch, and where its first row stands.
    ///
    /// # Errors
    /// If the source is cut short, damaged, or cannot be read.
    fn next(&mut self) -> Result<Option<(RecordBatch, Seek)>>;

    /// Where the batch that is next stands.
    fn place(&self) -> Seek;

    /// Bytes of the source that were consumed so far, about.
    fn consumed(&self) -> u64;

    /// See [`Reader::next_stream`].
    fn next_stream(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// Reads a table.
pub(crate) struct TableReader {
    source: Arc<Planned>,
    batches: Box<dyn Batches>,
    table: RequestedColumns,
    /// A batch some of whose rows are not in a window yet.
    pending: Option<(Prepared, usize, Seek)>,
    /// The rows behind those, and where they begin.
    rest: Option<(RecordBatch, Seek)>,
    /// Rows that are in windows.
    rows: u64,
    is_window_per_batch: bool,
}

impl Reader for TableReader {
    fn fill(
        &mut self,
        _: &mut Parser,
        filling: &mut OpenWindow,
        pace: &mut WindowPacing,
    ) -> Result<Filled> {
        while !filling.is_full() {
            let Some((batch, row, seek)) = &mut self.pending else {
                if !filling.is_empty() && pace.pauses(false) {
                    return Ok(Filled::Waits);
                }
                let next = match self.rest.take() {
                    None => self.batches.next()?,
                    rest => rest,
                };
                match next {
                    None => return Ok(Filled::End),
                    Some((mut batch, seek)) => {
                        let rows = self.table.fitting(&batch)?;
                        if rows < batch.num_rows() && !self.is_window_per_batch {
                            let rest = batch.slice(rows, batch.num_rows() - rows);
                            self.rest = Some((rest, seek.plus(rows as u64)));
                            batch = batch.slice(0, rows);
                        }
                        let prepared = self.table.prepare(&batch, &filling.columns)?;
                        if self.is_window_per_batch {
                            let rows = filling.at_most(prepared.rows());
                            accept_rows(filling, &self.source, &prepared, 0, rows, self.rows)?;
                            filling.close_with(batch.slice(0, rows));
                            self.rows += rows as u64;
                        } else if prepared.rows() > 0 {
                            self.pending = Some((prepared, 0, seek));
                        }
                    }
                }
                continue;
            };
            let rows = filling.room((*row..batch.rows()).map(|row| batch.size(row)));
            accept_rows(filling, &self.source, batch, *row, rows, self.rows)?;
            self.rows += rows as u64;
            *row += rows;
            *seek = seek.plus(rows as u64);
            if *row == batch.rows() {
                self.pending = None;
            }
        }
        Ok(Filled::Full)
    }

    fn consumed(&self) -> u64 {
        self.batches.consumed()
    }

    fn place(&self) -> (u64, Seek) {
        let seek = match &self.pending {
            Some((_, _, seek)) => *seek,
            None => match &self.rest {
                Some((_, seek)) => *seek,
                None => self.batches.place(),
            },
        };
        (self.rows, seek)
    }

    fn schema(&self) -> Option<SchemaRef> {
        Some(self.batches.schema())
    }

    fn next_stream(&mut self, filling: &mut OpenWindow) -> Result<bool> {
        if !self.batches.next_stream()? {
            return Ok(false);
        }
        let (columns, warnings) = (&mut filling.columns, &mut filling.warnings);
        self.table
            .begin(&self.batches.schema(), columns, warnings)?;
        self.rows = 0;
        Ok(true)
    }
}

/// In which of `stretches` of rows row `row` lies, and which of its rows it is; behind the last: that.
pub(crate) fn entered(stretches: impl Iterator<Item = u64>, mut row: u64) -> (usize, u64) {
    let mut number = 0;
    for rows in stretches {
        if row < rows {
            return (number, row);
        }
        number += 1;
        row -= rows;
    }
    (number, row)
}

/// No more than the first `rows` of a batch.
pub(crate) fn at_most(batch: RecordBatch, rows: u64) -> RecordBatch {
    match usize::try_from(rows) {
        Ok(rows) if rows < batch.num_rows() => batch.slice(0, rows),
        _ => batch,
    }
}

/// Puts `count` rows of `batch`, from `first` on, into `window`; `before` rows of the source came before.
fn accept_rows(
    window: &mut OpenWindow,
    source: &Planned,
    batch: &Prepared,
    first: usize,
    count: usize,
    before: u64,
) -> Result<()> {
    let origin = Origin {
        source: source.facts.index,
        line: before + 1,
        offset: before,
    };
    let columns = batch.columns(&window.columns, first, count, origin)?;
    let texts = (first..first + count).map(|row| {
        let text = batch.text(row, before + 1 + (row - first) as u64);
        text.map_err(|cause| (cause, batch.fields(row)))
    });
    window.accept_rows(origin, texts, columns, batch.kept_bytes * count)
}
