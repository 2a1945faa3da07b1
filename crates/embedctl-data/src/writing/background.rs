//! A writer on a thread of its own: rows are put together while those before them are encoded and written.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use super::writer::{Finish, VectorWriter};
use arrow::datatypes::Schema;
use embedctl_common::error::{Error, Result};
use embedctl_common::stage::Clock;
use embedctl_common::threads::{guarded, panic_message, spawn};
use embedctl_records::record::Rows;

/// Passes rows on to a writer on another thread. It takes the next ones once it has written those before, so that two
/// windows' rows are there at a time. An error of the writer is that of a later call.
///
/// For files and objects: a stream's reader must have rows when they are written.
pub struct BackgroundWriter {
    state: BackgroundState,
    /// Counts the processor time of the thread.
    clock: Arc<Clock>,
}

enum BackgroundState {
    /// No row has come.
    Idle(Box<dyn VectorWriter>),
    Running(RunningWriter),
    /// An error was told.
    Failed,
}

struct RunningWriter {
    rows: Sender<Rows>,
    thread: JoinHandle<Result<Box<dyn VectorWriter>>>,
}

impl BackgroundWriter {
    /// Writes with `writer`; `clock` counts its processor time.
    #[must_use]
    pub fn new(writer: Box<dyn VectorWriter>, clock: &Arc<Clock>) -> Self {
        Self {
            state: BackgroundState::Idle(writer),
            clock: Arc::clone(clock),
        }
    }

    fn start(&self, mut writer: Box<dyn VectorWriter>) -> Result<RunningWriter> {
        let (rows, received) = bounded::<Rows>(0);
        let clock = Arc::clone(&self.clock);
        let thread = spawn("write", move || {
            for rows in received {
                let write = || clock.time_part(|| writer.write(rows));
                guarded(write, Error::internal)?;
            }
            Ok(writer)
        })?;
        Ok(RunningWriter { rows, thread })
    }

    fn idle(&mut self) -> Result<&mut Box<dyn VectorWriter>> {
        match &mut self.state {
            BackgroundState::Idle(writer) => Ok(writer),
            _ => Err(Error::internal("an output that is written has not begun")),
        }
    }
}

impl RunningWriter {
    /// The writer, once it has written all rows; or its error.
    fn end(self) -> Result<Box<dyn VectorWriter>> {
        drop(self.rows);
        let ended = self.thread.join();
        ended.unwrap_or_else(|panic| Err(Error::internal(panic_message(&*panic))))
    }
}

impl VectorWriter for BackgroundWriter {
    fn write(&mut self, rows: Rows) -> Result<()> {
        let running = match std::mem::replace(&mut self.state, BackgroundState::Failed) {
            BackgroundState::Idle(writer) => self.start(writer)?,
            BackgroundState::Running(running) => running,
            BackgroundState::Failed => {
                return Err(Error::internal("an output that has failed goes on"));
            }
        };
        if running.rows.send(rows).is_err() {
            running.end()?;
            return Err(Error::internal("the thread that writes has ended"));
        }
        self.state = BackgroundState::Running(running);
        Ok(())
    }

    fn about(&mut self, made: &dyn Fn() -> Result<serde_json::Value>) -> Result<()> {
        self.idle()?.about(made)
    }

    fn begin_stream(&mut self, columns: &Schema) -> Result<()> {
        self.idle()?.begin_stream(columns)
    }

    fn end_stream(&mut self) -> Result<()> {
        self.idle()?.end_stream()
    }

    fn finish(mut self: Box<Self>, finish: Finish<'_>) -> Result<()> {
        match std::mem::replace(&mut self.state, BackgroundState::Failed) {
            BackgroundState::Idle(writer) => writer.finish(finish),
            BackgroundState::Running(running) => running.end()?.finish(finish),
            BackgroundState::Failed => Err(Error::internal("an output that has failed goes on")),
        }
    }
}

impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        // What was written is removed when this returns.
        if let BackgroundState::Running(running) =
            std::mem::replace(&mut self.state, BackgroundState::Failed)
        {
            let _ = running.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use arrow::array::{RecordBatch, StringArray};
    use embedctl_common::threads::locked;
    use embedctl_records::record::{Origin, RowRef, RowVectors};

    /// Remembers the rows that it gets; fails, or panics, at one of them.
    #[derive(Default)]
    struct RememberingWriter {
        records: Arc<Mutex<Vec<u64>>>,
        fails_at: Option<u64>,
        panics: bool,
        dropped: Dropped,
    }

    impl VectorWriter for RememberingWriter {
        fn write(&mut self, rows: Rows) -> Result<()> {
            let record = rows.refs[0].record;
            if self.fails_at == Some(record) {
                assert!(!self.panics, "row {record}");
                return Err(Error::internal(format!("no room for row {record}")));
            }
            locked(&self.records).push(record);
            Ok(())
        }

        fn finish(self: Box<Self>, _: Finish<'_>) -> Result<()> {
            locked(&self.records).push(u64::MAX);
            Ok(())
        }
    }

    /// Notes that it was dropped.
    #[derive(Default)]
    struct Dropped(Arc<Mutex<bool>>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            *locked(&self.0) = true;
        }
    }

    fn row(record: u64) -> Rows {
        let ids = Arc::new(StringArray::from(vec![record.to_string()])) as _;
        Rows {
            columns: RecordBatch::try_from_iter([("id", ids)]).unwrap(),
            origins: vec![Origin {
                source: 0,
                line: record + 1,
                offset: 0,
            }],
            refs: vec![RowRef { record, part: 0 }],
            vectors: RowVectors::in_full(1, vec![0.0]),
            dimensions: 1,
            missing: None,
        }
    }

    fn finish(writer: BackgroundWriter) -> Result<()> {
        Box::new(writer).finish(Finish {
            schema: Arc::new(Schema::empty()),
            provenance: &serde_json::json!({}),
            rejects: None,
        })
    }

    #[test]
    fn rows_keep_their_order_and_all_are_written_at_the_end() {
        for count in [0, 1, 100] {
            let inner = RememberingWriter::default();
            let records = Arc::clone(&inner.records);
            let mut writer = BackgroundWriter::new(Box::new(inner), &Arc::default());
            (0..count).for_each(|record| writer.write(row(record)).unwrap());
            finish(writer).unwrap();
            let expected: Vec<u64> = (0..count).chain([u64::MAX]).collect();
            assert_eq!(*locked(&records), expected);
        }
    }

    #[test]
    fn an_error_of_the_thread_is_told_and_nothing_is_written_behind_it() {
        for panics in [false, true] {
            let inner = RememberingWriter {
                fails_at: Some(2),
                panics,
                ..RememberingWriter::default()
            };
            let (records, dropped) = (Arc::clone(&inner.records), Arc::clone(&inner.dropped.0));
            let mut writer = BackgroundWriter::new(Box::new(inner), &Arc::default());
            let mut results = (0..5).map(|record| writer.write(row(record)));
            let error = results.find_map(Result::err).expect("it fails by row 3");
            assert!(error.to_string().contains("row 2"), "{error}");
            assert!(*locked(&dropped), "what was written is removed");
            assert!(finish(writer).is_err());
            assert_eq!(*locked(&records), [0, 1]);
        }
    }

    #[test]
    fn an_error_at_the_last_rows_is_that_of_the_end() {
        let inner = RememberingWriter {
            fails_at: Some(1),
            ..RememberingWriter::default()
        };
        let records = Arc::clone(&inner.records);
        let mut writer = BackgroundWriter::new(Box::new(inner), &Arc::default());
        (0..2).for_each(|record| writer.write(row(record)).unwrap());
        let error = finish(writer).unwrap_err();
        assert!(error.to_string().contains("row 1"), "{error}");
        assert_eq!(*locked(&records), [0]);
    }

    #[test]
    fn a_writer_that_is_given_up_is_dropped_by_then() {
        let inner = RememberingWriter::default();
        let (records, dropped) = (Arc::clone(&inner.records), Arc::clone(&inner.dropped.0));
        let mut writer = BackgroundWriter::new(Box::new(inner), &Arc::default());
        writer.write(row(0)).unwrap();
        drop(writer);
        assert!(*locked(&dropped));
        assert!(!locked(&records).contains(&u64::MAX));
    }
}
