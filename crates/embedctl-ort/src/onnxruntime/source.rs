//! The graph of a session, and loading it with cancellation.

use std::path::{Path, PathBuf};
use std::thread;

use crossbeam_channel::{bounded, select};
use ort::session::Session;
use ort::session::builder::SessionBuilder;

use super::constants;
use embedctl_common::cancel::CancelToken;
use embedctl_common::threads::spawn_scoped;

/// The graph of a session.
pub(super) enum GraphSource {
    /// The model's own file.
    File(PathBuf),
    /// A changed copy of the file, and the folder to which its references to external weights lead.
    Memory { bytes: Vec<u8>, folder: PathBuf },
}

impl GraphSource {
    /// The same graph with constants that bfloat16 has numbers for.
    pub(super) fn for_bfloat16(self) -> Result<Self, String> {
        match self {
            Self::File(path) => {
                let mut bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
                Ok(match constants::clamp(&mut bytes)? {
                    0 => Self::File(path),
                    _ => Self::Memory {
                        bytes,
                        folder: path.parent().map(PathBuf::from).unwrap_or_default(),
                    },
                })
            }
            Self::Memory { mut bytes, folder } => {
                constants::clamp(&mut bytes)?;
                Ok(Self::Memory { bytes, folder })
            }
        }
    }

    /// Loads it, unless asked to stop meanwhile.
    pub(super) fn load(
        &self,
        builder: SessionBuilder,
        cancel: &CancelToken,
    ) -> Result<Session, ort::Error> {
        match self {
            Self::File(path) => load(builder, path, cancel),
            Self::Memory { bytes, folder } => {
                let builder = builder.with_config_entry(
                    "session.model_external_initializers_file_folder_path",
                    folder.to_string_lossy(),
                )?;
                cancellable(builder, cancel, |builder| builder.commit_from_memory(bytes))
            }
        }
    }
}

/// Loads the model at `path`, unless asked to stop meanwhile.
pub(super) fn load(
    builder: SessionBuilder,
    path: &Path,
    cancel: &CancelToken,
) -> Result<Session, ort::Error> {
    cancellable(builder, cancel, |builder| builder.commit_from_file(path))
}

fn cancellable(
    mut builder: SessionBuilder,
    cancel: &CancelToken,
    load: impl FnOnce(&mut SessionBuilder) -> Result<Session, ort::Error>,
) -> Result<Session, ort::Error> {
    let canceler = builder.canceler();
    let (loaded, finished) = bounded::<()>(0);
    thread::scope(|scope| {
        let watch = || {
            select! {
                recv(finished) -> _ => {}
                recv(cancel.channel()) -> _ => {
                    // Failing means that there is nothing left to stop.
                    let _ = canceler.cancel();
                }
            }
        };
        spawn_scoped(scope, "interrupts", watch)
            .map_err(|error| ort::Error::new(error.to_string()))?;
        let session = load(&mut builder);
        drop(loaded);
        session
    })
}
