//! LoRA adapters in a repository: where they lie, and where the network is that they change.
//!
//! The rules are those of peft 0.21 and of `from_pretrained` in transformers 5.23. Every setting that peft reads and
//! that changes a vector is applied or refused by its name.

use std::path::{Path, PathBuf};

use embedctl_checkpoint::{AdapterSettings, LowRankAdapter};
use embedctl_hub::weights::{ADAPTER_SETTINGS as SETTINGS, ADAPTER_WEIGHTS as WEIGHTS};

use super::ModelName;
use super::located::{self, Located};
use super::options::ModelOptions;
use embedctl_common::error::{Error, Result};

/// An adapter's weights in a format that executes code when it is read.
const PICKLED: &str = "adapter_model.bin";

/// Whether `folder` holds an adapter.
pub(super) fn has_adapter(folder: &Path) -> bool {
    folder.join(SETTINGS).is_file()
}

/// The adapter in the Transformer's folder, and the folder of the network below it.
///
/// As in the reference, the network of a folder is the folder's own where it has a `config.json`; that of a Hub
/// model, and that of an adapter alone, is the one that `base_model_name_or_path` names.
///
/// # Errors
/// If its settings are not known here, its weights are in another format, or its base model is not here.
pub(crate) fn open(
    transformer: &Path,
    from_hub: bool,
    options: &ModelOptions,
) -> Result<(LowRankAdapter, PathBuf)> {
    let settings = AdapterSettings::read(transformer.join(SETTINGS))?;
    let weights = transformer.join(WEIGHTS);
    if !weights.is_file() {
        let error = Error::model(weights.display(), "is missing, but an adapter needs it");
        return Err(if transformer.join(PICKLED).is_file() {
            error.with_remedy(format!(
                "{PICKLED} is not read, because reading it would execute code: load the adapter with peft and save it \
                 with save_pretrained()"
            ))
        } else {
            error.with_remedy("fetch it again")
        });
    }
    let beside = transformer.join("config.json").is_file();
    if beside && !from_hub {
        let adapter = LowRankAdapter {
            settings,
            weights,
            base: None,
        };
        return Ok((adapter, transformer.to_path_buf()));
    }
    let base = settings.base.clone().ok_or_else(|| {
        Error::model(
            settings.file.display(),
            "names no base model (base_model_name_or_path), but an adapter alone is not a network",
        )
        .with_remedy("add the base model's name or folder")
    })?;
    let folder = base_folder(&settings, &base, transformer, options)?;
    let adapter = LowRankAdapter {
        settings,
        weights,
        base: Some(base),
    };
    Ok((adapter, folder))
}

/// The folder of the base model: the one that is named, seen from the current folder, the adapter's own, or the one
/// around that; else the Hub's cache.
fn base_folder(
    settings: &AdapterSettings,
    base: &str,
    transformer: &Path,
    options: &ModelOptions,
) -> Result<PathBuf> {
    let absent = |reason: String| {
        Error::model(
            settings.file.display(),
            format!("is an adapter over the base model {base}, which {reason}"),
        )
    };
    let around = [Some(transformer), transformer.parent()];
    let beside = around
        .into_iter()
        .flatten()
        .map(|folder| folder.join(base))
        .find(|folder| folder.join("config.json").is_file());
    if let Some(folder) = beside.filter(|_| !Path::new(base).is_dir()) {
        return Ok(folder);
    }
    let name = ModelName::of(base).map_err(|_| {
        absent("is neither a folder that is here nor a model of the Hub".into()).with_remedy(
            "put the base model's folder there, or change base_model_name_or_path to where it is",
        )
    })?;
    let named = ModelOptions {
        model: base.to_owned(),
        ..options.clone()
    };
    match located::folder(&named) {
        Ok(Located { folder, .. }) if folder.join("config.json").is_file() => Ok(folder),
        Ok(Located { folder, .. }) => Err(absent(format!(
            "has no config.json in {}",
            folder.display()
        ))),
        Err(error) if name == ModelName::Folder(base.into()) => Err(error),
        Err(_) => Err(
            absent("is not in the Hub's cache".into()).with_remedy(format!(
                "fetch it with `embedctl download {base}`, or put its folder beside the adapter's"
            )),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A folder with the adapter over BERT's query and value, over another base model.
    fn over(base: Value) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let of = Path::new("../../fixtures/adapters/bert");
        std::fs::copy(of.join(WEIGHTS), folder.path().join(WEIGHTS)).unwrap();
        let text = std::fs::read(of.join(SETTINGS)).unwrap();
        let mut value: Value = serde_json::from_slice(&text).unwrap();
        value["base_model_name_or_path"] = base;
        std::fs::write(folder.path().join(SETTINGS), value.to_string()).unwrap();
        folder
    }

    fn refusal(folder: &Path) -> String {
        let opened = open(folder, false, &ModelOptions::default());
        opened.expect_err("this is refused").to_string()
    }

    #[test]
    fn weights_that_are_missing_or_pickled_are_named() {
        let base = std::fs::canonicalize("../../fixtures/architectures/bert").unwrap();
        let folder = over(json!(base));
        assert!(open(folder.path(), false, &ModelOptions::default()).is_ok());
        std::fs::remove_file(folder.path().join(WEIGHTS)).unwrap();
        assert!(refusal(folder.path()).contains("is missing"));
        std::fs::write(folder.path().join(PICKLED), "").unwrap();
        assert!(refusal(folder.path()).contains("save_pretrained"));
    }

    #[test]
    fn an_absent_base_model_is_named() {
        for base in ["org/base-that-is-not-here", "/no/such/folder", "../nowhere"] {
            assert!(refusal(over(json!(base)).path()).contains(base));
        }
        assert!(refusal(over(json!(null)).path()).contains("base_model_name_or_path"));
    }
}
