//! Addresses among the inputs and outputs of a run: the object stores that they need.

use std::path::Path;

use embedctl::cancel::CancelToken;
use embedctl::input::{InputFormat, Source};
use embedctl::model::hub::Settings;
use embedctl::output::Destination;
use embedctl::pipeline::EmbedOptions;
use embedctl::storage::{Address, Storage, StorageOption};

use crate::args::MessageArgs;
use crate::failure::Failure;

/// Opens the object stores, where the run reads or writes any.
pub fn open(
    options: &mut EmbedOptions,
    settings: &[StorageOption],
    messages: &MessageArgs,
    cancel: &CancelToken,
) -> Result<(), Failure> {
    let output = match &options.output.destination {
        Destination::Path(path) => Some(path.as_path()),
        Destination::Stdout => None,
    };
    let outputs = (output.into_iter())
        .chain(options.rejects.as_deref())
        .chain(options.reuse.as_deref());
    let inputs = options.sources.iter().filter_map(|source| source.path());
    let Some(storage) = storage(inputs.chain(outputs), settings, messages, cancel)? else {
        return Ok(());
    };
    options.files.use_storage(storage.clone());
    let mut sources = Vec::with_capacity(options.sources.len());
    for source in std::mem::take(&mut options.sources) {
        match source.path().filter(|path| Address::is_url_path(path)) {
            None => sources.push(source),
            Some(path) => {
                let address = Address::parse(&path.to_string_lossy())?;
                sources.extend(found(&storage, &address, options.input.format.is_some())?);
            }
        }
    }
    options.sources = sources;
    Ok(())
}

/// The object stores, where one of the paths is an address.
pub fn storage<'a>(
    mut paths: impl Iterator<Item = &'a Path>,
    settings: &[StorageOption],
    messages: &MessageArgs,
    cancel: &CancelToken,
) -> Result<Option<Storage>, Failure> {
    if !paths.any(Address::is_url_path) {
        return match settings.first() {
            None => Ok(None),
            Some(idle) => Err(Failure::usage(format!(
                "--storage-option {}: no input and no output is an address (such as s3://BUCKET/PATH); leave it out",
                idle.key
            ))),
        };
    }
    let hub = Settings::from_environment(&super::hub_options(messages))?;
    Ok(Some(Storage::new(hub, settings.to_vec(), cancel)?))
}

/// The objects that an address means; of all below a prefix, those whose names tell a format, unless all have the
/// same.
fn found(
    storage: &Storage,
    address: &Address,
    any_name: bool,
) -> Result<impl Iterator<Item = Source>, Failure> {
    let mut objects = storage.list(address)?;
    if address.is_prefix() && !any_name {
        // As in folders: what begins with `.` or `_` is no data.
        let is_data = |key: &str| !key.split('/').any(|part| part.starts_with(['.', '_']));
        objects.retain(|object| {
            let below = object.address().key().strip_prefix(address.key());
            below.is_none_or(is_data) && InputFormat::is_named_by(object.address().path())
        });
        if objects.is_empty() {
            return Err(Failure::usage(format!(
                "{address}: no object below it has a name that tells its format; say it with -i"
            )));
        }
    }
    let sources = objects
        .into_iter()
        .map(|object| Source::Object(object.into()));
    Ok(sources)
}
