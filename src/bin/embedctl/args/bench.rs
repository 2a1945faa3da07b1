//! Options of `embedctl bench`. Names that `embed` has too mean the same here; where a value may be a list,
//! each member is measured.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use embedctl::bench::Corpus;
use embedctl::engine::Provider;
use embedctl::error::Cause;
use embedctl::model::{ModelName, Precision};

use super::embed::{BatchArgs, RecordArgs, StoreArgs};
use super::engine::RuntimeArgs;
use super::model::{KindArgs, TokenArgs};
use super::values::{NamedValueParser, cosine, percent, positive, precision, providers, seconds};

/// Measure the speed of a model on this machine, and its bottleneck
///
/// Embeds the same records repeatedly (with a reranker or a classifier: scores them), from file to file without the
/// start-up, and shows rows per second, the latency of single texts, memory, and the time spent in each stage. Lists of
/// providers, models, precisions, token budgets and threads are measured in every combination. Each combination has its
/// own process, which stays loaded until the end; samples alternate between them.
#[derive(Debug, Args)]
#[command(after_long_help = HELP, override_usage = "embedctl bench [OPTIONS]")]
pub struct BenchArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub model: BenchModelArgs,
    #[command(flatten)]
    pub engine: BenchEngineArgs,
    #[command(flatten)]
    pub limits: BenchLimitArgs,
    #[command(flatten)]
    pub measurement: MeasurementArgs,
    #[command(flatten)]
    pub result: ResultArgs,
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// The texts.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Texts",
    mut_arg("input_format", |arg| arg.requires("input")),
    mut_arg("text_field", |arg| arg.requires("input"))
)]
pub struct WorkloadArgs {
    /// Built-in texts [default: mixed]
    ///
    /// Generated sentences, all different, the same on every machine. Tokens of all-MiniLM-L6-v2: short 12 to 41,
    /// mean 20; long 84 to 446, mean 190; mixed 12 to 403, mean 60, half of them below 23.
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(Corpus::ALL.map(Corpus::name))
            .try_map(|name| name.parse::<Corpus>()),
        conflicts_with = "input"
    )]
    pub corpus: Option<Corpus>,

    /// Your own records instead: any input of embed, also addresses; may be repeated; '-': standard input
    ///
    /// Read as in embed, at most 65,536 records or 256 MiB, and kept as JSONL in the folder for temporary files
    /// during the benchmark.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Vec<PathBuf>,

    #[command(flatten)]
    pub records: RecordArgs,

    /// Field that holds the query of a pair, for rerankers [default: a built-in query for every 16 records]
    #[arg(
        long,
        value_name = "NAME",
        visible_alias = "query-column",
        requires = "input"
    )]
    pub query_field: Option<String>,

    /// Largest record size, such as 512KiB; larger records are left out [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = embedctl::size::parse, requires = "input")]
    pub max_record_bytes: Option<usize>,
}

/// The models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct BenchModelArgs {
    /// Hub id (org/name or org/name@revision) or a folder; may be repeated
    #[arg(
        short,
        long,
        value_name = "MODEL",
        env = "EMBEDCTL_MODEL",
        hide_env_values = true,
        value_hint = ValueHint::DirPath,
        default_value = ModelName::DEFAULT
    )]
    pub model: Vec<String>,

    /// ONNX file of the model, such as onnx/model_fp16.onnx; may be repeated
    #[arg(long, value_name = "FILE")]
    pub model_file: Vec<String>,

    /// Precisions of the model's ONNX files, separated by commas [default: fp32]
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        value_parser = precision(),
        conflicts_with = "model_file"
    )]
    pub precision: Vec<Precision>,

    #[command(flatten)]
    pub kinds: KindArgs,

    #[command(flatten)]
    pub tokens: TokenArgs,
}

/// The engines and their settings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub struct BenchEngineArgs {
    /// Execution providers, separated by commas, or auto; each is measured
    ///
    /// For an unavailable provider, the row shows the reason. Names: auto, native, cpu, cuda (gpu), tensorrt
    /// (trt), tensorrt-rtx, directml (dml), coreml, openvino, webgpu, xnnpack, migraphx (rocm), rten.
    #[arg(
        short,
        long,
        value_name = "PROVIDERS",
        env = "EMBEDCTL_PROVIDER",
        hide_env_values = true,
        value_delimiter = ',',
        default_value = "auto",
        value_parser = NamedValueParser::new(providers(), provider),
        hide_possible_values = true
    )]
    pub provider: Vec<String>,

    #[command(flatten)]
    pub runtime: RuntimeArgs,
}

/// Batches, windows, threads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduling")]
pub struct BenchLimitArgs {
    /// Most tokens per batch, with padding; several, separated by commas, are all measured
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', value_parser = positive)]
    pub batch_tokens: Vec<usize>,

    #[command(flatten)]
    pub batches: BatchArgs,

    /// Threads that run the model; several numbers, separated by commas, are all measured
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive)]
    pub threads: Vec<usize>,
}

/// How long, and what for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measurement")]
pub struct MeasurementArgs {
    /// Most seconds of sampling per configuration, without warm-up
    ///
    /// Sampling ends earlier if the 95 % interval of every median is within 2 %.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "20")]
    pub duration: f64,

    /// Least cosine to fp32 for bf16, int16 and int8 of the native engine
    ///
    /// A configuration with a lower cosine is not measured.
    #[arg(long, value_name = "COSINE", value_parser = cosine)]
    pub min_cosine: Option<f64>,

    /// Take exactly this number of samples of each configuration, for tests
    #[arg(long, value_name = "N", value_parser = positive, hide = true)]
    pub samples: Option<usize>,
}

/// Output of the results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct ResultArgs {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,

    /// Also plot the results: FILE.svg, replaced if it exists
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,

    /// Compare with the --json output of an earlier run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,

    /// Loss of rows per second at which the comparison with --baseline fails
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = percent,
        default_value = "5%",
        requires = "baseline"
    )]
    pub max_regression: f64,
}

/// `auto` or a provider, under the name that is always shown.
fn provider(name: &str) -> Result<String, Cause> {
    if name.trim().eq_ignore_ascii_case("auto") {
        return Ok("auto".to_owned());
    }
    name.parse().map(|provider: Provider| provider.to_string())
}

const HELP: &str = "\
Examples:
  Speed of the default model on this machine, with the engine that embed would choose:
    embedctl bench

  Compare precisions of the native engine, and engines:
    embedctl bench --provider native --precision fp32,int16,int8 --plot speed.svg
    embedctl bench --provider native,cpu,rten

  With your own records; two kinds of weights:
    embedctl bench --input dump.jsonl --text-field body -m org/name --precision fp32,int8

  Save results, and fail a build that is slower:
    embedctl bench --corpus short --json > baseline.json
    embedctl bench --corpus short --baseline baseline.json --max-regression 5%

Results:
  rows/s      records from file to Parquet, median of all samples, start-up not counted
  ±           half of the median's 95 % interval (of the range, with fewer than 6 samples)
  GFLOP/s     the model's matrix products for real tokens, padding not counted
  of peak     GFLOP/s as a share of the processor's peak in a multiply-add loop (float32)
  p50 …       one text at a time, on one worker, from its characters to its vector
  wait        share of time in which workers waited for reading, tokenizing or writing

Exit codes:
  0    done: at least one configuration was measured
  1    failed, or slower than --max-regression allows
  2    wrong options
  130  interrupted";
