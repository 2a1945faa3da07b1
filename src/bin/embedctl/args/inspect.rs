//! Options of `embedctl inspect`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::embed::{RecordArgs, StoreArgs};
use super::engine::ProviderArgs;
use super::values::positive;

/// Show what made files of vectors, how their vectors are, and why two don't mix
///
/// Reads every vector: norms, NaN, zeros, repeats; compares what was written together with the hashes in the
/// provenance; for several files names the keys of the provenance that differ. Exits with 1 where something is
/// wrong with a file.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl inspect [OPTIONS] <FILE>...",
    mut_arg("input_format", |arg| arg.requires("input")),
    mut_arg("csv_delimiter", |arg| arg.requires("input"))
)]
pub struct InspectArgs {
    /// Files that embed has written, or folders of parts; addresses (s3://, gs://, az://, https://, hf://) too
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    pub files: Vec<PathBuf>,

    /// Exit with 1 unless the vectors of all files mix
    #[arg(long)]
    pub same: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The file of rejected records that was written with FILE, to be compared with its hash
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub rejects: Option<PathBuf>,

    /// Embed so many rows of FILE again and compare; exit with 1 if they differ
    ///
    /// With the model that the provenance names, whose files must be the same. Texts are taken from the field
    /// --text-field of FILE, where it was kept (beside NPY: of FILE.rows.jsonl), or of --input.
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Embedding again")]
    pub verify: Option<usize>,

    /// What was embedded, where FILE does not hold the texts
    #[arg(long, value_name = "INPUT", value_hint = ValueHint::FilePath, requires = "verify", help_heading = "Embedding again")]
    pub input: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Embedding again")]
    pub records: RecordArgs,

    /// Where the model is, if not where the provenance says
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
