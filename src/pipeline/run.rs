//! A run, once everything is open: its windows one after another, its end and what is checked there.

use crossbeam_channel::select;

use super::background::ended;
use super::ending::Ending;
use super::job::JobRun;
use super::ledger::{Ledger, Sink};
use super::reading::{End, Passed};
use super::start::{Parts, Run, Threads, start};
use super::workers::collect;
use super::{EmbedOptions, Summary};
use crate::cancel::CancelToken;
use crate::engine;
use crate::error::{Error, Place, Result};
use crate::job;
use crate::output::{self, Finish, VectorWriter};
use crate::progress::{Counts, Progress};
use crate::record::SourceNames;
use crate::rejects::RejectsWriter;
use crate::setting::FAIL_ON_EMPTY;
use arrow::datatypes::{Schema, SchemaRef};

/// Where the rows go.
#[allow(clippy::large_enum_variant)] // there is one
pub(super) enum Output {
    /// An output, and the file of its rejects.
    Whole(Box<dyn VectorWriter>, Option<RejectsWriter>),
    /// Parts, which begin once the fingerprint is known.
    Job(Box<JobRun>),
}

/// Creates an output for vectors of these widths, and the file of its rejects.
pub(super) fn create(
    options: &EmbedOptions,
    dimensions: &[usize],
    names: SourceNames,
    columns: &Schema,
) -> Result<(Box<dyn VectorWriter>, Option<RejectsWriter>)> {
    let (output, files) = (options.output(), &options.files);
    let writer = output::create(&output, dimensions, names, columns, files)?;
    let rejects = options.rejects.as_ref();
    let rejects = rejects.map(|path| RejectsWriter::create(path, output.force, files));
    Ok((writer, rejects.transpose()?))
}

/// Puts the parts together and runs them to the end.
pub(super) fn drive(
    parts: Parts,
    progress: &dyn Progress,
    cancel: &CancelToken,
) -> Result<Summary> {
    let (run, threads, output) = start(parts, progress, cancel)?;
    if let Some(reuse) = &run.reuse {
        reuse.check(&run.model, run.maker.files()?, &run.maker.info)?;
    }
    let made = |counts: &Counts| run.maker.provenance(counts);
    let weights = run.maker.info.provider.weights();
    let mut notes = engine::notes(&run.model, weights);
    let (mut rejected_before, mut may_be_empty) = (0, !run.options.fail_on_empty);
    let (sink, ending) = match output {
        Output::Whole(mut writer, rejects) => {
            writer.about(&|| run.maker.at_first())?;
            (Sink::Whole { writer, rejects }, None)
        }
        Output::Job(job) => {
            // Nothing is embedded for an output that it does not fit.
            let files = run.maker.files()?;
            notes.extend(job.note());
            notes.extend(job.of_older());
            rejected_before = job.rejected();
            may_be_empty |= job.has_rows();
            let schema = run.options.extra().schema(&run.schema)?;
            let (parts, ending) = job.parts(&run.model, files, &run.maker.info, schema)?;
            let parts = Box::new(parts);
            let sink = Sink::Parts { parts, made: &made };
            (sink, Some(ending))
        }
    };
    let mut ledger = Ledger {
        model: &run.model,
        pooler: &run.pooler,
        names: &run.names,
        progress,
        input: &run.options.input,
        on_error: run.options.on_error,
        extra: run.options.extra(),
        counts: Counts::default(),
        reasons: Vec::new(),
        without_tokens: 0,
        sink,
    };
    let end = match run.all_windows(&threads, &mut ledger, progress, cancel) {
        Ok(end) => end,
        // What a job has embedded is not lost with the run.
        Err(error) => {
            ledger.salvage();
            return Err(error);
        }
    };
    drop(threads);

    // A shard may have no share of the input.
    may_be_empty |= end.read == 0 && run.options.job.shard.count > 1;
    run.check(&ledger, end.read, may_be_empty)?;
    if cancel.is_cancelled() && matches!(ledger.sink, Sink::Whole { .. }) {
        return Err(Error::interrupted());
    }
    let Ledger {
        counts,
        reasons,
        without_tokens,
        sink,
        ..
    } = ledger;
    let all = run.publish(sink, ending, end, &counts, &made)?;
    progress.published();
    if !all {
        notes.push("this shard is complete; the output is, when all others are, too".to_owned());
    }
    if run.maker.info.equal_lengths {
        notes.push(engine::padding::NOTE.into());
    }
    if without_tokens > 0 {
        notes.push(format!(
            "{without_tokens} texts have no token under this model's tokenizer; their vectors are what pooling gives for \
             no token at all"
        ));
    }
    Ok(Summary {
        chunks: run.maker.chunked.map(|_| counts.rows),
        reused: run.reuse.as_ref().map(|_| counts.reused),
        counts,
        engine: run.maker.info(),
        model: run.model.id.clone(),
        dimensions: run.model.config.vectors(),
        threads: run.threads,
        max_length: run.model.config.limit(),
        load: run.load,
        run: run.started.elapsed().saturating_sub(run.load),
        stages: run.stages.times(),
        rejects: reasons,
        rejected_before,
        notes,
    })
}

impl Run<'_> {
    /// Waits for windows in the input's order and writes them, to the end of the input.
    fn all_windows(
        &self,
        threads: &Threads,
        ledger: &mut Ledger<'_>,
        progress: &dyn Progress,
        cancel: &CancelToken,
    ) -> Result<End> {
        let Threads { windows, workers } = threads;
        let clocks = &self.clocks;
        let mut named = false;
        loop {
            let message = select! {
                recv(windows) -> message => message.map_err(|_| ended("tokenizer"))??,
                recv(workers.failures) -> failure => return Err(failure.unwrap_or_else(|_| ended("worker"))),
                recv(cancel.channel()) -> _ => return Err(Error::interrupted()),
            };
            match message {
                Passed::Window(in_flight) => {
                    self.maker.check_files()?;
                    // Which fields `--keep '*'` stands for is known by the first text.
                    let window = &in_flight.window;
                    if !named && window.batch.is_none() && !window.texts.is_empty() {
                        self.columns(&window.columns.schema())?;
                        named = true;
                    }
                    let finished = collect(&in_flight, workers, progress, cancel)?;
                    clocks.write.time(|| ledger.settle(*in_flight, &finished))?;
                    if let Some(settled) = &self.settled {
                        settled.window();
                    }
                }
                Passed::Stream(schema) => {
                    let schema = self.options.extra().schema(&schema)?;
                    let streams = ledger.streams()?;
                    clocks.write.time(|| streams.begin_stream(&schema))?;
                }
                Passed::StreamEnd => {
                    let streams = ledger.streams()?;
                    clocks.write.time(|| streams.end_stream())?;
                }
                Passed::End(end) => return Ok(end),
            }
        }
    }

    /// The columns of rows whose records have these, none of which bears a name of the output's own.
    fn columns(&self, records: &Schema) -> Result<SchemaRef> {
        let schema = self.options.extra().schema(records)?;
        let dimensions = self.model.config.vectors().0;
        let output = self.options.output();
        output::check_names(&output, &dimensions, &schema, self.names.len())?;
        Ok(schema)
    }

    /// Whether every record that was `read` is accounted for, and there is one at all where there must be.
    fn check(&self, ledger: &Ledger<'_>, read: u64, may_be_empty: bool) -> Result<()> {
        let counts = &ledger.counts;
        if counts.read != read || counts.embedded + counts.rejected != read {
            return Err(Error::internal(format!(
                "{read} records were read and {} accounted for: {} embedded, {} rejected",
                counts.read, counts.embedded, counts.rejected
            )));
        }
        if !may_be_empty && counts.embedded == 0 {
            let reason = match counts.rejected {
                0 => format!("there is no record to embed, which {FAIL_ON_EMPTY} forbids"),
                rejected => format!(
                    "none of {rejected} records can be embedded, which {FAIL_ON_EMPTY} forbids; the first: {}",
                    ledger.reasons.first().map_or("", String::as_str)
                ),
            };
            return Err(Error::input(Place::file(self.names.join(", ")), reason));
        }
        Ok(())
    }

    /// Publishes the output; whether it is complete, which of a job in shards depends on others.
    fn publish(
        &self,
        sink: Sink<'_>,
        ending: Option<Ending>,
        end: End,
        counts: &Counts,
        made: job::Made<'_>,
    ) -> Result<bool> {
        let schema = self.columns(&end.schema)?;
        self.clocks.write.time(|| match (sink, ending) {
            (Sink::Whole { writer, rejects }, _) => {
                let finish = Finish {
                    schema,
                    provenance: &made(counts)?,
                    rejects,
                };
                writer.finish(finish).map(|()| true)
            }
            (Sink::Parts { parts, .. }, Some(ending)) => {
                ending.complete(*parts, end.point, schema, made)
            }
            (Sink::Parts { .. }, None) => Err(Error::internal("parts without an end")),
        })
    }
}
