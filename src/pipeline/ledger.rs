//! The ledger: every record that was read is written or rejected, in the input's order, and counted.

use std::collections::HashMap;

use super::stages::InFlight;
use super::{OnError, Summary};
use crate::embedder::{Finished, NOT_FINITE_EMPTY};
use crate::error::{Error, Place, Result};
use crate::model::Model;
use crate::output::VectorWriter;
use crate::pool::{Pooler, is_finite};
use crate::progress::{Counts, Progress};
use crate::record::{Origin, Reject, RowRef, Rows, SourceNames};
use crate::rejects::RejectsWriter;

fn place(names: &SourceNames, origin: &Origin) -> Place {
    let name = names.get(origin.source as usize);
    Place::file(name.map_or("input", String::as_str)).line(origin.line)
}

pub(super) fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::record(place(names, &reject.origin), reject.reason.as_str())
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
    pub(super) writer: Box<dyn VectorWriter>,
    pub(super) rejects: Option<RejectsWriter>,
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
        let embedded = written.len() as u64;
        // Without a row there may be no final schema yet, and there is nothing to write.
        if embedded > 0 {
            self.writer.write(written)?;
        }
        self.counts.embedded += embedded;
        self.counts.read += read as u64;
        self.counts.consumed = in_flight.consumed;
        self.progress.written(&self.counts);
        Ok(())
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
        match &mut self.rejects {
            Some(rejects) => rejects.write(reject, self.names),
            None => Ok(()),
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
