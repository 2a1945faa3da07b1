//! A worker process: opens one configuration, then measures samples on request.
//!
//! A sample is a whole run of the pipeline, from a file of records to a Parquet file, with a model, an engine and
//! workers that are opened once. So the measured work is that of `embed` without its start-up.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use super::configuration::Configuration;
use super::machine::peak_memory;
use super::protocol::{OpenedConfiguration, Reply, Stages, WorkerRequest, WorkloadSample};
use super::reuse::ReusedEngine;
use super::{Work, workload};
use crate::batch;
use crate::cancel::CancelToken;
use crate::device::HeldMemory;
use crate::engine::RowWorker;
use crate::engine::{BatchLimits, LoadedModel, Resolved};
use crate::error::{Error, Result, with_causes};
use crate::input::{DEFAULT_WINDOW_ROWS, InputOptions, Source};
use crate::model::{Model, ModelOptions};
use crate::output::{Destination, OutputFormat, OutputOptions};
use crate::pipeline::{self, EmbedOptions, OnError};
use crate::progress::{Progress, Silent};
use crate::record::Texts;
use crate::threads::spawn;

/// Finds the model and the engine of a configuration, as the program does for its other commands.
pub type Resolve<'a> = dyn Fn(&Configuration, &CancelToken) -> Result<Resolved> + 'a;

/// Serves requests, one per line, until `input` ends or a request fails. The parent closes `input` to cancel the work
/// in progress. `resolve` finds what runs a configuration.
///
/// # Errors
/// If `output` cannot be written to. A request that fails is a reply, not an error.
pub fn serve(
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
    resolve: &Resolve<'_>,
) -> Result<()> {
    let cancel = CancelToken::new();
    let requests = requests(input, cancel.clone())?;
    let mut session = None;
    for line in requests {
        let reply = serde_json::from_str(&line)
            .map_err(|error| Error::internal(format!("a request to a worker: {error}: {line}")))
            .and_then(|request| answer(request, &mut session, resolve, &cancel))
            .unwrap_or_else(|error| Reply::Failed(with_causes(&error)));
        let json = serde_json::to_string(&reply)
            .map_err(|error| Error::internal(format!("a worker's reply: {error}")))?;
        // A library may have printed something and left its line open.
        writeln!(output, "\n{json}")
            .and_then(|()| output.flush())
            .map_err(|error| Error::io("write to", "standard output", error))?;
        if matches!(reply, Reply::Failed(_)) {
            break;
        }
    }
    Ok(())
}

/// Lines of `input`, read on a thread that also notices its end while something is being measured.
fn requests(input: impl BufRead + Send + 'static, cancel: CancelToken) -> Result<Receiver<String>> {
    let (sender, receiver) = bounded(1);
    let read = move || {
        for line in input.lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                return;
            }
        }
        cancel.cancel();
    };
    spawn("requests", read)?;
    Ok(receiver)
}

fn answer(
    request: WorkerRequest,
    session: &mut Option<Session>,
    resolve: &Resolve<'_>,
    cancel: &CancelToken,
) -> Result<Reply> {
    if let WorkerRequest::Open(configuration) = request {
        let (opened, reply) = Session::open(&configuration, resolve, cancel)?;
        *session = Some(opened);
        return Ok(Reply::Opened(Box::new(reply)));
    }
    let session = session
        .as_mut()
        .ok_or_else(|| Error::internal("a worker was asked to measure nothing"))?;
    match request {
        WorkerRequest::Open(_) => unreachable!("answered above"),
        WorkerRequest::WorkloadSample { input, output } => {
            session.sample(&input, &output).map(Reply::Sampled)
        }
        WorkerRequest::Latency {
            input,
            texts,
            skip,
            seconds,
        } => session
            .latency(&input, texts, skip, Duration::from_secs_f64(seconds))
            .map(Reply::Latencies),
        WorkerRequest::Work => Work::of(session.loaded.model()).map(Reply::Work),
    }
}

/// An opened configuration.
struct Session {
    loaded: Arc<LoadedModel>,
    /// Its engine, which counts the work.
    engine: ReusedEngine,
    /// The parts of a run without its input and output.
    options: EmbedOptions,
    limits: BatchLimits,
    /// For single texts.
    single: Option<RowWorker>,
    /// Where the provider's devices have memory that a driver tells of.
    device_memory: Option<HeldMemory>,
    cancel: CancelToken,
}

impl Session {
    fn open(
        configuration: &Configuration,
        resolve: &Resolve<'_>,
        cancel: &CancelToken,
    ) -> Result<(Self, OpenedConfiguration)> {
        let start = Instant::now();
        let resolved = resolve(configuration, cancel)?;
        let resolved = resolved.with_settings(&ModelOptions {
            task: Model::usual_task(resolved.model())?,
            ..resolved.model().clone()
        });
        let device_memory = HeldMemory::watch();
        let mut reused = None;
        let loaded = LoadedModel::open_through(resolved, cancel, |engine| {
            let engine = ReusedEngine::new(engine);
            reused = Some(engine.clone());
            Box::new(engine)
        })?;
        let engine = reused.ok_or_else(|| Error::internal("an engine that nobody opened"))?;
        let threads = loaded.threads();
        engine.prepare(threads)?;
        let load = start.elapsed();
        // `embed` hashes while the engine loads and the first texts run; here it must be over.
        loaded.provenance()?;
        let suits = loaded.limits();
        let limits = BatchLimits {
            rows: configuration.batch_size.unwrap_or(suits.rows),
            ..suits
        };
        let window = configuration.window.unwrap_or(DEFAULT_WINDOW_ROWS);
        let (model, info) = (loaded.model(), loaded.info());
        let weights = loaded.weights();
        let reply = OpenedConfiguration {
            model: model.id.clone(),
            revision: model.revision.clone(),
            model_file: model.weights_name(weights),
            engine: info.engine.to_owned(),
            version: info.version.clone(),
            provider: info.provider.to_string(),
            library: info.library.clone(),
            devices: info.devices.clone(),
            options: info.options.iter().map(ToString::to_string).collect(),
            placement: info.placement.clone(),
            cosine_to_cpu: info.cosine_to_cpu,
            precision: info.precision.map(str::to_owned),
            cosine: info.cosine,
            threads,
            batch_tokens: limits.tokens,
            batch_size: limits.rows,
            window,
            dimensions: model.config.width,
            max_length: model.config.limit(),
            load_seconds: load.as_secs_f64(),
            notes: model.notes(weights),
        };
        let device_memory = device_memory.filter(|_| !info.devices.is_empty());
        let options = EmbedOptions {
            input: InputOptions {
                window_rows: window,
                ..workload::input(model.config.takes_pairs())
            },
            output: OutputOptions {
                format: Some(OutputFormat::Parquet),
                force: true,
                ..OutputOptions::new(Destination::Stdout)
            },
            on_error: OnError::Skip,
            batch_rows: Some(limits.rows),
            ..EmbedOptions::default()
        };
        let session = Self {
            loaded: Arc::new(loaded),
            engine,
            options,
            limits,
            single: None,
            device_memory,
            cancel: cancel.clone(),
        };
        Ok((session, reply))
    }

    fn sample(&mut self, input: &Path, output: &Path) -> Result<WorkloadSample> {
        self.options.sources = vec![Source::Path(input.to_path_buf())];
        self.options.output.destination = Destination::Path(output.to_path_buf());
        let progress: Arc<dyn Progress> = Arc::new(Silent);
        self.engine.take_pairs();
        let start = Instant::now();
        let summary = pipeline::embed_with(&self.loaded, &self.options, &progress, &self.cancel)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(WorkloadSample {
            rows: summary.counts.embedded,
            tokens: summary.counts.tokens,
            truncated: summary.counts.truncated,
            rejected: summary.counts.rejected,
            seconds,
            real_tokens: summary.stages.real_tokens,
            padded_tokens: summary.stages.padded_tokens,
            pairs: self.engine.take_pairs(),
            stages: Stages::from(&summary.stages),
            limit: summary.stages.limit.to_string(),
            peak_memory: peak_memory(),
            device_memory: self.device_memory.as_ref().map(HeldMemory::bytes),
        })
    }

    /// One text at a time on one worker: tokenized, run, pooled.
    fn latency(
        &mut self,
        input: &Path,
        texts: usize,
        skip: usize,
        time: Duration,
    ) -> Result<Vec<f64>> {
        let all = workload::read(input, &self.options.input)?;
        let single = match &mut self.single {
            Some(single) => single,
            empty => empty.insert(self.loaded.worker()?),
        };
        let start = Instant::now();
        let mut seconds = Vec::new();
        for index in (skip..).take(texts) {
            if all.is_empty() || self.cancel.is_cancelled() || start.elapsed() > time {
                break;
            }
            let begun = Instant::now();
            let text: Texts = std::iter::once(all.get(index % all.len())).collect();
            let tokens = self.loaded.tokenize(&text);
            for plan in batch::plan(&tokens, self.limits, self.loaded.engine().is_ragged()) {
                single.run(&plan, &tokens)?;
            }
            seconds.push(begun.elapsed().as_secs_f64());
        }
        // Given back, so that the next sample has as many idle workers as it needs.
        self.single = None;
        Ok(seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;
    use crate::engine::resolved_tests::resolve;

    const MODEL: &str = "fixtures/parity/bert-mean-legacy/model";

    /// As the program resolves a configuration, without its probe.
    fn resolved(configuration: &Configuration, _: &CancelToken) -> Result<Resolved> {
        let engine = configuration.engine_options(configuration.threads.unwrap_or_default())?;
        resolve(&configuration.model_options()?, &engine)
    }

    fn serve_all(requests: &[WorkerRequest]) -> Vec<Reply> {
        let mut lines = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut lines, request).unwrap();
            lines.push(b'\n');
        }
        // Held open until the answers are there: its end cancels.
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&lines).unwrap();
        let (replies_reader, replies_writer) = std::io::pipe().unwrap();
        let served =
            std::thread::spawn(move || serve(BufReader::new(reader), replies_writer, &resolved));
        let mut replies = Vec::new();
        for line in BufReader::new(replies_reader).lines() {
            let line = line.unwrap();
            if line.is_empty() {
                continue;
            }
            let reply: Reply = serde_json::from_str(&line).unwrap();
            let failed = matches!(reply, Reply::Failed(_));
            replies.push(reply);
            if failed || replies.len() == requests.len() {
                break;
            }
        }
        drop(writer);
        served.join().unwrap().unwrap();
        replies
    }

    fn open() -> WorkerRequest {
        WorkerRequest::Open(Box::new(Configuration {
            model: MODEL.into(),
            provider: "rten".into(),
            threads: Some(2),
            batch_tokens: Some(64),
            ..Configuration::default()
        }))
    }

    #[test]
    fn a_worker_measures_what_it_has_opened() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("texts.txt");
        std::fs::write(&input, "one\ntwo words\nthree words here\ntwo words\n").unwrap();
        let sample = WorkerRequest::WorkloadSample {
            input: input.clone(),
            output: folder.path().join("out.parquet"),
        };
        let latency = WorkerRequest::Latency {
            input,
            texts: 6,
            skip: 3,
            seconds: 60.0,
        };
        let replies = serve_all(&[open(), sample.clone(), latency, sample, WorkerRequest::Work]);
        let [opened, first, latencies, second, work] = &replies[..] else {
            panic!("{replies:?}");
        };
        let Reply::Opened(opened) = opened else {
            panic!("{opened:?}");
        };
        assert_eq!((opened.engine.as_str(), opened.threads), ("rten", 2));
        assert_eq!((opened.batch_tokens, opened.dimensions), (64, 48));
        for sample in [first, second] {
            let Reply::Sampled(sample) = sample else {
                panic!("{sample:?}");
            };
            assert_eq!((sample.rows, sample.truncated, sample.rejected), (4, 0, 0));
            assert!(sample.padded_tokens >= sample.real_tokens && sample.real_tokens > 0);
            assert!(sample.tokens >= sample.real_tokens && sample.pairs > sample.real_tokens);
            assert!(
                sample.seconds > 0.0 && sample.stages.infer > 0.0,
                "{sample:?}"
            );
        }
        let Reply::Latencies(seconds) = latencies else {
            panic!("{latencies:?}");
        };
        assert_eq!(seconds.len(), 6);
        assert!(matches!(work, Reply::Work(work) if work.per_token > 0.0));
    }

    #[test]
    fn what_cannot_be_opened_is_a_reply() {
        let missing = Configuration {
            model: "fixtures/parity/no-such-model".into(),
            provider: "rten".into(),
            ..Configuration::default()
        };
        let replies = serve_all(&[WorkerRequest::Open(Box::new(missing)), WorkerRequest::Work]);
        let [Reply::Failed(reason)] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert!(reason.contains("no-such-model"), "{reason}");
        let replies = serve_all(&[WorkerRequest::Work]);
        assert!(matches!(&replies[..], [Reply::Failed(_)]), "{replies:?}");
    }
}
