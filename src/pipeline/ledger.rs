//! The ledger: every record that was read is written or rejected, in the input's order, and counted; so are
//! the rows that records become.

use std::collections::HashMap;

use super::assembly::{Assembly, Extra, Planned, followed_by, with_nulls};
use super::tokenizing::InFlight;
use super::{OnError, Summary};
use crate::engine::row_worker::{Finished, not_finite_empty};
use crate::error::{Cause, Error, Place, Result};
use crate::input::InputOptions;
use crate::job;
use crate::model::Model;
use crate::output::VectorWriter;
use crate::pool::{Pooler, is_finite};
use crate::progress::{Counts, Progress};
use crate::record::{Mark, Origin, Reject, RowRef, SourceNames, TextHash};
use crate::rejects::{self, RejectsWriter};

/// Where a record was read, for messages.
pub(crate) fn record_place(names: &SourceNames, origin: &Origin) -> Place {
    let name = names.get(origin.source as usize);
    Place::file(name.map_or("input", String::as_str)).line(origin.line)
}

pub(super) fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::record(record_place(names, &reject.origin), &reject.cause)
}

/// The hashes of rows' texts: of chunks their own, of records that were never a text none.
fn hashes(mark: &Mark, in_flight: &InFlight, planned: &[Planned]) -> Vec<u8> {
    let hash = |row: &Planned| match (row.text, &in_flight.spans) {
        (None, _) => TextHash::default(),
        (Some(text), None) => mark.texts[text as usize],
        (Some(text), Some(_)) => job::text_hash(in_flight.window.texts.get(text as usize)),
    };
    planned.iter().flat_map(hash).collect()
}

/// Counts every record and writes every row.
pub(super) struct Ledger<'a> {
    pub(super) model: &'a Model,
    pub(super) pooler: &'a Pooler,
    pub(super) names: &'a SourceNames,
    pub(super) progress: &'a dyn Progress,
    /// How the records were read.
    pub(super) input: &'a InputOptions,
    pub(super) on_error: OnError,
    pub(super) extra: Extra,
    pub(super) counts: Counts,
    pub(super) reasons: Vec<String>,
    pub(super) without_tokens: u64,
    pub(super) sink: Sink<'a>,
}

/// Where rows and rejected records go.
#[allow(clippy::large_enum_variant)] // there is one
pub(super) enum Sink<'a> {
    /// Into an output and its rejects, published together at the end.
    Whole {
        writer: Box<dyn VectorWriter>,
        rejects: Option<RejectsWriter>,
    },
    /// Into parts, which are published as they are complete.
    Parts {
        parts: Box<job::Parts>,
        made: job::Made<'a>,
    },
}

/// Vectors of a window's texts, and why some have none.
struct Outcome<'a> {
    vectors: Vec<Option<&'a [f32]>>,
    causes: HashMap<usize, Cause>,
}

impl Ledger<'_> {
    /// Puts a window's vectors back into input order, writes them, and accounts for every record.
    pub(super) fn settle(&mut self, mut in_flight: InFlight, finished: &[Finished]) -> Result<()> {
        let mut empty = Vec::with_capacity(self.pooler.width());
        self.pooler
            .finish_empty(self.model.config.hidden_width, &mut empty);
        let mark = in_flight.window.mark.take();
        let outcome = self.outcome(&in_flight, finished, &empty);
        let (planned, rejects) = self.account(&in_flight, &outcome)?;
        let with_rejects;
        let columns = match &in_flight.window.batch {
            Some(batch) => batch,
            None if self.extra.errors && !in_flight.window.rejects.is_empty() => {
                with_rejects = match &in_flight.window.rejected {
                    Some(rejected) => followed_by(&in_flight.window.columns, rejected)?,
                    None => with_nulls(&in_flight.window.columns, in_flight.window.rejects.len())?,
                };
                &with_rejects
            }
            None => &in_flight.window.columns,
        };
        let assembly = Assembly {
            extra: self.extra,
            columns,
            texts: &in_flight.window.texts,
            spans: in_flight.spans.as_deref(),
            vectors: &outcome.vectors,
            dimensions: self.pooler.width(),
        };
        self.counts.consumed = in_flight.window.consumed;
        match &mut self.sink {
            // A batch is answered, whatever is in it.
            Sink::Whole { writer, .. } if in_flight.window.batch.is_some() => {
                writer.write(assembly.rows(&planned)?)?;
            }
            // Without a row there may be no final schema yet, and there is nothing to write.
            Sink::Whole { writer, .. } => {
                for planned in planned.chunks(assembly.slice()) {
                    writer.write(assembly.rows(planned)?)?;
                }
            }
            Sink::Parts { parts, made } => {
                let mark = mark.ok_or_else(|| Error::internal("a job's window without a mark"))?;
                let lines = rejects.iter().map(|it| rejects::line(it, self.names));
                let rows = assembly.rows(&planned)?;
                let done = job::Done {
                    texts: hashes(&mark, &in_flight, &planned),
                    rejects: lines.collect::<Result<Vec<_>>>()?.concat(),
                    mark,
                    rows,
                    counts: self.counts,
                };
                parts.take(done, made)?;
            }
        }
        self.progress.written(&self.counts);
        Ok(())
    }

    /// Gives each text its vector, or that of no token at all (`empty`), and counts tokens.
    fn outcome<'a>(
        &mut self,
        in_flight: &'a InFlight,
        finished: &'a [Finished],
        empty: &'a [f32],
    ) -> Outcome<'a> {
        let width = self.pooler.width();
        let mut of_distinct: Vec<Option<&[f32]>> = vec![None; in_flight.distinct.len()];
        let mut causes: HashMap<usize, &Cause> = HashMap::new();
        for batch in finished {
            for (&number, vector) in batch.rows.iter().zip(batch.vectors.chunks_exact(width)) {
                of_distinct[number as usize] = Some(vector);
            }
            let failed = batch.failed.iter();
            causes.extend(failed.map(|(number, cause)| (*number as usize, cause)));
        }
        let mut outcome = Outcome {
            vectors: Vec::with_capacity(in_flight.distinct.rows()),
            causes: HashMap::new(),
        };
        for (text, number) in in_flight.distinct.of_rows().enumerate() {
            let tokens = in_flight.tokens.get(number).len();
            self.counts.tokens += tokens as u64;
            self.counts.truncated += u64::from(in_flight.tokens.is_truncated(number));
            let (vector, cause) = if let Some(vector) = in_flight.found.get(number) {
                self.counts.reused += 1;
                (Some(vector), None)
            } else if tokens == 0 {
                self.without_tokens += 1;
                let vector = Some(empty).filter(|vector| is_finite(vector));
                (vector, Some(not_finite_empty()))
            } else {
                (
                    of_distinct[number],
                    causes.get(&number).map(|&cause| cause.clone()),
                )
            };
            outcome.vectors.push(vector);
            // Without a cause it is missing, which the count at the end finds.
            if let (None, Some(cause)) = (vector, cause) {
                outcome.causes.insert(text, cause);
            }
        }
        outcome
    }

    /// The output of streams of record batches.
    pub(super) fn streams(&mut self) -> Result<&mut dyn VectorWriter> {
        match &mut self.sink {
            Sink::Whole { writer, .. } => Ok(writer.as_mut()),
            Sink::Parts { .. } => Err(Error::internal("streams in parts")),
        }
    }

    /// Publishes what is embedded of the part in hand, after a failure: what cannot be published is embedded
    /// again by the next run.
    pub(super) fn salvage(&mut self) {
        if let Sink::Parts { parts, made } = &mut self.sink {
            let _ = parts.commit(made);
        }
    }

    /// Counts a window's records in the input's order, and says which rows they become, and which are rejected.
    fn account(
        &mut self,
        in_flight: &InFlight,
        outcome: &Outcome<'_>,
    ) -> Result<(Vec<Planned>, Vec<Reject>)> {
        // Of a batch that is answered, columns are those that it came with: each record is a row.
        let first = self.counts.read;
        let column = |record: u64, own: u32| match &in_flight.window.batch {
            None => own,
            Some(_) => u32::try_from(record - first).expect("a batch has fewer than 2^32 rows"),
        };
        let place = |origin: &Origin| (origin.source, origin.line, origin.offset);
        let records =
            u32::try_from(in_flight.window.origins.len()).expect("a window has fewer than 2^32");
        let mut rejects = (records..).zip(&in_flight.window.rejects).peekable();
        let mut planned = Vec::with_capacity(outcome.vectors.len());
        let mut next_text = 0;
        let mut rejected = Vec::new();
        for (record, origin) in (0..records).zip(&in_flight.window.origins) {
            while let Some((columns, reject)) =
                rejects.next_if(|(_, reject)| place(&reject.origin) < place(origin))
            {
                planned.extend(self.reject(reject, column(self.counts.read, columns))?);
                rejected.push(reject.clone());
            }
            let parts = match &in_flight.spans {
                Some(spans) => {
                    let rest = &spans[next_text..];
                    rest.iter().take_while(|span| span.text == record).count()
                }
                None => 1,
            };
            let texts = next_text..next_text + parts;
            next_text = texts.end;
            let missing = texts.clone().any(|text| outcome.vectors[text].is_none());
            let cause = texts.clone().find_map(|text| outcome.causes.get(&text));
            if let Some(cause) = cause {
                let all = in_flight.records.as_ref();
                let text = all.unwrap_or(&in_flight.window.texts).get(record as usize);
                let (columns, raw) = (&in_flight.window.columns, text.as_bytes());
                let reject = Reject {
                    origin: *origin,
                    cause: cause.clone(),
                    raw: raw[..raw.len().min(Reject::RAW_BYTES)].to_vec(),
                    fields: self.input.record_fields(columns, record as usize, text),
                };
                self.refuse(&reject)?;
                rejected.push(reject);
            }
            if !missing {
                self.counts.embedded += 1;
            }
            if !missing || (self.extra.errors && cause.is_some()) {
                let vectors = outcome.vectors[texts.clone()].iter().flatten();
                self.counts.rows += vectors.count() as u64;
                planned.extend((0..).zip(texts).map(|(part, text)| Planned {
                    columns: column(self.counts.read, record),
                    origin: *origin,
                    row: RowRef {
                        record: self.counts.read,
                        part,
                    },
                    text: Some(u32::try_from(text).expect("a window has fewer than 2^32 texts")),
                    error: outcome.causes.get(&text).map(ToString::to_string),
                }));
            }
            self.counts.read += 1;
        }
        for (columns, reject) in rejects {
            planned.extend(self.reject(reject, column(self.counts.read, columns))?);
            rejected.push(reject.clone());
        }
        Ok((planned, rejected))
    }

    /// Counts a record that was never a text; its row, where rejected ones have rows.
    fn reject(&mut self, reject: &Reject, columns: u32) -> Result<Option<Planned>> {
        self.refuse(reject)?;
        let record = self.counts.read;
        self.counts.read += 1;
        if !self.extra.errors {
            return Ok(None);
        }
        Ok(Some(Planned {
            columns,
            origin: reject.origin,
            row: RowRef { record, part: 0 },
            text: None,
            error: Some(reject.cause.to_string()),
        }))
    }

    fn refuse(&mut self, reject: &Reject) -> Result<()> {
        if self.on_error == OnError::Fail {
            return Err(bad_record(self.names, reject));
        }
        self.counts.rejected += 1;
        if self.reasons.len() < Summary::SHOWN_REJECTS {
            let place = record_place(self.names, &reject.origin);
            self.reasons.push(format!("{place}: {}", reject.cause));
        }
        match &mut self.sink {
            Sink::Whole {
                rejects: Some(rejects),
                ..
            } => rejects.write(reject, self.names),
            // Parts take them with their window.
            Sink::Whole { .. } | Sink::Parts { .. } => Ok(()),
        }
    }
}
