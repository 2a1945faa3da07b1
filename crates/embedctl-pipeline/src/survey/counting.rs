//! Counting the records of a sample, and keeping texts for the measurement.

use std::collections::{BTreeMap, HashSet};

use super::{Sample, WRITTEN};
use crate::error::{Cause, Result};
use crate::input::RecordReader;
use crate::pipeline::{
    self, Assembly, CutTokens, Distinct, EarlierVectors, ExtraColumns, OutputRow,
};
use crate::record::{Origin, RowRef, RowVectors, Rows, Slot, SourceNames, Texts, Window};
use crate::reuse::Found;
use crate::tokenize::TextTokenizer;
use crate::tokenize::chunks::{Chunked, Chunks, Span};
use embedctl_engine::Embedder;

/// Counts windows as they come, and keeps the first rows.
pub(super) struct Counting {
    pub(super) sample: Sample,
    pub(super) rejects: Vec<String>,
    /// How records are cut, if they are.
    chunked: Option<Chunked>,
    /// The output's columns beside those of records.
    pub(super) extra: ExtraColumns,
    /// Where texts are looked up, if they are.
    reuse: Option<EarlierVectors>,
    /// The first rows of the first window that has any, without vectors.
    pub(super) kept: Option<Rows>,
    /// The number of each of these rows' texts: equal texts have the same.
    pub(super) numbers: Vec<usize>,
    /// The first distinct texts, for the measurement.
    pub(super) texts: Vec<String>,
    /// Reads texts to their end, so that lengths are exact.
    tokenizer: TextTokenizer,
    /// How many rows have each number of tokens, those that are cut off counted.
    pub(super) lengths: BTreeMap<usize, u64>,
    /// Tokens that are cut off.
    pub(super) cut: CutTokens,
    /// Hashes of all texts: eight bytes per distinct text, which is little for a sample and accepted for a whole input.
    seen: HashSet<u64, ahash::RandomState>,
    hasher: ahash::RandomState,
}

impl Counting {
    /// Distinct texts that are kept for the measurement.
    const MEASURED: usize = 4096;

    pub(super) fn new(
        tokenizer: TextTokenizer,
        chunked: Option<Chunked>,
        extra: ExtraColumns,
        reuse: Option<EarlierVectors>,
    ) -> Self {
        Self {
            sample: Sample::default(),
            rejects: Vec::new(),
            chunked,
            extra,
            reuse,
            kept: None,
            numbers: Vec::new(),
            texts: Vec::new(),
            tokenizer: tokenizer.reading_all(),
            lengths: BTreeMap::new(),
            cut: CutTokens::default(),
            seen: HashSet::default(),
            hasher: ahash::RandomState::default(),
        }
    }

    pub(super) fn add(
        &mut self,
        window: Window,
        embedder: &Embedder,
        reader: &RecordReader,
    ) -> Result<()> {
        let Chunks {
            texts,
            tokens,
            shared,
            spans,
        } = match self.chunked {
            Some(how) => embedder.chunk(&window.texts, how),
            None => Chunks {
                tokens: embedder.tokenize_by(&self.tokenizer, &window.texts),
                shared: None,
                texts: window.texts.iter().collect(),
                spans: Vec::new(),
            },
        };
        let distinct = match &shared {
            Some(shared) => Distinct::of_shared(shared, &spans, &window.texts),
            None => Distinct::new(&texts),
        };
        let found = match &mut self.reuse {
            Some(reuse) => reuse.find(&texts, &distinct)?,
            None => Found::default(),
        };
        let record = |row: usize| spans.get(row).map_or(row, |span| span.text as usize);
        let mut refused = BTreeMap::new();
        let first_chunk = |row: usize| (shared.as_ref()).map_or(row, |it| it.chunks(row).start);
        let refusals = tokens
            .refusals()
            .map(|(row, cause)| (first_chunk(row), cause));
        for (row, cause) in refusals.filter(|(row, _)| {
            let number = distinct.of_rows().nth(*row);
            number.is_none_or(|number| found.get(number).is_none())
        }) {
            refused.entry(record(row)).or_insert(cause);
        }
        let sample = &mut self.sample;
        sample.records += window.records() as u64;
        sample.rejected += (window.rejects().count() + refused.len()) as u64;
        sample.embedded += (window.texts.len() - refused.len()) as u64;
        sample.consumed = window.consumed;
        let rows: Option<Vec<(usize, usize)>> = shared.as_ref().map(|it| it.of_chunks().collect());
        for (row, number) in distinct.of_rows().enumerate() {
            if refused.contains_key(&record(row)) {
                continue;
            }
            sample.rows += 1;
            // With late chunking texts run whole.
            let (text, part) = match &rows {
                Some(_) => (window.texts.get(record(row)), spans[row].part),
                None => (texts.get(row), 0),
            };
            let is_new = self.seen.insert(self.hasher.hash_one((text, part)));
            if is_new && part == 0 && self.texts.len() < Self::MEASURED {
                self.texts.push(text.to_owned());
            }
            if found.get(number).is_some() {
                sample.reused += 1;
                continue;
            }
            sample.repeated += u64::from(!is_new);
            let own = match &rows {
                Some(rows) => Some(rows[row].0).filter(|_| rows[row].1 == 0),
                None => Some(row),
            };
            if let Some(row) = own {
                let (kept, lost) = (tokens.get(row).len(), tokens.lost(row));
                sample.tokens += kept as u64;
                sample.truncated += u64::from(lost > 0);
                let greatest = embedder.model().config.greatest_length;
                self.cut.add(kept, lost, greatest);
                *self.lengths.entry(kept + lost).or_default() += 1;
            }
        }
        let names = reader.names();
        self.list_rejects(&window, &refused, &names);
        if self.kept.is_none() && !texts.is_empty() {
            // Chunks that share a row have vectors of their own.
            self.numbers = match &shared {
                Some(_) => (0..texts.len()).take(WRITTEN).collect(),
                None => distinct.of_rows().take(WRITTEN).collect(),
            };
            let spans = self.chunked.map(|_| spans.as_slice());
            self.kept = Some(first_rows(
                self.extra.clone(),
                &window,
                &texts,
                spans,
                &names,
            )?);
        }
        Ok(())
    }

    /// Lists the first rejected records: those that could not be read, and those whose texts are `refused`.
    fn list_rejects(
        &mut self,
        window: &Window,
        refused: &BTreeMap<usize, &Cause>,
        names: &SourceNames,
    ) {
        let mut texts_before = 0;
        for slot in &window.slots {
            let cause = match slot {
                Slot::Reject(reject) => Some(&reject.cause),
                Slot::Text(_) => {
                    texts_before += 1;
                    refused.get(&(texts_before - 1)).copied()
                }
            };
            if let Some(cause) = cause
                && self.rejects.len() < pipeline::Summary::SHOWN_REJECTS
            {
                let place = slot.origin().place(names);
                self.rejects.push(format!("{place}: {cause}"));
            }
        }
    }
}

/// Some rows as the output would have them, but for their vectors.
fn first_rows(
    extra: ExtraColumns,
    window: &Window,
    texts: &Texts,
    spans: Option<&[Span]>,
    names: &SourceNames,
) -> Result<Rows> {
    let origins: Vec<Origin> = window.origins().collect();
    let planned = (0..texts.len().min(WRITTEN))
        .zip(0u32..)
        .map(|(text, number)| {
            let record = spans.map_or(number, |spans| spans[text].text);
            OutputRow {
                columns: record,
                origin: origins[record as usize],
                row: RowRef {
                    record: u64::from(record),
                    part: 0,
                },
                text: Some(number),
                error: None,
            }
        });
    let planned: Vec<OutputRow> = planned.collect();
    let assembly = Assembly {
        extra,
        names,
        columns: &window.columns,
        texts,
        records: spans.map(|_| &window.texts),
        spans,
        vectors: &vec![None; planned.len()],
        no_rows: RowVectors::default(),
        dimensions: 0,
    };
    assembly.rows(&planned)
}
