//! The meaning of `--model`: a folder, or a model of the Hub.

use std::path::{Path, PathBuf};

use super::{ModelId, gguf};
use embedctl_common::error::Cause;
use embedctl_common::secrets::shown_address;
use embedctl_common::setting::{MODEL, MODEL_FILE};

/// The meaning of `--model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// A folder that exists.
    Folder(PathBuf),
    /// A model of the Hub.
    Hub(ModelId),
}

impl ModelName {
    /// The default model. Its name always means the Hub's: a folder that somebody has put
    /// into the current one must not take its place unasked.
    pub const DEFAULT: &str = "sentence-transformers/all-MiniLM-L6-v2";

    /// Tells a folder from a Hub id. A folder's path that could be an id as well (`org/name`) is a folder where there
    /// is one; [`ModelName::ambiguity`] has a word on it.
    ///
    /// # Errors
    /// If it is neither; the cause is a phrase to follow the model's name.
    pub fn of(given: &str) -> Result<Self, Cause> {
        let id = given.parse();
        let folder = Path::new(given);
        if let Some(cause) = something_else(given).filter(|_| !folder.is_dir()) {
            return Err(cause);
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

    /// A note about a name that could be a folder as well as a model of the Hub: which one was taken, and how
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

/// Other ways in which people name models, and the form to use instead.
fn something_else(given: &str) -> Option<Cause> {
    let hosts = ["huggingface.co/", "hf.co/", "www.huggingface.co/"];
    // No part of a password may become part of an id.
    let shown = shown_address(given);
    let (scheme, address) = shown.split_once("://").unwrap_or(("", &shown));
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
        return Some(
            Cause::of("is an address").with(format!("name the model by its id: {MODEL} {id}")),
        );
    }
    let path = Path::new(given);
    let is_onnx = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
    let is_gguf = gguf::is_gguf(given);
    if !is_onnx && !is_gguf && !path.is_file() {
        return None;
    }
    if is_gguf {
        return Some(match path.exists() {
            true => gguf::refuses_gguf(given),
            false => gguf::refuses_missing_gguf(),
        });
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
        Cause::of(
            "is an ONNX file, but a model is a folder that has config.json and tokenizer.json too",
        )
        .with(format!("name both: {MODEL} {folder} {MODEL_FILE} {file}"))
    } else {
        Cause::of("is a file, but a model is a folder").with(format!("name that: {MODEL} {folder}"))
    })
}
