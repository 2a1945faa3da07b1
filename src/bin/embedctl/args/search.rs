//! Options of `embedctl search`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use embedctl::model::{TextRole, TextTask};
use embedctl::output::RowForm;

use super::embed::{RecordArgs, StoreArgs};
use super::engine::ProviderArgs;
use super::values::{NamedValueParser, positive};

/// Find the rows of an output that are nearest to a query
///
/// Compares the query with every row, so the answer is exact; no index and no database is needed. The model that made the
/// output embeds the query, as the output's provenance says, with the model's prompt for queries where it has one. Dense
/// vectors are compared by cosine, sparse ones by dot product, vectors of tokens by MaxSim.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl search [OPTIONS] <OUT> <QUERY>...\n       embedctl search [OPTIONS] <OUT> --queries <FILE>\n       embedctl search [OPTIONS] <OUT> --like-row <ID>"
)]
pub struct SearchArgs {
    /// Output of embed: a file, a folder of parts, or an address (s3://, gs://, az://, https://, hf://)
    #[arg(value_name = "OUT", value_hint = ValueHint::AnyPath)]
    pub out: PathBuf,

    /// The query; several words are one query
    #[arg(
        value_name = "QUERY",
        required_unless_present_any = ["queries", "like_row", "filter"],
        conflicts_with_all = ["queries", "like_row"]
    )]
    pub query: Vec<String>,

    /// Rows to find for a query
    #[arg(short, long = "top", visible_alias = "top-k", alias = "limit", value_name = "N", default_value = "10", value_parser = positive)]
    pub k: usize,

    /// File of queries, in an input format of embed: each line of a text file is one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub queries: Option<PathBuf>,

    /// Find the rows nearest to the row with this id, which is left out itself
    #[arg(long, value_name = "ID", conflicts_with = "queries")]
    pub like_row: Option<String>,

    /// Refused: rows are not filtered here.
    #[arg(long = "where", value_name = "CONDITION", hide = true)]
    pub filter: Option<String>,

    /// Print one JSON object per hit
    #[arg(long, conflicts_with = "output_format")]
    pub json: bool,

    /// File for the hits [default: standard output]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Format of the hits [default: by the extension of PATH]
    ///
    /// Parquet and Arrow have the columns query_id, query, rank, id, row and score; jsonl has the kept text, too; trec is
    /// the run format of TREC's tools: query id, Q0, id, rank, score, embedctl.
    #[arg(short = 'f', long, value_name = "FORMAT", help_heading = "Output")]
    pub output_format: Option<HitFormat>,

    /// Replace PATH if it exists
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,

    /// The model, if it is not at the place in the provenance
    #[arg(short, long, value_name = "MODEL", value_hint = ValueHint::DirPath, help_heading = "Model")]
    pub model: Option<String>,

    /// Text to put before every query
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "prompt_name",
        help_heading = "Model"
    )]
    pub prompt: Option<String>,

    /// Name of the model's prompt for queries [default: query, where the model has it]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub prompt_name: Option<String>,

    /// Task of the queries, for models with tasks of their own
    #[arg(
        long,
        value_name = "TASK",
        value_parser = NamedValueParser::new(TextRole::ALL.map(TextRole::name), str::parse::<TextTask>),
        hide_possible_values = true,
        help_heading = "Model"
    )]
    pub task: Option<TextTask>,

    #[command(flatten)]
    pub kind: StoredKindArgs,

    #[command(flatten, next_help_heading = "Engine")]
    pub providers: ProviderArgs,

    #[command(flatten)]
    pub stores: StoreArgs,

    #[command(flatten, next_help_heading = "File of queries")]
    pub records: RecordArgs,
}

/// Which of an output's vectors are compared.
#[derive(Debug, Args)]
pub struct StoredKindArgs {
    /// Kind of vectors to compare, where rows have several: dense, sparse or multi
    #[arg(
        long,
        value_name = "KIND",
        value_parser = NamedValueParser::new(RowForm::of_vectors().map(|form| form.name()), str::parse::<RowForm>),
        hide_possible_values = true,
        help_heading = "Model"
    )]
    pub vectors: Option<RowForm>,
}

/// A format of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HitFormat {
    Parquet,
    Arrow,
    Jsonl,
    Trec,
}

const EXAMPLES: &str = "\
Examples:
  embedctl search quotes.parquet a day without laughter
  embedctl search vectors.npy --like-row 17 -k 5
  embedctl search vectors/ --queries queries.txt -o hits.parquet
  embedctl search corpus.parquet --queries queries.jsonl -k 1000 -o run.trec
  embedctl search quotes.parquet --json courage | jq .text

Exit codes:
  0    done
  1    failed
  2    wrong options, or an output that cannot be searched
  130  interrupted";
