//! Options of `embedctl download`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::engine::ProviderArgs;
use super::model::OnnxArgs;

/// Download and verify models from the Hugging Face Hub
///
/// Downloads the files that embedding needs: the model's configuration, its tokenizer, the metadata of
/// sentence-transformers, and the weights that embed would use with the same --provider: safetensors if the native
/// engine supports the architecture, else an ONNX file. Every file is verified against the Hub's hashes, including
/// files already in the cache. The cache is shared with Python's huggingface_hub.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl download [OPTIONS] <MODEL>...\n       embedctl download [OPTIONS] --locked <FILE> [MODEL]..."
)]
pub struct DownloadArgs {
    /// Hub ids: org/name, or org/name@revision for a branch, tag or commit
    #[arg(value_name = "MODEL", required_unless_present = "locked")]
    pub models: Vec<String>,

    #[command(flatten)]
    pub onnx: OnnxArgs,

    #[command(flatten, next_help_heading = "What is fetched")]
    pub providers: ProviderArgs,

    /// Download all files of the repository
    #[arg(long, help_heading = "What is fetched")]
    pub all: bool,

    /// List the model's weight files and their sizes, and download nothing
    #[arg(
        long,
        help_heading = "What is fetched",
        conflicts_with_all = ["all", "local_dir", "check", "lock", "locked", "model_file", "precision"]
    )]
    pub list: bool,

    /// Write the files into this folder, under their own names, instead of the cache
    ///
    /// For machines without a network: copy the folder there and name it with --model.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Where to")]
    pub local_dir: Option<PathBuf>,

    /// Verify downloaded models: name every damaged or missing file, and download it again
    ///
    /// MODEL may also be a folder made with --local-dir. With --offline nothing is downloaded, and the exit code is 1
    /// if a file is damaged or missing.
    #[arg(
        long,
        help_heading = "Verifying and pinning",
        conflicts_with_all = ["all", "local_dir", "lock", "locked"]
    )]
    pub check: bool,

    /// Write a lock file with the commits and hashes of the downloaded models
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Verifying and pinning"
    )]
    pub lock: Option<PathBuf>,

    /// Download exactly the files recorded by --lock, or fail
    ///
    /// Without MODEL: all models of the lock file.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Verifying and pinning",
        conflicts_with_all = ["all", "lock", "model_file", "precision"]
    )]
    pub locked: Option<PathBuf>,

    /// Print one JSON object per model to standard output: paths, commit, sizes, hashes
    #[arg(long, help_heading = "Messages")]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  embedctl download sentence-transformers/all-MiniLM-L6-v2
  embedctl download BAAI/bge-small-en-v1.5 --list
  embedctl download BAAI/bge-small-en-v1.5 --model-file onnx/model.onnx --local-dir bge
  embedctl download org/name@v1.0 --lock models.lock
  embedctl download --locked models.lock
  embedctl download --check org/name

Environment:
  HF_HOME, HF_HUB_CACHE          the model cache [default: ~/.cache/huggingface/hub]
  HF_ENDPOINT                    another Hub or a mirror
  HF_TOKEN, HF_TOKEN_PATH        the access token; without them, the one stored by `hf auth login`
  HF_HUB_OFFLINE                 never use the network
  HTTPS_PROXY, NO_PROXY, …       the network proxy
  SSL_CERT_FILE                  certificates to trust, instead of the system's";
