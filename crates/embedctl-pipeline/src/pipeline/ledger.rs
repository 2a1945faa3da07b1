//! The ledger: every record that was read is written or rejected, in the input's order, and counted; so are
//! the rows that records become.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::assembly::{Assembly, ExtraColumns, OutputRow};
use super::in_flight::{InFlight, Portion};
use super::made::ProvenanceBuilder;
use super::sink::{RowSink, SettledPortion};
use super::tally::RunTally;
use super::workers::{WindowBatches, Workers, collect};
use super::{OnError, Summary};
use crate::engine::halving::Finished;
use crate::engine::row_worker::not_finite_empty;
use crate::error::{Cause, Error, Place, Result};
use crate::model::Model;
use crate::output::{OutputFormat, without_refused};
use crate::pool::Pooler;
use crate::progress::{Counts, Progress};
use crate::record::{Reject, RowParts, RowRef, RowVector, Slot, SourceNames};
use crate::setting::FAIL_ON_EMPTY;
use crate::stage::Clocks;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use embedctl_records::options::InputOptions;
use embedctl_vectors::is_finite;

/// The id of a record that was read whole, unless it is the number of its line, which stands beside it.
fn id_of(reject: &Reject, input: &InputOptions) -> Option<String> {
    let id = reject.fields.json(input.id_field.as_ref()?)?;
    (id.trim_matches('"') != reject.origin.line.to_string()).then_some(id)
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
    pub(super) extra: ExtraColumns,
    /// Of the output.
    pub(super) format: OutputFormat,
    pub(super) counts: Counts,
    pub(super) reasons: Vec<String>,
    pub(super) tally: RunTally,
    pub(super) made: &'a ProvenanceBuilder<'a>,
    pub(super) sink: Box<dyn RowSink>,
}

/// The vector of that part of a row, where chunks share rows.
fn of_part(row: RowParts<'_>, part: Option<usize>) -> Option<RowParts<'_>> {
    match part {
        Some(part) => {
            let vector = row.first().vectors().nth(part)?;
            Some(RowVector::of_vector(vector).into())
        }
        None => Some(row),
    }
}

/// A cause as a row has it: every format holds it.
fn error_text(cause: &Cause) -> String {
    cause.to_string().replace('\0', "\u{fffd}")
}

/// The columns of a window's records, and the values that the output's format cannot hold, which are null in them.
struct Unwritable<'w> {
    columns: Cow<'w, RecordBatch>,
    /// Records that hold such values, by their rows, with the first reason.
    records: HashMap<usize, Cause>,
    /// Texts of chunks that are such values, where they are written.
    chunks: HashMap<usize, Cause>,
}

impl<'w> Unwritable<'w> {
    fn none(columns: &'w RecordBatch) -> Self {
        Self {
            columns: Cow::Borrowed(columns),
            records: HashMap::new(),
            chunks: HashMap::new(),
        }
    }
}

/// Vectors of a window's texts, and why some have none.
struct Outcome<'a> {
    vectors: Vec<Option<RowParts<'a>>>,
    causes: HashMap<usize, Cause>,
}

impl Ledger<'_> {
    /// Settles a window portion by portion, as soon as the batches of each are run.
    pub(super) fn settle_window(
        &mut self,
        in_flight: &InFlight,
        workers: &Workers,
        clocks: &Clocks,
    ) -> Result<()> {
        let window = &in_flight.window;
        let texts = in_flight.records.as_ref().unwrap_or(&window.texts);
        self.tally.add(window, texts, self.names);
        let unwritable = self.unwritable(in_flight)?;
        let (progress, cancel) = (self.progress, self.made.cancel);
        let mut collected = WindowBatches::new(in_flight, progress);
        for (number, portion) in in_flight.portions.iter().enumerate() {
            collect(in_flight, number, &mut collected, workers, progress, cancel)?;
            self.counts.overflowed += std::mem::take(&mut collected.overflowed);
            let finished = &collected.finished;
            clocks
                .write
                .time(|| self.settle(in_flight, portion, finished, &unwritable))?;
            // Vectors of tokens are the only large ones.
            if self.model.config.any_multi().is_some() {
                collected.release(in_flight, in_flight.texts(portion).end);
            }
        }
        Ok(())
    }

    /// Begins a stream of record batches with these columns.
    pub(super) fn begin_stream(&mut self, records: &Schema, clocks: &Clocks) -> Result<()> {
        let schema = self.extra.schema(records)?;
        let streams = self.sink.streams()?;
        clocks.write.time(|| streams.begin_stream(&schema))
    }

    /// Ends a stream of record batches.
    pub(super) fn end_stream(&mut self, clocks: &Clocks) -> Result<()> {
        let streams = self.sink.streams()?;
        clocks.write.time(|| streams.end_stream())
    }

    /// The columns of a window's records, and which of their values the output's format cannot hold: these are null.
    fn unwritable<'f>(&self, in_flight: &'f InFlight) -> Result<Unwritable<'f>> {
        let window = &in_flight.window;
        if let Some(batch) = &window.batch {
            return Ok(Unwritable::none(batch));
        }
        let columns = match self.extra.errors && window.rejects().next().is_some() {
            true => in_flight.columns_of_all()?,
            false => &window.columns,
        };
        let mut unwritable = Unwritable::none(columns);
        if !self.format.refuses_values() {
            return Ok(unwritable);
        }
        // The column of ids may be left out.
        let own = usize::from(self.extra.no_ids);
        let mut refused = self.format.refused(columns)?;
        refused.retain(|value| value.column >= own);
        if !refused.is_empty() {
            unwritable.columns = Cow::Owned(without_refused(columns, &refused)?);
        }
        for value in refused {
            unwritable.records.entry(value.row).or_insert(value.cause);
        }
        if self.extra.chunk_text {
            let texts: ArrayRef = Arc::new(window.texts.iter().map(Some).collect::<StringArray>());
            let failed = |error| Error::internal(format!("texts of chunks: {error}"));
            let texts = RecordBatch::try_from_iter([("chunk_text", texts)]).map_err(failed)?;
            let refused = self.format.refused(&texts)?.into_iter();
            unwritable.chunks = refused.map(|value| (value.row, value.cause)).collect();
        }
        Ok(unwritable)
    }

    /// Puts the vectors of a window's portion back into input order, writes them, and accounts for every record;
    /// `finished` are the window's batches so far, those of the portion among them.
    fn settle(
        &mut self,
        in_flight: &InFlight,
        portion: &Portion,
        finished: &[Finished],
        unwritable: &Unwritable<'_>,
    ) -> Result<()> {
        let mut empty = self.pooler.no_rows();
        self.pooler
            .add_empty(self.model.config.hidden_width, &mut empty);
        let texts = in_flight.texts(portion);
        let mut outcome = self.outcome(in_flight, texts.clone(), finished, empty.get(0));
        let (rows, rejects) = self.account(in_flight, portion, texts, &mut outcome, unwritable)?;
        let assembly = Assembly {
            extra: self.extra.clone(),
            names: self.names,
            columns: &unwritable.columns,
            texts: &in_flight.window.texts,
            records: in_flight.records.as_ref(),
            spans: in_flight.spans.as_deref(),
            vectors: &outcome.vectors,
            no_rows: self.pooler.no_rows(),
            dimensions: self.pooler.width(),
        };
        if portion.is_last {
            self.counts.consumed = in_flight.window.consumed;
        }
        let settled = SettledPortion {
            in_flight,
            portion,
            assembly,
            rows: &rows,
            rejects: &rejects,
            names: self.names,
            counts: self.counts,
        };
        self.sink.write(settled, self.made)?;
        self.progress.written(&self.counts);
        Ok(())
    }

    /// Gives each of these texts its vector, or that of no token at all (`empty`), and counts tokens.
    fn outcome<'a>(
        &mut self,
        in_flight: &'a InFlight,
        texts: Range<usize>,
        finished: &'a [Finished],
        empty: RowParts<'a>,
    ) -> Outcome<'a> {
        let mut of_distinct: Vec<Option<RowParts<'_>>> = vec![None; in_flight.distinct.len()];
        let mut causes: HashMap<usize, &Cause> = HashMap::new();
        for batch in finished {
            for (&number, vector) in batch.rows.iter().zip(batch.vectors.iter()) {
                of_distinct[number as usize] = Some(vector);
            }
            let failed = batch.failed.iter();
            causes.extend(failed.map(|(number, cause)| (*number as usize, cause)));
        }
        let mut outcome = Outcome {
            vectors: vec![None; in_flight.distinct.rows()],
            causes: HashMap::new(),
        };
        let numbers = in_flight.distinct.of_rows().enumerate();
        let shared = in_flight.shared.as_deref();
        let parts: Option<Vec<usize>> =
            shared.map(|shared| shared.of_chunks().map(|(_, part)| part).collect());
        for (text, number) in numbers.skip(texts.start).take(texts.len()) {
            let tokens = in_flight.tokens.get(number).len();
            let part = parts.as_ref().map(|parts| parts[text]);
            // A row that chunks share counts with its first.
            if part.is_none_or(|part| part == 0) {
                self.counts.tokens += tokens as u64;
                let lost = in_flight.tokens.lost(number);
                self.counts.truncated += u64::from(lost > 0);
                let greatest = self.model.config.greatest_length;
                self.tally.cut.add(tokens, lost, greatest);
            }
            let (vector, cause) = if let Some(vector) = in_flight.found.get(number) {
                self.counts.reused += 1;
                (Some(vector), None)
            } else if let Some(cause) = in_flight.tokens.refusal(number) {
                (None, Some(cause.clone()))
            } else if tokens == 0 {
                self.tally.without_tokens += 1;
                let vector = Some(empty).filter(|vector| vector.values().all(is_finite));
                (vector, Some(not_finite_empty()))
            } else {
                (
                    of_distinct[number].and_then(|vector| of_part(vector, part)),
                    causes.get(&number).map(|&cause| cause.clone()),
                )
            };
            outcome.vectors[text] = vector;
            // Without a cause it is missing, which the count at the end finds.
            if let (None, Some(cause)) = (vector, cause) {
                outcome.causes.insert(text, cause);
            }
        }
        outcome
    }

    /// Checks that every record that was `read` is accounted for, and that there is one if the options require it.
    pub(super) fn check(&self, read: u64, may_be_empty: bool) -> Result<()> {
        let counts = &self.counts;
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
                    self.reasons.first().map_or("", String::as_str)
                ),
            };
            return Err(Error::input(Place::file(self.names.join(", ")), reason));
        }
        Ok(())
    }

    /// Counts a portion's records in the input's order, and says which rows they become, and which are rejected.
    /// `texts` are those of the portion.
    fn account(
        &mut self,
        in_flight: &InFlight,
        portion: &Portion,
        texts: Range<usize>,
        outcome: &mut Outcome<'_>,
        unwritable: &Unwritable<'_>,
    ) -> Result<(Vec<OutputRow>, Vec<Reject>)> {
        // An answered batch keeps its own columns: each record is one row.
        let first = self.counts.read;
        let column = |record: u64, own: u32| match &in_flight.window.batch {
            None => own,
            Some(_) => u32::try_from(record - first).expect("a batch has fewer than 2^32 rows"),
        };
        let number = |record: usize| u32::try_from(record).expect("a window has fewer than 2^32");
        let window = &in_flight.window;
        let (mut planned, mut rejected) = (Vec::with_capacity(texts.len()), Vec::new());
        // The records that are texts have numbers of their own, by which their columns are found; those of rejected ones
        // stand behind them.
        let mut next_record = portion.records.start;
        let mut next_reject = window.texts_before(window.records()) + portion.rejects_before();
        let mut next_text = texts.start;
        for slot in &window.slots[portion.slots.clone()] {
            let origin = match slot {
                Slot::Text(origin) => origin,
                Slot::Reject(reject) => {
                    let columns = column(self.counts.read, number(next_reject));
                    next_reject += 1;
                    planned.extend(self.reject(reject, columns)?);
                    rejected.push(reject.as_ref().clone());
                    continue;
                }
            };
            let record = number(next_record);
            next_record += 1;
            let parts = in_flight.texts_of(record as usize, next_text);
            let texts = next_text..next_text + parts;
            next_text = texts.end;
            for text in texts.clone() {
                let of_record = unwritable.records.get(&(record as usize));
                if let Some(cause) = of_record.or_else(|| unwritable.chunks.get(&text)) {
                    outcome.vectors[text] = None;
                    outcome.causes.insert(text, cause.clone());
                }
            }
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
                self.refuse(&reject, id_of(&reject, self.input))?;
                rejected.push(reject);
            }
            if !missing {
                self.counts.embedded += 1;
            }
            if !missing || (self.extra.errors && cause.is_some()) {
                for vector in outcome.vectors[texts.clone()].iter().flatten() {
                    self.counts.rows += 1;
                    self.tally.add_vector(*vector, *origin, self.names);
                    let counts = &mut self.counts;
                    for part in vector.parts() {
                        let entries = part.entries().count() as u64;
                        counts.entries += entries;
                        counts.most_entries = counts.most_entries.max(entries);
                        let vectors = part.count().unwrap_or(0) as u64;
                        counts.token_vectors += vectors;
                        counts.most_token_vectors = counts.most_token_vectors.max(vectors);
                    }
                }
                planned.extend((0..).zip(texts).map(|(part, text)| OutputRow {
                    columns: column(self.counts.read, record),
                    origin: *origin,
                    row: RowRef {
                        record: self.counts.read,
                        part,
                    },
                    text: (!unwritable.chunks.contains_key(&text)).then_some(number(text)),
                    error: outcome.causes.get(&text).map(error_text),
                }));
            }
            self.counts.read += 1;
        }
        Ok((planned, rejected))
    }

    /// Counts a record that was never a text; its row, where rejected ones have rows.
    fn reject(&mut self, reject: &Reject, columns: u32) -> Result<Option<OutputRow>> {
        self.refuse(reject, None)?;
        let record = self.counts.read;
        self.counts.read += 1;
        if !self.extra.errors {
            return Ok(None);
        }
        Ok(Some(OutputRow {
            columns,
            origin: reject.origin,
            row: RowRef { record, part: 0 },
            text: None,
            error: Some(error_text(&reject.cause)),
        }))
    }

    fn refuse(&mut self, reject: &Reject, id: Option<String>) -> Result<()> {
        let place = reject.origin.place(self.names).id(id);
        if self.on_error == OnError::Fail {
            return Err(Error::record(place, &reject.cause));
        }
        self.counts.rejected += 1;
        if self.reasons.len() < Summary::SHOWN_REJECTS {
            self.reasons.push(format!("{place}: {}", reject.cause));
        }
        Ok(())
    }
}
