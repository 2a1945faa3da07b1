//! Options of `embedctl download`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::engine::ProviderArgs;
use super::model::OnnxArgs;

/// Fetch and verify models from the Hugging Face Hub
///
/// Fetches what embedding needs: the model's configuration, its tokenizer, the metadata of
/// sentence-transformers, and the weights that embed would take here with the same --provider: safetensors
/// of architectures that the native engine knows, else an ONNX file. Every file is verified against the Hub's
/// hashes, also those that were here before. The cache is the one that Python's huggingface_hub uses.
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

    /// Fetch everything in the repository
    #[arg(long, help_heading = "What is fetched")]
    pub all: bool,

    /// Show the model's files with weights and their sizes, and fetch nothing
    #[arg(
        long,
        help_heading = "What is fetched",
        conflicts_with_all = ["all", "local_dir", "check", "lock", "locked", "model_file", "precision"]
    )]
    pub list: bool,

    /// Put the files into this folder, under their own names, instead of the cache
    ///
    /// For machines without a network: bring the folder there and name it with --model.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Where to")]
    pub local_dir: Option<PathBuf>,

    /// Verify what is here: name every damaged or missing file, and fetch it again
    ///
    /// MODEL may also be a folder that --local-dir made. With --offline nothing is fetched, and the exit
    /// code is 1 if anything is wrong.
    #[arg(
        long,
        help_heading = "Verifying and pinning",
        conflicts_with_all = ["all", "local_dir", "lock", "locked"]
    )]
    pub check: bool,

    /// Write down the commits and hashes of what was fetched
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Verifying and pinning"
    )]
    pub lock: Option<PathBuf>,

    /// Fetch exactly what --lock has written down, or fail
    ///
    /// Without MODEL: all models of the file.
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Verifying and pinning",
        conflicts_with_all = ["all", "lock", "model_file", "precision"]
    )]
    pub locked: Option<PathBuf>,

    /// Print one JSON object a model to standard output: paths, commit, sizes, hashes
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
  HF_HOME, HF_HUB_CACHE          where models are kept [default: ~/.cache/huggingface/hub]
  HF_ENDPOINT                    another Hub or a mirror
  HF_TOKEN, HF_TOKEN_PATH        who asks; without them, what `hf auth login` has stored
  HF_HUB_OFFLINE                 never use the network
  HTTPS_PROXY, NO_PROXY, …       the way out
  SSL_CERT_FILE                  certificates to trust, instead of the system's";
