//! Options of `embedctl compare`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::search::DerivedForm;

use super::embed::{RecordArgs, StoreArgs};
use super::engine::ProviderArgs;
use super::search::StoredKindArgs;
use super::values::positive;

/// Show whether two outputs find the same rows
///
/// For a sample of rows, or for queries, finds the nearest rows in each output, and counts how many they share. The second
/// output has the same ids, and vectors of another model, width, precision, type or prompt. With --with it need not exist:
/// the first one's vectors are converted to other types or cut to fewer components. The search compares every row, so it is
/// exact.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl compare [OPTIONS] <A> <B>\n       embedctl compare [OPTIONS] <A> --with <FORM,...>"
)]
pub struct CompareArgs {
    /// Output of embed: a file, a folder of parts, or an address; the other one is measured against it
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub reference: PathBuf,

    /// The other output, with the same ids
    #[arg(
        value_name = "B",
        required_unless_present = "forms",
        conflicts_with = "forms",
        value_hint = ValueHint::AnyPath
    )]
    pub other: Option<PathBuf>,

    /// Forms of A to compare it with: a type, a width as 256d, or both as 256d+int8; separated by commas
    ///
    /// Types: f16, int8, uint8, binary, ubinary. Cut vectors get length 1 again if those of A have it. Ranges of int8 and
    /// uint8 are those of all of A's rows.
    #[arg(long = "with", value_name = "FORM,...", value_delimiter = ',')]
    pub forms: Vec<DerivedForm>,

    /// Numbers of nearest rows to compare
    #[arg(short, value_name = "N,...", default_value = "1,10,100", value_delimiter = ',', value_parser = positive)]
    pub k: Vec<usize>,

    /// Rows whose neighbours are compared; the same ones each time
    #[arg(long, value_name = "ROWS", default_value = "500", value_parser = positive, conflicts_with = "queries")]
    pub sample: usize,

    /// File of queries in place of rows, in an input format of embed; each output's own model embeds them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub queries: Option<PathBuf>,

    /// Rows to list whose neighbours differ most
    #[arg(long, value_name = "ROWS", default_value = "10")]
    pub differing: usize,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,

    /// Also plot the shares: FILE.svg, replaced if it exists
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    #[command(flatten)]
    pub kind: StoredKindArgs,

    #[command(flatten, next_help_heading = "Engine")]
    pub providers: ProviderArgs,

    #[command(flatten)]
    pub stores: StoreArgs,

    #[command(flatten, next_help_heading = "File of queries")]
    pub records: RecordArgs,
}

const EXAMPLES: &str = "\
Examples:
  embedctl compare vectors.parquet --with int8,ubinary,256d,256d+int8
  embedctl compare fp32.parquet other-model.parquet
  embedctl compare a.parquet b.parquet --queries queries.txt -k 10
  embedctl compare vectors.npy --with ubinary --json | jq '.others[0].overlaps'

Exit codes:
  0    done
  1    failed
  2    wrong options, or outputs that cannot be compared
  130  interrupted";
