//! A run that tries a job's rejected records again.

use super::job::JobRun;
use crate::error::{Error, Result};
use crate::input::{InputOptions, Part, RecordReader, Share, Source};
use crate::job::{self, RetryReader, SourceState, text_hash};
use crate::record::{TextHash, Texts};
use crate::setting::RETRY_REJECTS;
use crate::stage::Clocks;
use crate::tokenize::{Chunked, Chunks, TextTokenizer};

impl JobRun {
    /// Opens the input for the records that were rejected and were not embedded since.
    pub(super) fn again(&mut self) -> Result<RetryReader> {
        let (mut rejected, end) = self.job.rejected(self.begun.state())?;
        let wanted = rejected.places();
        let files = wanted.files();
        let changed = files.iter().any(|file| self.has_changed(file));
        if changed {
            self.can_compare()?;
            rejected.embedded.add_all(&wanted);
            self.compared = Some(rejected.embedded);
        }
        let all = changed || self.options.sources.contains(&Source::Stdin);
        let has_some = |source: &&SourceState| files.contains(source.name.as_str());
        let shares = (self.sources.iter().zip(0..)).filter(|(source, _)| has_some(source));
        let shares = shares.map(|(_, source)| Share {
            source,
            part: Part::Whole,
        });
        let input = InputOptions {
            shares: (!all).then(|| shares.collect()),
            sample: None, // they are known by their places
            ..self.input()
        };
        let reader = RecordReader::open(&self.options.sources, input)?;
        Ok(RetryReader::new(reader, wanted, end))
    }

    /// Whether a source is another than the one that was read last, or may be.
    pub(super) fn has_changed(&self, name: &str) -> bool {
        let parts = self.begun.state().of_shard(self.job.shard().index);
        let mut then = None;
        for source in parts.flat_map(|part| &part.info.sources) {
            if source.name == name {
                then = Some(source);
            }
        }
        let mut now = self.sources.iter().filter(|source| source.name == name);
        !now.all(|now| then.is_some_and(|then| then.is_same_version(now)))
    }

    /// Whether an input that has changed can be compared with what it was.
    fn can_compare(&self) -> Result<()> {
        let refuse = |what: &str| {
            Err(Error::usage(format!(
                "{RETRY_REJECTS}: the input has changed, and {what}"
            ))
            .with_remedy("write the output anew"))
        };
        if self.job.shard().count > 1 {
            return refuse("no shard can compare its share with what it was");
        }
        if self.options.sources.contains(&Source::Stdin) {
            return refuse("standard input cannot be read twice, to compare it first");
        }
        Ok(())
    }

    /// Refuses an input that was changed in other records than in those that were rejected.
    pub(super) fn prove(&self, tokenizer: &TextTokenizer, chunked: Option<Chunked>) -> Result<()> {
        let Some(places) = &self.compared else {
            return Ok(());
        };
        let reader = RecordReader::open(&self.options.sources, self.input())?;
        let parts: Vec<_> = self.begun.state().of_shard(1).cloned().collect();
        let storage = self.job.storage().as_ref();
        let chunks = chunked.map(|chunked| (tokenizer, chunked));
        job::compare(reader, storage, &parts, places.clone(), &mut hashes(chunks))
    }

    /// How the input is read: in windows of the job's size.
    pub(super) fn input(&self) -> InputOptions {
        InputOptions {
            window_rows: self.begun.window,
            columns: self.columns.clone(),
            ..self.options.input.clone()
        }
    }
}

/// How the rows' texts are hashed that records become; they are chunks where these are cut.
pub(super) fn hashes(
    chunks: Option<(&TextTokenizer, Chunked)>,
) -> impl FnMut(&Texts) -> Result<Vec<Vec<TextHash>>> {
    let clocks = Clocks::default();
    move |texts| {
        let Some((tokenizer, chunked)) = chunks else {
            return Ok(texts.iter().map(|text| vec![text_hash(text)]).collect());
        };
        let Chunks {
            texts: rows, spans, ..
        } = tokenizer.chunk(texts, chunked, &clocks.tokenize)?;
        let mut hashes = vec![Vec::new(); texts.len()];
        for (span, text) in spans.iter().zip(rows.iter()) {
            hashes[span.text as usize].push(text_hash(text));
        }
        Ok(hashes)
    }
}
