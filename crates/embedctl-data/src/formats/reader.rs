//! The interface of a format's reader.

use crate::reading::pace::WindowPacing;
use arrow::datatypes::SchemaRef;
use embedctl_common::error::Result;
use embedctl_records::lines::Filled;
use embedctl_records::parse::Parser;
use embedctl_records::position::Seek;
use embedctl_records::window::OpenWindow;

/// Reads one source of one format.
pub(crate) trait Reader: Send {
    /// Adds records to `filling` until it is full, or the source pauses and nothing is to be done meanwhile.
    ///
    /// # Errors
    /// If the source cannot be read to its end, or is of another format.
    fn fill(
        &mut self,
        parser: &mut Parser,
        filling: &mut OpenWindow,
        pace: &mut WindowPacing,
    ) -> Result<Filled>;

    /// Bytes of the source (compressed, where it is) that were consumed so far.
    fn consumed(&self) -> u64;

    /// Lines or rows read so far, and how another run gets behind them.
    fn place(&self) -> (u64, Seek);

    /// Every column of a table, whether it is read or not; `None`: the source has no schema.
    fn schema(&self) -> Option<SchemaRef> {
        None
    }

    /// Begins the next of several streams in one source; false where there is none.
    ///
    /// # Errors
    /// If the following bytes are not a stream.
    fn next_stream(&mut self, _filling: &mut OpenWindow) -> Result<bool> {
        Ok(false)
    }
}
