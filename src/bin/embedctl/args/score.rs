//! Options of `embedctl score`: those of `embed`, without what is about vectors alone.

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

use super::embed::EmbedArgs;
use super::values::positive;

/// The model that scores pairs where none is named.
const DEFAULT_MODEL: &str = "cross-encoder/ms-marco-MiniLM-L6-v2";

/// Arguments of `embed` that say something of vectors, and nothing of scores.
const OF_VECTORS: [&str; 16] = [
    "dtype",
    "calibration",
    "chunk",
    "chunk_tokens",
    "chunk_overlap",
    "chunk_text",
    "chunk_id",
    "late",
    "pooling",
    "normalize",
    "dimensions",
    "vectors",
    "task",
    "max_active_dims",
    "pool_factor",
    "sparse_tokens",
];

/// The first argument about vectors that was given to `score`.
pub fn given_of_vectors(matches: &ArgMatches) -> Option<&'static str> {
    let is_given = |name: &&str| {
        let source = matches.value_source(name);
        source.is_some_and(|source| source != ValueSource::DefaultValue)
    };
    OF_VECTORS.into_iter().find(is_given)
}

/// Score pairs of texts with a reranker, or single texts with a classifier
///
/// Reads records, runs the model, and writes the scores of each record, in the input's order: the column score, or
/// scores and label where the model has several labels. The output appears under its name only when it is complete.
#[derive(Debug, Args)]
pub struct ScoreArgs {
    #[command(flatten)]
    pub embed: EmbedArgs,
    #[command(flatten)]
    pub scores: ScoringArgs,
    /// The first argument about vectors that was given; they are refused.
    #[arg(skip)]
    pub of_vectors: Option<&'static str>,
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

/// The command as it is shown: the options of `embed` that mean nothing here are hidden, and refused where they are given.
pub fn shown(command: Command) -> Command {
    let command = OF_VECTORS.iter().fold(command, |command, name| {
        command.mut_arg(name, |arg| arg.hide(true))
    });
    command
        .about("Score pairs of texts with a reranker, or single texts with a classifier")
        .long_about(
            "Score pairs of texts with a reranker, or single texts with a classifier\n\nReads records, runs the model, and \
             writes the scores of each record, in the input's order: the column score, or scores and label where the \
             model has several labels. The output appears under its name only when it is complete.",
        )
        .override_usage("embedctl score [OPTIONS] --output <OUT> [INPUT]...")
        .after_long_help(EXAMPLES)
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
