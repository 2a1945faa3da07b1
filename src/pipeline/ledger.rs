//! The ledger: every record that was read is written or rejected, in the input's order, and counted.

use super::stages::Flight;
use super::{OnError, Summary};
use crate::embedder::Finished;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::output::VectorWriter;
use crate::pool::Pooler;
use crate::progress::{Counts, Progress};
use crate::record::{Origin, Reject, RowRef, Rows, SourceNames};
use crate::rejects::RejectsWriter;

fn place(names: &SourceNames, origin: &Origin) -> String {
    let name = names
        .get(origin.source as usize)
        .map_or("input", String::as_str);
    format!("{name}:{}", origin.line)
}

pub(super) fn bad_record(names: &SourceNames, reject: &Reject) -> Error {
    Error::BadRecord {
        place: place(names, &reject.origin),
        reason: reject.reason.clone(),
    }
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
    /// Puts a flight's vectors back into input order, writes them, and accounts for every record.
    pub(super) fn settle(&mut self, mut flight: Flight, finished: Vec<Finished>) -> Result<()> {
        let width = self.pooler.width();
        let rows = flight.texts.len();
        let mut vectors = vec![0.0_f32; rows * width];
        let mut present = vec![false; rows];
        let mut failed: Vec<(u32, String)> = Vec::new();
        for batch in finished {
            for (&row, vector) in batch.rows.iter().zip(batch.vectors.chunks_exact(width)) {
                let row = row as usize;
                vectors[row * width..(row + 1) * width].copy_from_slice(vector);
                present[row] = true;
            }
            failed.extend(batch.failed);
        }
        for row in (0..rows).filter(|&row| flight.tokens.get(row).is_empty()) {
            let mut vector = Vec::with_capacity(width);
            self.pooler
                .finish_empty(self.model.config.hidden_width, &mut vector);
            vectors[row * width..(row + 1) * width].copy_from_slice(&vector);
            present[row] = true;
            self.without_tokens += 1;
        }
        for (row, reason) in failed {
            let text = flight.texts.get(row as usize).as_bytes();
            flight.rejects.push(Reject {
                origin: flight.origins[row as usize],
                reason,
                raw: text[..text.len().min(Reject::RAW_BYTES)].to_vec(),
            });
        }
        let missing = present.iter().filter(|&&present| !present).count();
        let read = rows + flight.rejects.len() - missing;
        flight
            .rejects
            .sort_by_key(|reject| (reject.origin.source, reject.origin.offset));
        for reject in &flight.rejects {
            self.reject(reject)?;
        }
        let refs = self.number(&flight, &present);
        let written = Rows {
            columns: flight.columns,
            origins: flight.origins,
            refs,
            vectors,
            dimensions: width,
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
        self.counts.tokens += flight.tokens.tokens() as u64;
        self.counts.truncated += flight.tokens.truncated() as u64;
        self.counts.consumed = flight.consumed;
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

    /// Numbers a flight's rows among all records read: rejected ones have numbers too. A row that failed
    /// in the engine is among the flight's rejects and keeps its number.
    fn number(&self, flight: &Flight, present: &[bool]) -> Vec<RowRef> {
        let key = |origin: &Origin| (origin.source, origin.offset);
        let mut rejects = flight.rejects.iter().peekable();
        let mut record = self.counts.read;
        let mut refs = Vec::with_capacity(present.len());
        for (origin, &present) in flight.origins.iter().zip(present) {
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
