//! The ledger: every record that was read is written or rejected, in the input's order, and counted.

use std::collections::HashMap;

use super::stages::InFlight;
use super::{OnError, Summary};
use crate::embedder::{Finished, NOT_FINITE_EMPTY};
use crate::error::{Error, Place, Result};
use crate::job;
use crate::model::Model;
use crate::output::VectorWriter;
use crate::pool::{Pooler, is_finite};
use crate::progress::{Counts, Progress};
use crate::record::{Mark, Origin, Reject, RowRef, Rows, SourceNames};
use crate::rejects::{self, RejectsWriter};

fn place(names: &SourceNames, origin: &Origin) -> Place {
    let name = names.get(origin.source as usize);
    Place::file(name.map_or("input", String::as_str)).line(origin.line)
}

pub(super) fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::record(place(names, &reject.origin), reject.reason.as_str())
}

/// A window as parts take it.
fn done(
    mark: Mark,
    rows: Rows,
    present: &[bool],
    rejects: &[Reject],
    names: &SourceNames,
    counts: Counts,
) -> Result<job::Done> {
    let texts = mark.texts.iter().zip(present);
    let texts = texts.filter(|(_, present)| **present);
    let sources = rows.origins.iter().map(|origin| origin.source);
    let rejected = rejects.iter().map(|reject| reject.origin.source);
    let sources = sources.chain(rejected).collect();
    let lines = rejects.iter().map(|reject| rejects::line(reject, names));
    Ok(job::Done {
        texts: texts.flat_map(|(text, _)| *text).collect(),
        rejects: lines.collect::<Result<Vec<_>>>()?.concat(),
        sources,
        mark,
        rows,
        counts,
    })
}

/// Counts every record and writes every row.
pub(super) struct Ledger<'a> {
    pub(super) model: &'a Model,
    pub(super) pooler: &'a Pooler,
    pub(super) names: &'a SourceNames,
    pub(super) progress: &'a dyn Progress,
    pub(super) on_error: OnError,
    pub(super) counts: Counts,
    pub(super) reasons: Vec<String>,
    pub(super) without_tokens: u64,
    pub(super) sink: Sink<'a>,
}

/// Where rows and rejected records go.
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

impl Ledger<'_> {
    /// Puts a window's vectors back into input order, writes them, and accounts for every record.
    pub(super) fn settle(
        &mut self,
        mut in_flight: InFlight,
        finished: Vec<Finished>,
    ) -> Result<()> {
        let width = self.pooler.width();
        let rows = in_flight.distinct.rows();
        let mut by_text: Vec<Option<&[f32]>> = vec![None; in_flight.distinct.len()];
        let mut reasons: HashMap<usize, &str> = HashMap::new();
        for batch in &finished {
            for (&number, vector) in batch.rows.iter().zip(batch.vectors.chunks_exact(width)) {
                by_text[number as usize] = Some(vector);
            }
            reasons.extend(
                batch
                    .failed
                    .iter()
                    .map(|(number, reason)| (*number as usize, reason.as_str())),
            );
        }
        let mut without_tokens = Vec::with_capacity(width);
        self.pooler
            .finish_empty(self.model.config.hidden_width, &mut without_tokens);
        let mut vectors = Vec::with_capacity(rows * width);
        let mut present = Vec::with_capacity(rows);
        for (row, number) in in_flight.distinct.of_rows().enumerate() {
            let tokens = in_flight.tokens.get(number).len();
            self.counts.tokens += tokens as u64;
            self.counts.truncated += u64::from(in_flight.tokens.is_truncated(number));
            let (vector, reason) = if tokens == 0 {
                self.without_tokens += 1;
                let vector = Some(without_tokens.as_slice()).filter(|vector| is_finite(vector));
                (vector, Some(NOT_FINITE_EMPTY))
            } else {
                (by_text[number], reasons.get(&number).copied())
            };
            match vector {
                Some(vector) => vectors.extend_from_slice(vector),
                None => {
                    // Holds its place until it is taken out.
                    vectors.resize(vectors.len() + width, 0.0);
                    // Without a reason it is missing, which the count at the end finds.
                    if let Some(reason) = reason {
                        let text = in_flight.texts.get(row).as_bytes();
                        in_flight.rejects.push(Reject {
                            origin: in_flight.origins[row],
                            reason: reason.into(),
                            raw: text[..text.len().min(Reject::RAW_BYTES)].to_vec(),
                        });
                    }
                }
            }
            present.push(vector.is_some());
        }
        let missing = present.iter().filter(|&&present| !present).count();
        let read = rows + in_flight.rejects.len() - missing;
        in_flight
            .rejects
            .sort_by_key(|reject| (reject.origin.source, reject.origin.offset));
        for reject in &in_flight.rejects {
            self.reject(reject)?;
        }
        let refs = self.number(&in_flight, &present);
        let mark = in_flight.mark.take();
        let rejects = std::mem::take(&mut in_flight.rejects);
        let written = Rows {
            columns: in_flight.columns,
            origins: in_flight.origins,
            refs,
            vectors,
            dimensions: width,
            missing: None,
        };
        let written = if missing == 0 {
            written
        } else {
            written.retain(&present)?
        };
        self.counts.embedded += written.len() as u64;
        self.counts.read += read as u64;
        self.counts.consumed = in_flight.consumed;
        match &mut self.sink {
            // Without a row there may be no final schema yet, and there is nothing to write.
            Sink::Whole { .. } if written.is_empty() => {}
            Sink::Whole { writer, .. } => writer.write(written)?,
            Sink::Parts { parts, made } => {
                let mark = mark.ok_or_else(|| Error::internal("a job's window without a mark"))?;
                let done = done(mark, written, &present, &rejects, self.names, self.counts)?;
                parts.take(done, made)?;
            }
        }
        self.progress.written(&self.counts);
        Ok(())
    }

    /// Publishes what is embedded of the part in hand, after a failure: what cannot be published is embedded
    /// again by the next run.
    pub(super) fn salvage(&mut self) {
        if let Sink::Parts { parts, made } = &mut self.sink {
            let _ = parts.commit(made);
        }
    }

    fn reject(&mut self, reject: &Reject) -> Result<()> {
        if self.on_error == OnError::Fail {
            return Err(bad_record(self.names, reject));
        }
        self.counts.rejected += 1;
        if self.reasons.len() < Summary::SHOWN_REJECTS {
            let place = place(self.names, &reject.origin);
            self.reasons.push(format!("{place}: {}", reject.reason));
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

    /// Numbers a window's rows among all records read: rejected ones have numbers too. A row that failed
    /// in the engine is among the window's rejects and keeps its number.
    fn number(&self, in_flight: &InFlight, present: &[bool]) -> Vec<RowRef> {
        let key = |origin: &Origin| (origin.source, origin.offset);
        let mut rejects = in_flight.rejects.iter().peekable();
        let mut record = self.counts.read;
        let mut refs = Vec::with_capacity(present.len());
        for (origin, &present) in in_flight.origins.iter().zip(present) {
            while rejects
                .next_if(|reject| key(&reject.origin) < key(origin))
                .is_some()
            {
                record += 1;
            }
            if !present {
                rejects.next();
            }
            refs.push(RowRef { record, part: 0 });
            record += 1;
        }
        refs
    }
}
