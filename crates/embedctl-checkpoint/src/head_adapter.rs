//! An adapter's changes to a head, which is no part of the network that the head stands on.

use crate::adapter::{WRAPPED, low_rank, module_ending};
use crate::adapter_settings::{AdapterSettings, LowRankAdapter};
use crate::safetensors::{Checkpoint, Tensor};
use embedctl_common::error::{Error, Result};
use embedctl_common::remedies::MERGE_ADAPTER;

/// An adapter's weights, for the modules of a head.
#[derive(Debug)]
pub struct HeadAdapter {
    settings: AdapterSettings,
    checkpoint: Checkpoint,
}

/// The name of a tensor of the adapter's file in transformers' class.
fn class_name(name: &str) -> String {
    let name = name.strip_prefix(WRAPPED).unwrap_or(name);
    name.replace(".base_layer.", ".")
}

/// What stands behind `module` in `name`, before which the name of the whole network may stand (`bert.`).
fn part_of<'a>(name: &'a str, module: &str) -> Option<&'a str> {
    let part = |name: &'a str| name.strip_prefix(module)?.strip_prefix('.');
    part(name).or_else(|| part(name.split_once('.')?.1))
}

impl HeadAdapter {
    /// Reads the header of the adapter's weights.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn open(adapter: &LowRankAdapter) -> Result<Self> {
        Ok(Self {
            settings: adapter.settings.clone(),
            checkpoint: Checkpoint::open_files(std::slice::from_ref(&adapter.weights))?,
        })
    }

    /// Whether the adapter brings tensors of the module `module` in place of the base model's.
    #[must_use]
    pub fn saves(&self, module: &str) -> bool {
        let mut names = self.checkpoint.names().map(class_name);
        names.any(|name| part_of(&name, module).is_some() && self.settings.replaces(&name))
    }

    /// The tensor that stands in the place of the base model's `name`, if there is one.
    ///
    /// # Errors
    /// If the settings do not name it among the modules that are saved: the reference would leave it out.
    pub fn replaced(&self, name: &str) -> Result<Option<Tensor<'_>>> {
        let (module, part) = name.rsplit_once('.').unwrap_or(("", name));
        let is_it = |own: &&str| part_of(&class_name(own), module) == Some(part);
        let Some(own) = self.checkpoint.names().find(is_it) else {
            return Ok(None);
        };
        let tensor = self.checkpoint.get(own).expect("one of its names");
        if !self.settings.replaces(&class_name(own)) {
            return Err(tensor.wrong(format!(
                "is neither of a module in modules_to_save of {} nor a bias that it includes; the reference would leave it out",
                self.settings.file.display()
            ))
            .with_remedy(MERGE_ADAPTER));
        }
        Ok(Some(tensor))
    }

    /// Adds the low-rank weights of `module`, if there are any, to the rows of its matrix of `[rows, inputs]` from `first` on.
    ///
    /// # Errors
    /// If they are of a kind that is not applied here, or have another shape or content than the settings say.
    pub fn change(
        &self,
        module: &str,
        [rows, inputs]: [usize; 2],
        first: usize,
        values: &mut [f32],
    ) -> Result<()> {
        let of_module = |name: &str| {
            let own = class_name(name);
            let part = part_of(&own, module)?;
            part.starts_with("lora_").then(|| format!(".{part}"))
        };
        let found = self.checkpoint.names();
        let found: Vec<(&str, String)> = found
            .filter_map(|name| Some((name, of_module(name)?)))
            .collect();
        let Some((name, ending)) = found.first() else {
            return Ok(());
        };
        let refuse = |reason: &str| {
            Error::model(
                self.checkpoint.path().display(),
                format!("holds weights for '{module}', {reason}"),
            )
            .with_remedy(MERGE_ADAPTER)
        };
        let mut endings: Vec<&str> = found.iter().map(|(_, ending)| &ending[..]).collect();
        endings.sort_unstable();
        if endings != [0, 1].map(module_ending) {
            return Err(refuse("which are not one lora_A and one lora_B"));
        }
        let name = &name[..name.len() - ending.len()];
        let class = class_name(name);
        if !self.settings.targets(&class) {
            return Err(refuse(
                "which adapter_config.json does not name as a target; the reference would leave them out",
            ));
        }
        let change = low_rank(
            &self.settings,
            &self.checkpoint,
            &class,
            name,
            [rows, inputs],
        )?;
        change.apply(first, inputs, values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    /// The adapter of a case of scores, with its settings changed.
    fn adapter(change: impl Fn(&mut Value)) -> HeadAdapter {
        let of =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/scores/adapter-bert/model");
        let settings = fs::read(of.join("adapter_config.json")).unwrap();
        let mut settings: Value = serde_json::from_slice(&settings).unwrap();
        change(&mut settings);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("adapter_config.json");
        fs::write(&file, settings.to_string()).unwrap();
        HeadAdapter::open(&LowRankAdapter {
            settings: AdapterSettings::read(file).unwrap(),
            weights: of.join("adapter_model.safetensors"),
            base: None,
        })
        .unwrap()
    }

    #[test]
    fn a_saved_head_is_read_and_other_modules_are_changed() {
        let adapter = adapter(|_| ());
        assert!(adapter.saves("classifier") && !adapter.saves("score"));
        let saved = adapter.replaced("classifier.weight").unwrap().unwrap();
        assert_eq!(saved.shape(), [1, 32]);
        assert!(adapter.replaced("pooler.dense.weight").unwrap().is_none());
        let mut all = vec![0.0; 32 * 32];
        adapter
            .change("pooler.dense", [32, 32], 0, &mut all)
            .unwrap();
        let mut last = vec![0.0; 32];
        adapter
            .change("pooler.dense", [32, 32], 31, &mut last)
            .unwrap();
        assert!(all[..32].iter().any(|value| *value != 0.0));
        assert_eq!(all[31 * 32..], last);
        let mut none = vec![0.0; 32];
        adapter.change("classifier", [1, 32], 0, &mut none).unwrap();
        assert_eq!(none, vec![0.0; 32]);
    }

    #[test]
    fn what_the_reference_would_leave_out_is_refused() {
        let unsaved = adapter(|settings| settings["modules_to_save"] = Value::Null);
        assert!(!unsaved.saves("classifier"));
        let error = unsaved.replaced("classifier.weight").unwrap_err();
        assert!(error.to_string().contains("modules_to_save"), "{error}");
        let untargeted = adapter(|settings| settings["target_modules"] = json!(["query"]));
        let change = untargeted.change("pooler.dense", [32, 32], 0, &mut [0.0; 32 * 32]);
        let error = change.unwrap_err().to_string();
        assert!(error.contains("does not name as a target"), "{error}");
    }
}
