//! Arrow's IPC format: a file with random access to its batches, or a stream of them.
//!
//! A stream's reader has a batch as soon as it was written. The provenance stands in a file's footer (key
//! `embedctl`), beside a stream, and without counts in a stream's schema.

use std::fmt::Display;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use crate::formats::output::WriterParts;
use crate::writing::encoding::BatchBuilder;
use crate::writing::fault::encoding_error;
use crate::writing::format::OutputFormat;
use crate::writing::made::KEY;
use crate::writing::proof::{self, SelfHashed};
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use embedctl_common::error::{Error, Result};
use embedctl_common::threads::caught;
use embedctl_records::record::Rows;
use embedctl_records::retype;

/// A batch is a head of some hundred bytes and buffers, which go past this one.
const BUFFER: usize = 64 << 10;

pub(super) struct IpcWriter {
    sink: Option<HashedSink>,
    /// Made with the first row, when the columns' types are known.
    writer: Option<IpcEncoder>,
    shown: PathBuf,
    table: BatchBuilder,
    is_file: bool,
    /// Whether a reader has its end.
    ended: bool,
}

enum IpcEncoder {
    File(FileWriter<HashedSink>),
    Stream(StreamWriter<HashedSink>),
}

/// The target behind a buffer, with the hash of its bytes.
type HashedSink = BufWriter<SelfHashed<Target>>;

impl IpcWriter {
    /// Begins a file, or a stream.
    pub fn new(begin: WriterParts, is_file: bool) -> Self {
        let target = begin.target;
        let shown = target.shown().to_path_buf();
        // A stream's hash stands beside it.
        let proves = match is_file {
            true => target.is_rewritable(),
            false => target.has_sidecars(),
        };
        let hashed = SelfHashed::new(target, proves, &begin.clock);
        Self {
            sink: Some(BufWriter::with_capacity(BUFFER, hashed)),
            writer: None,
            shown,
            table: BatchBuilder::new(begin.encoding),
            is_file,
            ended: false,
        }
    }

    /// The writer; the first call decides the columns' types.
    fn open(&mut self, columns: &Schema) -> Result<&mut IpcEncoder> {
        if let Some(sink) = self.sink.take() {
            let schema = self.table.schema(columns);
            let format = match self.is_file {
                true => OutputFormat::Arrow,
                false => OutputFormat::Arrows,
            };
            for field in schema.fields() {
                format.check_type(field)?;
            }
            let writer = match self.is_file {
                true => {
                    FileWriter::try_new(sink, &retype::schema(schema, retype::without_dictionary))
                        .map(IpcEncoder::File)
                }
                false => StreamWriter::try_new(sink, schema).map(IpcEncoder::Stream),
            };
            let writer = writer.map_err(|error| encoding_error(&self.shown, "Arrow", &error))?;
            self.writer = Some(writer);
        }
        self.writer
            .as_mut()
            .ok_or_else(|| Error::internal("the Arrow output could not be begun"))
    }
}

/// Checks that a file, or a stream, has a form for a column's type, by writing one such column to nowhere.
///
/// # Errors
/// The reason why it has none.
pub(super) fn check_type(field: &Field, is_file: bool) -> Result<(), String> {
    let one = Arc::new(field.clone().with_nullable(true));
    let tried = caught(|| {
        let nothing = new_null_array(one.data_type(), 1);
        let schema = Arc::new(Schema::new(vec![one]));
        let mut batch = RecordBatch::try_new(schema, vec![nothing])?;
        if is_file {
            batch = retype::batch(&batch, retype::without_dictionary)?;
            let mut writer = FileWriter::try_new(std::io::sink(), batch.schema_ref())?;
            writer.write(&batch).and_then(|()| writer.finish())
        } else {
            let mut writer = StreamWriter::try_new(std::io::sink(), batch.schema_ref())?;
            writer.write(&batch).and_then(|()| writer.finish())
        }
    });
    let kind = field.data_type();
    let refused = |cause: &dyn Display| format!("Arrow has no form for {kind} ({cause})");
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(refused(&error)),
        Err(panic) => Err(refused(&panic)),
    }
}

impl VectorWriter for IpcWriter {
    fn write(&mut self, rows: Rows) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let batch = self.table.batch(rows)?;
        let written = self.open(&Schema::empty())?.write(&batch);
        written.map_err(|error| encoding_error(&self.shown, "Arrow", &error))
    }

    fn about(&mut self, made: &dyn Fn() -> Result<serde_json::Value>) -> Result<()> {
        match self.is_file {
            true => Ok(()),
            false => self.table.about(made),
        }
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        let shown = self.shown.clone();
        let provenance = finish.provenance(self.table.encoding(), &[]);
        let writer = self.open(&finish.schema)?;
        let finished = writer.finish(&provenance);
        finished.map_err(|error| encoding_error(&shown, "Arrow", &error))?;
        self.ended = true;
        let writer = self.open(&finish.schema)?;
        let is_file = matches!(writer, IpcEncoder::File(_));
        let hashed = self.open(&finish.schema)?.sink().get_mut();
        if is_file {
            if let Some((at, digits)) = hashed.digits()? {
                hashed.get_mut().overwrite(at, digits.as_bytes())?;
            }
        } else {
            let hash = hashed.hash().cloned().unwrap_or_default();
            let with_hash = finish.provenance(self.table.encoding(), &[("stream", &hash)]);
            let target = self.open(&finish.schema)?.sink().get_mut().get_mut();
            target.provenance(&with_hash)?;
        }
        let target = self.open(&finish.schema)?.sink().get_mut().get_mut();
        target.publish(finish.into_rejects())
    }
}

impl Drop for IpcWriter {
    fn drop(&mut self) {
        // The buffer writes its rest when it is dropped, and the output is given up.
        let begun = self.writer.as_mut().map(IpcEncoder::sink);
        let breaks_off = begun.is_some() && !self.is_file && !self.ended;
        if let Some(sink) = begun.or(self.sink.as_mut()) {
            let target = sink.get_mut().get_mut();
            match breaks_off {
                true => target.break_off(),
                false => target.abandon(),
            }
        }
    }
}

impl IpcEncoder {
    fn sink(&mut self) -> &mut HashedSink {
        match self {
            Self::File(writer) => writer.get_mut(),
            Self::Stream(writer) => writer.get_mut(),
        }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            // A file has one dictionary for each column, and batches come with dictionaries of their own.
            Self::File(writer) => writer.write(&retype::batch(batch, retype::without_dictionary)?),
            Self::Stream(writer) => {
                writer.write(batch)?;
                writer.flush()
            }
        }
    }

    fn finish(&mut self, provenance: &serde_json::Value) -> Result<(), ArrowError> {
        match self {
            Self::File(writer) => {
                let sink = writer.get_mut();
                sink.flush()?;
                sink.get_mut().begin_footer();
                let provenance = match sink.get_ref().proves() {
                    true => &proof::with_place(provenance),
                    false => provenance,
                };
                writer.write_metadata(KEY, provenance.to_string());
                writer.finish()
            }
            Self::Stream(writer) => {
                writer.finish()?;
                writer.flush()
            }
        }
    }
}
