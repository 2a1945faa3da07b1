//! Addresses among the inputs and outputs of a run: the object stores that they need.

use std::path::{Path, PathBuf};

use embedctl::cancel::CancelToken;
use embedctl::hub::HubSettings;
use embedctl::input::{self, InputFormat, Source};
use embedctl::output::{Calibration, Destination, RunFiles};
use embedctl::pipeline::EmbedOptions;
use embedctl::storage::{self, Address, Readable, Storage, StorageOption};

use crate::args::MessageArgs;
use crate::failure::CommandFailure;

/// Opens the object stores, where the run reads or writes any, and looks its sources up there.
pub fn open(
    options: &mut EmbedOptions,
    files: &RunFiles,
    calibration: Option<&Path>,
    settings: &[StorageOption],
    messages: &MessageArgs,
    cancel: &CancelToken,
) -> Result<Option<Storage>, CommandFailure> {
    let output = match &options.output.destination {
        Destination::Path(path) => Some(path.as_path()),
        Destination::Stdout => None,
    };
    let outputs = (output.into_iter())
        .chain(options.rejects.as_deref())
        .chain(options.reuse.as_deref())
        .chain(calibration);
    let inputs = options.sources.iter().filter_map(|source| source.path());
    let storage = storage(inputs.chain(outputs), settings, messages, cancel)?;
    if let Some(storage) = &storage {
        let sources = std::mem::take(&mut options.sources);
        options.sources = input::resolve(sources, options.input.format, storage)?;
        files.use_storage(storage.clone());
    }
    Ok(storage)
}

/// Reads the ranges for quantizing the vectors of a plan with these options, unless the type needs none: the file
/// may be a large output.
pub fn calibration(
    path: &Path,
    options: &EmbedOptions,
    storage: Option<&Storage>,
    cancel: &CancelToken,
) -> Result<Calibration, CommandFailure> {
    Calibration::check(options.written_dtype()?)?;
    let file = Readable::open(path, storage)?;
    Ok(Calibration::read(&file, cancel)?)
}

/// The sources that are named: files, folders, patterns and addresses are looked up.
pub fn sources(
    inputs: &[PathBuf],
    format: Option<InputFormat>,
    storage: Option<&Storage>,
) -> Result<Vec<Source>, CommandFailure> {
    let sources = input::expand(inputs, format, &mut Vec::new())?;
    Ok(match storage {
        Some(storage) => input::resolve(sources, format, storage)?,
        None => sources,
    })
}

/// The object stores, where one of the paths is an address.
pub fn storage<'a>(
    mut paths: impl Iterator<Item = &'a Path>,
    settings: &[StorageOption],
    messages: &MessageArgs,
    cancel: &CancelToken,
) -> Result<Option<Storage>, CommandFailure> {
    if !paths.any(Address::is_url_path) {
        return match settings.first() {
            None => Ok(None),
            Some(idle) => Err(CommandFailure::usage(format!(
                "--storage-option {}: no input or output of this command is an address (such as s3://BUCKET/PATH); leave it out",
                idle.key
            ))),
        };
    }
    let hub = HubSettings::from_environment(&super::hub_options(messages))?;
    Ok(Some(storage::open(hub, settings.to_vec(), cancel)?))
}
