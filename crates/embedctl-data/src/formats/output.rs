//! The interface of an output format: its writer, and the way it is read back.

use std::io::Read;
use std::sync::Arc;

use serde_json::Value;

use crate::vectors::{ChosenRows, MatrixRows, TakeBatch, in_order};
use crate::writing::encoding::VectorEncoding;
use crate::writing::made;
use crate::writing::refused::RefusedValue;
use crate::writing::target::Target;
use crate::writing::writer::VectorWriter;
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::FieldRef;
use embedctl_common::error::Result;
use embedctl_common::stage::Clock;
use embedctl_records::json_rows::check_json_type;
use embedctl_records::record::SourceNames;
use embedctl_records::vectors::{RecordedColumns, TakeVector};
use embedctl_storage::Readable;
use embedctl_vectors::Forms;

/// The parts of a new writer.
pub(crate) struct WriterParts {
    pub target: Target,
    pub encoding: VectorEncoding,
    /// Names of the sources.
    pub names: SourceNames,
    /// Whether the source of each row is named where a file beside a matrix describes it, even if there is one alone.
    pub names_files: bool,
    /// Whether the caller begins and ends stream after stream.
    pub streams: bool,
    /// Counts the processor time of threads beside the writer's own.
    pub clock: Arc<Clock>,
}

/// How an output format is written, and how it is read back.
pub(crate) trait OutputSpec: Sync {
    /// Begins an output.
    ///
    /// # Errors
    /// If the format cannot hold such vectors, or the system refuses.
    fn create(&self, begin: WriterParts) -> Result<Box<dyn VectorWriter>>;

    /// Checks that the format has a form for a kept column of this type: by default, that JSON has one.
    ///
    /// # Errors
    /// The reason why it has none.
    fn check_type(&self, field: &FieldRef) -> Result<(), String> {
        check_json_type(field)
    }

    /// Whether the format has no form for some values of the types that it holds ([`OutputSpec::refused`]).
    fn refuses_values(&self) -> bool {
        false
    }

    /// The values of columns of records that the format has no form for, although it has one for their types.
    ///
    /// # Errors
    /// If it has none for the type of a column.
    fn refused(&self, _columns: &RecordBatch) -> Result<Vec<RefusedValue>> {
        Ok(Vec::new())
    }

    /// The provenance of an output, which stands beside it unless the format has a place for it; `None` where there is
    /// none, or none that can be read.
    ///
    /// # Errors
    /// If the system or a store refuses.
    fn provenance(&self, file: &Readable) -> Result<Option<Value>> {
        made::beside(file)
    }

    /// Hands every vector of a file to `take`.
    ///
    /// # Errors
    /// If the file cannot be read, is of another format, or `take` says so.
    fn read_vectors(
        &self,
        file: &Readable,
        recorded: &RecordedColumns,
        take: &mut TakeVector<'_>,
    ) -> Result<()>;

    /// Opens a file to read vectors of these kinds by the numbers of their rows. `None` where the format is read in order
    /// alone.
    ///
    /// # Errors
    /// If it cannot be read, or holds no such vectors.
    fn choose_rows(&self, _file: &Readable, _forms: &Forms) -> Result<Option<Box<dyn ChosenRows>>> {
        Ok(None)
    }

    /// Opens a file of dense vectors to read consecutive rows from anywhere, by several threads. `None` where the format or
    /// the place of the file does not allow it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn matrix(&self, _file: &Readable) -> Result<Option<MatrixRows>> {
        Ok(None)
    }

    /// Hands over the columns of these kinds of vectors, batch by batch, in the order of rows. `false` where the format
    /// has no columns, or does not tell the vectors of one row from those of the next.
    ///
    /// # Errors
    /// If the file cannot be read, holds no such vectors, or `take` says so.
    fn read_columns(
        &self,
        _file: &Readable,
        _forms: &Forms,
        _take: &mut TakeBatch<'_>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The bytes that the hash of that name in a file's provenance covers: all of them unless the format divides them.
    ///
    /// # Errors
    /// If the file cannot be read, or begins otherwise.
    fn hashed(&self, file: &Readable, _name: &str) -> Result<Box<dyn Read>> {
        Ok(Box::new(in_order(file)?))
    }
}
