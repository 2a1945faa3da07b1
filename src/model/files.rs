//! Which files make up a model, and where they are. Nothing here touches the network.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::graph::Graph;
use super::hub::{self, ModelId, Store};
use super::onnx_file;
use super::{Model, ModelOptions, ModelProvenance, resolve};
use crate::error::{Error, Result};

/// A file of the model with its hash.
#[derive(Debug, Clone, Serialize)]
pub struct ModelFile {
    /// Path inside the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

impl Model {
    /// Resolves the files of a model and reads its metadata. Loads no weights and touches no network.
    ///
    /// # Errors
    /// If a file is missing or says something that embedctl cannot do; the message names the file and
    /// the option that helps.
    pub fn open(options: &ModelOptions) -> Result<Self> {
        let Located {
            id,
            revision,
            folder,
        } = locate(options)?;
        let modules = resolve::read_modules(&folder)?;
        let transformer = modules
            .as_ref()
            .map_or_else(String::new, |modules| modules.transformer.clone());
        let onnx = find_onnx(&folder, &transformer, options)?;
        let graph = Graph::read(&onnx)?;
        let beside = onnx.parent().unwrap_or(&folder);
        if let Some(missing) = graph
            .external
            .iter()
            .find(|file| !beside.join(file).is_file())
        {
            return Err(Error::model(
                beside.join(missing).display(),
                format!("is missing: {} keeps weights there", onnx.display()),
            ));
        }
        let resolved = resolve::resolve(&folder, modules, &graph, options)?;
        let mut notes = resolved.notes;
        notes.extend(ModelName::ambiguity(&options.model));
        if graph.is_dynamically_quantized() {
            notes.push(
                "this graph quantizes activations with ranges taken from the whole batch, so a text's vector depends on \
                 the texts beside it; --batch-size 1 embeds each text alone and makes vectors repeatable"
                    .into(),
            );
        }
        Ok(Self {
            id,
            revision,
            transformer: folder.join(transformer),
            folder,
            onnx,
            graph,
            config: resolved.config,
            tokenizer: resolved.tokenizer.into(),
            notes,
        })
    }

    /// The ONNX file that [`Model::open`] would take, found without reading it or the tokenizer.
    ///
    /// # Errors
    /// If there is none.
    pub fn onnx_file(options: &ModelOptions) -> Result<PathBuf> {
        let folder = locate(options)?.folder;
        let transformer = resolve::read_modules(&folder)?.map(|modules| modules.transformer);
        find_onnx(&folder, &transformer.unwrap_or_default(), options)
    }

    /// Hashes the files that decide a vector: weights, tokenizer and metadata.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn provenance(&self) -> Result<ModelProvenance> {
        let beside = self.onnx.parent().unwrap_or(&self.folder);
        let mut paths = vec![self.onnx.clone()];
        paths.extend(self.graph.external.iter().map(|file| beside.join(file)));
        let of_transformer = [
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "config.json",
        ];
        paths.extend(
            of_transformer
                .iter()
                .map(|name| self.transformer.join(name)),
        );
        paths.extend(
            super::metadata::SENTENCE_CONFIGS
                .iter()
                .map(|name| self.transformer.join(name)),
        );
        paths.extend(
            ["modules.json", "config_sentence_transformers.json"]
                .map(|name| self.folder.join(name)),
        );
        let mut folders: Vec<PathBuf> = fs::read_dir(&self.folder)
            .map_err(|error| Error::io("read", &self.folder, error))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.is_dir() && is_module_folder(path))
            .collect();
        folders.sort();
        for folder in folders {
            paths.extend(["config.json", "model.safetensors"].map(|name| folder.join(name)));
        }
        let mut files = Vec::new();
        for path in paths {
            let name = path
                .strip_prefix(&self.folder)
                .unwrap_or(&path)
                .to_string_lossy()
                .replace('\\', "/");
            if path.is_file() && !files.iter().any(|file: &ModelFile| file.path == name) {
                let (size, sha256) = hash(&path)?;
                files.push(ModelFile {
                    path: name,
                    size,
                    sha256,
                });
            }
        }
        Ok(ModelProvenance {
            id: self.id.clone(),
            revision: self.revision.clone(),
            files,
        })
    }
}

/// Module folders are named `1_Pooling`, `2_Dense`, …
fn is_module_folder(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.split_once('_'))
        .is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// Size and SHA-256 of a file.
fn hash(path: &Path) -> Result<(u64, String)> {
    let read = |error| Error::io("read", path, error);
    let mut file = fs::File::open(path).map_err(read)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer).map_err(read)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        size += count as u64;
    }
    let digest = hasher.finalize();
    Ok((
        size,
        digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    ))
}

/// What `--model` means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// A folder that exists.
    Folder(PathBuf),
    /// A model of the Hub.
    Hub(ModelId),
}

impl ModelName {
    /// The model that is meant where nobody names one. Its name always means the Hub's: a folder that somebody has put
    /// into the current one must not take its place unasked.
    pub const DEFAULT: &str = "sentence-transformers/all-MiniLM-L6-v2";

    /// Tells a folder from a Hub id. A folder's path that could be an id as well (`org/name`) is a folder where there
    /// is one; [`ModelName::ambiguity`] has a word on it.
    ///
    /// # Errors
    /// If it is neither; the reason continues the model's name.
    pub fn of(given: &str) -> Result<Self, String> {
        let id = given.parse();
        let folder = Path::new(given);
        match id {
            Ok(id) if given == Self::DEFAULT => Ok(Self::Hub(id)),
            _ if folder.is_dir() => Ok(Self::Folder(folder.to_path_buf())),
            Ok(id) => Ok(Self::Hub(id)),
            Err(_) => Err(
                "is neither a folder that exists nor a Hub id of the form org/name or org/name@revision".into(),
            ),
        }
    }

    /// What to tell about a name that could mean a folder as well as a model of the Hub: which one was taken, and how
    /// to name the other.
    #[must_use]
    pub fn ambiguity(given: &str) -> Option<String> {
        if given.parse::<ModelId>().is_err() || !Path::new(given).is_dir() {
            return None;
        }
        Some(if given == Self::DEFAULT {
            format!("{given} is the Hub's model; the folder of that name is ./{given}")
        } else {
            format!(
                "{given} is taken for the folder ./{given}, not for a model of the Hub; write ./{given} to say so"
            )
        })
    }
}

struct Located {
    id: String,
    revision: Option<String>,
    folder: PathBuf,
}

fn locate(options: &ModelOptions) -> Result<Located> {
    let given = options.model.as_str();
    let id = match ModelName::of(given).map_err(|reason| Error::model(given, reason))? {
        ModelName::Folder(folder) => {
            hub::refuse_incomplete(&folder)?;
            return Ok(Located {
                id: given.to_string(),
                revision: None,
                folder,
            });
        }
        ModelName::Hub(id) => id,
    };
    let cache = options.cache_dir.clone().unwrap_or_else(hub::default_cache);
    let store = Store::new(&cache, &id.repository);
    let commit = store
        .commit(&id.revision)
        .unwrap_or_else(|| id.revision.clone());
    let snapshot = store.snapshot(&commit);
    if !snapshot.is_dir() {
        return Err(hub::not_cached(&id, &cache, &[]));
    }
    Ok(Located {
        id: id.repository,
        revision: Some(commit),
        folder: snapshot,
    })
}

fn find_onnx(folder: &Path, transformer: &str, options: &ModelOptions) -> Result<PathBuf> {
    if options.model_file.is_some() && options.precision.is_some() {
        return Err(Error::usage(
            "--model-file and --precision exclude each other: one of them chooses the file",
        ));
    }
    if let Some(named) = &options.model_file {
        let file = folder.join(named);
        if file.is_file() {
            return Ok(file); // whatever its name
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
        .map_err(|reason| Error::model(folder.display(), reason))
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
