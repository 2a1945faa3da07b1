//! What a run would do, found out from a sample: `embed --dry-run`.
//!
//! The first records are read and tokenized as the run would, some of their texts are embedded for a moment,
//! and some rows are written to a temporary folder in the output's format. What is said of the whole input is
//! an estimate, and says from how much.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cancel::CancelToken;
use crate::engine::EngineInfo;
use crate::error::{Error, Result};
use crate::input::RecordReader;
use crate::model::Dimensions;
use crate::output::{self, Destination, Finish, OutputOptions, RunFiles};
use crate::pipeline::{self, EmbedOptions};
use crate::record::{RowRef, Rows, Texts, Window};
use crate::{Embedder, private_folder, usable_cores};

/// How long the measurement lasts, once it has begun.
const MEASURED: Duration = Duration::from_secs(2);

/// Distinct texts that are embedded between two looks at the clock, for each thread.
const STEP: usize = 16;

/// Rows that are written to learn the output's size, at most.
const WRITTEN: usize = 1024;

/// What a run would do. As JSON an object of these members; `schema` counts up when one goes or changes its
/// meaning.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// 1.
    pub schema: u32,
    /// The columns beside the vectors: name and Arrow type.
    pub columns: Vec<(String, String)>,
    /// What was counted.
    pub sample: Sample,
    /// Where the first rejected records of the sample stand, and why.
    pub rejects: Vec<String>,
    /// Size of the sources, where it is known.
    pub bytes: Option<u64>,
    /// What would run the model.
    pub engine: EngineInfo,
    /// Hub id or folder of the model.
    pub model: String,
    /// Widths of a row's vectors.
    pub dimensions: Dimensions,
    /// Tokens of a row at most.
    pub max_length: Option<usize>,
    /// Threads that would run it.
    pub threads: usize,
    /// What was measured.
    pub measured: Measured,
    /// What that means for all of the input; `None` where its size is not known.
    pub estimate: Option<Estimate>,
}

/// Counts of the records that were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Whether these are all there are.
    pub whole: bool,
    /// Records read.
    pub records: u64,
    /// Records that would be rejected.
    pub rejected: u64,
    /// Rows that would be embedded.
    pub rows: u64,
    /// Rows whose text an earlier one has.
    pub repeated: u64,
    /// Their tokens, special tokens counted, padding not.
    pub tokens: u64,
    /// Rows that would be cut.
    pub truncated: u64,
    /// Bytes of the sources that hold them, compressed where they are.
    pub consumed: u64,
}

/// A short measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Distinct texts that were embedded.
    pub rows: u64,
    /// Their tokens.
    pub tokens: u64,
    /// How long that took.
    pub seconds: f64,
    /// How long the model took to open.
    pub load_seconds: f64,
    /// Rows that were written, and the bytes of the files that they made.
    pub written: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// What the sample means for all of the input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Records; exact where the sample is all there is.
    pub records: u64,
    /// Tokens.
    pub tokens: u64,
    /// From the start to the published output; `None` where nothing could be measured.
    pub seconds: Option<f64>,
    /// Of the output with the files beside it; `None` where nothing could be measured.
    pub bytes: Option<u64>,
}

/// Reads `limit` records (all, where it is `None`), and estimates the run that `options` describe. The model
/// must be here. Writes nothing but a temporary folder.
///
/// # Errors
/// What would keep the run from beginning; that a record is bad is no error.
pub fn survey(options: &EmbedOptions, limit: Option<u64>, cancel: &CancelToken) -> Result<Survey> {
    pipeline::check(options)?;
    let began = Instant::now();
    let mut embedder = Embedder::open(&options.model, &options.engine)?;
    let load = began.elapsed();
    let mut input = options.input.clone();
    if let Some(limit) = limit {
        // No more is read ahead than is wanted.
        input.window_rows = input
            .window_rows
            .min(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let mut reader = RecordReader::open(&options.sources, input)?;
    let mut counting = Counting::default();
    while limit.is_none_or(|limit| counting.sample.records < limit) {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        let Some(window) = reader.next_window()? else {
            counting.sample.whole = true;
            break;
        };
        counting.add(window, &embedder, &reader)?;
    }
    let names = reader.names();
    let schema = reader.schema();
    let Counting {
        sample,
        rejects,
        kept,
        texts,
        ..
    } = counting;
    let mut measured = Measured {
        load_seconds: load.as_secs_f64(),
        ..Measured::default()
    };
    let vectors = measure(&mut embedder, &texts, &mut measured, cancel)?;
    if let (Some(vector), Some(kept)) = (vectors.first(), kept) {
        let rows = rows(kept, &vectors, vector.len());
        measured.written = rows.len() as u64;
        let widths = embedder.model().config.vectors().0;
        measured.bytes = written(&options.output, &widths, rows, &names)?;
    }
    let bytes = reader.total_bytes();
    let model = embedder.model();
    Ok(Survey {
        schema: 1,
        columns: (schema.fields().iter())
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect(),
        estimate: estimate(&sample, &measured, bytes),
        sample,
        rejects,
        bytes,
        engine: embedder.engine().clone(),
        model: model.id.clone(),
        dimensions: model.config.vectors(),
        max_length: model.config.limit(),
        threads: match options.engine.workers {
            0 => usable_cores(),
            workers => workers,
        },
        measured,
    })
}

/// Counts windows as they come, and keeps the first rows.
#[derive(Default)]
struct Counting {
    sample: Sample,
    rejects: Vec<String>,
    /// Columns and origins of the first window with rows.
    kept: Option<Window>,
    /// The first distinct texts, to be measured with.
    texts: Vec<String>,
    /// Hashes of all texts. Eight bytes a distinct text: a sample is small, and who asks for all wants to know.
    seen: HashSet<u64, ahash::RandomState>,
    hasher: ahash::RandomState,
}

impl Counting {
    /// Distinct texts that are kept for the measurement.
    const MEASURED: usize = 4096;

    fn add(&mut self, window: Window, embedder: &Embedder, reader: &RecordReader) -> Result<()> {
        let tokens = embedder.tokenize(&window.texts)?;
        let sample = &mut self.sample;
        sample.records += (window.texts.len() + window.rejects.len()) as u64;
        sample.rejected += window.rejects.len() as u64;
        sample.rows += window.texts.len() as u64;
        sample.tokens += tokens.tokens() as u64;
        sample.truncated += tokens.truncated() as u64;
        sample.consumed = window.consumed;
        for text in window.texts.iter() {
            if !self.seen.insert(self.hasher.hash_one(text)) {
                sample.repeated += 1;
            } else if self.texts.len() < Self::MEASURED {
                self.texts.push(text.to_owned());
            }
        }
        let names = reader.names();
        for reject in &window.rejects {
            if self.rejects.len() < pipeline::Summary::SHOWN_REJECTS {
                let name = names.get(reject.origin.source as usize);
                let name = name.map_or("input", String::as_str);
                self.rejects
                    .push(format!("{name}:{}: {}", reject.origin.line, reject.reason));
            }
        }
        if self.kept.is_none() && !window.texts.is_empty() {
            self.kept = Some(window);
        }
        Ok(())
    }
}

/// Embeds texts for a moment; the vectors of the first ones.
fn measure(
    embedder: &mut Embedder,
    texts: &[String],
    measured: &mut Measured,
    cancel: &CancelToken,
) -> Result<Vec<Vec<f32>>> {
    let step = STEP * usable_cores();
    let mut vectors = Vec::new();
    // The first step warms up: buffers grow, files are mapped.
    let warm = texts.get(..step.min(texts.len())).unwrap_or_default();
    vectors.extend(embedder.embed(warm)?);
    let began = Instant::now();
    // Where there are too few for more, they run again.
    for texts in texts
        .chunks(step)
        .skip(1)
        .chain([warm])
        .filter(|texts| !texts.is_empty())
    {
        if cancel.is_cancelled() {
            return Err(Error::interrupted());
        }
        measured.tokens += embedder
            .tokenize(&texts.iter().collect::<Texts>())?
            .tokens() as u64;
        let embedded = embedder.embed(texts)?;
        measured.rows += texts.len() as u64;
        if vectors.len() < WRITTEN && texts.as_ptr() != warm.as_ptr() {
            vectors.extend(embedded);
        }
        if began.elapsed() > MEASURED {
            break;
        }
    }
    measured.seconds = began.elapsed().as_secs_f64();
    Ok(vectors)
}

/// The first rows of a window with vectors, whichever texts these are of: sizes are all that counts.
fn rows(window: Window, vectors: &[Vec<f32>], dimensions: usize) -> Rows {
    let count = window.texts.len().min(WRITTEN);
    Rows {
        columns: window.columns.slice(0, count),
        origins: window.origins[..count].to_vec(),
        refs: (0..count as u64)
            .map(|record| RowRef { record, part: 0 })
            .collect(),
        vectors: vectors
            .iter()
            .cycle()
            .take(count)
            .flatten()
            .copied()
            .collect(),
        dimensions,
        missing: None,
    }
}

/// Bytes that rows become in the output's format, the files beside it counted.
fn written(
    options: &OutputOptions,
    widths: &[usize],
    rows: Rows,
    names: &crate::record::SourceNames,
) -> Result<u64> {
    let folder = private_folder::make("embedctl-dry-run-", &std::env::temp_dir())
        .map_err(|error| Error::io("create a folder in", std::env::temp_dir(), error))?;
    let files = RunFiles::new();
    let options = OutputOptions {
        destination: Destination::Path(folder.path().join("out")),
        format: Some(options.resolved_format()?),
        ..options.clone()
    };
    let schema = rows.columns.schema();
    let mut writer = output::create(&options, widths, names.clone(), &schema, &files)?;
    writer.write(rows)?;
    writer.finish(Finish {
        schema,
        provenance: &serde_json::json!({}),
        rejects: None,
    })?;
    size(folder.path())
}

/// Bytes of a folder's files.
fn size(folder: &Path) -> Result<u64> {
    let failed = |error| Error::io("read", folder, error);
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let metadata = entry.and_then(|entry| entry.metadata()).map_err(failed)?;
        sum += metadata.len();
    }
    Ok(sum)
}

fn estimate(sample: &Sample, measured: &Measured, bytes: Option<u64>) -> Option<Estimate> {
    let share = match bytes {
        _ if sample.whole => 1.0,
        Some(bytes) if sample.consumed > 0 => bytes as f64 / sample.consumed as f64,
        _ => return None,
    };
    let all = |count: u64| (count as f64 * share).round() as u64;
    let distinct = sample.rows.saturating_sub(sample.repeated) as f64;
    // Repeated texts of a window run once; how many tokens they have is taken from all.
    let to_run = sample.tokens as f64 * (distinct / (sample.rows as f64).max(1.0)) * share;
    let rate = measured.tokens as f64 / measured.seconds;
    Some(Estimate {
        records: all(sample.records),
        tokens: all(sample.tokens),
        seconds: (measured.tokens > 0).then(|| measured.load_seconds + to_run / rate),
        bytes: (measured.written > 0).then(|| {
            let of_row = measured.bytes as f64 / measured.written as f64;
            (of_row * sample.rows as f64 * share).round() as u64
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_the_sample_as_often_as_it_fits() {
        let sample = Sample {
            whole: false,
            records: 100,
            rejected: 10,
            rows: 90,
            repeated: 45,
            tokens: 900,
            truncated: 0,
            consumed: 1000,
        };
        let measured = Measured {
            rows: 10,
            tokens: 100,
            seconds: 0.5,
            load_seconds: 1.0,
            written: 30,
            bytes: 6000,
        };
        let all = estimate(&sample, &measured, Some(10_000)).unwrap();
        assert_eq!((all.records, all.tokens), (1000, 9000));
        // Half of the tokens are repeats, at 200 a second.
        assert!((all.seconds.unwrap() - (1.0 + 4500.0 / 200.0)).abs() < 1e-9);
        assert_eq!(all.bytes, Some(200 * 900));
        assert_eq!(estimate(&sample, &measured, None), None);
        let whole = Sample {
            whole: true,
            ..sample
        };
        assert_eq!(estimate(&whole, &measured, None).unwrap().records, 100);
        let nothing = estimate(&whole, &Measured::default(), None).unwrap();
        assert_eq!((nothing.seconds, nothing.bytes), (None, None));
    }
}
