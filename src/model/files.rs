//! Which files make up a model, and where they are. Nothing here touches the network.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::graph::Graph;
use super::precision::Precision;
use super::{Model, ModelProvenance, PoolingMode, resolve};
use crate::error::{Error, Result};

/// What the user says about the model.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Hub id `org/name`, `org/name@revision`, or a folder.
    pub model: String,
    /// `--model-file`: path of the ONNX file inside the repository.
    pub model_file: Option<String>,
    /// `--precision`: which of the usual ONNX files, by kind.
    pub precision: Option<Precision>,
    /// `--cache-dir`: the Hub's cache; `None`: from the environment, as `huggingface_hub` does.
    pub cache_dir: Option<PathBuf>,
    /// `--pooling`: modes whose results are concatenated.
    pub pooling: Option<Vec<PoolingMode>>,
    /// `--normalize`.
    pub normalize: Option<bool>,
    /// `--max-length`, in tokens, special tokens included.
    pub max_length: Option<usize>,
    /// `--prompt`: the prompt's text.
    pub prompt: Option<String>,
    /// `--prompt-name`: a prompt of the model's own.
    pub prompt_name: Option<String>,
    /// `--dimensions`: components kept.
    pub dimensions: Option<usize>,
}

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

struct Located {
    id: String,
    revision: Option<String>,
    folder: PathBuf,
}

fn locate(options: &ModelOptions) -> Result<Located> {
    let given = options.model.as_str();
    let folder = Path::new(given);
    if folder.is_dir() {
        return Ok(Located {
            id: given.to_string(),
            revision: None,
            folder: folder.to_path_buf(),
        });
    }
    let (id, revision) = given.split_once('@').unwrap_or((given, "main"));
    let valid = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            && !part.starts_with('.')
    };
    let is_id = id.split('/').count() <= 2 && id.split('/').all(valid) && !revision.is_empty();
    if !is_id {
        return Err(Error::model(
            given,
            "is neither a folder that exists nor a Hub id of the form org/name or org/name@revision",
        ));
    }
    let cache = options
        .cache_dir
        .clone()
        .unwrap_or_else(cache_from_environment);
    let repo = hf_hub::Repo::model(id.to_string());
    let base = cache.join(repo.folder_name());
    let commit = match fs::read_to_string(base.join("refs").join(revision)) {
        Ok(commit) => commit.trim().to_string(),
        Err(_) => revision.to_string(),
    };
    let snapshot = base.join("snapshots").join(&commit);
    if !snapshot.is_dir() {
        return Err(Error::model(
            given,
            format!(
                "is not in the Hub's cache at {} (no {}), and there is no folder of that name; fetch it with \
                 `hf download {id}{}`, or name a folder that holds its files with --model",
                cache.display(),
                snapshot.strip_prefix(&cache).unwrap_or(&snapshot).display(),
                if revision == "main" {
                    String::new()
                } else {
                    format!(" --revision {revision}")
                },
            ),
        ));
    }
    Ok(Located {
        id: id.to_string(),
        revision: Some(commit),
        folder: snapshot,
    })
}

/// The Hub's cache as `huggingface_hub` finds it.
fn cache_from_environment() -> PathBuf {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("HF_HUB_CACHE")
        .or_else(|| variable("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| variable("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("huggingface/hub")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/huggingface/hub")))
        .unwrap_or_else(|| PathBuf::from(".cache/huggingface/hub"))
}

fn find_onnx(folder: &Path, transformer: &str, options: &ModelOptions) -> Result<PathBuf> {
    let (named, precision) = (options.model_file.as_deref(), options.precision);
    if named.is_some() && precision.is_some() {
        return Err(Error::Usage(
            "--model-file and --precision exclude each other: one of them chooses the file".into(),
        ));
    }
    if let Some(named) = named {
        let file = folder.join(named);
        return if file.is_file() {
            Ok(file)
        } else {
            Err(Error::model(
                file.display(),
                format!(
                    "is no file; --model-file takes a path inside the model's folder{}",
                    listed(folder)
                ),
            ))
        };
    }
    let wanted = precision.unwrap_or(Precision::Fp32);
    let folders = [
        folder.join("onnx"),
        folder.to_path_buf(),
        folder.join(transformer).join("onnx"),
        folder.join(transformer),
    ];
    let candidates = wanted
        .file_names()
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates
        .into_iter()
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::model(
                folder.display(),
                format!(
                    "has no ONNX file for {} ({}){}",
                    wanted.name(),
                    wanted.file_names().join(", "),
                    listed(folder)
                ),
            )
        })
}

/// The ONNX files that are there, as the end of a message.
fn listed(folder: &Path) -> String {
    let mut found: Vec<String> = ["", "onnx"]
        .iter()
        .filter_map(|sub| fs::read_dir(folder.join(sub)).ok())
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "onnx")
        })
        .filter_map(|path| Some(path.strip_prefix(folder).ok()?.display().to_string()))
        .collect();
    found.sort();
    if found.is_empty() {
        "; it holds no ONNX file at all: export one with Python (optimum-cli export onnx --model MODEL FOLDER) or take a \
         repository that has one"
            .into()
    } else {
        format!(
            "; it has {}: choose with --model-file or --precision",
            found.join(", ")
        )
    }
}
