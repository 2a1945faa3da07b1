//! From the options of a run to the library's: the second stage of parsing.

use std::path::{Path, PathBuf};

use embedctl::cache;
use embedctl::engine::{EngineOptions, Provider, ProviderChoice};
use embedctl::input::{
    self, BatchWindows, DEFAULT_MAX_RECORD_BYTES, DEFAULT_WINDOW_ROWS, InputFormat, InputOptions,
    Source, WINDOW_BYTES,
};
use embedctl::job::{self, JobOptions, is_inside};
use embedctl::model::ModelOptions;
use embedctl::output::OutputFormat;
use embedctl::pipeline::{EmbedOptions, OnError};
use embedctl::tokenize::chunks::Chunking;

use crate::args::{Devices, EngineArgs, MessageArgs, OverrideArgs, RunArgs, VectorArgs};
use crate::failure::CommandFailure;
use crate::printer::Printer;

/// What the command line asks for.
pub(super) struct RequestedRun {
    pub(super) model: ModelOptions,
    pub(super) engine: EngineOptions,
    pub(super) run: EmbedOptions,
    /// The file of the components' ranges.
    pub(super) calibration: Option<PathBuf>,
    /// Whether the run is described and nothing written.
    pub(super) is_dry: bool,
}

/// The second stage of parsing: typed values become the library's options, and options that contradict
/// each other are refused.
pub(super) fn request<N: clap::Args>(
    args: &RunArgs<N>,
    is_dry: bool,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<RequestedRun, CommandFailure> {
    if args.records.rejects.is_some() && args.records.on_error == OnError::Fail {
        return Err(CommandFailure::usage(
            "--rejects lists skipped records, but none are skipped: add --on-error skip (or null)",
        ));
    }
    if args.records.rejects.as_deref() == Some(Path::new("-")) {
        return Err(CommandFailure::usage(
            "--rejects takes a file, but '-' means standard output, which is for vectors; name a \
             file (such as /dev/stderr or ./-)",
        ));
    }
    let model = (args.model.texts).options(&args.model.model, messages.cache_dir.clone());
    let engine = EngineOptions {
        batch_tokens: args.limits.batch_tokens,
        workers: args.limits.threads.unwrap_or(0),
        ..engine(&args.engine)?
    };
    let run = EmbedOptions {
        sources: own_sources(args, printer)?,
        input: input(args, is_dry)?,
        chunking: None,
        uuid: args.input.uuid,
        output: args.output.options(),
        job: JobOptions {
            part_rows: args.output.part_rows.map(|rows| rows as u64),
            resume: args.output.resume,
            shard: args.output.shard.unwrap_or_default(),
        },
        reuse: args.output.reuse.clone(),
        top_labels: None,
        on_error: args.records.on_error,
        rejects: args.records.rejects.clone(),
        others: (args.stats.stats.iter())
            .map(|path| ("--stats", path.clone()))
            .collect(),
        fail_on_empty: args.records.fail_on_empty,
        batch_rows: args.limits.batches.batch_size,
    };
    Ok(RequestedRun {
        model,
        engine,
        run,
        calibration: None,
        is_dry,
    })
}

/// The same request with the options about vectors.
pub(super) fn with_vectors(
    args: &VectorArgs,
    request: RequestedRun,
) -> Result<RequestedRun, CommandFailure> {
    let VectorArgs {
        model,
        components,
        chunks,
    } = args;
    let mut run = request.run;
    if chunks.chunk_id {
        refuse_keys(&run.input)?;
        run.input.batches = BatchWindows::Cut;
    }
    run.chunking = chunks.chunk.map(|by| Chunking {
        by,
        tokens: chunks.chunk_tokens,
        overlap: chunks.chunk_overlap.unwrap_or(0),
        text: chunks.chunk_text,
        id: chunks.chunk_id,
        heading: false, // a field that is kept of documents
    });
    run.output = components.options(run.output);
    Ok(RequestedRun {
        model: ModelOptions {
            late: chunks.late,
            ..model.options(request.model)
        },
        run,
        calibration: components.calibration.clone(),
        ..request
    })
}

/// The model of this name, with the options that override its files.
pub(super) fn model(name: &str, args: &OverrideArgs, messages: &MessageArgs) -> ModelOptions {
    let model = args.texts.options(name, messages.cache_dir.clone());
    args.vectors.options(model)
}

/// The engine options of the command line; the caller adds limits.
pub(super) fn engine(engine: &EngineArgs) -> Result<EngineOptions, CommandFailure> {
    let runtime = &engine.runtime;
    if let ProviderChoice::List(list) = &engine.providers.provider
        && let Some(idle) = runtime.idle_option(|option| list.contains(&option.provider))
    {
        return Err(super::idle_option(idle));
    }
    Ok(EngineOptions {
        providers: engine.providers.provider.clone(),
        devices: devices(runtime.device.as_ref(), &engine.providers.provider)?,
        all_devices: runtime.device == Some(Devices::All),
        provider_options: runtime.provider_options.clone(),
        min_cosine: engine.min_cosine,
        weights_cache: (!engine.no_cache).then(cache::weights_folder).flatten(),
        runtime: super::runtime(runtime.library.ort_lib.clone()),
        ..EngineOptions::default() // the rest is the pipeline's to decide
    })
}

/// Numbers of devices; none for all of them. The processor is one device, number 0.
pub(super) fn devices(
    devices: Option<&Devices>,
    providers: &ProviderChoice,
) -> Result<Vec<u32>, CommandFailure> {
    let on_processor = |provider: &Provider| provider.is_on_worker();
    let processor_only = match providers {
        ProviderChoice::Auto => false,
        ProviderChoice::List(list) => list.iter().all(on_processor),
    };
    match devices {
        None | Some(Devices::All) => Ok(Vec::new()),
        Some(Devices::Numbers(numbers)) if processor_only && numbers != &[0] => {
            Err(CommandFailure::usage(
                "--device: the providers native, cpu and rten have only device 0, the processor; \
                 leave --device out (and unset EMBEDCTL_DEVICE)",
            ))
        }
        Some(Devices::Numbers(numbers)) => Ok(numbers.clone()),
    }
}

/// The inputs, without files of the output that a folder or pattern matches: otherwise the next run would read the
/// output of this run.
fn own_sources<N: clap::Args>(
    args: &RunArgs<N>,
    printer: &Printer,
) -> Result<Vec<Source>, CommandFailure> {
    let mut notes = Vec::new();
    let mut sources = input::expand(&args.inputs, args.input.records.input_format, &mut notes)?;
    for note in notes {
        printer.note(note);
    }
    if let Some(output) = &args.output.output {
        let is_named = |path: &Path| args.inputs.iter().any(|input| input == path);
        sources.retain(|source| {
            source
                .path()
                .is_none_or(|path| is_named(path) || !is_inside(path, output))
        });
    }
    if sources.is_empty() {
        return Err(CommandFailure::usage(
            "all inputs are part of the output (-o); name other files, or write elsewhere",
        ));
    }
    Ok(sources)
}

/// Whether each record batch is answered by one: Arrow in, Arrow out, and nothing said of columns.
fn answers_batches<N: clap::Args>(args: &RunArgs<N>) -> Result<bool, CommandFailure> {
    let from_stdin = args.inputs.iter().all(|input| input == Path::new("-"));
    let from_arrow = args.input.records.input_format == Some(InputFormat::Arrow);
    let format = args.output.output_format;
    let to_arrow = matches!(format, Some(OutputFormat::Arrow | OutputFormat::Arrows));
    let output = args.output.options();
    // Parts of a folder are files.
    let may_answer = from_stdin && from_arrow && to_arrow && job::folder_format(&output).is_none();
    let answers = may_answer && output.is_stream()?;
    if args.input.streams && !answers {
        return Err(CommandFailure::usage(
            "--streams needs Arrow streams on standard input and output: `-i arrow -f arrow -o -`",
        ));
    }
    if args.input.streams && !args.input.keep.is_empty() {
        return Err(CommandFailure::usage(
            "--streams returns all columns; leave --keep out",
        ));
    }
    if args.input.streams && args.input.sample.is_some() {
        return Err(CommandFailure::usage(
            "--streams answers each stream before it reads the next, so --sample cannot draw from \
             all streams; leave it out",
        ));
    }
    Ok(answers && args.input.keep.is_empty() && !args.input.uuid)
}

/// Refuses streams with keys: these are made of ids, which are no columns of their own in an answer.
fn refuse_keys(input: &InputOptions) -> Result<(), CommandFailure> {
    match input.batches.are_of_streams() {
        true => Err(CommandFailure::usage(
            "--streams answers each batch with its own columns; leave --uuid and --chunk-id out",
        )),
        false => Ok(()),
    }
}

fn input<N: clap::Args>(args: &RunArgs<N>, is_dry: bool) -> Result<InputOptions, CommandFailure> {
    // It says how much a dry run reads, and nothing of the run; unless records are drawn from so many.
    let is_of_survey = is_dry && args.input.sample.is_none();
    let options = InputOptions {
        batches: match (args.input.streams, answers_batches(args)?) {
            (true, _) => BatchWindows::WholeOfStreams,
            (false, true) => BatchWindows::Whole,
            (false, false) => BatchWindows::Cut,
        },
        max_record_bytes: args
            .limits
            .max_record_bytes
            .unwrap_or(DEFAULT_MAX_RECORD_BYTES),
        window_rows: args.limits.batches.window.unwrap_or(DEFAULT_WINDOW_ROWS),
        window_bytes: WINDOW_BYTES,
        limit: args
            .input
            .limit
            .filter(|&records| records > 0 && !is_of_survey),
        ..args.input.options()
    };
    if args.input.uuid {
        refuse_keys(&options)?;
    }
    Ok(options)
}
