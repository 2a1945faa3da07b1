//! Arrow streams that answer a caller's record batches one by one, and stream
//! after stream, each with a schema of its own and the provenance in its metadata (key `embedctl`).

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use serde_json::Value;

use crate::writing::encoding::BatchBuilder;
use crate::writing::encoding::VectorEncoding;
use crate::writing::fault::encoding_error;
use crate::writing::target::Target;
use crate::writing::writer::{Finish, VectorWriter};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::EMBEDDING_FIELD;
use embedctl_records::record::Rows;

/// A batch is a head of some hundred bytes and buffers, which go past this one.
const BUFFER: usize = 64 << 10;

type StreamSink = BufWriter<Target>;

pub(super) struct BatchWriter {
    /// Between streams.
    sink: Option<StreamSink>,
    stream: Option<StreamWriter<StreamSink>>,
    table: BatchBuilder,
    shown: PathBuf,
}

impl BatchWriter {
    pub fn new(target: Target, encoding: VectorEncoding) -> Self {
        Self {
            shown: target.shown().to_path_buf(),
            sink: Some(BufWriter::with_capacity(BUFFER, target)),
            stream: None,
            table: BatchBuilder::new(encoding),
        }
    }

    fn done<T>(&self, result: Result<T, ArrowError>) -> Result<T> {
        result.map_err(|error| encoding_error(&self.shown, "Arrow", &error))
    }
}

impl VectorWriter for BatchWriter {
    /// Writes a batch, of no rows too.
    fn write(&mut self, rows: Rows) -> Result<()> {
        let batch = self.table.batch(rows)?;
        let Some(stream) = &mut self.stream else {
            return Err(Error::internal("a batch outside of a stream"));
        };
        let written = stream.write(&batch).and_then(|()| stream.flush());
        self.done(written)
    }

    fn about(&mut self, made: &dyn Fn() -> Result<Value>) -> Result<()> {
        self.table.about(made)
    }

    fn begin_stream(&mut self, columns: &Schema) -> Result<()> {
        let own = self.table.encoding().columns();
        if let Some(column) = own
            .iter()
            .find(|own| columns.column_with_name(&own.name).is_some())
        {
            let reason = format!(
                "the input has a column `{}`, as the output would",
                column.name
            );
            return Err(Error::usage(reason)
                .with_remedy(format!("name the vectors with {EMBEDDING_FIELD}")));
        }
        let Some(sink) = self.sink.take() else {
            return Err(Error::internal("a stream within a stream"));
        };
        let schema = self.table.begin(columns);
        let stream = StreamWriter::try_new(sink, &schema).and_then(|mut stream| {
            stream.flush()?;
            Ok(stream)
        });
        self.stream = Some(self.done(stream)?);
        Ok(())
    }

    fn end_stream(&mut self) -> Result<()> {
        let Some(stream) = self.stream.take() else {
            return Err(Error::internal("an end outside of a stream"));
        };
        // It writes the stream's end.
        let sink = stream.into_inner().and_then(|mut sink| {
            sink.flush()?;
            Ok(sink)
        });
        self.sink = Some(self.done(sink)?);
        Ok(())
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        match &mut self.sink {
            Some(sink) => sink.get_mut().publish(finish.into_rejects()),
            None => Err(Error::internal("a stream that was not ended")),
        }
    }
}

impl Drop for BatchWriter {
    fn drop(&mut self) {
        // The buffer writes its rest when it is dropped, and the output is given up.
        match (&mut self.stream, &mut self.sink) {
            (Some(stream), _) => stream.get_mut().get_mut().break_off(),
            (None, Some(sink)) => sink.get_mut().abandon(),
            (None, None) => {}
        }
    }
}
