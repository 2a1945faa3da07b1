//! Where a model's files are: its folder, its ONNX file, its checkpoint.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::ModelName;
use super::graph::Graph;
use super::located::Located;
use super::weights::{self, WeightsPreference};
use super::{Adapter, CheckpointFiles, Onnx, adapter};
use super::{ModelOptions, ModelTask, metadata, onnx_file, resolve, tasks};
use embedctl_common::error::{Cause, Error, ErrorKind, Result};
use embedctl_common::setting::{MODEL_FILE, PRECISION, PROVIDER};
use embedctl_common::small_file::{self, LFS_POINTER_LIMIT};
use embedctl_hub as hub;
use embedctl_hub::gguf;

/// What is known of a graph's output before it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphOutput {
    /// Whether modules.json says what follows.
    pub has_modules: bool,
    /// Whether it is the logits of a masked language model, which a checkpoint's states are not.
    pub gives_logits: bool,
}

impl ModelOptions {
    /// Whether the model is a folder whose own file of that name is read, present or not.
    #[must_use]
    pub fn is_read_from(&self, path: &Path) -> bool {
        let Ok(ModelName::Folder(folder)) = ModelName::of(&self.model) else {
            return false;
        };
        let parent = (path.parent()).filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok();
        let named = (parent.zip(path.file_name())).map(|(parent, name)| parent.join(name));
        let meant = named.into_iter().chain(path.canonicalize());
        let folder = folder.canonicalize().unwrap_or(folder);
        let weights = self.model_file.as_ref().map(|file| folder.join(file));
        let mut inside = meant.filter(|path| path.starts_with(&folder));
        inside.any(|path| weights.as_ref() == Some(&path) || hub::is_read(&path.to_string_lossy()))
    }
}

/// The adapter in a model's Transformer folder, if it holds one, and the folder of its network: the Transformer's, or
/// that of the adapter's base model.
///
/// # Errors
/// As [`adapter::open`].
pub(super) fn network(
    located: &Located,
    transformer: &str,
    options: &ModelOptions,
) -> Result<(Option<Adapter>, PathBuf)> {
    let transformer = located.folder.join(transformer);
    if !adapter::has_adapter(&transformer) {
        return Ok((None, transformer));
    }
    let from_hub = located.revision.is_some();
    let (adapter, folder) = adapter::open(&transformer, from_hub, options)?;
    Ok((Some(Adapter::LowRank(Box::new(adapter))), folder))
}

/// The weights of a model: the ONNX file and the checkpoint, or why there is none of that kind. ONNX files cannot be
/// used with an adapter.
pub(super) fn weights(
    located: &Located,
    transformer: &str,
    about: GraphOutput,
    (options, wanted): (&ModelOptions, WeightsPreference),
) -> Result<(Result<Onnx, Cause>, Result<CheckpointFiles, Cause>)> {
    let folder = &located.folder;
    if adapter::has_adapter(&folder.join(transformer)) {
        let checkpoint = adapted(located, transformer, (options, wanted))?;
        return Ok((Err(weights::refuses_onnx()), Ok(checkpoint)));
    }
    if tasks::chosen(&folder.join(transformer), options)?.is_some() {
        let checkpoint = find_checkpoint(folder, transformer, (options, wanted))?;
        return match checkpoint {
            Ok(checkpoint) => Ok((Err(tasks::refuses_onnx()), Ok(checkpoint))),
            Err(_) if wanted.knows().is_none() => {
                Err(Error::model(folder.display(), tasks::refuses_onnx()))
            }
            Err(cause) => Err(Error::model(folder.display(), cause)),
        };
    }
    let checkpoint = find_checkpoint(folder, transformer, (options, wanted))?;
    let onnx = match wanted.or_onnx() {
        true => find_onnx(folder, transformer, options).and_then(read_onnx),
        false => Err(Error::model(
            folder.display(),
            "is opened without ONNX files",
        )),
    };
    Ok(match (onnx, checkpoint) {
        (Ok(onnx), Ok(checkpoint)) => {
            one_kind_of_output(onnx, checkpoint, (options, wanted), about)
        }
        (Ok(onnx), none) => (Ok(onnx), none),
        (Err(error), _) if error.kind() == ErrorKind::Usage => return Err(error),
        (Err(error), Ok(checkpoint)) => (Err(error.into_cause()), Ok(checkpoint)),
        (Err(error), Err(cause)) => {
            return Err(no_weights(
                located,
                transformer,
                (error, cause),
                (options, wanted),
            ));
        }
    })
}

/// A note about the first safetensors file of a folder that is a pointer of Git LFS, where the ONNX file is run without it.
pub(super) fn lfs_note(folder: &Path) -> Option<String> {
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let mut pointers: Vec<_> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|ending| ending == "safetensors")
        })
        .filter_map(|path| {
            let start = small_file::read(&path, LFS_POINTER_LIMIT as u64).ok()?;
            Some((path, small_file::lfs_pointer(&start)?))
        })
        .collect();
    pointers.sort_by(|one, other| one.0.cmp(&other.0));
    let (path, cause) = pointers.into_iter().next()?;
    Some(format!(
        "{} {cause}; until then the model's ONNX file is run",
        path.display()
    ))
}

/// The checkpoint below an adapter, and the adapter.
fn adapted(
    located: &Located,
    transformer: &str,
    (options, wanted): (&ModelOptions, WeightsPreference),
) -> Result<CheckpointFiles> {
    let subject = located.folder.join(transformer);
    if wanted.knows().is_none() {
        return Err(Error::model(subject.display(), weights::refuses_onnx()));
    }
    let (adapter, network) = network(located, transformer, options)?;
    if let Some(task) = tasks::chosen(&network, options)? {
        return Err(tasks::refuses_adapter(&task));
    }
    let checkpoint = find_checkpoint(&network, "", (options, wanted))?.map_err(|cause| {
        let cause = cause.map(|reason| {
            format!(
                "is the network below an adapter, which the native engine must run: it {reason}"
            )
        });
        Error::model(network.display(), cause)
    })?;
    Ok(CheckpointFiles {
        adapter,
        ..checkpoint
    })
}

/// Reads an ONNX file's header, and checks that the files of its external weights exist, are not pointers, and are as long
/// as it says.
fn read_onnx(path: PathBuf) -> Result<Onnx> {
    let onnx = Onnx {
        graph: Graph::read(&path)?,
        path,
    };
    let missing = onnx.files().find(|file| !file.is_file());
    match missing {
        Some(missing) => Err(Error::model(
            missing.display(),
            format!("is missing: {} keeps weights there", onnx.path.display()),
        )),
        None => check_external(&onnx).map(|()| onnx),
    }
}

/// Checks the beginning and the length of the files of external weights.
fn check_external(onnx: &Onnx) -> Result<()> {
    let folder = onnx.path.parent().unwrap_or(&onnx.path);
    for (file, needed) in onnx.graph.external.iter().zip(&onnx.graph.external_bytes) {
        let path = folder.join(file);
        let failed = |error| Error::io("read", &path, error);
        let opened = small_file::open(&path).map_err(failed)?;
        let length = opened.metadata().map_err(failed)?.len();
        let mut start = Vec::new();
        (opened.take(64).read_to_end(&mut start)).map_err(failed)?;
        let cause = small_file::lfs_pointer(&start).or_else(|| {
            (length < *needed).then(|| {
                Cause::of(format!(
                    "is cut short: it has {length} bytes, but {} keeps weights in the first {needed}",
                    onnx.path.display()
                ))
                .with("fetch the file again")
            })
        });
        if let Some(cause) = cause {
            return Err(Error::model(path.display(), cause));
        }
    }
    Ok(())
}

/// The checkpoint, if it is wanted, present and supported; else the reason.
fn find_checkpoint(
    folder: &Path,
    transformer: &str,
    (options, wanted): (&ModelOptions, WeightsPreference),
) -> Result<Result<CheckpointFiles, Cause>> {
    let Some(knows) = wanted.knows() else {
        return Ok(Err("was not requested".into()));
    };
    let sub = match transformer {
        "" => String::new(),
        own => format!("{own}/"),
    };
    let paths = files_in(folder, &sub);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let files = match weights::checkpoint(&paths, transformer) {
        // Weights in another format may be saved as safetensors, if that helps.
        Err(cause) if cause.remedy.is_none() => return Ok(Err(cause)),
        files => files,
    };
    let config = metadata::read_value(&folder.join(transformer).join("config.json"))?;
    let Some(config): Option<serde_json::Value> = config else {
        let without = |_| Cause::of(format!("has no {sub}config.json"));
        return Ok(Err(files.map_or_else(|cause| cause, without)));
    };
    let files = match (files, knows(&config)) {
        (_, Err(reason)) => return Ok(Err(weights::unknown_settings(&reason))),
        (Err(cause), _) => return Ok(Err(cause)),
        (Ok(files), Ok(())) => files,
    };
    Ok(Ok(CheckpointFiles {
        files: files.iter().map(|file| folder.join(file)).collect(),
        folder: folder.join(transformer),
        adapter: tasks::adapter(&folder.join(transformer), options)?,
        config,
    }))
}

/// A graph with finished vectors and a checkpoint with token states need different pooling, so one of the two is
/// dropped.
fn one_kind_of_output(
    onnx: Onnx,
    checkpoint: CheckpointFiles,
    (options, wanted): (&ModelOptions, WeightsPreference),
    about: GraphOutput,
) -> (Result<Onnx, Cause>, Result<CheckpointFiles, Cause>) {
    // A graph of a model that scores has its head inside.
    let finished = matches!(options.task, ModelTask::Score(_))
        || about.gives_logits
        || resolve::gives_finished_vectors(&onnx.graph, about.has_modules);
    if !finished {
        return (Ok(onnx), Ok(checkpoint));
    }
    match wanted {
        WeightsPreference::OnnxFirst(_) => (
            Ok(onnx),
            Err("the ONNX file is preferred here, and pools by itself".into()),
        ),
        _ => (
            Err(Cause::of(format!(
                "{} pools by itself, and the checkpoint, which is preferred here, does not",
                onnx.path.display()
            ))
            .with(format!("{PROVIDER} cpu takes it"))),
            Ok(checkpoint),
        ),
    }
}

fn no_weights(
    located: &Located,
    transformer: &str,
    (onnx, checkpoint): (Error, Cause),
    (options, wanted): (&ModelOptions, WeightsPreference),
) -> Error {
    match wanted {
        WeightsPreference::Onnx => onnx,
        WeightsPreference::Checkpoint(_) => {
            let file = find_onnx(&located.folder, transformer, options);
            let file = file.map(|path| path.display().to_string());
            let cause = weights::not_native(checkpoint, file.map_err(Error::into_cause));
            Error::model(located.folder.display(), cause)
        }
        _ if onnx.kind() == ErrorKind::Model => {
            let cause = Cause {
                reason: onnx.reason().to_owned(),
                remedy: onnx.remedy().map(str::to_owned),
            };
            Error::model(onnx.subject(), weights::neither(cause, checkpoint))
        }
        _ => onnx,
    }
}

fn find_onnx(folder: &Path, transformer: &str, options: &ModelOptions) -> Result<PathBuf> {
    if options.model_file.is_some() && options.precision.is_some() {
        return Err(
            Error::usage(format!("{MODEL_FILE} and {PRECISION} exclude each other"))
                .with_remedy("choose the file by one of them"),
        );
    }
    if let Some(named) = &options.model_file {
        let file = folder.join(named);
        if file.is_file() && gguf::is_gguf(named) {
            return Err(Error::model(folder.display(), gguf::refuses_gguf(named)));
        }
        if file.is_file() {
            return Ok(file); // under any name
        }
    }
    let mut paths = Vec::new();
    for sub in ["", "onnx/"] {
        paths.extend(files_in(folder, sub));
        if !transformer.is_empty() {
            paths.extend(files_in(folder, &format!("{transformer}/{sub}")));
        }
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    onnx_file::choose(&paths, transformer, &options.onnx())
        .map(|path| folder.join(path))
        .map_err(|cause| Error::model(folder.display(), cause))
}

/// The files of a folder's subfolder, as paths inside the folder.
fn files_in(folder: &Path, sub: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.join(sub)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| Some(format!("{sub}{}", entry.file_name().to_str()?)))
        .collect()
}
