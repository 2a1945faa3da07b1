//! Datasets: which files a revision has, and where their content is. Read in place and never cached, so there is
//! nothing here but the list.

use super::client::with_client;
use super::id::{ModelId, escaped};
use super::listing::describe_kind;
use super::{HubSettings, SilentTransfer};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};

/// A dataset at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Full commit, so that all files are of one version whatever is pushed meanwhile.
    pub commit: String,
    /// Paths and sizes (bytes, where the Hub tells), sorted by path.
    pub files: Vec<(String, Option<u64>)>,
}

/// Asks the Hub for a dataset's commit and files; `id` is `org/name` or `org/name@revision`.
///
/// # Errors
/// If there is no such dataset or revision, it may not be read, the network is forbidden, or the Hub cannot be
/// reached.
pub fn dataset(settings: &HubSettings, cancel: &CancelToken, id: &str) -> Result<Dataset> {
    let name = format!("hf://datasets/{id}");
    if let Some(by) = settings.offline {
        return Err(Error::new(
            ErrorKind::Storage,
            name,
            format!("{by} forbids the network"),
        )
        .with_remedy("allow it, or bring the files here and name them by their paths"));
    }
    let parsed: ModelId = id.parse().map_err(|_| {
        Error::usage(format!(
            "{name} names no dataset of the form hf://datasets/ORG/NAME or hf://datasets/ORG/NAME@REVISION"
        ))
    })?;
    let described = with_client(settings, cancel, |client| {
        describe_kind(
            client,
            "datasets",
            &parsed,
            &format!("datasets/{parsed}"),
            &SilentTransfer,
        )
    });
    let (commit, listing) = described.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => error,
        // The same words, without "model" before them.
        _ => Error::new(ErrorKind::Storage, name, error.reason()).with_remedy_if(error.remedy()),
    })?;
    let files = listing.0.into_iter();
    Ok(Dataset {
        commit,
        files: files.map(|(path, file)| (path, file.size)).collect(),
    })
}

/// The address of a file's content; `id` as for [`dataset`].
#[must_use]
pub fn dataset_address(settings: &HubSettings, id: &str, commit: &str, path: &str) -> String {
    let repository = id.split_once('@').map_or(id, |(repository, _)| repository);
    format!(
        "{}/datasets/{repository}/resolve/{commit}/{}",
        settings.endpoint,
        escaped(path, true)
    )
}
