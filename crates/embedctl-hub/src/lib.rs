//! Models from the Hugging Face Hub: fetched whole, verified, and kept where Python's `huggingface_hub` keeps them.
//!
//! ```text
//!  ensure, download ──► client (requests, redirects, retries over ureq) ──► fetch + digest (content and its hash)
//!         │                                                                     │
//!         └── select: which files a model needs          store (the Hub's cache) or local (a plain folder) ◄┘
//!  lockfile ── a model pinned by commit and hashes       check ── whether a model here is whole
//! ```
//!
//! The crate hf-hub gives the cache's paths and no more. Its 0.5 sends the token to any host that a redirect names,
//! publishes content without verification, and never gets past a complete partial file. Its 1.0 gives up at the first cut
//! connection and begins again the next time, publishes content under a name whose hash it does not have, and brings an
//! asynchronous runtime. So requests, content and hashes are our own, over ureq.
//!
//! Published content is verified: it arrives in a file beside its place, is hashed, and is renamed to its hash. The
//! snapshot's links come next, the weights' last, and the branch after that. A process that is killed leaves partial
//! content, which the next process completes, and nothing that could be taken for a model.
//!
//! ```
//! use embedctl_hub::{ModelId, ModelName};
//!
//! let ModelName::Hub(model) = ModelName::of("sentence-transformers/all-MiniLM-L6-v2@main").unwrap() else {
//!     panic!("this is not a folder");
//! };
//! assert_eq!(model.revision, "main");
//! ```

#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(clippy::unwrap_used)]

mod cached;
mod check;
mod client;
mod datasets;
mod digest;
mod download;
mod ensure;
mod fetch;
mod files;
pub mod gguf;
mod id;
mod list;
mod listing;
mod local;
mod lockfile;
mod name;
pub mod onnx_file;
pub mod precision;
mod refusal;
mod revision;
mod select;
mod settings;
mod store;
pub mod weights;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

pub use cached::{CachedModel, cached_models, remove_cached_model};
pub use check::{CheckedFile, CheckedModel, FileVerdict, check};
pub use datasets::{dataset, dataset_address};
pub use download::download;
pub use ensure::{ensure, meant};
pub use id::ModelId;
pub use list::{ListedFile, ListedKind, ListedWeights, list};
pub use local::refuse_incomplete;
pub use lockfile::{Lock, LockedModel};
pub use select::is_read;
pub use settings::{HubOptions, HubSettings, Token, default_cache, secrets};
pub use store::CachedRepository;

use embedctl_common::setting::{LOCAL_DIR, MODEL, SetBy};

#[cfg(test)]
#[global_allocator]
static MEMORY: embedctl_testing::WatchedMemory = embedctl_testing::WatchedMemory;

pub use name::ModelName;
pub use onnx_file::OnnxChoice;
pub use precision::Precision;
pub use weights::{FileChoice, Knows, WeightsKind, WeightsPreference};

use embedctl_common::error::Error;

pub use embedctl_net::{NetSettings, ResponseLimits};

/// A request for a model's files.
#[derive(Debug, Clone)]
pub struct ModelFilesRequest {
    /// The repository and its revision.
    pub model: ModelId,
    /// The choice among its files with weights.
    pub choice: FileChoice,
    /// Everything in the repository, not just what embedding needs.
    pub all: bool,
    /// Further files, such as damaged ones of another kind; files that the repository lacks are skipped.
    pub extra: Vec<String>,
    /// A plain folder to put the files into, instead of the cache.
    pub local_dir: Option<PathBuf>,
    /// Exactly these files, as an earlier download has written them down.
    pub locked: Option<LockedModel>,
}

impl ModelFilesRequest {
    /// The files of a model that embedding needs.
    #[must_use]
    pub fn of(model: ModelId) -> Self {
        Self {
            model,
            choice: FileChoice::default(),
            all: false,
            extra: Vec::new(),
            local_dir: None,
            locked: None,
        }
    }
}

/// A model that is here, every file of it verified.
#[derive(Debug, Clone, Serialize)]
pub struct Downloaded {
    /// Repository.
    pub model: String,
    /// Full commit.
    pub revision: String,
    /// The folder that holds the files under their paths.
    pub folder: PathBuf,
    /// The ONNX file's path inside it; none where everything was asked for and there is none.
    pub onnx: Option<String>,
    /// The files, sorted by path.
    pub files: Vec<DownloadedFile>,
}

/// A verified file.
#[derive(Debug, Clone, Serialize)]
pub struct DownloadedFile {
    /// Path inside the repository.
    pub path: String,
    /// Where it is.
    pub location: PathBuf,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// The Hub's own hash of it, which the cache calls it by.
    pub blob: Option<String>,
    /// Whether it came over the network just now.
    pub fetched: bool,
}

/// How a file's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOutcome {
    /// It came over the network.
    Fetched,
    /// It was here already, and is correct.
    Verified,
    /// It did not come.
    Failed,
}

/// Receives the progress of a download. Called from several threads.
#[allow(unused_variables)] // nothing is heard by default
pub trait Transfer: Send + Sync {
    /// More is to be done than was known: so many files, so many bytes.
    fn planned(&self, files: usize, bytes: u64) {}

    /// A file's turn begins; `have` bytes of it are here from an earlier run.
    fn began(&self, file: &str, size: Option<u64>, have: u64) {}

    /// Bytes of it have arrived.
    fn advanced(&self, file: &str, bytes: u64) {}

    /// The part that was here is of no use: the download starts over.
    fn restarted(&self, file: &str, reason: &str) {}

    /// Its turn is over.
    fn ended(&self, file: &str, size: u64, outcome: FileOutcome) {}

    /// A request failed and is made again after a pause.
    fn retrying(&self, what: &str, reason: &str, pause: Duration) {}

    /// A note for the user, such as the reason of a wait.
    fn note(&self, message: &str) {}

    /// A warning, such as a damaged file.
    fn warning(&self, message: &str) {}
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentTransfer;

impl Transfer for SilentTransfer {}

/// The error for a model, or files of it, that are not in the cache.
#[must_use]
pub fn not_cached(model: &ModelId, cache: &Path, missing: &[&str]) -> Error {
    let lacking = if missing.is_empty() {
        format!("is not in the Hub's cache at {}", cache.display())
    } else {
        format!(
            "is in the Hub's cache at {} without {}",
            cache.display(),
            missing.join(", ")
        )
    };
    Error::model(model, lacking).with_remedy(format!(
        "fetch it with `embedctl download {model}`, or, {}",
        elsewhere(model)
    ))
}

/// How a model comes to a machine that cannot fetch it.
fn elsewhere(model: &ModelId) -> String {
    format!(
        "for a machine without a network, run `embedctl download {model} {LOCAL_DIR} FOLDER` elsewhere, bring the \
         folder here, and name it with {MODEL}"
    )
}

/// The same, where something forbids the network.
fn offline(model: &ModelId, settings: &HubSettings, by: SetBy, missing: &[&str]) -> Error {
    let remedy = format!(
        "{by} forbids the network: allow it, or, {}",
        elsewhere(model)
    );
    not_cached(model, &settings.cache, missing).with_remedy(remedy)
}
