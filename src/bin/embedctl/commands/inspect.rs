//! `embedctl inspect`: the origin of files of vectors, their health, and whether they can be mixed.

use std::path::PathBuf;

use embedctl::cancel::CancelToken;
use embedctl::engine::EngineOptions;
use embedctl::input::{InputFormat, InputOptions, Source};
use embedctl::inspect::{self, Inspection, Texts, Verification};
use embedctl::model::ModelOptions;
use embedctl::output::RunFiles;
use embedctl::storage::{Readable, Storage};
use serde_json::json;

use super::stores;
use crate::args::{InspectArgs, MessageArgs};
use crate::exit::ExitCode;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::printer::Printer;

/// Inspects the files and prints the result.
pub fn run(
    args: &InspectArgs,
    messages: &MessageArgs,
    printer: &Printer,
) -> Result<ExitCode, CommandFailure> {
    if args.files.len() > 1 && (args.verify.is_some() || args.rejects.is_some()) {
        return Err(CommandFailure::usage(
            "--verify and --rejects take one file; name one",
        ));
    }
    let cancel = interrupt::watch(RunFiles::new())?;
    let named = args.files.iter().chain(&args.rejects).chain(&args.input);
    let storage = stores::storage(
        named.map(PathBuf::as_path),
        &args.stores.options,
        messages,
        &cancel,
    )?;
    let storage = storage.as_ref();
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for path in &args.files {
        let rejects = args.rejects.as_deref();
        let found = inspect::inspect(path, rejects, storage, &cancel)?;
        files.extend(found.files);
        folders.extend(found.folder);
    }
    if args.same && files.len() < 2 && folders.is_empty() {
        return Err(CommandFailure::usage(
            "--same compares files with one another, but there is only one; name a second",
        ));
    }
    let verified = match (args.verify, &files[..]) {
        (None, _) => None,
        (Some(count), [file]) => Some(verify(args, messages, file, count, storage, &cancel)?),
        (Some(_), _) => {
            return Err(CommandFailure::usage(
                "--verify takes one file, but this folder has several; name one of them",
            ));
        }
    };
    let differences = inspect::differences(&files);
    if args.json {
        let mix = (files.len() > 1).then(|| !differences.iter().any(|one| one.decides));
        printer.pretty(&json!({
            "schema": 1,
            "folders": folders,
            "files": files,
            "mix": mix,
            "differences": differences,
            "verified": verified,
        }))?;
    } else {
        printer.inspection(&folders, &files, &differences, verified.as_ref())?;
    }
    let wrong = files.iter().any(|file| !file.problems.is_empty());
    let differs = verified.is_some_and(|verified| !verified.worst.same);
    let mixed = args.same && differences.iter().any(|one| one.decides);
    Ok(match wrong || differs || mixed {
        true => ExitCode::Failed,
        false => ExitCode::Done,
    })
}

fn verify(
    args: &InspectArgs,
    messages: &MessageArgs,
    file: &Inspection,
    count: usize,
    storage: Option<&Storage>,
    cancel: &CancelToken,
) -> Result<Verification, CommandFailure> {
    let (sources, format) = texts(args, &file.file, storage)?;
    let texts = Texts {
        sources,
        input: InputOptions {
            format,
            ..args.records.options()
        },
    };
    let kept = ModelOptions {
        cache_dir: messages.cache_dir.clone(),
        ..ModelOptions::default()
    };
    let engine = EngineOptions {
        providers: args.providers.provider.clone(),
        runtime: super::runtime(None),
        ..EngineOptions::default()
    };
    let model = inspect::recorded_model(file, args.model.as_deref(), &kept)?;
    let resolved = super::resolve(&model, &engine, cancel)?;
    Ok(inspect::verify(file, count, &texts, resolved, cancel)?)
}

/// Where the texts of a file's rows are.
fn texts(
    args: &InspectArgs,
    file: &Readable,
    storage: Option<&Storage>,
) -> Result<(Vec<Source>, Option<InputFormat>), CommandFailure> {
    if let Some(input) = &args.input {
        let format = args.records.input_format;
        let sources = stores::sources(std::slice::from_ref(input), format, storage)?;
        return Ok((sources, format));
    }
    let rows = inspect::kept_texts(file)?.ok_or_else(|| {
        CommandFailure::usage(format!(
            "--verify: {}.rows.jsonl, which holds the texts, does not exist; name the embedded input with --input",
            file.name
        ))
    })?;
    Ok((vec![Source::Object(rows)], None))
}
