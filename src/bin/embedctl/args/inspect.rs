//! Options of `embedctl inspect`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::embed::{RecordArgs, StoreArgs};
use super::engine::ProviderArgs;
use super::values::positive;

/// Check files of vectors: their origin, their health, and whether they can be mixed
///
/// Reads every vector and reports norms, NaN, zeros and repeats; compares the files of an output with the hashes in
/// its provenance; for several files lists the provenance keys that differ. Exits with 1 if a file has a problem.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl inspect [OPTIONS] <FILE>...",
    mut_arg("input_format", |arg| arg.requires("input")),
    mut_args(|arg| match arg.get_id().as_str().starts_with("csv_") {
        true => arg.requires("input"),
        false => arg,
    })
)]
pub struct InspectArgs {
    /// Outputs of embed: files, folders of parts, or addresses (s3://, gs://, az://, https://, hf://)
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    pub files: Vec<PathBuf>,

    /// Exit with 1 unless the vectors of all files can be mixed
    #[arg(long)]
    pub same: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// File of rejected records written with FILE, to check its hash
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub rejects: Option<PathBuf>,

    /// Embed N rows of FILE again and compare; exit with 1 if they differ
    ///
    /// Uses the model named in the provenance; its files must be unchanged. Texts come from the field --text-field of
    /// FILE, if it was kept (for NPY: of FILE.rows.jsonl), or of --input.
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Embedding again")]
    pub verify: Option<usize>,

    /// The embedded input, if FILE does not hold the texts
    #[arg(long, value_name = "INPUT", value_hint = ValueHint::FilePath, requires = "verify", help_heading = "Embedding again")]
    pub input: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Embedding again")]
    pub records: RecordArgs,

    /// The model, if it is not at the place in the provenance
    #[arg(short, long, value_name = "MODEL", value_hint = ValueHint::DirPath, requires = "verify", help_heading = "Embedding again")]
    pub model: Option<String>,

    #[command(flatten, next_help_heading = "Embedding again")]
    pub providers: ProviderArgs,

    #[command(flatten)]
    pub stores: StoreArgs,
}

const EXAMPLES: &str = "\
Examples:
  embedctl inspect vectors.parquet
  embedctl inspect old.parquet new.parquet --same
  embedctl inspect s3://vectors/2026/
  embedctl inspect vectors.npy --verify 100 --input texts.txt
  embedctl inspect vectors.parquet --json | jq '.files[0].columns[0].mean_norm'";
