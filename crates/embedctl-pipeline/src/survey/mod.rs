//! The preview of a run from a sample: `embed --dry-run`.
//!
//! The first records are read and tokenized as the run would, some of their texts are embedded for a moment, and some
//! rows are written to a temporary folder in the output's format. Figures for the whole input are estimates, given with
//! the size of the sample.

mod counting;
mod lengths;
mod size;

use std::time::{Duration, Instant};

use serde::Serialize;

use self::counting::Counting;
pub use self::lengths::{LengthBin, RowLengths};
use self::size::SizeProbe;
use crate::cancel::CancelToken;
use crate::engine::{EngineInfo, LoadedModel};
use crate::error::{Error, Result};
use crate::input::RecordReader;
use crate::pipeline::{CutRemedy, CutTokens, RunPlan};
use crate::record::{RowVectors, Texts};
use crate::threads::usable_cores;
use embedctl_engine::Embedder;
use embedctl_records::options::InputOptions;
use embedctl_rows::Dimensions;

/// How long the measurement lasts, once it has begun.
const MEASURED: Duration = Duration::from_secs(2);

/// Distinct texts per thread that are embedded between two looks at the clock.
const STEP: usize = 16;

/// Rows that are written to learn the output's size, at most.
const WRITTEN: usize = 1024;

/// The preview of a run. In JSON an object with these members; `schema` counts up when one is removed or changes its
/// meaning.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// 1.
    pub schema: u32,
    /// The columns beside the vectors: name and Arrow type.
    pub columns: Vec<(String, String)>,
    /// Whether records are cut into chunks.
    pub chunked: bool,
    /// The counts of the sample.
    pub sample: Sample,
    /// The lengths of its rows; of chunks their own.
    pub lengths: RowLengths,
    /// Tokens that would be cut off.
    pub cut: CutTokens,
    /// The settings that keep them.
    pub cut_remedy: CutRemedy,
    /// The places and reasons of the first rejected records of the sample.
    pub rejects: Vec<String>,
    /// Size of the sources, where it is known.
    pub bytes: Option<u64>,
    /// The engine that would run the model.
    pub engine: EngineInfo,
    /// Hub id or folder of the model.
    pub model: String,
    /// Widths of a row's vectors.
    pub dimensions: Dimensions,
    /// Vectors of a row on average, where each token has one: about so many times larger is the output than one of a
    /// vector for each row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors_per_row: Option<f64>,
    /// Width of the vectors of tokens, where they are one of several kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_dimensions: Option<usize>,
    /// Tokens of a row at most.
    pub max_length: Option<usize>,
    /// Threads that would run it.
    pub threads: usize,
    /// Bytes of memory that the model would take with all threads, about; `None` where its engine does not know.
    pub memory: Option<u64>,
    /// Bytes of memory that this process could take before the model was opened; `None` where the system doesn't tell.
    pub memory_left: Option<u64>,
    /// The measurement.
    pub measured: Measured,
    /// The estimate for the whole input; `None` if its size is unknown.
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
    /// Records that would be embedded.
    pub embedded: u64,
    /// Rows that would be embedded: more than records where these are cut into chunks.
    pub rows: u64,
    /// Rows whose vectors would be taken from an earlier output.
    pub reused: u64,
    /// Of the others, rows whose text an earlier one has; of chunks their own.
    pub repeated: u64,
    /// Tokens of the others, special tokens counted, padding not.
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
    /// Rows that were written.
    pub written: u64,
    /// Bytes that a row takes in the output.
    pub bytes_of_row: f64,
    /// Bytes that the output takes beside its rows.
    pub bytes_beside: f64,
}

/// The estimate for the whole input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Records; exact where the sample is all there is.
    pub records: u64,
    /// Rows of the output: of records that are cut, chunks.
    pub rows: u64,
    /// Tokens.
    pub tokens: u64,
    /// From the start to the published output; `None` where nothing could be measured.
    pub seconds: Option<f64>,
    /// Of the output with the files beside it; `None` where nothing could be measured.
    pub bytes: Option<u64>,
}

/// Reads `limit` records (all, where it is `None`), and estimates the run that is planned. The model
/// must be here. Writes nothing but a temporary folder. `memory_left` is the memory of the machine in bytes, where it is known.
///
/// # Errors
/// Everything that would keep the run from starting; a bad record is not an error.
pub fn survey(
    plan: &RunPlan,
    limit: Option<u64>,
    memory_left: Option<u64>,
    cancel: &CancelToken,
) -> Result<Survey> {
    plan.check()?;
    let options = plan.options();
    let began = Instant::now();
    let mut embedder = Embedder::of(LoadedModel::open(plan.resolved().clone(), cancel)?)?;
    let load = began.elapsed();
    let own = plan.for_model(embedder.model())?;
    let output = own.output().clone();
    let input = limited(options.record_options(), limit);
    let mut reader = RecordReader::open(&options.sources, input)?;
    let chunking = options.chunking.as_ref();
    let chunked = chunking
        .map(|chunking| embedder.tokenizer().chunked(chunking))
        .transpose()?;
    let earlier = plan.earlier()?;
    let reuse =
        earlier.map(|it| it.vectors_for(embedder.model(), embedder.engine(), &output.options));
    let reuse = reuse.transpose()?;
    let tokenizer = embedder.model().text_tokenizer(usable_cores())?;
    let extra = options.extra_of(embedder.model());
    let mut counting = Counting::new(tokenizer, chunked, extra, reuse);
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
    let schema = counting.extra.schema(&reader.schema())?;
    let Counting {
        sample,
        rejects,
        kept,
        numbers,
        texts,
        lengths,
        cut,
        ..
    } = counting;
    let mut measured = Measured {
        load_seconds: load.as_secs_f64(),
        ..Measured::default()
    };
    let vectors = measure(&mut embedder, &texts, &mut measured, cancel)?;
    let vectors_per_row = vectors_per_row(&vectors);
    if let (false, Some(mut rows)) = (vectors.is_empty(), kept) {
        rows.vectors = size::distinct(&vectors, numbers.into_iter());
        rows.dimensions = embedder.dimensions();
        measured.written = rows.len() as u64;
        let probe = SizeProbe {
            output: &output,
            forms: &own.forms(),
            names: &names,
        };
        let size = probe.measure(rows)?;
        (measured.bytes_of_row, measured.bytes_beside) = (size.of_row, size.beside);
    }
    let bytes = reader.total_bytes();
    let model = embedder.model();
    Ok(Survey {
        schema: 1,
        columns: (schema.fields().iter())
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect(),
        chunked: chunking.is_some(),
        estimate: estimate(&sample, &measured, bytes),
        sample,
        lengths: RowLengths::new(&lengths, model.config.limit()),
        cut,
        cut_remedy: CutRemedy::of(options, model),
        rejects,
        bytes,
        engine: embedder.engine().clone(),
        model: model.id.clone(),
        dimensions: model.config.vectors(),
        vectors_per_row,
        token_dimensions: (model.config.beside.iter())
            .find(|config| config.multi.is_some())
            .map(|config| config.width),
        max_length: model.config.limit(),
        threads: match plan.resolved().engine().workers {
            0 => usable_cores(),
            workers => workers,
        },
        memory: embedder.memory(),
        memory_left,
        measured,
    })
}

/// Reads so many records, and ahead no more than needed.
fn limited(mut input: InputOptions, limit: Option<u64>) -> InputOptions {
    let Some(limit) = limit else {
        return input;
    };
    let rows = usize::try_from(limit).unwrap_or(usize::MAX);
    input.window_rows = input.window_rows.min(rows);
    if input.sample.is_none() {
        input.limit = Some(input.limit.map_or(limit, |most| most.min(limit)));
    }
    input
}

/// Embeds texts for a moment; the vectors of the first ones.
fn measure(
    embedder: &mut Embedder,
    texts: &[String],
    measured: &mut Measured,
    cancel: &CancelToken,
) -> Result<RowVectors> {
    let step = STEP * usable_cores();
    // The first step warms up: buffers grow, files are mapped.
    let warm = texts.get(..step.min(texts.len())).unwrap_or_default();
    let mut vectors = embedder.embed_rows(warm)?;
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
        measured.tokens += embedder.tokenize(&texts.iter().collect::<Texts>()).tokens() as u64;
        let embedded = embedder.embed_rows(texts)?;
        measured.rows += texts.len() as u64;
        if vectors.len() < WRITTEN && texts.as_ptr() != warm.as_ptr() {
            vectors.append(embedded);
        }
        if began.elapsed() > MEASURED {
            break;
        }
    }
    measured.seconds = began.elapsed().as_secs_f64();
    Ok(vectors)
}

/// Vectors of a row on average, where each token has one.
fn vectors_per_row(vectors: &RowVectors) -> Option<f64> {
    let counts = vectors.parts().iter().find_map(|part| part.counts())?;
    let counts: Vec<usize> = counts.collect();
    let all = counts.iter().sum::<usize>() as f64;
    (!counts.is_empty()).then(|| all / counts.len() as f64)
}

fn estimate(sample: &Sample, measured: &Measured, bytes: Option<u64>) -> Option<Estimate> {
    let share = match bytes {
        _ if sample.whole => 1.0,
        Some(bytes) if sample.consumed > 0 => bytes as f64 / sample.consumed as f64,
        _ => return None,
    };
    let all = |count: u64| (count as f64 * share).round() as u64;
    let rows = sample.rows.saturating_sub(sample.reused);
    let distinct = rows.saturating_sub(sample.repeated) as f64;
    // Repeated texts of a window run once; how many tokens they have is taken from all.
    let to_run = sample.tokens as f64 * (distinct / (rows as f64).max(1.0)) * share;
    let rate = measured.tokens as f64 / measured.seconds;
    Some(Estimate {
        records: all(sample.records),
        rows: all(sample.rows),
        tokens: all(sample.tokens),
        seconds: (measured.tokens > 0).then(|| measured.load_seconds + to_run / rate),
        bytes: (measured.written > 0).then(|| {
            let of_rows = measured.bytes_of_row * sample.rows as f64 * share;
            (measured.bytes_beside + of_rows).round() as u64
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
            embedded: 90,
            rows: 100,
            reused: 10,
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
            bytes_of_row: 200.0,
            bytes_beside: 5000.0,
        };
        let all = estimate(&sample, &measured, Some(10_000)).unwrap();
        assert_eq!((all.records, all.tokens), (1000, 9000));
        // Half of the tokens are repeats, at 200 a second.
        assert!((all.seconds.unwrap() - (1.0 + 4500.0 / 200.0)).abs() < 1e-9);
        assert_eq!(all.bytes, Some(5000 + 200 * 1000));
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
