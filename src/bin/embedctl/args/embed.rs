//! Options of `embedctl embed`, in the order in which `--help` groups them.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use embedctl::engine::ProviderOption;
use embedctl::input::{Delimiter, IdType, InputFormat, InputOptions, Keep, Template};
use embedctl::job::Shard;
use embedctl::output::{Dtype, OutputFormat, VectorType};
use embedctl::pipeline::OnError;
use embedctl::storage::StorageOption;
use embedctl::tokenize::ChunkBy;

use super::engine::EngineArgs;
use super::model::ModelArgs;
use super::values::{
    NamedValueParser, chunk_by, id_type, input_format, on_error, output_format, positive,
    vector_type,
};

/// Embed the records of files or of standard input
///
/// Reads records, runs the model, and writes one vector for each record, in the input's order. The
/// output appears under its name only when it is complete.
#[derive(Debug, Args)]
#[command(
    after_long_help = after_help(),
    override_usage = "embedctl embed [OPTIONS] --output <OUT> [INPUT]..."
)]
pub struct EmbedArgs {
    /// Files, folders, patterns or addresses to read, one after another; '-' or nothing: standard input
    ///
    /// The ending decides the format: .txt is text, a record a line; .jsonl and .ndjson are JSON objects,
    /// one a line; .csv and .tsv have a header; each also with .gz, .zst, .bz2 or .xz behind. .parquet is
    /// Parquet; .arrow, .arrows, .ipc and .feather are Arrow. Any other ending needs --input-format. A
    /// folder is all files in it and below that have such an ending, sorted.
    /// Addresses are s3://, gs://, az:// (an object, a pattern, or with a slash at the end everything below),
    /// https://, and hf://datasets/ORG/NAME/FILE.
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub chunks: ChunkArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub records: BadRecordArgs,
    #[command(flatten)]
    pub numbers: NumberArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// Settings of object stores.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object stores")]
pub struct StoreArgs {
    /// Setting for what is on object stores, such as aws_region=eu-west-1; may be repeated
    ///
    /// Names are those of the stores' own variables (AWS_…, AZURE_…, GOOGLE_…), in small letters or large,
    /// which count where no option is given. For s3://, gs:// and az://.
    #[arg(long = "storage-option", value_name = "KEY=VALUE")]
    pub options: Vec<StorageOption>,
}

/// Where vectors go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// File or object (s3://, gs://, az://) to write, or folder/ for parts; '-': standard output
    #[arg(
        short,
        long,
        value_name = "OUT",
        value_hint = ValueHint::FilePath,
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,

    /// Format [default: by the ending of OUT; jsonl for '-']
    #[arg(short = 'f', long, value_name = "FORMAT", value_parser = output_format(), visible_alias = "format")]
    pub output_format: Option<OutputFormat>,

    /// Type of a vector's components [default: f32; what -f says for i8bin and u8bin]
    ///
    /// f32, f16, int8, uint8, binary or ubinary (a bit for each component, eight to a byte), as
    /// sentence-transformers quantizes them. int8 and uint8 need --calibration.
    #[arg(
        long,
        value_name = "TYPE",
        value_parser = NamedValueParser::new(Dtype::ALL.map(Dtype::name), str::parse::<Dtype>),
        hide_possible_values = true
    )]
    pub dtype: Option<Dtype>,

    /// File that says which range of each component int8 and uint8 divide into 256 steps
    ///
    /// Vectors of the same model in any format that is written here, in float32 or float16; or JSON with
    /// the lists min and max, such as the provenance of an earlier output. An address is read, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub calibration: Option<PathBuf>,

    /// Kind of list that a vector is in Parquet and Arrow [default: fixed]
    #[arg(long, value_name = "KIND", value_parser = vector_type())]
    pub vector_type: Option<VectorType>,

    /// Name of the vectors' column [default: embedding]
    #[arg(long, value_name = "NAME", visible_alias = "embedding-column")]
    pub embedding_field: Option<String>,

    /// Replace OUT if it exists
    #[arg(long, visible_alias = "overwrite")]
    pub force: bool,

    /// Records of a part, where OUT is a folder [default: as many as make 128 MiB]
    ///
    /// A folder (OUT ends in / or is one) holds parts, each complete as soon as it is there; readers take the
    /// folder for one table.
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub part_rows: Option<usize>,

    /// Do one share of the input, such as 3/8: eight runs with 1/8 to 8/8 write one folder together
    ///
    /// Inputs are divided by the listing alone, so the runs need not know of each other: whole files, and large ones
    /// of text and JSONL between two lines. The last one to end says that the output is complete.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// Go on where an earlier run of the same command was stopped
    ///
    /// For a folder, or for a file that was begun with this option: its parts lie in OUT.parts/ while it is
    /// made. Nothing is embedded twice; another model, option or input than the earlier run's is refused. If OUT
    /// is complete there is nothing to do.
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,

    /// Take the vectors of texts that an earlier output holds, and embed the others
    ///
    /// OLD is a folder of parts, or a file or object with its texts (--keep text). Model, prompt, type of numbers and
    /// whatever else decides a vector must be the same; inputs, ids, kept fields and format need not.
    #[arg(long, value_name = "OLD", value_hint = ValueHint::AnyPath)]
    pub reuse: Option<PathBuf>,

    /// Read the first 1,000 records (or --limit), say what the run would do, and write nothing
    ///
    /// Names the columns, counts rows, tokens, truncated and repeated texts, and estimates the time and the size
    /// of the output from a short measurement. It goes to standard output, with --log-format json as one object.
    #[arg(long)]
    pub dry_run: bool,
}

/// How records are read.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Format of every input [default: by its ending; text for standard input]
    #[arg(short, long, value_name = "FORMAT", value_parser = input_format())]
    pub input_format: Option<InputFormat>,

    /// Character that parts the fields of CSV, such as ';' or '|' [default: a comma; in TSV a tab]
    #[arg(long, value_name = "CHAR")]
    pub csv_delimiter: Option<Delimiter>,

    /// Field or column that holds the text; nested as a.b
    #[arg(
        long,
        value_name = "NAME",
        default_value = "text",
        visible_alias = "text-column"
    )]
    pub text_field: String,
}

impl RecordArgs {
    /// What they say of how records are read.
    pub fn options(&self) -> InputOptions {
        InputOptions {
            format: self.input_format,
            csv_delimiter: self.csv_delimiter,
            text_field: self.text_field.clone(),
            ..InputOptions::default()
        }
    }
}

/// What records look like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    #[command(flatten)]
    pub records: RecordArgs,

    /// Put the text together from several fields: '{title}\n{body}'
    ///
    /// '{{' and '}}' are braces, '\n', '\t' and '\\' a line break, a tab and a backslash. A field that is
    /// null or missing stays empty; a record without any of them is a bad one.
    #[arg(long, value_name = "TEMPLATE")]
    pub text_template: Option<Template>,

    /// Field or column that holds the id; nested as a.b
    #[arg(long, value_name = "NAME", default_value = "id")]
    pub id_field: String,

    /// Type of the id column
    #[arg(long, value_name = "TYPE", default_value = "string", value_parser = id_type())]
    pub id_type: IdType,

    /// Answer Arrow stream after stream, each with a schema of its own, until standard input closes
    ///
    /// For -i arrow -f arrow -o - alone: one process, one model, many streams.
    #[arg(long)]
    pub streams: bool,

    /// Input fields to carry through: NAME or NAME:TYPE, with commas between; may be repeated
    ///
    /// TYPE is string, int, float, bool or json. Without it tables keep their types, fields of CSV are
    /// strings, and in JSONL the first window of records decides, and a later value of another type is a
    /// bad record. '*' is all fields.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub keep: Vec<Keep>,

    /// Add the columns file and line, which say where each record stood
    #[arg(long)]
    pub source_columns: bool,

    /// Read the first N records only; 0: all [default: all, with --dry-run 1,000]
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// Draw N records at random, in the input's order
    ///
    /// The same of the same input: see --seed. All of the input (or of --limit) is read.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,

    /// What --sample draws by
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "sample")]
    pub seed: u64,
}

/// Whether long texts become several rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Chunks")]
pub struct ChunkArgs {
    /// Cut texts that are too long for the model into chunks, each a row of its own
    ///
    /// The output gets the columns chunk (from 0), chunk_start and chunk_end (code points of the text). A chunk's
    /// vector is the one that this part of the text has by itself.
    #[arg(long, value_name = "WHERE", value_parser = chunk_by())]
    pub chunk: Option<ChunkBy>,

    /// Tokens of a chunk at most [default: as many as the model takes]
    ///
    /// Special tokens and the prompt's are not counted.
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "chunk")]
    pub chunk_tokens: Option<usize>,

    /// Tokens of a chunk that may repeat the end of the one before [default: 0]
    #[arg(long, value_name = "TOKENS", requires = "chunk")]
    pub chunk_overlap: Option<usize>,

    /// Write each chunk's text, too, as the column chunk_text
    #[arg(long, requires = "chunk")]
    pub chunk_text: bool,
}

/// Batches, windows, threads. The defaults are measured; results don't depend on any of these.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduling and limits")]
pub struct LimitArgs {
    /// Padded tokens in a batch at most [default: what suits the engine]
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub batch_tokens: Option<usize>,

    #[command(flatten)]
    pub batches: BatchArgs,

    /// Threads that run the model [default: one for each usable core, two for each device]
    ///
    /// Usable are those that affinity, control groups and OMP_NUM_THREADS leave to this process.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,

    /// Ignore the settings that `bench --tune` has found for this model here
    ///
    /// Options that are given go before a profile in any case.
    #[arg(long)]
    pub no_profile: bool,

    /// Size of a record above which it is rejected, such as 512KiB [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = embedctl::size::parse)]
    pub max_record_bytes: Option<usize>,
}

/// How many records travel together.
#[derive(Debug, Args)]
pub struct BatchArgs {
    /// Records in a batch at most [default: what suits the engine]
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub batch_size: Option<usize>,

    /// Records read ahead and sorted by length; 16 MiB of text at most [default: 8192]
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub window: Option<usize>,
}

/// What a bad record does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bad records")]
pub struct BadRecordArgs {
    /// What a record does that cannot be embedded
    #[arg(long, value_name = "ACTION", default_value = "fail", value_parser = on_error())]
    pub on_error: OnError,

    /// File for skipped records, JSONL: each record whole, with file, line and reason
    ///
    /// Id, text and kept fields stand under their names in the input: mended, the list is an input like any other.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub rejects: Option<PathBuf>,

    /// Fail, and write nothing, if there is no record to embed
    #[arg(long)]
    pub fail_on_empty: bool,
}

/// What other programs are told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Numbers for machines")]
pub struct NumberArgs {
    /// File for the summary as one JSON object, written while the run lasts and at its end
    ///
    /// It is replaced whole each time, also by a run that fails. docs/numbers.md lists its members.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub stats: Option<PathBuf>,

    /// File for Prometheus' text format, such as node_exporter's textfile collector reads (FILE.prom)
    ///
    /// Rows, tokens, truncated and rejected rows, seconds by stage, and whether the run has finished, with
    /// model, engine, provider and output as labels. Written as --stats is.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub metrics: Option<PathBuf>,

    /// Seconds between two states of --stats and --metrics
    #[arg(long, value_name = "SECONDS", value_parser = positive, default_value = "10")]
    pub stats_interval: usize,
}

fn after_help() -> String {
    format!(
        "{EXAMPLES}\n\nProvider options (--provider-option):\n{}",
        ProviderOption::help()
    )
}

const EXAMPLES: &str = "\
Examples:
  A line a record, vectors to Parquet:
    embedctl embed texts.txt -o vectors.parquet

  Several compressed JSONL files, the text in the field body, two more fields carried through:
    embedctl embed part-*.jsonl.gz --text-field body --keep title,year:int -o vectors.parquet

  From a pipe into a pipe:
    zcat texts.gz | embedctl embed -o - | head -1

  A model in a folder, a query prompt, half the dimensions, a NumPy matrix:
    embedctl embed -m ./my-model --prompt-name query --dimensions 512 queries.txt -o queries.npy

  Go on past bad records, and list them:
    embedctl embed dump.jsonl --on-error skip --rejects rejects.jsonl -o out.parquet

  Two to three times as fast, at cosines of 0.999 to fp32 as a rule:
    embedctl embed texts.txt --precision int8 --min-cosine 0.998 -o vectors.parquet

Exit codes:
  0    done
  1    failed
  2    the options were wrong, an input is not there, or an output is there already
  3    done, but some records were rejected
  130  interrupted";
