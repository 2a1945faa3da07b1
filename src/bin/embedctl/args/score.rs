//! Options of `embedctl score`: those that it has in common with `embed`, and those about scores.

use clap::builder::Resettable;
use clap::{Args, Command};

use super::embed::{RunArgs, with_output};
use super::values::positive;

/// The model that scores pairs where none is named.
const DEFAULT_MODEL: &str = "cross-encoder/ms-marco-MiniLM-L6-v2";

/// Score pairs of texts with a reranker, or single texts with a classifier
///
/// Reads records, runs the model, and writes the scores of each record, in the input's order: the column score, or
/// scores and label where the model has several labels. The output appears under its name only when it is complete.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXAMPLES,
    override_usage = "embedctl score [OPTIONS] --output <OUT> [INPUT]..."
)]
pub struct ScoreArgs {
    #[command(flatten)]
    pub run: RunArgs<ScoringArgs>,
}

/// The texts to score, and the columns that are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scores")]
pub struct ScoringArgs {
    /// Field or column that holds the query of a pair; nested as a.b [default: texts are scored alone]
    ///
    /// With it, a record is a pair of its query and its text (--text-field, --text-template), as rerankers take them.
    #[arg(long, value_name = "NAME", visible_alias = "query-column")]
    pub query_field: Option<String>,

    /// Turn several scores of a record into probabilities, whose sum is 1
    #[arg(long)]
    pub softmax: bool,

    /// Add the columns top_labels and top_scores: the N highest scores, highest first
    #[arg(long, value_name = "N", value_parser = positive)]
    pub top_labels: Option<usize>,
}

/// The command as it is shown: the model that is taken where none is named, and what options mean for scores.
pub fn shown(command: Command) -> Command {
    with_output(command)
        .mut_arg("model", |arg| arg.env(Resettable::Reset).default_value(DEFAULT_MODEL))
        .mut_arg("embedding_field", |arg| {
            arg.help("Name of the column of scores [default: score, or scores]")
        })
        .mut_arg("vector_type", |arg| {
            arg.help("List type of several scores in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]")
        })
        .mut_arg("sample", |arg| arg.help("Score a random sample of N records, in input order"))
        .mut_arg("precision", |arg| arg.long_help(Resettable::Reset))
}

const EXAMPLES: &str = "\
Examples:
  Rerank: one record for each query and document, the score beside their ids:
    embedctl score run.jsonl --query-field query --text-field passage --keep qid -o scores.parquet

  Label a corpus with a classifier, the three likeliest labels with their probabilities:
    embedctl score -m ./classifier texts.jsonl --softmax --top-labels 3 -o labels.parquet

Exit codes:
  0    done
  1    failed
  2    wrong options, a missing input, or an output that exists already
  3    done, but some records were rejected
  130  interrupted";
