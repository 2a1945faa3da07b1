//! Which files make up a model, and where they are. Nothing here touches the network.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::config::ModelConfig;
use super::graph::{ElementType, Graph, Value};
use super::hub::{self, ModelId, Store};
use super::weights::{self, Checkpoint, Onnx, Weights};
use super::{Model, ModelOptions, ModelProvenance, metadata, onnx_file, resolve, statics};
use crate::error::{Error, ErrorKind, Result};

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

/// Why a static model has no ONNX file.
const NO_GRAPH: &str = "is a static model, which the native engine runs: name it with --provider native, or leave --provider out";

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
        if let Some(model) = statics::open(&folder, options)? {
            return Ok(Self {
                id,
                revision,
                transformer: folder.join(model.folder),
                folder,
                onnx: Err(NO_GRAPH.into()),
                checkpoint: Ok(Checkpoint {
                    files: vec![model.weights],
                    config: serde_json::Value::Null,
                }),
                config: model.config,
                tokenizer: model.tokenizer.into(),
                notes: ModelName::ambiguity(&options.model).into_iter().collect(),
            });
        }
        let modules = resolve::read_modules(&folder)?;
        let transformer = modules
            .as_ref()
            .map_or_else(String::new, |modules| modules.transformer.clone());
        let checkpoint = find_checkpoint(&folder, &transformer, options.weights)?;
        let onnx = match options.weights.or_onnx() {
            true => find_onnx(&folder, &transformer, options).and_then(read_onnx),
            false => Err(Error::model(
                folder.display(),
                "is opened without ONNX files",
            )),
        };
        let (onnx, checkpoint) = match (onnx, checkpoint) {
            (Ok(onnx), Ok(checkpoint)) => {
                one_kind_of_output(onnx, checkpoint, options.weights, modules.is_some())
            }
            (Ok(onnx), reason) => (Ok(onnx), reason),
            (Err(error), _) if error.kind() == ErrorKind::Usage => return Err(error),
            (Err(reason), Ok(checkpoint)) => (Err(reason.to_string()), Ok(checkpoint)),
            (Err(error), Err(reason)) => return Err(no_weights(&folder, error, &reason, options)),
        };
        let graph = onnx.as_ref().ok().map(|onnx| &onnx.graph);
        let resolved = resolve::resolve(&folder, modules, graph, options)?;
        let mut notes = resolved.notes;
        notes.extend(ModelName::ambiguity(&options.model));
        Ok(Self {
            id,
            revision,
            transformer: folder.join(transformer),
            folder,
            onnx,
            checkpoint,
            config: resolved.config,
            tokenizer: resolved.tokenizer.into(),
            notes,
        })
    }

    /// The tokenizer of a model and what the metadata decides, as far as that is known without the
    /// network: its output and its widths are stand-ins. Made for comparing tokens with the reference's.
    ///
    /// # Errors
    /// As [`Model::open`], the network left out.
    pub fn tokenizer_alone(options: &ModelOptions) -> Result<(tokenizers::Tokenizer, ModelConfig)> {
        let folder = locate(options)?.folder;
        let modules = resolve::read_modules(&folder)?;
        let wide = modules
            .as_ref()
            .and_then(|modules| modules.pooling.as_ref()?.width);
        let states = Value {
            name: "last_hidden_state".into(),
            element: ElementType::F32,
            shape: vec![None, None, Some(wide.unwrap_or(1))],
        };
        let graph = Graph {
            outputs: vec![states],
            ..Graph::default()
        };
        let resolved = resolve::resolve(&folder, modules, Some(&graph), options)?;
        Ok((resolved.tokenizer, resolved.config))
    }

    /// The file that says which model [`Model::open`] would take, found without reading it or the tokenizer:
    /// the ONNX file, or the checkpoint's first.
    ///
    /// # Errors
    /// If there is none.
    pub fn main_file(options: &ModelOptions) -> Result<PathBuf> {
        let folder = locate(options)?.folder;
        if let Some(model) = statics::open(&folder, options)? {
            return Ok(model.weights);
        }
        let transformer = resolve::read_modules(&folder)?.map(|modules| modules.transformer);
        let transformer = transformer.unwrap_or_default();
        if let Ok(checkpoint) = find_checkpoint(&folder, &transformer, options.weights)? {
            return Ok(checkpoint.files[0].clone());
        }
        find_onnx(&folder, &transformer, options)
    }

    /// The ONNX file.
    ///
    /// # Errors
    /// If there is none; the error says why.
    pub fn onnx(&self) -> Result<&Onnx> {
        let onnx = self.onnx.as_ref();
        onnx.map_err(|reason| Error::model(&self.id, reason))
    }

    /// Things a user should be told once, the weights in use considered.
    #[must_use]
    pub fn notes(&self, native: bool) -> Vec<String> {
        let graph = self.onnx.as_ref().ok().filter(|_| !native);
        let warning = graph.and_then(|onnx| onnx.graph.warning());
        self.notes.iter().cloned().chain(warning).collect()
    }

    /// The main file of the weights that an engine has run: the checkpoint's first for the native engine,
    /// else the ONNX file.
    #[must_use]
    pub fn weights_file(&self, native: bool) -> Option<PathBuf> {
        self.weights(native).into_iter().next()
    }

    /// Its path inside the model's folder.
    #[must_use]
    pub fn weights_name(&self, native: bool) -> String {
        let file = self.weights_file(native).unwrap_or_default();
        let inside = file.strip_prefix(&self.folder).unwrap_or(&file);
        inside.to_string_lossy().replace('\\', "/")
    }

    fn weights(&self, native: bool) -> Vec<PathBuf> {
        match (&self.checkpoint, &self.onnx) {
            (Ok(checkpoint), _) if native => checkpoint.files.clone(),
            (_, Ok(onnx)) => onnx.files().collect(),
            (_, Err(_)) => Vec::new(),
        }
    }

    /// Hashes the files that decide a vector: weights (the checkpoint for the native engine, else the ONNX
    /// file), tokenizer and metadata.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn provenance(&self, native: bool) -> Result<ModelProvenance> {
        let mut paths = self.weights(native);
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
            super::sentence_config::FILES
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
        if let Some(reason) = something_else(given).filter(|_| !folder.is_dir()) {
            return Err(reason);
        }
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

/// What else people name models by, and what to write instead; the reason continues the name.
fn something_else(given: &str) -> Option<String> {
    let hosts = ["huggingface.co/", "hf.co/", "www.huggingface.co/"];
    let (scheme, address) = given.split_once("://").unwrap_or(("", given));
    let host = hosts.iter().find_map(|host| address.strip_prefix(host));
    if let Some(path) = host
        .or_else(|| (!scheme.is_empty()).then(|| address.split_once('/').map_or("", |one| one.1)))
    {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let id = match parts[..] {
            [org, name, "tree" | "blob" | "resolve", revision, ..] => {
                format!("{org}/{name}@{revision}")
            }
            [org, name, ..] => format!("{org}/{name}"),
            _ => "org/name".to_owned(),
        };
        return Some(format!(
            "is an address; name the model by its id: --model {id}"
        ));
    }
    let path = Path::new(given);
    let is_onnx = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
    if !is_onnx && !path.is_file() {
        return None;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let above = folder.parent().filter(|_| folder.ends_with("onnx"));
    let folder = above.unwrap_or(folder);
    let file = path.strip_prefix(folder).unwrap_or(path).display();
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
    .display();
    Some(if is_onnx {
        format!(
            "is an ONNX file, and a model is a folder that has config.json and tokenizer.json too: --model {folder} \
             --model-file {file}"
        )
    } else {
        format!("is a file, and a model is a folder: --model {folder}")
    })
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
    let ids = id.meanings();
    let here = ids.iter().find_map(|id| {
        let store = Store::new(&cache, &id.repository);
        let commit = store
            .commit(&id.revision)
            .unwrap_or_else(|| id.revision.clone());
        let folder = store.snapshot(&commit);
        folder.is_dir().then(|| Located {
            id: id.repository.clone(),
            revision: Some(commit),
            folder,
        })
    });
    here.ok_or_else(|| hub::not_cached(&ids[0], &cache, &[]))
}

/// Reads an ONNX file's header, and makes sure that the files are here that it keeps weights in.
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
        None => Ok(onnx),
    }
}

/// The checkpoint, if one is asked for, here, and known; else the reason.
fn find_checkpoint(
    folder: &Path,
    transformer: &str,
    weights: Weights,
) -> Result<Result<Checkpoint, String>> {
    let Some(knows) = weights.knows() else {
        return Ok(Err("was not asked for".into()));
    };
    let sub = match transformer {
        "" => String::new(),
        own => format!("{own}/"),
    };
    let paths = files_in(folder, &sub);
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let files = match weights::checkpoint(&paths, transformer) {
        Ok(files) => files,
        Err(reason) => return Ok(Err(reason)),
    };
    let config = metadata::read(&folder.join(transformer).join("config.json"))?;
    let config: serde_json::Value = config.unwrap_or_default();
    Ok(knows(&config).map(|()| Checkpoint {
        files: files.iter().map(|file| folder.join(file)).collect(),
        config,
    }))
}

/// A graph that gives finished vectors and a checkpoint that gives tokens' states are finished in different
/// ways, so that one of the two has to go.
fn one_kind_of_output(
    onnx: Onnx,
    checkpoint: Checkpoint,
    weights: Weights,
    has_modules: bool,
) -> (Result<Onnx, String>, Result<Checkpoint, String>) {
    if !resolve::gives_finished_vectors(&onnx.graph, has_modules) {
        return (Ok(onnx), Ok(checkpoint));
    }
    match weights {
        Weights::OnnxFirst(_) => (
            Ok(onnx),
            Err("the ONNX file, which goes first here, pools by itself".into()),
        ),
        _ => (
            Err(format!(
                "{} pools by itself, which the checkpoint, which goes first here, does not; --provider cpu takes it",
                onnx.path.display()
            )),
            Ok(checkpoint),
        ),
    }
}

fn no_weights(folder: &Path, onnx: Error, checkpoint: &str, options: &ModelOptions) -> Error {
    match (options.weights, onnx) {
        (Weights::Onnx, onnx) => onnx,
        (Weights::Checkpoint(_), _) => Error::model(
            folder.display(),
            format!("cannot be run by --provider native: {checkpoint}"),
        )
        .with_remedy("another provider may run its ONNX file"),
        (_, onnx) if onnx.kind() == ErrorKind::Model => {
            let reason = format!(
                "{} (the native engine cannot run its checkpoint either: it {checkpoint})",
                onnx.reason()
            );
            Error::model(onnx.subject(), reason).with_remedy_if(onnx.remedy())
        }
        (_, onnx) => onnx,
    }
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
    onnx_file::choose(&paths, transformer, &options.files().onnx)
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
