//! The modules of a model, with those of a Router's route in its place.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::metadata::{self, ModuleEntry};
use crate::options::{ModelOptions, TextRole};
use embedctl_common::error::{Error, Result};
use embedctl_common::setting::TASK;

/// `router_config.json`.
#[derive(Debug, Deserialize)]
struct RouterConfig {
    types: BTreeMap<String, String>,
    structure: serde_json::Map<String, Value>,
    #[serde(default)]
    parameters: RouterParameters,
}

#[derive(Debug, Default, Deserialize)]
struct RouterParameters {
    default_route: Option<String>,
    allow_empty_key: Option<bool>,
    #[serde(default)]
    route_mappings: Option<serde_json::Map<String, Value>>,
}

/// The entries of modules.json in `folder`, those of the route that `options` ask for in a Router's place; `None` where
/// there is no such file.
///
/// # Errors
/// If a file is damaged, or the Router has no such route.
pub(crate) fn entries(folder: &Path, options: &ModelOptions) -> Result<Option<Vec<ModuleEntry>>> {
    let Some(entries) = listed(folder)? else {
        return Ok(None);
    };
    if !entries.first().is_some_and(is_router) {
        return Ok(Some(entries));
    }
    let mut all = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        match index {
            0 => all.extend(routed(folder, &entry, options)?),
            _ => all.push(entry),
        }
    }
    Ok(Some(all))
}

/// Whether the role of a text chooses its modules in `folder`.
///
/// # Errors
/// If modules.json is damaged.
pub(crate) fn has_routes(folder: &Path) -> Result<bool> {
    let entries = listed(folder)?.unwrap_or_default();
    Ok(entries.first().is_some_and(is_router))
}

fn listed(folder: &Path) -> Result<Option<Vec<ModuleEntry>>> {
    metadata::read(&folder.join("modules.json"))
}

fn is_router(entry: &ModuleEntry) -> bool {
    entry.kind.starts_with("sentence_transformers.")
        && matches!(entry.kind.rsplit('.').next(), Some("Router" | "Asym"))
}

/// The modules of the route.
fn routed(folder: &Path, router: &ModuleEntry, options: &ModelOptions) -> Result<Vec<ModuleEntry>> {
    let own = router.path.trim_matches(['.', '/']);
    let of_router = |name: &str| match own {
        "" => name.to_owned(),
        own => format!("{own}/{name}"),
    };
    let mut file = folder.join(of_router("router_config.json"));
    if !file.exists() {
        file = folder.join(of_router("config.json"));
    }
    let config: RouterConfig = metadata::read(&file)?
        .ok_or_else(|| Error::model(file.display(), "is missing: modules.json lists a Router"))?;
    let refuse = |reason: String| Error::model(file.display(), reason);
    let routes = || {
        let names: Vec<&str> = config.structure.keys().map(String::as_str).collect();
        names.join(", ")
    };
    let task = options.role().map(TextRole::name);
    let mapped = |key: String| {
        let mappings = config.parameters.route_mappings.as_ref()?;
        mappings.get(&key)?.as_str()
    };
    let word = |task: Option<&str>| task.map_or("None".to_owned(), |task| format!("'{task}'"));
    let found = mapped(format!("({}, 'text')", word(task)))
        .or_else(|| mapped(format!("({}, None)", word(task))))
        .or_else(|| mapped("(None, 'text')".into()))
        .or_else(|| mapped("(None, None)".into()))
        .or_else(|| task.filter(|task| config.structure.contains_key(*task)))
        .or_else(|| Some("text").filter(|text| config.structure.contains_key(*text)));
    let first = || config.structure.keys().next().map(String::as_str);
    let route = match (found, task) {
        (Some(route), _) => route,
        (None, Some(task)) => {
            return Err(Error::usage(format!(
                "{TASK} {task}: the model has no such route; it has {}",
                routes()
            )));
        }
        (None, None) => match config.parameters.default_route.as_deref() {
            Some(default) => default,
            None if config.parameters.allow_empty_key != Some(false) => {
                first().ok_or_else(|| refuse("has no route".into()))?
            }
            None => {
                return Err(refuse(format!("has no default route; it has {}", routes()))
                    .with_remedy(format!("choose with {TASK} query or {TASK} document")));
            }
        },
    };
    let modules = config.structure.get(route).and_then(Value::as_array);
    let modules = modules.ok_or_else(|| refuse(format!("has no route '{route}'")))?;
    let entries = modules.iter().map(|id| {
        let id = id.as_str().unwrap_or_default();
        let kind = config
            .types
            .get(id)
            .ok_or_else(|| refuse(format!("does not say of what type the module '{id}' is")))?;
        Ok(ModuleEntry {
            name: id.to_owned(),
            path: of_router(id),
            kind: kind.clone(),
        })
    });
    entries.collect()
}
