//! A checkpoint's files: `config.json` as the description of a network, weights in safetensors and torch files, adapters.
//!
//! ```text
//!  config.json ──────────► settings ──► architecture: a description; a setting that is not known is refused by its name
//!  *.safetensors ────────► safetensors: headers are checked, tensors are read on demand
//!  adapter_config.json ──► adapter: low-rank weights, checked against the description
//! ```
//!
//! Nothing here runs for each number, row or token, and the crate is built without optimisation: what does is in
//! [`embedctl_vectors::elements`] and [`embedctl_vectors::low_rank`], and in the engines.
//!
//! ```
//! use embedctl_checkpoint::{architecture::Architecture, safetensors::Checkpoint};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = "../../fixtures/architectures/bert".as_ref();
//! let architecture = Architecture::read(folder).map_err(|unsupported| unsupported.to_string())?;
//! let checkpoint = Checkpoint::open(folder)?.expect("the folder has model.safetensors");
//! let table = checkpoint.names().find(|name| name.ends_with("word_embeddings.weight"));
//! let table = checkpoint.get(table.expect("BERT has it")).expect("one of its names");
//! assert_eq!(table.shape()[1], architecture.embeddings.width);
//! # Ok(())
//! # }
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

pub mod adapter;
mod adapter_settings;
pub mod architecture;
mod config_keys;
mod head_adapter;
pub mod names;
pub mod prefix;
mod rotary;
pub mod safetensors;
mod settings;
pub mod tasks;
pub mod torch_file;
mod unused;

use std::path::{Path, PathBuf};

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

pub use self::adapter_settings::{Adapter, AdapterSettings, LowRankAdapter};
pub use self::head_adapter::HeadAdapter;
pub use self::rotary::Rotary;
pub use self::settings::Unsupported;

use self::architecture::Architecture;

/// Notes on the network in the checkpoint of `folder`: that it is taken of several, that it is causal although config.json
/// asks for attention both ways, and tensors that neither it nor anything else takes; `taken` are the names of those that
/// other parts of the model take. Reads headers alone; faults of the files
/// are reported when they are opened.
#[must_use]
pub fn network_notes(folder: &Path, files: &[PathBuf], taken: &[&str]) -> Vec<String> {
    let (Ok(architecture), Some(file)) = (Architecture::read(folder), files.last()) else {
        return Vec::new();
    };
    let shards = files.iter().filter(|file| {
        let ending = file.extension();
        ending.is_some_and(|ending| ending == "safetensors")
    });
    let stored = shards.flat_map(|shard| safetensors::outlines(shard).unwrap_or_default());
    let names: Vec<String> = match &architecture.tasks {
        Some(_) => stored.map(|(name, _)| tasks::plain_name(&name)).collect(),
        None => stored.map(|(name, _)| name).collect(),
    };
    let names = || names.iter().map(String::as_str);
    let Ok(found) = prefix::find(&architecture, file, names()) else {
        return Vec::new();
    };
    let left = names().filter(|name| !taken.contains(name));
    let unused = unused::words(&architecture, &found.prefix, left).map(|unused| {
        let reference = match architecture.own_code {
            true => "the network that config.json describes has no place for",
            false => "transformers' class leaves out",
        };
        format!(
            "{}: the checkpoint has what {reference}: {unused}",
            file.display()
        )
    });
    let direction = architecture.note_on_direction();
    let scaling = architecture.note_on_scaling();
    let asked = direction.into_iter().chain(scaling);
    (found.note.into_iter().chain(asked).chain(unused)).collect()
}

/// The support for the model that this config.json describes: the kinds of products that it runs in, or the
/// reason why it does not run it.
#[must_use]
pub fn support(config: &serde_json::Value) -> String {
    match knows(config) {
        Ok(()) => architecture::PRECISIONS.to_owned(),
        Err(reason) => format!("no: {reason}"),
    }
}

/// Whether the network of this config.json is that of the repository's own code, which transformers does not have.
#[must_use]
pub fn is_own_code(config: &serde_json::Value) -> bool {
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .is_ok_and(|architecture| architecture.own_code)
}

/// Whether the network of this config.json looks token types up in its table of tokens and adds them, so that it makes a
/// difference whether a row states types that all are 0.
#[must_use]
pub fn adds_token_types(config: &serde_json::Value) -> bool {
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .is_ok_and(|architecture| architecture.embeddings.word_types)
}

/// The tasks for which the checkpoint of this config.json has adapters; empty where it has none.
#[must_use]
pub fn task_names(config: &serde_json::Value) -> Vec<String> {
    let architecture = Architecture::parse(PathBuf::from("config.json"), config.clone());
    let tasks = architecture
        .ok()
        .and_then(|architecture| architecture.tasks);
    tasks.map_or_else(Vec::new, |tasks| tasks.names)
}

/// Whether the settings of a config.json are all understood: asked before any weights are there.
///
/// # Errors
/// A sentence that names the setting which is not.
pub fn knows(config: &serde_json::Value) -> Result<(), String> {
    if config["model_type"] == "model2vec" {
        return Ok(()); // no network, and nothing that config.json could ask of one
    }
    Architecture::parse(PathBuf::from("config.json"), config.clone())
        .map(|_| ())
        .map_err(|unsupported| unsupported.to_string())
}
