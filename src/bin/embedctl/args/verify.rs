//! Options of `embedctl verify-model`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::embed::{RecordArgs, StoreArgs};
use super::engine::EngineArgs;
use super::model::OverrideArgs;

/// Compare a model's vectors with reference vectors from sentence-transformers
///
/// Embeds the texts and compares each with its reference vector. Prints the least and the mean cosine, the largest
/// difference, and the least similar text with its token ids. Dense vectors and vectors of tokens fail if the least
/// cosine is below --min-cosine; sparse vectors and scores, if the largest difference of two entries or scores is too
/// large. Where --vectors asks for several kinds, each is compared with its column.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VerifyModelArgs {
    /// Hub id (org/name or org/name@revision) or a folder
    #[arg(value_name = "MODEL", value_hint = ValueHint::DirPath)]
    pub model: String,

    /// Reference vectors, one row per text: .npy, .npz, an output of embed, or an address (s3://, gs://, az://,
    /// https://, hf://)
    #[arg(long, value_name = "VECTORS", value_hint = ValueHint::FilePath)]
    pub against: PathBuf,

    /// Texts of the reference vectors, in an input format of embed [default: VECTORS with the extension .jsonl or
    /// .txt]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub texts: Option<PathBuf>,

    #[command(flatten)]
    pub records: RecordArgs,
    #[command(flatten)]
    pub overrides: OverrideArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub stores: StoreArgs,

    /// Field that holds the query of a pair: the reference holds scores of pairs
    #[arg(long, value_name = "NAME", visible_alias = "query-column")]
    pub query_field: Option<String>,

    /// The reference holds scores of single texts
    #[arg(long, conflicts_with = "query_field")]
    pub scores: bool,

    /// Print one JSON object instead of lines
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Reference files, made in Python:
  import json, numpy
  from sentence_transformers import SentenceTransformer
  texts = [\"A cat sits on a mat.\", \"Interest rates rose.\"]
  numpy.save(\"reference.npy\", [SentenceTransformer(\"org/name\").encode(text) for text in texts])
  open(\"reference.jsonl\", \"w\").writelines(json.dumps({\"text\": text}) + \"\\n\" for text in texts)

Examples:
  embedctl verify-model org/name --against reference.npy
  embedctl verify-model ./my-model --against reference.npy --texts texts.txt --precision int8
  embedctl verify-model org/name --against s3://models/reference.npy

Exit codes:
  0    the least cosine is at least --min-cosine (fp32: 0.9999, int16: 0.999, bf16 and
       int8: 0.99); the largest difference of sparse entries or of scores is at most 0.001
       (int16: 0.01, bf16 and int8: 0.1)
  1    the vectors are farther apart, or the comparison failed
  2    wrong options";
