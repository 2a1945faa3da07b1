//! Addresses among the inputs and outputs of a run: the object stores that they need.

use embedctl::cancel::CancelToken;
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
    let outputs = output.into_iter().chain(options.rejects.as_deref());
    let inputs = options.sources.iter().filter_map(|source| source.path());
    if !inputs.chain(outputs).any(Address::is_url_path) {
        return match settings.first() {
            None => Ok(()),
            Some(idle) => Err(Failure::usage(format!(
                "--storage-option {}: no input and no output is an address (such as s3://BUCKET/PATH); leave it out",
                idle.key
            ))),
        };
    }
    let hub = Settings::from_environment(&super::hub_options(messages))?;
    let storage = Storage::new(hub, settings.to_vec(), cancel)?;
    options.files.use_storage(storage);
    Ok(())
}
