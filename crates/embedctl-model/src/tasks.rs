//! Tasks of a model's own: its checkpoint has an adapter for each, and config.json a prompt.

use std::collections::BTreeMap;
use std::path::Path;

use embedctl_checkpoint::{Adapter, task_names};

use super::metadata;
use super::options::{ModelOptions, TextTask};
use embedctl_common::error::{Cause, Error, Result};
use embedctl_common::setting::{PROVIDER, TASK};

/// The module that a repository's own code has in the Transformer's place, to choose an adapter.
const OWN_TRANSFORMER: &str = "custom_st.Transformer";

/// Whether a module of modules.json, whose folder is `own`, is a Transformer by a repository's own code that does no
/// more than to choose an adapter of a network that is known here.
pub(crate) fn is_transformer(kind: &str, own: &Path) -> bool {
    kind == OWN_TRANSFORMER && !names(own).is_empty()
}

/// The tasks of the network in `folder`.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let config = metadata::read_value(&folder.join("config.json"));
    config
        .ok()
        .flatten()
        .as_ref()
        .map_or_else(Vec::new, task_names)
}

/// The task that `options` choose of the network in `folder`; `None` where it runs without an adapter of its own.
///
/// # Errors
/// If they name a task that it does not have.
pub(crate) fn chosen(folder: &Path, options: &ModelOptions) -> Result<Option<String>> {
    let Some(task) = &options.text_task else {
        return Ok(None);
    };
    let names = names(folder);
    match (task, &names[..]) {
        (TextTask::Role(_), []) => Ok(None),
        (TextTask::Own(task), []) => Err(Error::usage(format!(
            "{TASK} {task}: the model has no tasks of its own"
        ))
        .with_remedy(format!(
            "choose {TASK} query or {TASK} document, or leave it out"
        ))),
        (task, names) if names.iter().any(|name| name == task.name()) => {
            Ok(Some(task.name().to_owned()))
        }
        (task, names) => Err(Error::usage(format!(
            "{TASK} {}: the model has no such task; it has {}",
            task.name(),
            names.join(", ")
        ))
        .with_remedy("leave it out for the network without an adapter")),
    }
}

/// The same as a change to the checkpoint.
///
/// # Errors
/// As [`chosen`].
pub(crate) fn adapter(folder: &Path, options: &ModelOptions) -> Result<Option<Adapter>> {
    Ok(chosen(folder, options)?.map(Adapter::Task))
}

/// The note for a model with tasks of which none is chosen.
pub(crate) fn note(folder: &Path, options: &ModelOptions) -> Option<String> {
    let names = names(folder);
    (options.text_task.is_none() && !names.is_empty()).then(|| {
        format!(
            "the model has an adapter for each of the tasks {}; none is applied unless {TASK} names it",
            names.join(", ")
        )
    })
}

/// The refusal of an ONNX file where a task is chosen.
pub(crate) fn refuses_onnx() -> Cause {
    Cause::of("is asked for a task, whose adapter is applied to a checkpoint only: an ONNX file would run without it")
        .with(format!("name {PROVIDER} native, or leave out the choice of an ONNX file"))
}

/// The refusal of a task where another adapter is applied to the same network.
pub(crate) fn refuses_adapter(task: &str) -> Error {
    Error::usage(format!(
        "{TASK} {task}: the model is an adapter over a network with adapters for tasks, but only one of them can be applied"
    ))
    .with_remedy("leave it out")
}

/// Adds the prompts that config.json has for tasks to those of the same names.
pub(crate) fn add_prompts(prompts: &mut BTreeMap<String, String>, folder: &Path) {
    let config = metadata::read_value(&folder.join("config.json"));
    let Some(config) = config.ok().flatten() else {
        return;
    };
    for name in task_names(&config) {
        if let Some(prompt) = config["task_instructions"][&name].as_str() {
            prompts.entry(name).or_insert_with(|| prompt.to_owned());
        }
    }
}
