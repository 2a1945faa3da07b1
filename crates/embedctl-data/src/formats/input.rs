//! The interface of an input format.

use std::sync::Arc;

use super::reader::Reader;
use crate::reading::source::{Planned, SourceOpener};
use embedctl_common::error::Result;
use embedctl_records::options::InputOptions;
use embedctl_records::window::OpenWindow;

/// How a source of an input format is read.
pub(crate) trait InputSpec: Sync {
    /// Opens a source, and gives the window's columns their types where the format has some. `None`: of many streams,
    /// there is not one.
    ///
    /// # Errors
    /// If it cannot be read, is something else, or lacks a column that is asked for.
    fn open(
        &self,
        source: &Arc<Planned>,
        options: &Arc<InputOptions>,
        opener: &mut SourceOpener<'_>,
        filling: &mut OpenWindow,
    ) -> Result<Option<Box<dyn Reader>>>;

    /// Rows of each row group or record batch; `None` where the source does not say.
    ///
    /// # Errors
    /// If the part that should say so is damaged.
    fn stretches(&self, _source: &Arc<Planned>) -> Result<Option<Vec<u64>>> {
        Ok(None)
    }
}
