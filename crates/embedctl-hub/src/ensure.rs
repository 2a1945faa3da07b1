//! Makes a complete model available for `embed`: from the cache, or fetched if it is not there.

use std::path::Path;

use super::check::required;
use super::client::with_client;
use super::download::download;
use super::listing;
use super::lockfile::LARGEST;
use super::revision::Revision;
use super::select::{MODULES, ModuleFolder};
use super::store::CachedRepository;
use super::{
    FileChoice, HubSettings, ModelFilesRequest, ModelId, ModelName, Transfer, elsewhere,
    not_cached, offline,
};
use embedctl_common::cancel::CancelToken;
use embedctl_common::error::{Error, ErrorKind, Result};
use embedctl_common::small_file;
use embedctl_net::NetSettings;

/// Makes sure that the cache holds the model `name` with every file that embedding needs under `choice`, and fetches
/// missing files. A complete model in the cache is used without any request.
///
/// # Errors
/// If it is not here and cannot be fetched.
pub fn ensure(
    settings: &HubSettings,
    name: &str,
    choice: &FileChoice,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<()> {
    let Ok(ModelName::Hub(model)) = ModelName::of(name) else {
        return Ok(()); // opening it reports the error
    };
    let mut models = model.meanings();
    // A cached repository takes precedence over other meanings of the name.
    models.sort_by_key(|model| {
        let store = CachedRepository::new(&settings.cache, &model.repository);
        Revision::cached(&store, &model.revision).is_none()
    });
    meant(models, |model| {
        ensure_one(settings, model, choice, transfer, cancel)
    })
}

/// Asks for each repository that may be meant, until there is one.
///
/// # Errors
/// The errors of `ask`; if there is no such repository, for the last one.
pub fn meant<T>(meanings: Vec<ModelId>, mut ask: impl FnMut(ModelId) -> Result<T>) -> Result<T> {
    let last = meanings.len() - 1;
    for (index, meaning) in meanings.into_iter().enumerate() {
        match ask(meaning) {
            Err(error) if error.kind() == ErrorKind::NoRepository && index < last => {}
            done => return done,
        }
    }
    unreachable!("a name means one repository at least")
}

fn ensure_one(
    settings: &HubSettings,
    model: ModelId,
    choice: &FileChoice,
    transfer: &dyn Transfer,
    cancel: &CancelToken,
) -> Result<()> {
    let wanted_id = model.clone();
    let store = CachedRepository::new(&settings.cache, &model.repository);
    let missing = match look(&store, &model, choice) {
        KeptModel::Whole => return Ok(()),
        KeptModel::Doubtful { commit } => match settings.offline {
            Some(_) => {
                transfer.warning(&doubt(&model));
                return Ok(());
            }
            None => match confirm(settings, &store, &model.at(&commit), cancel) {
                Ok(()) => match look(&store, &model, choice) {
                    KeptModel::Lacking(missing) => missing,
                    KeptModel::Whole | KeptModel::Doubtful { .. } => return Ok(()),
                },
                Err(error) if error.is_interrupted() => return Err(error),
                Err(error) => {
                    transfer.note(&format!(
                        "{} (the Hub's file list is unavailable: {error})",
                        doubt(&model)
                    ));
                    return Ok(());
                }
            },
        },
        KeptModel::Lacking(missing) => missing,
    };
    // Weights of the other kind serve where these cannot be fetched.
    let instead = || {
        choice.instead().is_some_and(|choice| {
            !matches!(look(&store, &wanted_id, &choice), KeptModel::Lacking(_))
        })
    };
    if settings.offline.is_some() && instead() {
        return Ok(());
    }
    if let Some(by) = settings.offline {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        return Err(offline(&model, settings, by, &missing));
    }
    let wanted = ModelFilesRequest {
        choice: choice.clone(),
        ..ModelFilesRequest::of(model)
    };
    match download(settings, &wanted, transfer, cancel) {
        Ok(_) => Ok(()),
        // Without any network, the error names other ways.
        Err(error) if error.kind() == ErrorKind::Unreachable && instead() => {
            let reason = error.reason();
            transfer.note(&format!("{reason}; using the weights on this machine"));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Unreachable => {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            let cached = not_cached(&wanted.model, &settings.cache, &missing);
            let reason = format!("{}. It {}", error.reason(), cached.reason());
            let remedies = error.remedy().into_iter().map(str::to_owned);
            let remedies: Vec<String> = remedies.chain([elsewhere(&wanted.model)]).collect();
            Err(Error::new(error.kind(), &wanted.model, reason).with_remedy(remedies.join("; ")))
        }
        Err(error) => Err(error),
    }
}

/// The state of a model in the cache.
enum KeptModel {
    /// All that embedding needs.
    Whole,
    /// All files of a plain Transformer, without a proof that it is one: a program that fetched single
    /// files may have left out the sentence-transformers metadata, which would change every vector.
    Doubtful { commit: String },
    /// Not these files (none named: nothing at all).
    Lacking(Vec<String>),
}

fn look(store: &CachedRepository, model: &ModelId, choice: &FileChoice) -> KeptModel {
    let Some(source) = Revision::cached(store, &model.revision) else {
        return KeptModel::Lacking(Vec::new());
    };
    let folder = store.snapshot(&source.commit);
    let name = model.to_string();
    let Ok(needed) = required(&name, &folder, &source.listing, choice) else {
        // Where the list is whole, asking again brings the Hub's own answer: no such file.
        return KeptModel::Lacking(vec!["the weights".into()]);
    };
    let lacks = |path: &String| {
        let size = source.listing.get(path).and_then(|file| file.size);
        std::fs::metadata(folder.join(path))
            .map_or(true, |found| size.is_some_and(|size| size != found.len()))
    };
    let mut missing: Vec<String> = needed.into_iter().filter(lacks).collect();
    if source.whole {
        return if missing.is_empty() {
            KeptModel::Whole
        } else {
            KeptModel::Lacking(missing)
        };
    }
    // Fetched by huggingface_hub file by file: the repository's other files are unknown.
    let has = |path: &str| folder.join(path).is_file();
    missing.extend(
        ["config.json", "tokenizer.json"]
            .into_iter()
            .filter(|name| !source.listing.paths().any(|path| path.ends_with(name)))
            .map(str::to_owned),
    );
    if has(MODULES) {
        missing.extend(unread_modules(&folder));
    }
    if !missing.is_empty() {
        KeptModel::Lacking(missing)
    } else if has(MODULES) || store.is_known_absent(&source.commit, MODULES) {
        KeptModel::Whole
    } else {
        KeptModel::Doubtful {
            commit: source.commit,
        }
    }
}

/// Folders that `modules.json` names and that are not there. `Normalize` needs none.
fn unread_modules(folder: &Path) -> Vec<String> {
    let modules: Vec<ModuleFolder> = small_file::read(&folder.join(MODULES), LARGEST)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    modules
        .iter()
        .filter(|module| {
            ["Pooling", "Dense", "LayerNorm", "SparseAutoEncoder"]
                .iter()
                .any(|kind| module.kind.ends_with(kind))
        })
        .map(|module| format!("{}/config.json", module.path))
        .filter(|path| !folder.join(path).is_file())
        .collect()
}

/// Fetches and stores the list of a commit's files, with a short time limit: the cached files may suffice.
fn confirm(
    settings: &HubSettings,
    store: &CachedRepository,
    model: &ModelId,
    cancel: &CancelToken,
) -> Result<()> {
    let hasty = HubSettings {
        net: NetSettings {
            idle_timeout: std::time::Duration::from_secs(5),
            pause: std::time::Duration::from_millis(200),
            ..settings.net.clone()
        },
        ..settings.clone()
    };
    let (commit, listing) = with_client(&hasty, cancel, |client| {
        listing::describe(client, model, &super::SilentTransfer)
    })?;
    store.put_listing(&commit, &listing)
}

fn doubt(model: &ModelId) -> String {
    format!(
        "the cache holds {model} without a {MODULES}, and it is unknown whether the repository has one; it is treated \
         as a plain Transformer (`embedctl download {model}` makes sure)"
    )
}
