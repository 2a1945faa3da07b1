//! Options of `embedctl embed`, in the order in which `--help` groups them.

use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueHint};
use embedctl::engine::ProviderOption;
use embedctl::input::{
    CsvEscape, CsvOptions, CsvQuote, Delimiter, IdType, InputFormat, InputOptions, Keep, Template,
};
use embedctl::job::Shard;
use embedctl::output::{Calibration, Destination, Dtype, OutputFormat, OutputOptions, VectorType};
use embedctl::pipeline::OnError;
use embedctl::storage::StorageOption;
use embedctl::tokenize::chunks::ChunkBy;

use super::engine::EngineArgs;
use super::model::{ModelArgs, VectorModelArgs};
use super::values::{
    NamedValueParser, chunk_by, id_type, input_format, on_error, output_format, positive,
    vector_type, whole,
};

/// Embed the records of files or of standard input
///
/// Reads records, runs the model, and writes one vector for each record, in the input's order. The
/// output appears under its name only when it is complete.
#[derive(Debug, Args)]
#[command(
    after_help = SHORT_EXAMPLES,
    after_long_help = after_help(),
    override_usage = "embedctl embed [OPTIONS] --output <OUT> [INPUT]..."
)]
pub struct EmbedArgs {
    #[command(flatten)]
    pub run: RunArgs<VectorArgs>,
}

/// A command that writes an output, which must be named.
pub fn with_output(command: Command) -> Command {
    command.mut_arg("output", |arg| arg.required_unless_present("dry_run"))
}

/// What `embed` and `score` have in common; `N` are the options about the numbers of a row alone.
#[derive(Debug, Args)]
pub struct RunArgs<N: Args> {
    /// Files, folders, patterns or addresses, read in this order; '-' or none: standard input
    ///
    /// The file extension decides the format: .txt is text, one record per line; .jsonl and .ndjson are JSON objects,
    /// one per line; .json is an array of them, or lines; .csv and .tsv have a header. All of these may be compressed
    /// (.gz, .zst, .bz2, .xz). .parquet is Parquet; .arrow, .arrows, .ipc and .feather are Arrow. Any other extension
    /// needs --input-format. A folder stands for all files with such extensions in it and its subfolders, sorted.
    /// Addresses are s3://, gs://, az:// (an object, a pattern, or a prefix with a slash at the end), https://, and
    /// hf://datasets/ORG/NAME/FILE.
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub numbers: N,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub records: BadRecordArgs,
    #[command(flatten)]
    pub stats: StatsArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// Options about vectors, which mean nothing for scores.
#[derive(Debug, Args)]
pub struct VectorArgs {
    #[command(flatten)]
    pub model: VectorModelArgs,
    #[command(flatten)]
    pub components: ComponentArgs,
    #[command(flatten)]
    pub chunks: ChunkArgs,
}

/// Settings of object stores.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object stores")]
pub struct StoreArgs {
    /// Setting of the object stores, such as aws_region=eu-west-1; may be repeated
    ///
    /// Names are those of the stores' environment variables (AWS_…, AZURE_…, GOOGLE_…), in upper or lower case. An
    /// option overrides the variable. For s3://, gs:// and az://.
    #[arg(long = "storage-option", value_name = "KEY=VALUE")]
    pub options: Vec<StorageOption>,
}

/// Where vectors go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Output file or object (s3://, gs://, az://), or folder/ for parts; '-': standard output
    #[arg(
        short,
        long,
        value_name = "OUT",
        value_hint = ValueHint::FilePath
    )]
    pub output: Option<PathBuf>,

    /// Output format [default: by the extension of OUT; jsonl for '-']
    #[arg(short = 'f', long, value_name = "FORMAT", value_parser = output_format(), visible_alias = "format")]
    pub output_format: Option<OutputFormat>,

    /// List type of the vectors in Parquet and Arrow [default: fixed; list in Parquet with --on-error null]
    #[arg(long, value_name = "KIND", value_parser = vector_type())]
    pub vector_type: Option<VectorType>,

    /// Name of the vector column [default: embedding]
    #[arg(long, value_name = "NAME", visible_alias = "embedding-column")]
    pub embedding_field: Option<String>,

    /// Replace OUT if it exists
    #[arg(long, visible_alias = "overwrite")]
    pub force: bool,

    /// Records per part, if OUT is a folder [default: as many as fit in 128 MiB]
    ///
    /// If OUT ends in / or is a folder, the output is written in parts. Each part appears when it is complete;
    /// readers see the folder as one table.
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub part_rows: Option<usize>,

    /// Process one share of the input, such as 3/8: eight runs, 1/8 to 8/8, write one folder together
    ///
    /// Shares are computed from the list of inputs alone, so the runs need no communication: whole files, and large
    /// text and JSONL files split between two lines. The last run to finish marks the output as complete.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// Resume an earlier run of the same command
    ///
    /// For a folder, or for a file whose first run had this option: its parts are in OUT.parts/ until it is complete.
    /// Finished parts are not embedded again; a different model, option or input is refused. If OUT is complete,
    /// there is nothing to do.
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,

    /// Copy the vectors of texts found in an earlier output, and embed only the others
    ///
    /// OLD is a folder of parts, or a file or object that holds its texts (--keep text). The model, the prompt,
    /// --dtype and all other settings that change vectors must be the same; inputs, ids, kept fields and format may
    /// differ.
    #[arg(long, value_name = "OLD", value_hint = ValueHint::AnyPath)]
    pub reuse: Option<PathBuf>,

    /// Read the first 1,000 records (or --limit), describe the run, and write nothing
    ///
    /// Lists the columns, counts rows, tokens, truncated and repeated texts, and estimates the time and the size of
    /// the output from a short measurement. Prints to standard output, with --log-format json as one object.
    #[arg(long)]
    pub dry_run: bool,
}

impl OutputArgs {
    /// The output options of these arguments. A dry run, which needs no place for vectors, counts them as Parquet.
    pub fn options(&self) -> OutputOptions {
        let destination = match &self.output {
            Some(path) if path == Path::new("-") => Destination::Stdout,
            Some(path) => Destination::Path(path.clone()),
            None => Destination::Path(PathBuf::from("vectors.parquet")),
        };
        OutputOptions {
            format: self.output_format,
            force: self.force || self.output.is_none(), // a dry run replaces nothing
            vector_type: self.vector_type,
            embedding_field: self.embedding_field.clone(),
            ..OutputOptions::new(destination)
        }
    }
}

/// The form of a vector's components.
#[derive(Debug, Args)]
#[command(next_help_heading = "Vectors")]
pub struct ComponentArgs {
    /// Type of the vector components [default: f32; int8 for i8bin, uint8 for u8bin]
    ///
    /// f32, f16, int8, uint8, binary or ubinary (one bit per component, packed into bytes), quantized as in
    /// sentence-transformers. int8 and uint8 need --calibration.
    #[arg(
        long,
        value_name = "TYPE",
        value_parser = NamedValueParser::new(Dtype::ALL.map(Dtype::name), str::parse::<Dtype>),
        hide_possible_values = true
    )]
    pub dtype: Option<Dtype>,

    /// File with the range of each component, for quantization to int8 and uint8
    ///
    /// Vectors of the same model in any output format, in float32 or float16; or JSON with the lists min and max,
    /// such as the provenance of an earlier output. May be an address.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub calibration: Option<PathBuf>,

    /// Write sparse vectors as maps from tokens to weights, as Elasticsearch and OpenSearch take them
    ///
    /// In place of indices and values. For Parquet, Arrow and JSONL.
    #[arg(long)]
    pub sparse_tokens: bool,
}

impl ComponentArgs {
    /// Output options, with these.
    pub fn options(&self, output: OutputOptions) -> OutputOptions {
        OutputOptions {
            dtype: self.dtype,
            sparse_tokens: self.sparse_tokens,
            calibration: self.calibration.as_deref().map(Calibration::named),
            ..output
        }
    }
}

/// How records are read.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Format of all inputs [default: by extension; text for standard input]
    #[arg(short, long, value_name = "FORMAT", value_parser = input_format())]
    pub input_format: Option<InputFormat>,

    /// Character that separates CSV fields, such as ';' or '|' [default: a comma; in TSV a tab]
    #[arg(long, value_name = "CHAR")]
    pub csv_delimiter: Option<Delimiter>,

    /// Quote around CSV fields; none: quotes are ordinary characters [default: '"']
    ///
    /// Most TSV has no quoting, such as that of GLUE and of PostgreSQL's COPY. TSV whose quotes do not balance is refused
    /// unless this option is given.
    #[arg(long, value_name = "CHAR")]
    pub csv_quote: Option<CsvQuote>,

    /// Escape character of CSV, such as '\'
    ///
    /// In quoted fields, for a quote that is not doubled. With --csv-quote none as PostgreSQL's COPY and MySQL write
    /// it: \t, \n, \r, \b, \f and \v are control characters, and any other character stands for itself.
    #[arg(long, value_name = "CHAR")]
    pub csv_escape: Option<CsvEscape>,

    /// CSV field that is null, such as '\N', NULL or '' [default: no field is null]
    #[arg(long, value_name = "TEXT")]
    pub csv_null: Option<String>,

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
    /// The input options of these arguments.
    pub fn options(&self) -> InputOptions {
        InputOptions {
            format: self.input_format,
            csv: CsvOptions {
                delimiter: self.csv_delimiter,
                quote: self.csv_quote,
                escape: self.csv_escape,
                null: self.csv_null.clone(),
            },
            text_field: self.text_field.clone(),
            ..InputOptions::default()
        }
    }
}

/// The form of the records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    #[command(flatten)]
    pub records: RecordArgs,

    /// Build the text from several fields: '{title}\n{body}'
    ///
    /// '{{' and '}}' are braces, '\n', '\t' and '\\' a line break, a tab and a backslash. A null or missing field is
    /// empty; a record without any of the fields is a bad record.
    #[arg(long, value_name = "TEMPLATE")]
    pub text_template: Option<Template>,

    /// Field or column that holds the id; nested as a.b; none: no ids, and no column of them
    ///
    /// The output's column is called id, or by the name of this field if another field called id is kept (--keep id,
    /// --keep '*').
    #[arg(long, value_name = "NAME", default_value = "id")]
    pub id_field: String,

    /// Add the column uuid: a UUID of each row, the same in every run
    ///
    /// A UUID of version 5, for stores such as Qdrant and Weaviate, made from the input's name as given, the id (or else
    /// the line's number) and the chunk's number. docs/input.md shows the same in Python.
    #[arg(long)]
    pub uuid: bool,

    /// Type of the id column
    #[arg(long, value_name = "TYPE", default_value = "kept", value_parser = id_type())]
    pub id_type: IdType,

    /// Answer one Arrow stream after another, each with its own schema, until standard input closes
    ///
    /// Only with -i arrow -f arrow -o -: one process, one model, many streams.
    #[arg(long)]
    pub streams: bool,

    /// Input fields to copy to the output: NAME or NAME:TYPE, separated by commas; may be repeated
    ///
    /// TYPE is string, int, float, bool or json. Without TYPE, table columns keep their types, CSV fields are
    /// strings, and the first window of records decides in JSONL; a later value of another type is then a bad record.
    /// '*' means all fields.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub keep: Vec<Keep>,

    /// Add the columns file and line with the place of each record in the input
    #[arg(long)]
    pub source_columns: bool,

    /// Read only the first N records; 0: all [default: all; 1,000 with --dry-run]
    #[arg(long, value_name = "N", value_parser = whole)]
    pub limit: Option<u64>,

    /// Embed a random sample of N records, in input order
    ///
    /// The same input and --seed give the same sample. The whole input (or --limit) is read.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,

    /// Seed of --sample
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole, requires = "sample")]
    pub seed: u64,
}

impl InputArgs {
    /// The input options of these arguments.
    pub fn options(&self) -> InputOptions {
        InputOptions {
            id_field: self.id_field().map(str::to_owned),
            id_type: self.id_type,
            keep: self.kept(),
            text_template: self.text_template.clone(),
            source_columns: self.source_columns,
            sample: self.sample,
            seed: self.seed,
            ..self.records.options()
        }
    }

    /// The field of the ids; `none` stands for no ids.
    fn id_field(&self) -> Option<&str> {
        Some(self.id_field.as_str()).filter(|name| *name != "none")
    }

    /// The kept fields. The field of the ids is the output's `id` already, if it is called so.
    fn kept(&self) -> Vec<Keep> {
        let has_ids = self.id_field() == Some("id");
        let is_id = |keep: &&Keep| keep.name == "id" && keep.kind.is_none() && has_ids;
        let kept = self.keep.iter().filter(|keep| !is_id(keep));
        kept.cloned().collect()
    }
}

/// Whether long texts become several rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Chunks")]
pub struct ChunkArgs {
    /// Split texts that are too long for the model into chunks, one row each
    ///
    /// Adds the columns chunk (from 0), chunk_start and chunk_end (code points of the text). Each chunk is embedded
    /// on its own, without the rest of the text, unless --late is given.
    #[arg(long, value_name = "WHERE", value_parser = chunk_by())]
    pub chunk: Option<ChunkBy>,

    /// Most tokens per chunk [default: the model's limit]
    ///
    /// Special tokens and tokens of the prompt are not counted.
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "chunk")]
    pub chunk_tokens: Option<usize>,

    /// Tokens that a chunk repeats from the end of the previous one [default: 0]
    #[arg(long, value_name = "TOKENS", requires = "chunk")]
    pub chunk_overlap: Option<usize>,

    /// Late chunking: run each text whole, and pool the states of each chunk's tokens
    ///
    /// A chunk's vector then depends on the text around it, too. For models that pool by mean, mean_sqrt_len_tokens or
    /// max. A text beyond the model's limit runs in several parts of whole chunks, each of which repeats the end of the
    /// one before it as context. Needs --chunk-tokens.
    #[arg(long, requires = "chunk")]
    pub late: bool,

    /// Add the column chunk_text with the text of each chunk
    #[arg(long, requires = "chunk")]
    pub chunk_text: bool,

    /// Add the column chunk_id, a key of each chunk: ID#CHUNK, such as 17#0
    ///
    /// FILE:LINE stands for the id of a record that has none.
    #[arg(long, requires = "chunk")]
    pub chunk_id: bool,
}

/// Batches, windows, threads. The defaults are measured; results don't depend on any of these.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduling and limits")]
pub struct LimitArgs {
    /// Most tokens per batch, with padding [default: depends on the engine]
    #[arg(long, value_name = "TOKENS", value_parser = positive)]
    pub batch_tokens: Option<usize>,

    #[command(flatten)]
    pub batches: BatchArgs,

    /// Threads that run the model [default: one per usable core, two per device]
    ///
    /// CPU affinity, control groups and OMP_NUM_THREADS limit the usable cores.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,

    /// Largest record size, such as 512KiB; larger records are rejected [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = embedctl::size::parse)]
    pub max_record_bytes: Option<usize>,
}

/// How many records travel together.
#[derive(Debug, Args)]
pub struct BatchArgs {
    /// Most records per batch [default: depends on the engine]
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub batch_size: Option<usize>,

    /// Records read ahead and sorted by length, up to 16 MiB of text [default: 8192]
    #[arg(long, value_name = "RECORDS", value_parser = positive)]
    pub window: Option<usize>,
}

/// Handling of bad records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bad records")]
pub struct BadRecordArgs {
    /// How to handle a record that cannot be embedded
    #[arg(long, value_name = "ACTION", default_value = "fail", value_parser = on_error())]
    pub on_error: OnError,

    /// JSONL file for skipped records: the whole record with file, line and reason
    ///
    /// Id, text and kept fields have the same names as in the input, so the corrected list can be embedded like any
    /// other input.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub rejects: Option<PathBuf>,

    /// Fail and write nothing if there is no record to embed
    #[arg(long)]
    pub fail_on_empty: bool,
}

/// Files for other programs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Numbers for machines")]
pub struct StatsArgs {
    /// JSON file for the summary, written during the run and at its end
    ///
    /// The file is replaced as a whole each time, also if the run fails. docs/numbers.md describes its keys.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub stats: Option<PathBuf>,

    /// Seconds between two updates of --stats
    #[arg(long, value_name = "SECONDS", value_parser = positive, default_value = "10")]
    pub stats_interval: usize,
}

fn after_help() -> String {
    format!(
        "{EXAMPLES}\n\nProvider options (--provider-option):\n{}",
        ProviderOption::help()
    )
}

const SHORT_EXAMPLES: &str = "\
Examples:
  embedctl embed texts.txt -o vectors.parquet
  embedctl embed data.jsonl --text-field body --keep title,year -o vectors.parquet
  embedctl embed docs/ --chunk markdown --chunk-text -o vectors.parquet
  zcat texts.gz | embedctl embed -o - | head -1
  embedctl embed large.jsonl -o vectors/ --resume";

const EXAMPLES: &str = "\
Examples:
  One record per line, vectors to Parquet:
    embedctl embed texts.txt -o vectors.parquet

  Several compressed JSONL files, the text in the field body, two fields copied to the output:
    embedctl embed part-*.jsonl.gz --text-field body --keep title,year:int -o vectors.parquet

  From a pipe to a pipe:
    zcat texts.gz | embedctl embed -o - | head -1

  A model in a folder, a query prompt, half the dimensions, a NumPy matrix:
    embedctl embed -m ./my-model --prompt-name query --dimensions 512 queries.txt -o queries.npy

  Skip bad records, and list them:
    embedctl embed dump.jsonl --on-error skip --rejects rejects.jsonl -o out.parquet

  Two to three times as fast, usually with a cosine of 0.999 to fp32:
    embedctl embed texts.txt --precision int8 --min-cosine 0.998 -o vectors.parquet

Exit codes:
  0    done
  1    failed
  2    wrong options, a missing input, or an output that exists already
  3    done, but some records were rejected
  130  interrupted";
